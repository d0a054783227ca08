"""Every finding code is defined once, in a constant of its name, and listed on the page."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from cli.code_tables import TABLES
from drawbridge.finding import Activity, Code, Codes, Severity
from tests.tables import every_row
from tools import findings_page

ROOT = Path(__file__).parent.parent.parent
NAMES = [name for table in TABLES for name in table]
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


def test_every_table_is_listed() -> None:
    defined = [
        value
        for module in MODULES
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, Codes)
    ]
    assert {id(table) for table in defined} == {id(table) for table in TABLES}


def test_every_name_belongs_to_one_code() -> None:
    assert [name for name, number in Counter(NAMES).items() if number > 1] == []


def test_every_code_is_reported_somewhere() -> None:
    packages = ("allocator", "certs", "cli", "controller", "drawbridge", "webhook")
    files = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    words = Counter(word for path in files for word in re.findall(r"\w+", path.read_text("utf-8")))
    assert [name for name in NAMES if words[constant_name(name)] == 1] == []


def test_a_table_cannot_have_two_codes_of_one_name() -> None:
    codes = Codes(Activity.READ)
    codes.define("Lost", Severity.ERROR, text="a", example="e", remedy="r")
    with pytest.raises(ValueError, match="two codes have the name Lost"):
        codes.define("Lost", Severity.ERROR, text="b", example="e", remedy="r")


def test_the_list_has_every_code_once_and_a_sentence_for_what_stops_or_warns() -> None:
    text = findings_page.render_list()
    rows = dict(re.findall(r"^- `(\w+)`: (.+)$", text, re.MULTILINE))
    lists = "\n".join(line for line in text.splitlines() if re.match(r"`\w+`[,.]", line))
    named = re.findall(r"`(\w+)`", lists)
    assert sorted([*rows, *named]) == sorted(NAMES)
    infos = {name for table in TABLES for name, code in table.items() if code.severity == "info"}
    assert infos <= set(named)
    assert [name for name, sentence in rows.items() if not sentence.endswith(".")] == []


def test_the_page_describes_every_code_once_and_its_index_links_to_all() -> None:
    index, *sections = re.split(r"^### ", findings_page.render_page(), flags=re.MULTILINE)
    assert sorted(each.partition("\n")[0] for each in sections) == sorted(NAMES)
    links = re.findall(r"\[(\w+)\]\(#(\w+)\)", index)
    assert sorted(links) == sorted((name, name.lower()) for name in NAMES)
