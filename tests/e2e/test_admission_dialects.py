"""Of every case on the rig it is said what a person reads, and lines are compared with that."""

import pytest

from e2e.installed.kubectl import CommandResult
from e2e.scenarios.admission_dialects import compare, says, told
from e2e.scenarios.translated import REFUSED, cases


def test_of_every_case_it_is_said_what_a_person_reads() -> None:
    read = told()
    assert list(read) == [case.name for case in cases()]
    for case in cases():
        assert bool(read[case.name].refused) == (case.exit == REFUSED), case.name


# Admission knows the labels of the namespace; the command of the scenarios does not.
COMMAND_ONLY = {"AdminAccessUnknown"}


def test_every_warning_that_the_command_gives_admission_gives_too() -> None:
    for case in cases():
        lines = (*told()[case.name].warnings, told()[case.name].refused)
        codes = set(case.codes) - COMMAND_ONLY
        assert all(any(code in line for line in lines) for code in codes), case.name


@pytest.mark.parametrize(
    ("line", "wanted", "said"),
    [
        ("a: one of many", "a: one", True),
        ("a: one of many", "a:  ... many", True),
        ("a: one of many", "many ... a:", False),
        ("a: one of many", "a: two", False),
        ("one", "one ... one", False),
    ],
)
def test_a_line_has_its_parts_in_order(line: str, wanted: str, said: bool) -> None:  # noqa: FBT001  # a column
    assert says(line, wanted) == said


@pytest.mark.parametrize("lines", [[], ["b"], ["a", "b"], ["b", "a"], ["a" * 257]])
def test_a_line_too_many_too_few_too_long_or_elsewhere_is_seen(lines: list[str]) -> None:
    ran = CommandResult((), 0, "", "".join(f"Warning: {line}\n" for line in lines))
    with pytest.raises(AssertionError):
        compare(ran, ["a"])


def test_what_is_expected_passes() -> None:
    compare(
        CommandResult((), 0, "", "Warning: a: one\nno warning\nWarning: b\n"), ["a: ... one", "b"]
    )
