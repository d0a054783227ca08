"""Which namespaces a quota counts, and what becomes of one that is deleted."""

from itertools import count

import pytest

from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS
from tests.world.namespaces import Namespaces
from tests.world.network import Network
from tests.world.script import Event
from tests.world.world import play


@pytest.mark.parametrize(
    ("selects", "space", "together"),
    [
        ("", "team", {"team"}),
        ("", "second", set()),
        ("namespace", "second", {"second"}),
        ("selection", "second", {"second", "team"}),
        ("selection", "default", set()),
    ],
)
def test_a_quota_counts_the_namespaces_that_it_selects(
    selects: str, space: str, together: set[str]
) -> None:
    chosen = {"team", "second"} if selects else {"team"}
    spaces = Namespaces(Network.__new__(Network), selects)
    assert spaces.counted_with(space, chosen) == together


# Pods are created in the namespace, it is deleted, and another one comes with its name.
SCRIPT = (
    *(Event(0.2, "create", 21) for _ in range(3)),
    Event(4.0, "change namespaces", 0),
    Event(15.0, "change namespaces", 1),
    Event(1.0, "create", 21),
)


def test_a_namespace_goes_with_what_is_in_it() -> None:
    seed = next(each for each in count() if draw_conditions(each, EVENTS).selects)
    outcome = play(seed, SCRIPT)
    assert not outcome.violation
    assert outcome.counted["namespace that is gone"] == 1
    assert any("second is created" in line for line in outcome.story)
