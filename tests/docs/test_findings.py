"""The page of all finding codes: every name belongs to one code."""

import pytest

from drawbridge.finding import Activity, Code, Codes, Severity, render_page
from tools.docs import TABLES, duplicate_names, main


def code(name: str, text: str) -> Code:
    return Code(name=name, severity=Severity.ERROR, text=text, example="e", remedy="r")


def test_no_two_codes_have_the_same_name() -> None:
    assert duplicate_names(TABLES) == []


def test_a_duplicate_code_name_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = (
        Codes("judge", Activity.READ, [code("Lost", "a"), code("Kept", "a")]),
        Codes("explain", Activity.READ, [code("Lost", "b")]),
    )
    assert duplicate_names(packages) == ["Lost is a code of judge and a different code of explain"]
    monkeypatch.setattr("tools.docs.TABLES", packages)
    monkeypatch.setattr("tools.docs.PAGES", {})
    assert main() == 1
    assert "Lost is a code of judge" in capsys.readouterr().out


def test_two_equal_code_objects_count_as_duplicates() -> None:
    assert duplicate_names(
        [
            Codes("judge", Activity.READ, [code("Lost", "a")]),
            Codes("explain", Activity.READ, [code("Lost", "a")]),
        ]
    )


def test_a_code_shared_by_two_packages_is_listed_once() -> None:
    shared = code("Shared", "a")
    packages = (
        Codes("judge", Activity.READ, [shared]),
        Codes("explain", Activity.READ, [shared, code("Own", "b")]),
    )
    assert duplicate_names(packages) == []
    assert render_page(packages).count("### Shared") == 1
    assert "### Own" in render_page(packages)


def test_a_package_cannot_have_two_codes_of_one_name() -> None:
    with pytest.raises(ValueError, match="judge has two codes with the name Lost"):
        Codes("judge", Activity.READ, [code("Lost", "a"), code("Lost", "b")])


def test_the_page_lists_every_code_once() -> None:
    headings = [line for line in render_page(TABLES).splitlines() if line.startswith("### ")]
    names = [line.removeprefix("### ") for line in headings]
    assert len(names) == len(set(names))
    assert set(names) == {name for package in TABLES for name in package}
