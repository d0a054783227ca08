"""The leader tells what two searches found, since when, and within bounds."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller import stuck
from controller.device_users import NO_DEVICES, read_device_pod, read_watched_claim
from controller.reconcilers import SCHEDULES
from controller.stuck import NAME, StuckReconciler, StuckSources
from controller.watched_objects import PartialObject, WatchedNode
from drawbridge.dra.classes import class_reader
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.process.metrics import ReadCollector
from drawbridge.process.stuck_metrics import MAX_OBJECTS, collect_stuck
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.stuck.free import count_free
from drawbridge.report.stuck.objects import HangingNode, decode_slices
from tests.cli.planted import NOW, PLANTS, Cluster, draw
from tests.cluster.memory_store import MemoryStore

GPU = "nvidia.com/gpu"


class Scene:
    """A reconciler over the objects of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = datetime.fromisoformat(NOW).timestamp()
        self.fresh = True
        slices, classes = slice_reader(), class_reader()
        stores: dict[str, MemoryStore[Any]] = {
            "ResourceClaim": MemoryStore(None, decode=read_watched_claim),
            "Pod": MemoryStore(None, decode=read_device_pod),
            "Node": MemoryStore(WatchedNode),
            "ResourceSlice": MemoryStore(None, decode=slices.read),
            "DeviceClass": MemoryStore(None, decode=classes.read),
            "Namespace": MemoryStore(PartialObject),
        }
        uids: dict[str, str] = {}
        for value in sorted(cluster.objects, key=lambda each: each["kind"] != "Pod"):
            if value["kind"] in stores:
                written = value["metadata"].get("uid", "")
                uids[written] = stores[value["kind"]].put(_renamed(value, uids)).uid
        self.pods, self.nodes = stores["Pod"], stores["Node"]
        self.reconciler = StuckReconciler(
            StuckSources(*stores.values()),
            now=lambda: self.now,
            is_fresh=lambda: self.fresh,
        )
        self.registry = CollectorRegistry()
        self.registry.register(
            ReadCollector(lambda: collect_stuck(self.reconciler.stuck, self.reconciler.free))
        )

    def search(self) -> list[str]:
        """Search once, and return what is told."""
        asyncio.run(self.reconciler.reconcile())
        return [stuck.object for stuck, _ in self.reconciler.stuck]

    def count(self, code: str) -> float | None:
        """Return the number in the metrics."""
        return self.registry.get_sample_value("drawbridge_stuck_objects", {"code": code})


def _renamed(value: dict[str, Any], uids: dict[str, str]) -> dict[str, Any]:
    """Return an object with the uids that the store gave to pods."""
    users = value.get("status", {}).get("reservedFor", ())
    for user in (*users, *value["metadata"].get("ownerReferences", ())):
        user["uid"] = uids.get(user["uid"], user["uid"])
    return value


def planted() -> tuple[Cluster, set[str]]:
    cluster = draw(3, 12)
    # The store gives every pod a uid of its own, so a pod with the name of another one has it too.
    plants = [each for each in PLANTS if each.__name__ != "_pod_replaced"]
    return cluster, {plant(cluster) for plant in plants}


def test_the_metrics_have_what_the_commands_say() -> None:
    cluster, expected = planted()
    scene = Scene(cluster)
    assert scene.search() == []
    assert {*scene.search()} >= expected
    told = [stuck for stuck, _ in scene.reconciler.stuck]
    # A node that is down holds other pods, too.
    assert all("not ready" in each.held_by for each in told if each.object not in expected)
    assert sum(scene.count(code) or 0 for code in {each.code for each in told}) == len(told)
    labels = {
        "code": "NeverAllocated",
        "kind": "ResourceClaim",
        "holder": "scheduler gone-scheduler",
    }
    samples = [each for metric in scene.registry.collect() for each in metric.samples]
    (since,) = [each.value for each in samples if labels.items() <= each.labels.items()]
    assert since == datetime.fromisoformat("2026-11-24T08:00:00Z").timestamp()


def test_nothing_is_told_of_a_clean_cluster() -> None:
    clean = Scene(draw(4, 12))
    assert [clean.search(), clean.search()] == [[], []]
    assert clean.count("ConsumerGone") == 0


def test_what_one_search_finds_between_two_caches_is_not_told() -> None:
    cluster = draw(5, 12)
    pod, _ = cluster.add_running()
    scene = Scene(cluster)
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    late = scene.pods.objects.pop(key)
    assert scene.search() == []
    scene.pods.objects[key] = late
    assert scene.search() == []
    assert scene.search() == []
    del scene.pods.objects[key]
    scene.search()
    first = scene.now
    scene.now += 60
    assert len(scene.search()) == 1
    # No object says since when, so it is when this process saw it first.
    assert [at for _, at in scene.reconciler.stuck] == [first]


def test_a_node_is_decoded_again_only_after_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def decode(raw: bytes) -> HangingNode:
        decoded.append(raw)
        return msgspec.json.decode(raw, type=HangingNode, strict=False)

    monkeypatch.setattr(stuck, "_NODE", SimpleNamespace(decode=decode))
    scene = Scene(draw(4, 12))
    scene.search()
    nodes = [*scene.nodes.all()]
    assert decoded == [each.raw for each in nodes]
    pod = {"metadata": {"name": "p", "namespace": "x"}, "status": {"phase": "Running"}}
    container = {"name": "m", "resources": {"limits": {GPU: 1}}}
    scene.pods.put({**pod, "spec": {"nodeName": nodes[0].name, "containers": [container]}})
    assert scene.search() == []
    assert len(decoded) == len(nodes)
    gone = {**scene.nodes.objects["", nodes[0].name], "status": {"allocatable": {GPU: "0"}}}
    scene.nodes.put(gone)
    assert scene.search() == []
    assert scene.search() == ["Pod/x/p"]
    assert len(decoded) == len(nodes) + 1


