"""The page of all codes: a name is one code, whoever says it."""

import pytest

from dra.finding import Code, Codes, Severity, page
from tools.docs import TABLES, main, twice


def code(name: str, text: str) -> Code:
    return Code(name=name, severity=Severity.ERROR, text=text, example="e", remedy="r")


def test_no_name_means_two_things() -> None:
    assert twice(TABLES) == []


def test_a_name_that_two_codes_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = (
        Codes("judge", [code("Lost", "a"), code("Kept", "a")]),
        Codes("see", [code("Lost", "b")]),
    )
    assert twice(packages) == ["Lost is a code of judge, and another one of see"]
    monkeypatch.setattr("tools.docs.TABLES", packages)
    monkeypatch.setattr("tools.docs.PAGES", {})
    assert main() == 1
    assert "Lost is a code of judge" in capsys.readouterr().out


def test_codes_that_read_alike_are_two_all_the_same() -> None:
    assert twice([Codes("judge", [code("Lost", "a")]), Codes("see", [code("Lost", "a")])])


def test_one_code_in_two_rooms_stands_on_the_page_once() -> None:
    shared = code("Shared", "a")
    packages = (Codes("judge", [shared]), Codes("see", [shared, code("Own", "b")]))
    assert twice(packages) == []
    assert page(packages).count("### Shared") == 1
    assert "### Own" in page(packages)


def test_a_room_has_no_name_twice() -> None:
    with pytest.raises(ValueError, match="judge has two codes of the name Lost"):
        Codes("judge", [code("Lost", "a"), code("Lost", "b")])


def test_the_page_has_every_code_once() -> None:
    headings = [line for line in page(TABLES).splitlines() if line.startswith("### ")]
    names = [line.removeprefix("### ") for line in headings]
    assert len(names) == len(set(names))
    assert set(names) == {name for package in TABLES for name in package}
