"""Which devices of a class a scheduler can use: of owned nodes, of the others, or none."""

import pytest

from drawbridge.facts.model import ClassFacts
from drawbridge.translate.changes.scheduler import describe_usable


@pytest.mark.parametrize(
    ("owned", "is_ours", "usable"),
    [
        (None, True, ""),
        (None, False, ""),
        (0, True, "0 of 8"),
        (0, False, ""),
        (2, True, "2 of 8"),
        (2, False, "6 of 8"),
        (8, True, ""),
        (8, False, "0 of 8"),
    ],
)
def test_a_class_of_which_a_scheduler_cannot_use_all_devices_is_described(
    owned: int | None, usable: str, *, is_ours: bool
) -> None:
    row = ClassFacts("gpu", devices=8, owned=owned)
    text = describe_usable(row, is_ours=is_ours)
    assert text.partition(" devices")[0] == usable
