"""Which changes of the configuration and of the facts have the decisions built anew."""

import pytest
from msgspec.structs import replace

from allocator.state.live_state import Effect, Inputs, compare_inputs
from drawbridge.config.model import Configuration, Placement
from drawbridge.facts.model import ClassFacts, Cluster, Facts

CLASS = ClassFacts(name="gpu", drivers=("d.io",))
MAPPED = replace(CLASS, extended="d.io/gpu")
BEFORE = Inputs(Configuration(), Facts(classes=(CLASS,)))
CASES = {
    "nothing": (BEFORE, Effect.NONE),
    "an equal configuration": (Inputs(Configuration(), BEFORE.facts), Effect.NONE),
    "the drivers of a class without an extended resource": (
        Inputs(BEFORE.configuration, Facts(classes=(replace(CLASS, drivers=("e.io",)),))),
        Effect.NONE,
    ),
    "an extended resource": (
        Inputs(BEFORE.configuration, Facts(classes=(CLASS, MAPPED))),
        Effect.OWNERS,
    ),
    "the configuration": (
        Inputs(Configuration(placement=Placement.BRIDGE), BEFORE.facts),
        Effect.REBUILD,
    ),
    "the feature gates": (
        Inputs(
            BEFORE.configuration,
            Facts(cluster=Cluster(gates=("consumable_capacity",)), classes=(CLASS,)),
        ),
        Effect.REBUILD,
    ),
}


@pytest.mark.parametrize("changed", CASES)
def test_only_a_change_that_every_decision_depends_on_builds_them_anew(changed: str) -> None:
    after, effect = CASES[changed]
    assert compare_inputs(BEFORE, after) is effect
