"""The taint of owned nodes, and its findings."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from controller.former_nodes import FORGET_SECONDS, FormerNodes
from controller.giving_back import LEASE_SECONDS
from controller.owned_nodes import MAX_CHANGES, OwnedNodeReconciler
from controller.protocols import Gauge, ObjectReference, Unstructured
from controller.watched_objects import WatchedNode
from drawbridge.agreement.owned_pools import LEAVING, SETTLE_SECONDS
from drawbridge.api_error import ApiError
from drawbridge.config.model import Configuration
from drawbridge.names import SETTLED_ANNOTATION
from tests.agreement.bridge_configuration import configured
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter, given_back

OWNED = {"pool": "bridge"}
START = 1_795_168_800.0
FENCE = {
    "key": "drawbridge.dev/owned",
    "effect": "NoSchedule",
    "timeAdded": "2026-11-20T10:00:00Z",
}
OTHERS = [
    {"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"},
    {"key": "drawbridge.dev/owned", "effect": "NoExecute"},
    {"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-11-20T10:00:00Z"},
]
ENTRY = {"driver": "gpu.example.com", "nodeSelector": {"matchLabels": OWNED}}
Taints = list[dict[str, Any]]


class Scene:
    """A reconciler over nodes with labels and taints."""

    def __init__(self, *entries: dict[str, Any]) -> None:
        self.nodes, self.reporter = MemoryStore(WatchedNode), FakeReporter()
        self.time, self.skew = 0.0, 0.0
        self.rules_hold: bool | None = None
        self.configuration = configured(*entries) if entries else Configuration()
        self.former = FormerNodes(lambda: self.time)
        self.nodes.subscribe(self.former.node_changed)
        self.start()

    def start(self) -> None:
        """Begin a term."""
        self.giving_back = given_back(lambda: self.time)
        self.reconciler = OwnedNodeReconciler(
            self.nodes,
            self.nodes,
            configuration=lambda: self.configuration,
            reporter=self.reporter,
            reference=ObjectReference("ConfigMap", "drawbridge-facts", "own"),
            giving_back=self.giving_back,
            former=self.former,
            now=lambda: START + self.time + self.skew,
            elapsed=lambda: self.time,
            rules_hold=lambda _node: self.rules_hold,
        )

    def node(self, name: str, labels: dict[str, str], taints: Taints | None = None) -> None:
        """Add a node."""
        spec = {"providerID": "cloud:1"} if taints is None else {"taints": taints}
        self.nodes.put({"metadata": {"name": name, "labels": labels}, "spec": spec})

    def said(self, name: str) -> str | None:
        """Return which fence of a node has settled, as it says."""
        annotations = self.nodes.objects["", name]["metadata"].get("annotations") or {}
        return annotations.get(SETTLED_ANNOTATION)

    def settle(self) -> dict[str, Taints | None]:
        """Run the reconciler before and after the settle time, and return the taints at the end."""
        self.reconcile()
        self.time += LEASE_SECONDS
        return self.reconcile()

    def reconcile(self) -> dict[str, Taints | None]:
        """Run the reconciler once and return the taints of all nodes."""
        asyncio.run(self.reconciler.reconcile())
        return {name: each["spec"].get("taints") for (_, name), each in self.nodes.objects.items()}


def test_only_the_own_taint_is_added_and_removed() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED, OTHERS)
    scene.node("b", {}, [*OTHERS, FENCE])
    scene.node("c", OWNED)
    scene.node("d", {}, [FENCE])
    assert scene.settle() == {"a": [*OTHERS, FENCE], "b": OTHERS, "c": [FENCE], "d": None}
    assert scene.nodes.objects["", "c"]["spec"]["providerID"] == "cloud:1"
    assert scene.nodes.objects["", "c"]["metadata"]["labels"] == OWNED


def test_a_taint_with_a_value_is_removed_from_a_node_that_is_no_longer_owned() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED, [{**FENCE, "value": "true"}])
    scene.node("b", {}, [{**FENCE, "value": "true"}])
    assert scene.settle() == {"a": [{**FENCE, "value": "true"}], "b": None}


def test_the_taint_stays_until_the_allocator_has_finished_on_a_node() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.node("b", OWNED)
    scene.reconcile()
    scene.time = LEASE_SECONDS - 1
    assert scene.reconcile()["a"] == [FENCE]
    scene.time = LEASE_SECONDS
    assert scene.reconcile()["a"] is None


def test_a_node_that_is_owned_again_settles_from_the_start_when_it_leaves_again() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.reconcile()
    scene.node("a", OWNED, [FENCE])
    scene.reconcile()
    scene.node("a", {}, [FENCE])
    scene.time = LEASE_SECONDS
    assert scene.reconcile() == {"a": [FENCE]}
    scene.time = 2 * LEASE_SECONDS
    assert scene.reconcile() == {"a": None}


def _deleted() -> Scene:
    """Return a scene whose only owned node was deleted a moment ago."""
    scene = Scene(ENTRY)
    scene.node("a", OWNED, [FENCE])
    scene.reconcile()
    scene.nodes.remove("a")
    return scene


@pytest.mark.parametrize("is_seen_missing", [True, False])
def test_a_node_that_has_the_name_of_an_owned_one_is_kept_from_others(
    *, is_seen_missing: bool
) -> None:
    scene = _deleted()
    if is_seen_missing:
        scene.reconcile()
    scene.node("a", {})
    fenced = scene.reconcile()["a"] or ()
    assert [each["key"] for each in fenced] == [FENCE["key"]]
    assert scene.reporter.gauges == {Gauge.OWNED_NODES: 0, Gauge.UNFENCED_NODES: 0}
    scene.time = LEASE_SECONDS - 1
    assert scene.reconcile()["a"]
    scene.node("a", {})
    assert scene.reconcile()["a"], "somebody has removed it too early"
    scene.time = 2 * LEASE_SECONDS
    assert scene.reconcile()["a"] is None
    scene.nodes.requests.clear()
    scene.reconcile()
    assert not scene.nodes.requests


def test_a_node_that_was_owned_between_two_runs_is_kept_from_others() -> None:
    scene = Scene(ENTRY)
    scene.reconcile()
    scene.node("a", OWNED, [FENCE])
    scene.node("b", OWNED, [FENCE])
    scene.nodes.remove("a")
    scene.node("a", {})
    scene.node("b", {}, [])
    taints = scene.reconcile()
    assert taints["a"]
    assert taints["b"], "its label and its taint went in one write"
    scene.time = LEASE_SECONDS
    assert scene.reconcile() == {"a": None, "b": None}


def test_a_process_that_does_not_lead_forgets_names() -> None:
    scene = Scene(ENTRY)
    for number in range(100):
        scene.time += FORGET_SECONDS / 10
        scene.node(f"n{number}", OWNED, [FENCE])
        scene.nodes.remove(f"n{number}")
    for number in range(100):
        scene.node(f"n{number}", {})
    kept = [name for name, taints in scene.reconcile().items() if taints]
    assert "n99" in kept
    assert len(kept) < 20


def test_a_name_that_is_used_again_keeps_no_other_one() -> None:
    scene = Scene(ENTRY)
    for name, time in (("a", 0), ("b", 100), ("a", 500), ("c", 110 + FORGET_SECONDS)):
        scene.time = time
        scene.node(name, OWNED, [FENCE])
        scene.nodes.remove(name)
    assert {*scene.former} == {"a", "c"}


def test_the_name_of_a_node_without_the_taint_is_not_kept() -> None:
    scene = Scene(ENTRY)
    for name, taints in (("a", []), ("b", [FENCE]), ("c", OTHERS)):
        scene.node(name, OWNED, taints)
        scene.nodes.remove(name)
    assert [*scene.former] == ["b"]


def test_the_name_of_a_deleted_node_is_free_when_nobody_writes_to_its_devices() -> None:
    scene = _deleted()
    scene.settle()
    scene.node("a", {})
    assert scene.reconcile() == {"a": None}


def test_the_name_of_a_deleted_node_is_kept_while_its_end_is_unknown() -> None:
    scene = _deleted()

    async def fail(_leaving: object) -> frozenset[str]:
        raise ApiError(503, "Unavailable")

    find_ended, scene.giving_back.find_ended = scene.giving_back.find_ended, fail  # type: ignore[method-assign]
    for scene.time in (0, 100):
        with pytest.raises(ApiError):
            scene.reconcile()
    scene.giving_back.find_ended = find_ended  # type: ignore[method-assign]
    scene.node("a", {})
    assert scene.reconcile()["a"]


def test_a_taint_that_somebody_removes_too_early_comes_back() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.reconcile()
    scene.node("a", {}, [])
    assert scene.reconcile()["a"]
    scene.time = LEASE_SECONDS
    assert scene.reconcile()["a"] is None


def test_a_controller_that_starts_while_a_node_is_given_back_keeps_its_name() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.reconcile()
    scene.nodes.remove("a")
    scene.node("a", {})
    assert scene.reconcile()["a"]


def test_an_owned_node_that_came_back_without_its_taint_is_kept_from_others_later() -> None:
    scene = _deleted()
    scene.node("a", OWNED)

    def refuse(_verb: str, _value: Unstructured) -> None:
        raise ApiError(409, "Conflict")

    scene.nodes.before_write = refuse
    assert scene.reconcile()["a"] is None
    scene.node("a", {})
    scene.nodes.before_write = lambda _verb, _value: None
    assert scene.reconcile()["a"]


def test_a_node_that_changes_before_the_write_keeps_its_taint() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.node("b", {}, [FENCE])
    scene.reconcile()
    scene.time = LEASE_SECONDS
    # The nodes are written one after the other, and the watch tells of the second meanwhile.
    scene.nodes.before_write = lambda *_: scene.giving_back.restart(["b"])
    assert scene.reconcile() == {"a": None, "b": [FENCE]}


@pytest.mark.parametrize(
    ("rules_hold", "bare", "tainted"),
    [(True, None, None), (False, [FENCE], [FENCE]), (None, None, [FENCE])],
)
def test_the_taint_depends_on_the_fence_of_rules_where_it_is_asked_for(
    rules_hold: bool | None,  # noqa: FBT001  # a parameter of pytest
    bare: Taints | None,
    tainted: Taints | None,
) -> None:
    scene = Scene({**ENTRY, "fence": "rules"})
    scene.node("a", OWNED)
    scene.node("b", OWNED, [FENCE])
    scene.node("c", {}, [FENCE])
    scene.rules_hold = rules_hold
    scene.settle()
    assert scene.settle() == {"a": bare, "b": tainted, "c": None}


def test_a_taint_that_is_needed_again_before_the_write_does_not_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene({**ENTRY, "fence": "rules"})
    scene.node("a", OWNED, [FENCE])
    scene.rules_hold = True
    scene.reconcile()
    find_ended = scene.giving_back.find_ended

    async def lose_the_rules(leaving: Collection[str]) -> frozenset[str]:
        scene.rules_hold = False
        return await find_ended(leaving)

    scene.time = SETTLE_SECONDS
    with monkeypatch.context() as patched:
        patched.setattr(scene.giving_back, "find_ended", lose_the_rules)
        scene.reconcile()
    assert scene.said("a") != LEAVING
    scene.rules_hold = True
    scene.settle()
    assert scene.said("a") == LEAVING


def test_an_entry_that_needs_the_taint_keeps_it_on_its_nodes() -> None:
    scene = Scene({**ENTRY, "fence": "rules"}, {**ENTRY, "driver": "nic.example.com"})
    scene.node("a", OWNED)
    scene.rules_hold = True
    assert scene.settle() == {"a": [FENCE]}


def test_a_second_run_writes_nothing() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    scene.node("b", {})
    scene.reconcile()
    scene.reconcile()
    assert scene.nodes.requests == [("merge", "a")]
    assert scene.reporter.counts == {("owned", "tainted"): 1}


def test_a_taint_that_another_client_removes_is_added_again() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    scene.reconcile()
    scene.node("a", OWNED, OTHERS)
    assert scene.reconcile() == {"a": [*OTHERS, FENCE]}


@pytest.mark.parametrize("unfenced", [True, False])
def test_an_unfenced_node_loses_the_taint(*, unfenced: bool) -> None:
    scene = Scene({**ENTRY, "unfenced": unfenced})
    scene.node("a", OWNED, [*OTHERS, FENCE])
    assert scene.settle() == {"a": OTHERS if unfenced else [*OTHERS, FENCE]}


def test_native_placement_removes_the_taint() -> None:
    scene = Scene()
    scene.node("a", OWNED, [FENCE])
    assert scene.settle() == {"a": None}
    assert scene.reporter.gauges == {Gauge.OWNED_NODES: 0, Gauge.UNFENCED_NODES: 0}


def test_the_gauges_count_owned_nodes_and_those_without_the_taint() -> None:
    scene = Scene(ENTRY, {**ENTRY, "nodeSelector": {"matchLabels": {"b": ""}}, "unfenced": True})
    scene.node("a", OWNED)
    scene.node("b", {"b": ""})
    scene.node("c", {})
    scene.reconcile()
    assert scene.reporter.gauges == {Gauge.OWNED_NODES: 2, Gauge.UNFENCED_NODES: 1}
    scene.reconcile()
    assert scene.reporter.gauges == {Gauge.OWNED_NODES: 2, Gauge.UNFENCED_NODES: 0}


def test_a_node_that_changed_meanwhile_is_tainted_by_the_next_run() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)

    def change(_verb: str, _value: Unstructured) -> None:
        scene.nodes.before_write = lambda _verb, _value: None
        scene.node("a", OWNED, OTHERS)

    scene.nodes.before_write = change
    assert scene.reconcile() == {"a": OTHERS}
    assert scene.reconcile() == {"a": [*OTHERS, FENCE]}
    assert scene.reporter.codes == ["FenceAroundAllNodes"]


def test_one_run_changes_a_bounded_number_of_nodes_and_adds_first() -> None:
    scene = Scene(ENTRY)
    for i in range(MAX_CHANGES):
        scene.node(f"a{i:03}", {}, [FENCE])
    scene.reconcile()
    scene.node("z", OWNED)
    scene.time = LEASE_SECONDS
    scene.reconcile()
    assert len(scene.nodes.requests) == MAX_CHANGES
    assert scene.nodes.requests[0] == ("merge", "z")
    assert scene.reconcile()["a049"] is None


def test_an_entry_without_nodes_is_reported_once() -> None:
    scene = Scene(ENTRY)
    scene.node("a", {})
    scene.reconcile()
    scene.reconcile()
    (finding,) = scene.reporter.findings
    assert finding.code == "OwnedNodesMissing"
    assert finding.path == "ownedPools[0]"
    assert finding.message == "ownedPools[0] selects no node"


def _said(scene: Scene) -> object:
    """Return the taint that the node says to be settled."""
    metadata = scene.nodes.objects["", "a"]["metadata"]
    return metadata.get("annotations", {}).get("drawbridge.dev/fence-settled")


@pytest.mark.parametrize("skew", [-120.0, -11.0, 0.0, 11.0, 120.0])
def test_a_node_says_which_taint_has_been_watched_for_the_settle_time(skew: float) -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    (fence,) = scene.reconcile()["a"] or ()
    scene.reconcile()
    # The clock of the API server is set, or another API server responds.
    scene.skew = skew
    scene.time += SETTLE_SECONDS - 0.1
    scene.reconcile()
    assert _said(scene) is None
    scene.time += 0.1
    scene.reconcile()
    assert _said(scene) == fence["timeAdded"]


def test_a_taint_that_the_kubelet_registered_is_named_by_its_node() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED, [{"key": FENCE["key"], "effect": FENCE["effect"]}])
    scene.reconcile()
    scene.time += SETTLE_SECONDS
    scene.reconcile()
    assert _said(scene) == scene.nodes.get("a").uid


def test_a_new_taint_is_not_settled_because_an_earlier_one_was() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    for _ in range(3):
        scene.reconcile()
        scene.time += SETTLE_SECONDS
    assert _said(scene)
    scene.nodes.put({**scene.nodes.objects["", "a"], "spec": {"taints": []}})
    scene.reconcile()
    assert _said(scene) is None
    scene.reconcile()
    assert _said(scene) is None


@pytest.mark.parametrize("skew", [-120.0, 120.0])
def test_a_clock_that_is_set_does_not_remove_a_taint_early_or_late(skew: float) -> None:
    scene = Scene(ENTRY)
    scene.node("a", {}, [FENCE])
    scene.reconcile()
    scene.skew = skew
    scene.time += LEASE_SECONDS - 0.1
    assert scene.reconcile()["a"] == [FENCE]
    scene.time += 0.1
    assert scene.reconcile()["a"] is None