def test_a_search_that_takes_long_is_followed_by_a_pause_and_still_seen_within_a_minute() -> None:
    schedule = SCHEDULES[NAME]
    of_a_search = schedule.idle_ratio / (1 + schedule.idle_ratio)
    assert of_a_search >= 0.9
    longest = max(schedule.min_interval, schedule.resync) + schedule.resync
    assert 2 * longest <= 60


def test_without_all_pods_nobody_is_gone() -> None:
    scene = Scene(planted()[0])
    scene.fresh = False
    assert [scene.search(), scene.search()] == [[], []]


def test_many_stuck_objects_have_a_bounded_number_of_series() -> None:
    cluster = draw(6, 40)
    for _ in range(MAX_OBJECTS + 20):
        pod, _ = cluster.add_running()
        cluster.objects.remove(pod)
    scene = Scene(cluster)
    scene.search()
    scene.search()
    samples = [each for metric in scene.registry.collect() for each in metric.samples]
    assert sum(each.name == "drawbridge_stuck_since_seconds" for each in samples) == MAX_OBJECTS, (
        collect_stuck
    )
    assert scene.count("ConsumerGone") == MAX_OBJECTS + 20


def test_free_devices_are_those_that_nobody_holds() -> None:
    cluster = draw(7, 12)
    free = len(cluster.free)
    scene = Scene(cluster)
    scene.search()
    labels = {"driver": "gpu.nvidia.com"}
    assert scene.registry.get_sample_value("drawbridge_free_devices", labels) == free


def test_a_device_that_an_administrator_looks_at_is_free() -> None:
    devices = [{"name": f"gpu-{number}"} for number in range(3)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.com", "nodeName": "n1", "pool": pool, "devices": devices}
    of_node = slice_reader().read({"metadata": {"name": "s"}, "spec": spec})
    assert isinstance(of_node, Slice)
    held = [
        {"driver": "d.com", "pool": "n1", "device": "gpu-0", "request": "r"},
        {"driver": "d.com", "pool": "n1", "device": "gpu-1", "request": "r", "adminAccess": True},
    ]
    claims = [
        read_watched_claim(
            msgspec.json.encode(
                {
                    "metadata": {"name": f"c{number}", "namespace": "a", "uid": f"u{number}"},
                    "status": {"allocation": {"devices": {"results": [each]}}},
                }
            )
        )
        for number, each in enumerate(held)
    ]
    assert count_free([of_node], [each.hanging for each in claims]) == {"d.com": 2}


def test_pods_without_devices_are_one_value() -> None:
    plain = b'{"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}'
    assert read_device_pod(plain) is NO_DEVICES
    limited = plain.replace(b'"cpu"', b'"nvidia.com/gpu"')
    assert read_device_pod(limited) is not NO_DEVICES
    first = limited.replace(b'"containers"', b'"initContainers"')
    assert read_device_pod(first) is not NO_DEVICES


def as_stuck(about: str, held_by: str = "somebody") -> tuple[Stuck, float]:
    return Stuck("DeletionStuck", about, "under deletion", held_by, "Wait."), 1.0


def collect(
    stuck: Sequence[tuple[Stuck, float]], free: dict[str, int] | None = None
) -> dict[str, list[dict[str, str]]]:
    """Return the labels of all series by name."""
    labels = defaultdict(list)
    for metric in collect_stuck(stuck, free or {}):
        for sample in metric.samples:
            labels[sample.name].append(sample.labels)
    return labels


def test_a_namespace_with_many_stuck_objects_does_not_hide_others() -> None:
    many = [as_stuck(f"Pod/aa/p{number:04}") for number in range(1_000)]
    others = [as_stuck("Pod/victim/p"), as_stuck("ResourceSlice/s"), as_stuck("Namespace/z")]
    since = collect([*many, *others])["drawbridge_stuck_since_seconds"]
    assert len(since) == MAX_OBJECTS
    assert {(each["kind"], each["namespace"]) for each in since} == {
        ("Pod", "aa"),
        ("Pod", "victim"),
        ("ResourceSlice", ""),
        ("Namespace", ""),
    }


def test_a_holder_is_a_short_label() -> None:
    (since,) = collect([as_stuck("Pod/a/p", "finalizer " + "f" * 1_000)])[
        "drawbridge_stuck_since_seconds"
    ]
    assert len(since["holder"]) == 63
    assert since["holder"].startswith("finalizer ff")


def publish(driver: str, node: str) -> Slice:
    (read,) = decode_slices(
        [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-{driver}"},
                "spec": {
                    "driver": driver,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "d"}],
                },
            }
        ]
    )
    return read


def test_a_node_with_many_drivers_does_not_hide_those_of_others() -> None:
    invented = [publish(f"a{number:04}.io", "n0") for number in range(300)]
    common = [publish("gpu.nvidia.com", f"n{number}") for number in range(5)]
    free = count_free([*invented, *common, publish("z.io", "n9")], ())
    drivers = [each["driver"] for each in collect([], free)["drawbridge_free_devices"]]
    assert len(drivers) == MAX_OBJECTS + 1
    assert {"gpu.nvidia.com", "z.io", "other"} < {*drivers}
    registry = CollectorRegistry()
    registry.register(ReadCollector(lambda: collect_stuck((), free)))
    others = registry.get_sample_value("drawbridge_free_devices", {"driver": "other"})
    assert others == 302 - MAX_OBJECTS, collect_stuck
