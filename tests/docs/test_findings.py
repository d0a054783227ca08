"""Every finding code is explained on the page, and defined once, in a constant of its name."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from drawbridge.finding import EXPLAINED, PAGE, Code, Codes, parse_page
from tests.tables import every_row

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for package in ("cli", "drawbridge")
    for path in (ROOT / package).rglob("*.py")
    if "= Codes(" in path.read_text("utf-8")
)


def constant_name(code: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", code).upper()


@every_row("module", MODULES)
def test_each_constant_has_the_name_of_its_code(module: str) -> None:
    constants = {
        name: value
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, Code)
    }
    assert {name: constant_name(code.name) for name, code in constants.items()} == {
        name: name for name in constants
    }


def test_every_code_of_the_page_is_defined_once() -> None:
    tables = [
        value
        for module in MODULES
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, Codes)
    ]
    assert sorted(name for table in tables for name in table) == sorted(EXPLAINED)


def test_every_code_is_reported_somewhere() -> None:
    packages = ("allocator", "certs", "cli", "controller", "drawbridge", "webhook")
    files = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    words = Counter(word for path in files for word in re.findall(r"\w+", path.read_text("utf-8")))
    assert [name for name in EXPLAINED if words[constant_name(name)] == 1] == []


SECTION = "\n### Lost\n\n*error*: It is\nlost.\n\nExample: all: gone\n\nRemedy: Find it.\n"


def test_a_section_has_severity_meaning_example_and_remedy() -> None:
    (code,) = parse_page(f"# Page\n\n## Look\n\nShown.\n{SECTION}").values()
    assert (code.name, code.activity, code.severity) == ("Lost", "Look", "error")
    assert (code.text, code.example, code.remedy) == ("It is lost.", "all: gone", "Find it.")


@pytest.mark.parametrize(
    "wrong",
    [
        SECTION + SECTION,
        SECTION.replace("*error*", "*fatal*"),
        SECTION.replace("Remedy: Find it.\n", ""),
    ],
    ids=["twice", "without a known severity", "without a remedy"],
)
def test_a_page_that_does_not_explain_each_code_once_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"two codes have the name Lost|fatal|not enough"):
        parse_page(f"# Page\n\n## Look\n{wrong}")


def test_a_code_without_a_section_is_refused() -> None:
    with pytest.raises(ValueError, match=r"findings\.md has no section Lost"):
        Codes().define("Lost")


def test_each_paragraph_of_the_page_begins_with_its_word() -> None:
    text = Path(PAGE).read_text("utf-8")
    for word in ("Example", "Remedy"):
        assert len(re.findall(rf"^{word}: ", text, re.MULTILINE)) == len(EXPLAINED)
