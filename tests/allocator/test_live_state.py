"""Which changes of the configuration and of the facts have the decisions built anew."""

from typing import cast

import pytest
from msgspec.structs import replace

from allocator.state.caches import AllocatorCaches
from allocator.state.live_state import Effect, Inputs, compare_inputs, make_state
from drawbridge.cluster.session import Session
from drawbridge.config.model import Configuration, LabelSelector, Placement, Quota
from drawbridge.config.string_formats import (
    AttributeName,
    DNSLabel,
    LabelKey,
    LabelValue,
    ObjectName,
)
from drawbridge.dra.device import Taint
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from drawbridge.facts.gather import describe_cluster
from drawbridge.facts.model import ClassFacts, Cluster, Facts
from tests.tables import every_row

CLASS = ClassFacts(name="gpu", drivers=("d.io",))
MAPPED = replace(CLASS, extended="d.io/gpu")
SELECTOR = LabelSelector(match_labels={LabelKey("a"): LabelValue("b")})
LIMIT = {ObjectName("gpu"): {AttributeName("devices"): Quantity.of(1)}}
QUOTA = Quota(DNSLabel("q"), namespace_selector=SELECTOR, total=LIMIT)
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


@every_row("changed", CASES)
def test_only_a_change_that_every_decision_depends_on_builds_them_anew(changed: str) -> None:
    after, effect = CASES[changed]
    assert compare_inputs(BEFORE, after) is effect


@pytest.mark.parametrize("served", [True, False])
def test_rules_are_obeyed_if_they_are_served_whatever_the_version_enables(
    served: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    default = gates_of_version("1.36")
    assert isinstance(default, Gates)
    inputs = Inputs(Configuration(), Facts(cluster=describe_cluster(default)))
    state = make_state(inputs, lambda _: True, serves_taint_rules=served)
    rule = DeviceTaintRule("fence", Taint("t", "NoSchedule"), TaintSelector(driver="d.io"))
    state.apply(None, rule)
    assert bool(state.planner.world().inventory.taint_rules) is served


def test_namespaces_are_needed_for_quotas_only() -> None:
    """A role of an earlier release may not read them."""
    caches = AllocatorCaches(cast("Session", object()), "drawbridge-system")
    without, with_quotas = (caches.find_missing(needs_namespaces=each) for each in (False, True))
    assert not any("namespaces" in each for each in without)
    assert [each for each in with_quotas if each not in without] == [
        "namespaces are not synced: not listed yet"
    ]


@pytest.mark.parametrize(
    ("quotas", "labels", "used"), [((), {}, []), ((QUOTA,), {}, []), ((QUOTA,), {"a": "b"}, ["0"])]
)
def test_a_state_has_the_quotas_of_the_configuration(
    quotas: tuple[Quota, ...], labels: dict[str, str], used: list[str]
) -> None:
    inputs = Inputs(Configuration(quotas=quotas), Facts())
    state = make_state(inputs, lambda _: True, serves_taint_rules=False)
    state.ledger.quotas.set_labels("team", labels)
    assert [f"{each.used}" for each in state.ledger.quotas.lines("team")] == used
