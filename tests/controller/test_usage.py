"""The books of usage that the leading controller writes."""

# ruff: noqa: D102  # steps of a scene

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from controller.change_books import ChangeCounter
from controller.device_users import read_device_pod, read_watched_claim
from controller.protocols import Unstructured
from controller.usage_books import UsageReconciler
from controller.usage_observer import UsageObserver
from controller.watched_objects import PartialObject, WatchedNode, WatchedPod
from drawbridge.api_error import ApiError
from drawbridge.dra.slices import slice_reader
from drawbridge.usage.accounts import UNKNOWN, Account, UsedAmount
from drawbridge.usage.book import Book
from drawbridge.usage.stored_books import KEY, compose_config_map, read_config_map
from tests.cluster.memory_store import START, MemoryStore
from tests.controller.harness import FakeReporter

OWN, TEAM, CLASS = "drawbridge-system", "research", "gpu.nvidia.com"
NOW = int(START.timestamp())
GIB = 2**30
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "node-1-gpus"},
    "spec": {
        "driver": CLASS,
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": f"gpu-{n}",
                "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100"}},
            }
            for n in range(8)
        ],
    },
}


class Claims(MemoryStore[Any]):
    """Claims, and whether the cache follows the API server."""

    fresh = True
    silent = 0.0  # seconds since the last response
    listed = 1
    stays = False  # whether nothing is followed
    asked = 0

    @property
    def version(self) -> str:
        self.asked += not self.stays
        return f"{self.asked}"

    def age(self) -> float:
        return self.silent


def text_of(time: int) -> str:
    return dt.datetime.fromtimestamp(time, dt.UTC).isoformat().replace("+00:00", "Z")


class Cluster:
    """Claims, pods and slices, and the books on the API server."""

    def __init__(self) -> None:
        self.time = NOW
        self.claims = Claims(None, decode=read_watched_claim)
        self.pods, self.every_pod = MemoryStore(WatchedPod), MemoryStore(WatchedPod)
        self.templates = MemoryStore(PartialObject)
        self.device_pods = MemoryStore(None, decode=read_device_pod)
        self.slices = MemoryStore(None, decode=slice_reader().read)
        self.config_maps: MemoryStore[Any] = MemoryStore(None, decode=msgspec.json.decode)
        self.slices.put(SLICE)
        self.nodes = MemoryStore(WatchedNode)
        self.node("n1", "nvidia.com/gpu", "nvidia.com/gpumem")

    def node(self, name: str, *resources: str) -> None:
        """Put a node with these resources of device plugins."""
        status = {"allocatable": dict.fromkeys(("cpu", *resources), "8")}
        self.nodes.put({"metadata": {"name": name}, "status": status})

    def pod(self, name: str, owner: str = "", *, pending: bool = True) -> str:
        """Add a pod of a Job, pending or scheduled; return its uid."""
        metadata: dict[str, Any] = {"name": name, "namespace": TEAM}
        if owner:
            metadata["ownerReferences"] = [{"kind": "Job", "name": owner, "controller": True}]
        stored = self.every_pod.put({"metadata": metadata})
        if pending:
            self.pods.put({"metadata": {**metadata, "uid": stored.uid}})
            self.pods.objects[TEAM, name]["metadata"]["uid"] = stored.uid
        return stored.uid

    def claim(
        self,
        name: str,
        *devices: str,
        pod: str = "",
        uid: str = "",
        allocated: int | None = None,
        namespace: str = TEAM,
        reserved: str = "",
        kind: str = "Pod",
        **share: str,
    ) -> None:
        """Write a claim with these devices, or with shares of them."""
        results = [
            {"request": "gpu", "driver": CLASS, "pool": "node-1", "device": device}
            | ({"shareID": "a", "consumedCapacity": share} if share else {})
            for device in devices
        ]
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        if pod:
            metadata["ownerReferences"] = [
                {"kind": kind, "name": pod, "uid": uid, "controller": True}
            ]
        allocation: dict[str, Any] = {"devices": {"results": results}}
        if allocated is not None:
            allocation["allocationTimestamp"] = text_of(allocated)
        requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
        status: dict[str, Any] = {"allocation": allocation} if devices else {}
        if reserved:
            status["reservedFor"] = [{"resource": "pods", "name": reserved, "uid": "u"}]
        created = dt.datetime.fromtimestamp(min(self.time, allocated or self.time), dt.UTC)
        value = {
            "metadata": metadata,
            "spec": {"devices": {"requests": requests}},
            "status": status,
        }
        self.claims.put(value, created)

    def books(self) -> list[Book]:
        books = [read_config_map(each) for each in self.config_maps.objects.values()]
        return sorted(books, key=lambda book: book.day)

    def used(self) -> dict[tuple[str, str], UsedAmount]:
        """What accounts of the class used, by namespace and owner."""
        return {
            (account.namespace, account.owner): amount
            for book in self.books()
            for account, amount in book.used().items()
        }


