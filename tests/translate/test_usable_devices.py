"""Which devices of a class a scheduler can use: of owned nodes, of the others, or none."""

import pytest

from drawbridge.facts.model import ClassFacts
from drawbridge.names import PLACEMENT_LABEL
from drawbridge.translate.changes.scheduler import describe_usable, find_placement_remedy

ROW = ClassFacts("gpu", devices=8, owned=2)


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


@pytest.mark.parametrize(("placement", "other"), [("native", "bridge"), ("bridge", "native")])
def test_the_remedy_names_the_placement_that_has_the_other_devices(
    placement: str, other: str
) -> None:
    remedies = {
        name: find_placement_remedy(ROW, is_ours=name == "bridge") for name in (placement, other)
    }
    usable = {name: describe_usable(ROW, is_ours=name == "bridge") for name in remedies}
    assert f"Set the label {PLACEMENT_LABEL}: {other} on the namespace" in remedies[placement]
    assert f"the other {usable[other].partition(' ')[0]}. " in remedies[placement]
