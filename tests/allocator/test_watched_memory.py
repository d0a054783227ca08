"""What namespaces write besides pods and claims takes its share of the memory, and stays safe."""

import logging
from typing import Any

import msgspec
import pytest

from allocator.api.watched_preemption import PreemptionCaches, reduce_budget
from allocator.state.caches import AllocatorCaches
from drawbridge.ledger.disruption_budgets import (
    DisruptionBudget,
    can_evict_all,
    disruption_budget_reader,
    has_several,
    split_by_budgets,
)
from tests.cluster.cached import fill

NO_SESSION: Any = None
LIMIT = 4_000_000
SPEC = {"selector": {"matchLabels": {"app": "a"}}}


class RunningPod(msgspec.Struct):
    """A pod with labels."""

    pod_name: str
    labels: dict[str, str]
    namespace: str = "team"


A, B = RunningPod("a", {"app": "a"}), RunningPod("b", {"app": "b"})


def named(name: str, **fields: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, **fields}


def budget(spec: object, **status: object) -> DisruptionBudget:
    read = disruption_budget_reader().read(named("b", spec=spec, status=status))
    assert isinstance(read, DisruptionBudget)
    return read


def large(number: int) -> dict[str, Any]:
    """A PodDisruptionBudget whose selector fills the memory."""
    values = [f"{number}-{each}" for each in range(2_000)]
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
    return named(f"b{number}", spec={"selector": selector}, status={"disruptionsAllowed": 9})


def preemption() -> tuple[AllocatorCaches, PreemptionCaches]:
    caches = AllocatorCaches(NO_SESSION, "s", groups=True, memory_limit=LIMIT)
    return caches, PreemptionCaches(NO_SESSION, caches.pods, caches.shares)


def test_budgets_beyond_the_share_are_known_and_named(caplog: pytest.LogCaptureFixture) -> None:
    caches, watched = preemption()
    with caplog.at_level(logging.WARNING):
        fill(watched._budgets, map(large, range(40)))  # noqa: SLF001
    assert caches.shares.used < caches.shares.limit
    kept = list(watched.budgets())
    assert [each.metadata.name for each in kept] == [f"b{each}" for each in range(40)]
    assert watched._budgets.too_large > 30  # noqa: SLF001
    # The others of the namespace would say the same.
    about = "namespace team has more than its share of the memory for objects"
    assert caplog.messages == [f"PodDisruptionBudget team/b4: {about}"]
    # A budget of a namespace that has little is kept whole.
    other = large(41)
    other["metadata"]["namespace"] = "other"
    fill(watched._budgets, [other])  # noqa: SLF001
    assert [each.status.disruptions_allowed for each in watched.budgets()][-1] == 9


def test_annotations_and_times_of_budgets_take_no_memory() -> None:
    caches, watched = preemption()
    value = named("b", spec=SPEC, status={"disruptedPods": {"p": "2026-11-26T12:00:00Z"}})
    value["metadata"] |= {"labels": {"a": "x" * 1000}, "annotations": {"b": "x" * 100_000}}
    fill(watched._budgets, [value])  # noqa: SLF001
    (kept,) = watched.budgets()
    assert caches.shares.used < 5_000
    assert kept.selects(A)
    assert not kept.counts(RunningPod("p", {"app": "a"}))


@pytest.mark.parametrize(
    "forbidding", [budget(SPEC), budget(SPEC, disruptionsAllowed=3, disruptedPods={"a": None})]
)
def test_a_budget_that_is_left_out_forbids_at_least_what_it_forbade(
    forbidding: DisruptionBudget,
) -> None:
    reduced = reduce_budget(forbidding)
    assert split_by_budgets([A, B], [reduced]) == ([A, B], [])
    assert not can_evict_all([A], [reduced])
    assert not can_evict_all([B], [reduced])
    assert has_several(A, [reduced, budget(SPEC)])
    elsewhere = RunningPod("a", {"app": "a"}, "other")
    assert split_by_budgets([elsewhere], [reduced]) == ([], [elsewhere])
    assert can_evict_all([elsewhere], [reduced])


def test_a_budget_that_is_left_out_stays_about_nothing_or_everything() -> None:
    nothing, everything = reduce_budget(budget({})), reduce_budget(budget({"selector": {}}))
    assert not nothing.selects(A)
    # Preemption ignores it, and the API server evicts no pod.
    assert everything.selects(A)
    assert not everything.counts(A)
    assert not can_evict_all([A], [everything])


def test_events_beyond_the_share_are_left_out() -> None:
    caches, _ = preemption()
    regarding = {"kind": "Pod", "namespace": "team", "uid": "u" * 100_000}
    fill(caches.events, (named(f"e{number}", regarding=regarding) for number in range(40)))
    assert caches.shares.used < caches.shares.limit
    assert 0 < len(list(caches.events.all())) < caches.events.too_large
    before = len(list(caches.events.all()))
    other = named("f", regarding={**regarding, "namespace": "other"})
    other["metadata"]["namespace"] = "other"
    fill(caches.events, [other])
    assert len(list(caches.events.all())) == before + 1


def test_members_of_a_group_are_known_whatever_else_its_namespace_has() -> None:
    caches, watched = preemption()
    fill(watched._budgets, map(large, range(40)))  # noqa: SLF001
    groups = caches._groups  # noqa: SLF001
    assert groups is not None
    before = caches.shares.used
    fill(groups, (named(f"g{number}", spec={"minMember": 3}) for number in range(2_000)))
    assert groups.too_large > 0
    assert {caches.min_member("team", f"g{number}") for number in range(2_000)} == {3}
    assert caches.shares.used > before