class Controller:
    """One replica over the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.reporter = FakeReporter()
        self.observer = UsageObserver(
            cluster.claims,
            cluster.pods,
            cluster.device_pods,
            lambda: cluster.time,
            lambda: True,
        )
        cluster.nodes.subscribe(self.observer.plugins.node_changed)
        for node in cluster.nodes.all():
            self.observer.plugins.node_changed(None, node)
        cluster.device_pods.subscribe(self.observer.device_pod_changed)
        cluster.claims.subscribe(self.observer.claim_changed)
        cluster.pods.subscribe(self.observer.pod_changed)
        for cached in cluster.slices.all():
            self.observer.slice_changed(None, cached)
        self.start(cluster)

    def start(self, cluster: Cluster) -> None:
        """Begin a term."""
        self.changes = ChangeCounter(cluster.device_pods, cluster.templates)
        cluster.device_pods.subscribe(self.changes.pod_changed)
        self.books = UsageReconciler(
            self.observer,
            cluster.config_maps,
            OWN,
            pods=cluster.every_pod,
            changes=self.changes,
            reporter=self.reporter,
        )

    def write(self) -> None:
        asyncio.run(self.books.reconcile())

    def check(self) -> None:
        asyncio.run(self.observer.check())


def devices(number: int | Fraction, *, gib: int | Fraction = 0) -> UsedAmount:
    return UsedAmount(Fraction(number), memory=Fraction(gib) * GIB)


def test_the_book_has_the_seconds_of_every_device_by_owner_of_the_pod() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", "gpu-1", pod="train-0", uid=cluster.pod("train-0", "train"))
    cluster.time += 100
    cluster.claims.remove("a", TEAM)
    cluster.time += 20
    controller.write()
    assert cluster.used() == {(TEAM, "Job/train"): devices(200, gib=200 * 80)}
    (book,) = cluster.books()
    assert (book.start, book.through) == (NOW, cluster.time - 3)
    assert controller.books.totals == {(TEAM, CLASS): devices(200, gib=200 * 80)}


def test_a_share_counts_as_its_largest_fraction() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", memory="20Gi", cores="30")
    cluster.claim("b", "gpu-0", memory="8Gi", cores="60")
    cluster.time += 103
    controller.write()
    assert cluster.used() == {
        (TEAM, "ResourceClaim/a"): devices(30, gib=2_000),
        (TEAM, "ResourceClaim/b"): devices(60, gib=800),
    }


def test_a_share_of_a_device_without_a_slice_is_unknown() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gone", memory="20Gi")
    cluster.time += 103
    controller.write()
    assert cluster.used() == {
        (TEAM, "ResourceClaim/a"): UsedAmount(unknown=Fraction(100), memory=Fraction(2_000 * GIB))
    }


def test_the_owner_of_a_pod_that_is_already_scheduled_is_looked_up_once() -> None:
    cluster = Cluster()
    cluster.claim("a", "gpu-0", pod="train-0", uid=cluster.pod("train-0", "train", pending=False))
    cluster.claim("b", "gpu-1", pod="gone", uid="uid-of-a-deleted-pod")
    controller = Controller(cluster)
    controller.write()
    cluster.time += 103
    controller.write()
    assert cluster.used() == {
        (TEAM, "Job/train"): devices(103 - 3, gib=100 * 80),
        (TEAM, UNKNOWN): devices(100, gib=100 * 80),
    }
    assert controller.reporter.counts["usage", "owners"] == 1


def test_a_pod_that_is_created_while_owners_are_looked_up_is_looked_up_later() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", pod="old-0", uid=cluster.pod("old-0", "old", pending=False))
    iterate = cluster.every_pod.iterate

    async def iterate_slowly(*args: Any, **options: Any) -> AsyncIterator[Unstructured]:  # noqa: ANN401
        listed = [each async for each in iterate(*args, **options)]
        cluster.every_pod.iterate = iterate  # type: ignore[method-assign]
        uid = cluster.pod("new-0", "new", pending=False)
        cluster.claim("b", "gpu-1", pod="new-0", uid=uid)
        for each in listed:
            yield each

    cluster.every_pod.iterate = iterate_slowly  # type: ignore[method-assign]
    for _ in range(3):
        cluster.time += 60
        controller.write()
    assert {owner for _, owner in cluster.used()} == {"Job/old", "Job/new"}


def test_a_pod_that_was_scheduled_before_its_claim_was_seen_keeps_its_owner() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    uid = cluster.pod("train-0", "train")
    cluster.pods.remove("train-0", TEAM)
    cluster.claim("a", "gpu-0", pod="train-0", uid=uid)
    cluster.time += 53
    controller.write()
    assert [*cluster.used()] == [(TEAM, "Job/train")]
    assert ("usage", "owners") not in controller.reporter.counts


def test_a_new_leader_continues_where_the_book_ends() -> None:
    cluster = Cluster()
    first, second = Controller(cluster), Controller(cluster)
    first.write()
    second.check()
    cluster.claim("a", "gpu-0")
    cluster.time += 60
    first.write()
    cluster.time += 10
    cluster.claims.remove("a", TEAM)  # the first controller is gone by now
    cluster.time += 30
    second.write()
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): devices(70, gib=70 * 80)}
    assert not cluster.books()[0].gaps


def test_what_happened_while_no_controller_ran_is_reconstructed() -> None:
    cluster = Cluster()
    first = Controller(cluster)
    first.write()
    cluster.claim("kept", "gpu-0", allocated=NOW)
    cluster.claim("released", "gpu-1", allocated=NOW)
    cluster.time += 103
    first.write()
    cluster.claims._listeners.clear()  # noqa: SLF001  # the controller is killed
    cluster.claims.remove("released", TEAM)
    cluster.claim("new", "gpu-2", allocated=NOW + 500)
    cluster.time = NOW + 1_000
    second = Controller(cluster)
    second.check()
    cluster.time += 53
    second.write()
    assert {owner: amount.devices for (_, owner), amount in cluster.used().items()} == {
        "ResourceClaim/kept": 1_050,
        "ResourceClaim/released": 100,
        "ResourceClaim/new": 550,
    }
    assert cluster.used()[TEAM, "ResourceClaim/released"].unknown == 900
    assert cluster.books()[0].gaps == ((NOW + 100, NOW + 1_000),)


def test_a_cache_that_does_not_follow_the_api_server_counts_as_not_observing() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", allocated=NOW)
    cluster.time += 63
    controller.write()
    cluster.claims.fresh = False
    cluster.time += 100
    controller.write()
    assert cluster.books()[0].through == NOW + 60
    cluster.claims.fresh = True
    controller.write()
    cluster.time += 100
    controller.write()
    assert cluster.books()[0].gaps == ((NOW + 60, NOW + 163),)
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): devices(260, gib=260 * 80)}


def test_a_book_ends_at_midnight_and_the_next_one_continues() -> None:
    cluster = Cluster()
    cluster.time = midnight = NOW - NOW % 86_400 + 86_400
    cluster.time -= 100
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    cluster.time += 250
    controller.write()
    first, second = cluster.books()
    assert (first.through, second.start) == (midnight, midnight)
    account = Account(TEAM, CLASS, "ResourceClaim/a")
    assert [each.used()[account].devices for each in (first, second)] == [100, 147]


def test_the_book_of_another_leader_is_continued_in_the_next_term() -> None:
    cluster = Cluster()
    cluster.time = midnight = NOW - NOW % 86_400 + 86_400
    cluster.time -= 100
    first, second = Controller(cluster), Controller(cluster)
    first.write()
    second.check()
    cluster.time = midnight + 3
    first.write()
    assert [each.through for each in cluster.books()] == [midnight]
    cluster.claims._listeners.remove(first.observer.claim_changed)  # noqa: SLF001  # it is cut off
    cluster.claim("a", "gpu-0")
    cluster.time += 100
    second.write()
    counted = cluster.used()
    assert counted[TEAM, "ResourceClaim/a"].devices > 0
    first.start(cluster)
    cluster.time += 100
    first.write()
    assert cluster.books()[1].through > midnight + 100
    assert cluster.used() == counted


@pytest.mark.parametrize("stored", [False, True])
def test_a_failed_write_counts_nothing_twice(stored: bool) -> None:  # noqa: FBT001  # a case
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    cluster.time += 60
    controller.write()
    cluster.time += 60

    def fail(_verb: str, value: Unstructured) -> None:
        cluster.config_maps.before_write = lambda *_: None
        if stored:  # the API server carried it out, and the response was lost
            cluster.config_maps.put(value)
        raise ApiError(504, "Timeout", "no response")

    cluster.config_maps.before_write = fail
    with pytest.raises(ApiError):
        controller.write()
    cluster.time += 60
    controller.write()
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): devices(177, gib=177 * 80)}
    assert [each.devices for each in controller.books.totals.values()] == [177]


def test_a_clock_that_goes_back_waits_for_the_end_of_the_book() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    cluster.time += 1_000
    controller.write()
    through = cluster.books()[0].through
    cluster.time -= 900
    controller.write()
    assert cluster.books()[0].through == through
    cluster.time += 1_000
    controller.write()
    assert cluster.used()[TEAM, "ResourceClaim/a"].devices == cluster.time - 3 - NOW


def test_a_book_that_somebody_damaged_is_reported_and_replaced() -> None:
    cluster = Cluster()
    first = Controller(cluster)
    first.write()
    cluster.time += 60
    first.write()
    ((key, value),) = cluster.config_maps.objects.items()
    cluster.config_maps.put({**value, "data": {KEY: "damaged"}})
    controller = Controller(cluster)
    controller.check()
    cluster.time += 60
    controller.write()
    assert controller.reporter.codes == ["UsageBookUnreadable"]
    assert read_config_map(cluster.config_maps.objects[key]).through == cluster.time - 3


@pytest.mark.parametrize("since", [(61, 1), ()])
def test_a_book_of_62_days_ago_is_replaced(since: tuple[int, ...]) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.check()
    cluster.time += 60
    today = NOW // 86_400
    days = [today - ago for ago in (62, *since)]
    for day in days:
        config_map = compose_config_map(Book(day, day * 86_400, (day + 1) * 86_400), None)
        config_map["metadata"]["namespace"] = OWN
        cluster.config_maps.put(config_map)
    controller.write()
    assert [book.day for book in cluster.books()] == [*days[1:], today]
    cluster.time += 60
    Controller(cluster).check()
    following = Controller(cluster)
    following.check()
    cluster.time += 60
    following.write()
    assert [book.day for book in cluster.books()] == [*days[1:], today]
    assert cluster.books()[-1].through == cluster.time - 3


@pytest.mark.parametrize("days", [0, 1, 40])
def test_the_newest_book_is_continued_however_old_it_is(days: int) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    cluster.time += 60
    controller.write()
    cluster.time += 60 + days * 86_400
    following = Controller(cluster)
    following.check()
    following.write()
    used = [amount for book in cluster.books() for amount in book.used().values()]
    assert sum(amount.devices + amount.unknown for amount in used) == cluster.time - 3 - NOW


def plugin_pod(name: str, owner: str, limits: dict[str, str], **status: str) -> dict[str, Any]:
    """A pod of a Job with resources of device plugins, on a node."""
    return {
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "ownerReferences": [{"kind": "Job", "name": owner, "controller": True}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "m", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", "startTime": text_of(NOW), **status},
    }
