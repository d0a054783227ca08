"""What a person reads on the rig is compared with the lines of a case."""

import pytest

from e2e.installed.kubectl import CommandResult
from e2e.scenarios.admission_dialects import compare, says


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
