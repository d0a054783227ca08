"""`drawbridge help` explains every code of every finding."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from cli.commands import COMMANDS
from drawbridge.finding import EXPLAINED, PAGE
from tests.cli.running import command
from tests.tables import every_row

explain = partial(command, "help")


def test_a_code_is_printed_with_meaning_example_and_remedy() -> None:
    code, out, err = explain("NoDeviceMatches")
    assert (code, err) == (0, "")
    title, _, *rest = out.splitlines()
    assert title == "NoDeviceMatches (error)"
    told = " ".join(" ".join(rest).split())
    of_code = EXPLAINED["NoDeviceMatches"]
    assert told == f"{of_code.text} Example: {of_code.example} Remedy: {of_code.remedy}"


@pytest.mark.parametrize("typed", ["nodevicematches", "[NoDeviceMatches]"])
def test_a_code_is_found_in_any_case_and_in_its_brackets(typed: str) -> None:
    assert explain(typed) == explain("NoDeviceMatches")


def test_the_list_has_every_code_below_one_activity() -> None:
    code, out, err = explain()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted(EXPLAINED)
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    activities = re.findall("^## (.+)", Path(PAGE).read_text("utf-8"), re.MULTILINE)
    assert headings == [f"{each}:" for each in activities]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("NoDeviceMatch", "did you mean NoDeviceMatches or "),
        ("misspelt", "did you mean NameMisspelt or ClassMisspelt or StandardAttributeMisspelt?"),
        ("translat", "did you mean translate"),
        ("x\x1b[2Jy", "run `drawbridge help` for the list of codes"),
    ],
)
def test_an_unknown_name_exits_with_2_and_names_the_nearest(typed: str, hint: str) -> None:
    code, out, err = explain(typed)
    assert (code, out) == (2, "")
    assert hint in err
    assert "\x1b" not in err


@every_row("name", COMMANDS)
def test_help_of_a_command_is_its_usage(name: str) -> None:
    code, out, _ = explain(name)
    assert code == 0
    assert out.startswith(f"usage: drawbridge {name}")


def test_json_has_the_fields_of_the_code() -> None:
    code, out, _ = explain("FileUnreadable", "-o", "json")
    assert code == 0
    assert json.loads(out)["activity"] == "Read manifests and objects"
    listed = json.loads(explain("-o", "json")[1])["codes"]
    assert json.loads(out) in listed
    assert len(listed) == len(EXPLAINED)
