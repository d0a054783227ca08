"""When what is given back goes to other schedulers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

import pytest

from allocator.scheduler.known_versions import KnownVersions
from controller.giving_back import (
    LATEST_SECONDS,
    LEASE_SECONDS,
    GivingBack,
    find_nodes,
    read_pending_pools,
    restart_relabelled,
)
from controller.protocols import Unstructured
from controller.watched_objects import WatchedNode
from drawbridge.agreement.required_versions import RequiredVersions, read_required
from drawbridge.api_error import ApiError
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import slice_reader
from drawbridge.names import ALLOCATION_ANNOTATION, SCHEDULER_LEASE
from tests.allocator.test_known_versions import FakeCache
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import given_back
from tests.tables import every_row

N1, N2 = PoolID("gpu.example.com", "n1"), PoolID("gpu.example.com", "n2")


class Scene:
    """The Lease of a scheduler, and the marks of claims."""

    def __init__(self, seconds: int = int(LEASE_SECONDS)) -> None:
        self.leases = MemoryStore[dict[str, Any]](dict[str, Any])
        self.leases.put(
            {"metadata": {"name": SCHEDULER_LEASE}, "spec": {"leaseDurationSeconds": seconds}}
        )
        self.pending: list[frozenset[PoolID]] = []
        self.time, self.lists = 0.0, 0
        self.versions = RequiredVersions("7", "3")
        self.giving_back: GivingBack[str] = GivingBack(
            self.leases,
            self.list_pending,
            versions=lambda: self.versions,
            find_touched=lambda pools, names: {each.name for each in pools} & names,
            elapsed=lambda: self.time,
        )

    async def list_pending(self) -> AsyncIterator[frozenset[PoolID]]:
        """Yield the pools that the marks name."""
        self.lists += 1
        for each in self.pending:
            yield each

    def ask(self, *names: str, at: float) -> Collection[str]:
        """Return which of these nodes can go to others at a time."""
        self.time = at
        return asyncio.run(self.giving_back.find_ended(names))

    @property
    def required(self) -> RequiredVersions:
        """What the Lease requires."""
        lease = self.leases.objects["", SCHEDULER_LEASE]
        return read_required(lease["metadata"].get("annotations"))


def test_a_node_goes_when_every_writer_knows_it_and_no_mark_names_it() -> None:
    scene = Scene()
    assert not scene.ask("n1", at=100)
    assert scene.required == RequiredVersions("7", "3")
    assert not scene.ask("n1", at=100 + LEASE_SECONDS - 0.1)
    assert not scene.lists  # nobody asks for all claims in vain
    assert scene.ask("n1", at=100 + LEASE_SECONDS) == {"n1"}


def test_a_mark_without_allocation_keeps_its_node_and_no_other() -> None:
    scene = Scene()
    scene.pending = [frozenset({N2}), frozenset()]
    scene.ask("n1", "n2", at=0)
    assert scene.ask("n1", "n2", at=LEASE_SECONDS) == {"n1"}
    assert not scene.ask("n2", at=LEASE_SECONDS + LATEST_SECONDS - 0.1)
    assert scene.ask("n2", at=LEASE_SECONDS + LATEST_SECONDS) == {"n2"}


def test_a_mark_that_goes_lets_its_node_go() -> None:
    scene = Scene()
    scene.pending = [frozenset({N1})]
    scene.ask("n1", at=0)
    assert not scene.ask("n1", at=LEASE_SECONDS)
    scene.pending = []
    assert scene.ask("n1", at=LEASE_SECONDS + 1) == {"n1"}


def test_a_node_that_returns_in_between_starts_anew() -> None:
    scene = Scene()
    scene.ask("n1", at=0)
    scene.ask(at=5)
    assert not scene.ask("n1", at=LEASE_SECONDS)
    assert scene.ask("n1", at=2 * LEASE_SECONDS) == {"n1"}


def test_a_node_that_can_have_been_ours_in_between_starts_anew() -> None:
    scene = Scene()
    scene.ask("n1", "n2", at=0)
    scene.giving_back.restart(["n1"])
    assert scene.ask("n1", "n2", at=LEASE_SECONDS) == {"n2"}
    assert scene.ask("n1", "n2", at=2 * LEASE_SECONDS) == {"n1", "n2"}
    assert scene.giving_back.has_ended("n1")
    scene.giving_back.restart()
    assert not scene.giving_back.has_ended("n1")


@pytest.mark.parametrize("during", ["announcement", "list"])
def test_a_node_that_changes_during_a_request_starts_anew(during: str) -> None:
    scene = Scene()

    def restart(_verb: str, _value: Unstructured) -> None:
        scene.giving_back.restart()

    async def list_pending() -> AsyncIterator[frozenset[PoolID]]:
        scene.giving_back.restart()
        yield frozenset()

    if during == "announcement":
        scene.leases.before_write = restart
    scene.ask("n1", at=0)
    scene.leases.before_write = lambda _verb, _value: None
    if during == "list":
        scene.giving_back._list_pending = list_pending  # noqa: SLF001  # once
    assert not scene.ask("n1", at=LEASE_SECONDS)
    scene.giving_back._list_pending = scene.list_pending  # noqa: SLF001  # as before
    assert not scene.ask("n1", at=LEASE_SECONDS + 1)
    assert scene.ask("n1", at=2 * LEASE_SECONDS + 1) == {"n1"}


def test_the_requirement_never_becomes_older() -> None:
    scene = Scene()
    scene.ask("n1", at=0)
    scene.versions = RequiredVersions("6", "10")
    scene.ask("n1", "n2", at=1)
    assert scene.required == RequiredVersions("8", "10"), "8 tells that something is required anew"


@every_row(
    ("copied", "required"),
    [
        # Of another cluster, or written by a process that had not noticed a restore.
        (RequiredVersions("9000", "9000"), [("9001", "9001"), ("9002", "9002")]),
        (RequiredVersions("9000"), [("9001", "50"), ("9002", "50")]),
        # Of a cluster that is younger.
        (RequiredVersions("4", "4"), [("60", "50"), ("61", "50")]),
    ],
)
def test_versions_of_another_history_do_not_hide_a_change(
    copied: RequiredVersions, required: list[tuple[str, str]]
) -> None:
    scene, nodes = Scene(), FakeCache("50")
    metadata = {"name": SCHEDULER_LEASE, "annotations": copied.annotation()}
    scene.leases.put({"metadata": metadata, "spec": {"leaseDurationSeconds": 15}})
    allocator = KnownVersions({"nodes": nodes})

    def finds_behind() -> bool:
        allocator.require(scene.required)
        return allocator.find_behind() == "nodes"

    finds_behind()
    for node, version, after in zip(("n1", "n2"), ("60", "61"), required, strict=True):
        nodes.lists_begun = nodes.listed = nodes.listed + 1
        assert not finds_behind(), "a list is enough, in any history"
        scene.versions = RequiredVersions(version, "50")
        scene.ask(node, at=0)
        assert finds_behind(), "its watch has not told of the change"
        assert scene.required == RequiredVersions(*after)


def test_a_version_that_is_put_back_is_not_announced_twice() -> None:
    scene = Scene()
    foreign = RequiredVersions("9000").annotation()
    for required in ("9001", "9002"):
        metadata = {"name": SCHEDULER_LEASE, "annotations": foreign}
        scene.leases.put({"metadata": metadata, "spec": {"leaseDurationSeconds": 15}})
        scene.giving_back.restart()
        scene.ask("n1", at=0)
        assert scene.required.nodes == required


def test_a_version_that_is_not_known_is_left_as_it_is() -> None:
    before = RequiredVersions("7", "3", "9")
    assert before.requiring(RequiredVersions("8")) == RequiredVersions("8", "3", "9")


@pytest.mark.parametrize(("duration", "after"), [(1, LEASE_SECONDS), (40, 40)])
def test_the_duration_of_the_lease_counts_unless_it_was_released(
    duration: int, after: float
) -> None:
    scene = Scene(duration)
    scene.ask("n1", at=0)
    assert not scene.ask("n1", at=after - 0.1)
    assert scene.ask("n1", at=after)


def test_the_next_scheduler_finds_what_is_required_in_a_lease_that_was_not_there() -> None:
    scene = Scene()
    scene.leases.remove(SCHEDULER_LEASE)
    scene.ask("n1", at=0)
    assert scene.required == RequiredVersions("7", "3")
    assert scene.ask("n1", at=LEASE_SECONDS) == {"n1"}


@pytest.mark.parametrize("annotations", [None, {}, {"drawbridge.dev/required-versions": "{}"}])
def test_a_node_starts_anew_when_the_lease_requires_less(
    annotations: dict[str, str] | None,
) -> None:
    scene = Scene()
    scene.pending = [frozenset({N1})]
    scene.ask("n1", at=0)
    assert not scene.ask("n1", at=LEASE_SECONDS)
    scene.pending = []
    scene.leases.remove(SCHEDULER_LEASE)
    if annotations is not None:
        metadata = {"name": SCHEDULER_LEASE, "annotations": annotations}
        scene.leases.put({"metadata": metadata, "spec": {"leaseDurationSeconds": 15}})
    assert not scene.ask("n1", at=LEASE_SECONDS + 1)
    assert scene.required == RequiredVersions("7", "3")
    assert not scene.ask("n1", at=2 * LEASE_SECONDS)
    assert scene.ask("n1", at=2 * LEASE_SECONDS + 1) == {"n1"}


def test_what_cannot_be_required_does_not_begin() -> None:
    scene = Scene()

    def reject(_verb: str, _value: Unstructured) -> None:
        raise ApiError(403, "Forbidden", "no right")

    scene.leases.before_write = reject
    with pytest.raises(ApiError):
        scene.ask("n1", at=0)
    scene.leases.before_write = lambda _verb, _value: None
    assert not scene.ask("n1", at=LEASE_SECONDS)
    assert scene.ask("n1", at=2 * LEASE_SECONDS) == {"n1"}


def _claim(mark: str | None, status: dict[str, Any] | None = None) -> bytes:
    annotations = {} if mark is None else {ALLOCATION_ANNOTATION: mark}
    return json.dumps({"metadata": {"annotations": annotations}, "status": status}).encode()


MARK = json.dumps(
    {"allocator": "drawbridge", "devices": [{"driver": N1.driver, "pool": "n1", "device": "gpu-0"}]}
)


@pytest.mark.parametrize(
    ("claim", "pools"),
    [
        (_claim(MARK), {N1}),
        (_claim(MARK, {}), {N1}),
        (_claim(MARK, {"allocation": None}), {N1}),
        (_claim(MARK, {"allocation": {"devices": {}}}), set()),
        (_claim(None), set()),
        (b'{"metadata": {"annotations": null}}', set()),
    ],
)
def test_a_mark_counts_until_the_claim_is_allocated(claim: bytes, pools: set[PoolID]) -> None:
    assert read_pending_pools(claim) == pools


# --- nodes and their pools ---------------------------------------------------------------------

OWN_NAME, UNKNOWN = PoolID("gpu.example.com", "special"), PoolID("gpu.example.com", "gone")


def _nodes() -> MemoryStore[Any]:
    nodes = MemoryStore[Any](WatchedNode)
    for name in ("n1", "n2", "n3"):
        nodes.put({"metadata": {"name": name, "labels": {"pool": "native"}}, "spec": {}})
    return nodes


def test_a_pool_is_on_its_nodes_and_on_any_if_nothing_tells() -> None:
    nodes, slices = _nodes(), MemoryStore[Any](None, decode=slice_reader().read)
    slices.put(_slice("special", "n3"))

    def find(*pools: PoolID) -> set[str]:
        return {*find_nodes(frozenset(pools), frozenset({"n1", "n3"}), nodes, slices)}

    assert find() == set()
    assert find(N1) == {"n1"}
    assert find(N2) == set()
    assert find(OWN_NAME, N2) == {"n3"}
    assert find(UNKNOWN) == {"n1", "n3"}
    nodes.remove("n1")
    assert find(N1) == {"n1", "n3"}, "another node can have published it"


def _slice(pool: str, node: str) -> dict[str, Any]:
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": N1.driver, "nodeName": node, "pool": of_pool, "devices": []}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**head, "metadata": {"name": f"of-{pool}"}, "spec": spec}


def test_other_labels_begin_anew() -> None:
    nodes, clock = _nodes(), [0.0]
    of_nodes = given_back(lambda: clock[0])
    nodes.subscribe(partial(restart_relabelled, of_nodes))
    names = ("n1", "n2", "gone")

    def find_left(act: Callable[[], object]) -> set[str]:
        for _ in range(2):
            clock[0] += LEASE_SECONDS
            asyncio.run(of_nodes.find_ended(names))
        act()
        return {*filter(of_nodes.has_ended, names)}

    def change(**node: Any) -> object:  # noqa: ANN401  # JSON
        spec = {"taints": node.get("taints")}
        return nodes.put({"metadata": {"name": "n1", "labels": node["labels"]}, "spec": spec})

    taint = [{"key": "k", "effect": "NoSchedule"}]
    assert find_left(lambda: change(labels={"pool": "native"}, taints=taint)) == {*names}
    assert find_left(lambda: change(labels={"pool": "bridge"})) == {"n2", "gone"}
    assert find_left(of_nodes.restart) == set()
