"""The list of mistakes stays true to the source; `python -m e2e.mutations` makes them."""

import pytest

from e2e.mutations import Mutation, applies, mutations

LIST = mutations()


def test_there_are_thirty_at_least_and_none_twice() -> None:
    assert len(LIST) >= 30
    assert len({(each.file, each.old, each.new) for each in LIST}) == len(LIST)
    assert len({each.name for each in LIST}) == len(LIST)


@pytest.mark.parametrize("mutation", LIST, ids=lambda mutation: mutation.name)
def test_each_mistake_can_be_made(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    assert applies(mutation), f"the text to replace is not once in {mutation.file}"
