"""Devices that pods hold from a device plugin which is gone are given to nobody else."""

from collections.abc import Callable, Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from allocator.state.caches import AllocatorCaches, without_conditions, without_unused_parts
from allocator.state.live_state import LiveState
from allocator.state.node_amounts import PodsOnNodes
from drawbridge.cluster.store import CachedObject
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.ledger.node_resources import held_amounts
from drawbridge.ledger.pods import Pod
from tests.agreement.fence_parts import NAMESPACE, installed
from tests.ledger.test_plugin_holders import EARLY, GPU, LAST, LATE, MAPPED, pod

DRIVER, OTHER_GPU = "gpu.nvidia.com", "example.com/gpu"
SLICE = Slice("s", DRIVER, "n", 1, 1, node_name="n")
WITH_PLUGIN = Node("n", allocatable={GPU: parse("8"), OTHER_GPU: parse("1")}, created=EARLY)
ENTRY = OwnedPool(DriverName(DRIVER), LabelSelector(), unfenced=True)  # type: ignore[arg-type]
CONFIGURATION = Configuration(placement=Placement.BRIDGE, owned_pools=(ENTRY,))
FACTS = Facts(classes=(ClassFacts("gpu", extended=OTHER_GPU, drivers=(DRIVER,)),))


class Caches:
    """Caches that a test fills, and the state that follows them."""

    def __init__(
        self,
        *values: Node | Slice | Pod,
        configuration: Configuration = CONFIGURATION,
        guarded: Sequence[PoolID] = (),
        lacks_policy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start with these objects, and with pools that the policy has named for long."""
        self._followers: list[Any] = []
        self._stored = {(type(each), _name(each)): _stored(each) for each in values}
        none = self._cache(type(None))
        caches = SimpleNamespace(
            namespace=NAMESPACE,
            nodes=self._cache(Node),
            slices=self._cache(Slice),
            pods=self._cache(Pod, self._followers.append),
            classes=none,
            claims=none,
            namespaces=none,
            events=none,
            taint_rules=None,
            devices=(),
            facts=SimpleNamespace(facts=FACTS, subscribe=lambda _: None),
            fence_parts=lambda: installed(guarded),
            subscribe_fence=lambda follow: follow(),
            synced=True,
            min_member=lambda *_: 0,
            find_unread_groups=str,
        )
        self.live = LiveState(
            cast("AllocatorCaches", caches),
            lambda: configuration,
            on_rebuild=lambda: None,
            on_change=lambda: None,
            server_time=lambda: 0.0,
            elapsed=lambda: 0.0,
            lacks_policy=lacks_policy,
        )
        self.live.update()
        self.live.fences.note_look(10.0)

    def change(self, kind: type, name: str, value: Node | Slice | Pod | None) -> None:
        """Change one object; None deletes it."""
        before = self._stored.pop((kind, name), None)
        if value is not None:
            self._stored[kind, name] = _stored(value)
        for each in self._followers:
            each(before, None if value is None else self._stored[kind, name])

    @property
    def offers(self) -> bool:
        """Whether devices of the node are given to claims."""
        return self.offered == ["n"]

    @property
    def offered(self) -> list[str]:
        """The nodes whose devices are given to claims."""
        return list(self.live.decisions.state.nodes_with_pools)

    def _cache(self, kind: type, subscribe: Any = lambda _: None) -> SimpleNamespace:  # noqa: ANN401
        def list_stored() -> list[CachedObject[Any]]:
            return [each for (of, _), each in self._stored.items() if of is kind]

        return SimpleNamespace(
            all=list_stored,
            subscribe=subscribe,
            subscribe_to_lists=lambda _: None,
            revision=0,
            version="0",
        )


def _name(value: Node | Slice | Pod) -> str:
    return value.metadata.name if isinstance(value, Pod) else value.name


def _stored(value: Node | Slice | Pod) -> CachedObject[Any]:
    kept = without_unused_parts(value) if isinstance(value, Pod) else value
    return CachedObject("default", _name(value), _name(value), "1", b"", kept)


OLD, OTHER = pod("old", created=LATE), pod("other", limits={OTHER_GPU: 1}, created=LATE)
GONE = replace(WITH_PLUGIN, allocatable=dict.fromkeys(WITH_PLUGIN.allocatable, parse("0")))
# Each change, and what it makes true of the plugin, the slices and the two pods.
CHANGES: dict[str, tuple[type, str, Node | Slice | Pod | None]] = {
    "the plugin goes": (Node, "n", GONE),
    "the slices come": (Slice, "s", SLICE),
    "a pod fails": (Pod, "old", pod("old", phase="Failed")),
    "the other pod is deleted": (Pod, "other", None),
}


@pytest.mark.asyncio
async def test_no_order_of_events_offers_a_device_that_a_pod_holds() -> None:
    for order in permutations(CHANGES):
        caches = Caches(WITH_PLUGIN, OLD, OTHER)
        for count, change in enumerate(order, 1):
            assert not caches.offers, order[:count]
            caches.change(*CHANGES[change])
        assert caches.offers, order


@pytest.mark.asyncio
async def test_an_allocator_that_starts_late_offers_no_held_device() -> None:
    caches = Caches(GONE, SLICE, OLD)
    assert not caches.offers
    caches.change(Pod, "old", None)
    assert caches.offers


FREE = {
    "a name of another driver": pod("old", limits={"amd.com/gpu": 1}),
    "a claim of the scheduler": pod("old", extendedResourceClaimStatus=MAPPED),
    "another node": pod("old", "m"),
    "no node": pod("old", ""),
    "a node that never had the plugin": pod("old", created=LATE),
}


@pytest.mark.asyncio
async def test_a_pod_that_holds_no_device_of_the_pool_keeps_nothing() -> None:
    for case, given in FREE.items():
        assert Caches(Node("n", created=EARLY), SLICE, given).offers, case


@pytest.mark.asyncio
async def test_a_node_that_is_registered_again_frees_no_device_of_its_plugin() -> None:
    caches = Caches(WITH_PLUGIN, SLICE, OLD, pod("new", created="2026-01-01T00:00:03Z"))
    caches.change(Node, "n", None)
    caches.change(Node, "n", Node("n", created=LAST))
    assert not caches.offers
    caches.change(Pod, "old", None)
    assert caches.offers


def test_the_last_of_several_pods_frees_the_names_that_it_alone_holds() -> None:
    holders, both = PodsOnNodes(dict), pod("both", limits={GPU: 1, "amd.com/gpu": 1})
    assert set(holders.apply(None, OLD)) == {"n"}
    assert set(holders.apply(None, both)) == {"n"}
    assert set(holders.apply(both, None)) == {"n"}
    assert holders.names_on("n") == {GPU}
    assert set(holders.apply(OLD, pod("old", "m"))) == {"n", "m"}
    assert holders.names_on("n") == set()


def test_nodes_that_have_gone_are_remembered_by_nobody() -> None:
    nodes = {"n": Node("n")}
    amounts = PodsOnNodes(lambda: nodes)
    amounts.note_change("n")
    amounts.apply(None, OLD)
    nodes.clear()
    amounts.apply(OLD, None)
    amounts.note_change("n")
    amounts.apply(None, pod("late", "n"))
    assert amounts.take_changed() == set()


def test_what_a_cache_keeps_of_a_pod_counts_no_devices_as_other_resources() -> None:
    kept = without_conditions(without_unused_parts(OLD))
    assert held_amounts(kept) == {"pods": 1}


BOUND = [{"type": "PodScheduled", "status": "True"}]


@pytest.mark.asyncio
async def test_pods_that_a_kubelet_refuses_keep_no_device_one_after_the_other() -> None:
    caches = Caches(GONE, SLICE)
    for number in range(3):
        caches.change(Pod, f"t{number}", pod(f"t{number}", phase="Pending", created=LATE))
        assert caches.offers
        caches.change(Pod, f"t{number}", pod(f"t{number}", phase="Failed", created=LATE))
        assert caches.offers


@pytest.mark.asyncio
async def test_a_pod_that_was_bound_or_has_started_keeps_the_devices_of_a_gone_plugin() -> None:
    for fields in ({"conditions": BOUND}, {"startTime": LATE}):
        caches = Caches(GONE, SLICE, pod("t", phase="Pending", created=LATE, **fields))
        assert not caches.offers
        caches.change(Pod, "t", pod("t", phase="Failed", created=LATE, **fields))
        assert caches.offers


@pytest.mark.asyncio
async def test_a_pod_beside_one_that_is_refused_keeps_its_devices_until_it_ends() -> None:
    waits, runs = pod("waits", phase="Pending", created=LATE), pod("runs", created=LATE)
    caches = Caches(WITH_PLUGIN, SLICE, runs, waits)
    caches.change(Node, "n", GONE)
    assert not caches.offers
    caches.change(Pod, "runs", None)
    assert caches.offers
