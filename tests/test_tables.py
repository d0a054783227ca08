"""A table as one test runs every row, and names those that fail."""

import pytest

from tests.tables import every_row

FEW = [1, pytest.param(2, id="two"), 3]


@every_row("number", FEW)
def test_a_row_has_its_value_and_the_fixtures(number: int, request: pytest.FixtureRequest) -> None:
    assert number in (1, 2, 3)
    assert request.node.name == "test_a_row_has_its_value_and_the_fixtures"


def test_all_rows_that_fail_are_named_and_the_others_run() -> None:
    seen = []

    @every_row("number, square", [(1, 1), pytest.param(2, 5, id="two"), (3, 8), (4, 16)])
    def check(number: int, square: int) -> None:
        seen.append(number)
        assert number**2 == square

    with pytest.RaisesGroup(AssertionError, AssertionError, match="2 of 4 rows") as caught:
        check()
    assert seen == [1, 2, 3, 4]
    assert [each.__notes__ for each in caught.value.exceptions] == [["row: two"], ["row: 3-8"]]


def test_tables_can_be_combined() -> None:
    seen = []

    @every_row("upper", "AB")
    @every_row("lower", "ab", ids=str.upper)
    def check(upper: str, lower: str) -> None:
        seen.append(upper + lower)

    check()
    assert seen == ["Aa", "Ab", "Ba", "Bb"]


def test_a_table_without_rows_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        every_row("row", ())
