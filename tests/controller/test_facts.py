"""The ConfigMap with the published facts, and when the reconciler writes it."""

import asyncio
import gc
import json
from typing import Any

import pytest

from controller import facts as facts_reconciler
from controller.facts import (
    ROOM,
    VERSIONS,
    FactsReconciler,
    FactsSources,
    ParsedVersions,
    compose_config_map,
)
from controller.field_probe import ServerSupport
from controller.protocols import Unstructured
from controller.watched_objects import PartialObject
from drawbridge.agreement.published_facts import CURRENT_KEY, build_data_key
from drawbridge.api_error import ApiError
from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.config.model import Configuration
from drawbridge.dra.classes import class_reader
from drawbridge.dra.gates import Gates
from drawbridge.dra.slices import slice_reader
from drawbridge.facts import serialized
from drawbridge.facts.gather import gather_facts
from drawbridge.facts.model import Cluster, Facts
from drawbridge.facts.recent_pools import MAX_ABSENCE_SECONDS, RESTART_SECONDS
from drawbridge.names import FACTS_CONFIG_MAP
from tests.agreement.bridge_configuration import configured
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter
from tests.controller.test_process import NODE, SLICE
from tests.tables import every_row

OWN = "drawbridge-system"
SUPPORT = ServerSupport("1.36", ("exactly.capacity",), Gates(version="1.36"))


def compose(number: int, live: Unstructured | None = None, size: int = 0) -> Unstructured | None:
    facts = Facts(cluster=Cluster(version=f"1.{number}", gates=("x" * size,) if size else ()))
    return compose_config_map(serialized.encode_facts(facts), serialized.facts_hash(facts), live)


def compose_sequence(*numbers: int, size: int = 0) -> Unstructured:
    live: Unstructured | None = None
    for number in numbers:
        live = compose(number, live, size) or live
    assert live is not None
    return live


def versions(live: Unstructured) -> list[str]:
    return sorted(
        json.loads(content)["cluster"]["version"]
        for key, content in live["data"].items()
        if key != CURRENT_KEY
    )


def test_the_current_facts_have_their_hash_as_name() -> None:
    live = compose_sequence(1)
    digest = live["data"][CURRENT_KEY]
    facts = ParsedVersions().find(live["data"], digest)
    assert facts is not None
    assert serialized.facts_hash(facts) == digest
    assert len(build_data_key(digest)) == len("facts-0123456789abcdef.json")


def test_the_same_facts_write_nothing() -> None:
    assert compose(1, compose_sequence(1)) is None


def test_the_last_three_versions_are_kept() -> None:
    assert versions(compose_sequence(1, 2, 3, 4)) == ["1.2", "1.3", "1.4"]
    assert VERSIONS == 3


def test_a_repeated_version_becomes_the_newest() -> None:
    assert versions(compose_sequence(1, 2, 1, 3, 4)) == ["1.1", "1.3", "1.4"]


def test_old_versions_are_dropped_if_they_do_not_fit() -> None:
    live = compose_sequence(1, 2, 3, size=ROOM // 2 - 1000)
    assert versions(live) == ["1.2", "1.3"]
    assert versions(compose_sequence(1, 2, size=ROOM - 1000)) == ["1.2"]


def test_labels_and_annotations_of_other_clients_are_kept() -> None:
    live = compose_sequence(1)
    live["metadata"]["labels"] = {"team": "a"}
    live["metadata"]["annotations"]["note"] = "b"
    after = compose(2, live)
    assert after is not None
    assert after["metadata"]["labels"] == {"team": "a"}
    assert after["metadata"]["annotations"]["note"] == "b"


@every_row(
    "content", ["", "{", "[]", '{"kind": "Facts"}', "null", "[" * 100_000, '"\ud800"'], ids=len
)
def test_a_modified_version_is_not_found(content: str) -> None:
    live = compose_sequence(1)
    digest = live["data"][CURRENT_KEY]
    assert ParsedVersions().find({build_data_key(digest): content}, digest) is None
    assert ParsedVersions().find({}, digest) is None


class Scene:
    """A reconciler over a cluster with one class."""

    def __init__(self) -> None:
        self.slices = MemoryStore(None, decode=slice_reader().read)
        self.classes = MemoryStore(None, decode=class_reader().read)
        self.nodes = MemoryStore(PartialObject)
        self.maps, self.reporter = MemoryStore(PartialObject), FakeReporter()
        self.configuration = Configuration()
        self.scheduler_missing, self.was_missing = False, list[bool]()
        self.notifications, self.left_out, self.time = 0, 0, 0.0
        self.start()
        self.put_class("gpu.example.com")

    def start(self) -> None:
        """Begin a term."""
        self.reconciler = FactsReconciler(
            FactsSources(self.slices, self.classes, self.nodes, lambda: self.left_out),
            self.maps,
            OWN,
            configuration=lambda: self.configuration,
            server_support=self._read_support,
            reporter=self.reporter,
            scheduler_missing=self._is_scheduler_missing,
            now=lambda: self.time,
        )
        self.reconciler.listeners.append(self._notify)

    async def _is_scheduler_missing(self, *, was_missing: bool) -> bool:
        self.was_missing.append(was_missing)
        return self.scheduler_missing

    async def _read_support(self) -> ServerSupport:
        return SUPPORT

    def _notify(self) -> None:
        self.notifications += 1

    def put_class(self, name: str, **more: Any) -> None:  # noqa: ANN401  # plain JSON
        """Store a class."""
        self.classes.put(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [], **more},
            }
        )

    def reconcile(self) -> None:
        """Run the reconciler once."""
        asyncio.run(self.reconciler.reconcile())

    @property
    def writes(self) -> list[str]:
        """The verbs of all writes, in order."""
        return [verb for verb, _ in self.maps.requests if verb != "read"]


def test_no_class_is_closed_while_there_is_no_memory_for_a_slice() -> None:
    scene = Scene()
    scene.slices.put(SLICE)
    for left_out, closed in ((0, True), (1, False)):
        scene.left_out = left_out
        scene.reconcile()
        (published,) = scene.maps.all()
        data = json.loads(published.raw)["data"]
        (row,) = json.loads(data[build_data_key(data[CURRENT_KEY])])["classes"]
        assert row.get("closed", False) is closed


def test_facts_are_published_once_and_again_when_they_change() -> None:
    scene = Scene()
    scene.reconcile()
    assert (scene.writes, scene.notifications) == (["create"], 1)
    scene.reconcile()
    assert (scene.writes, scene.notifications) == (["create"], 1)
    scene.put_class("nic.example.com")
    scene.reconcile()
    assert (scene.writes, scene.notifications) == (["create", "replace"], 2)
    assert scene.reconciler.context is not None
    assert (
        scene.reconciler.context.facts_digest
        == scene.maps.objects[OWN, FACTS_CONFIG_MAP]["data"][CURRENT_KEY]
    )
    assert scene.reconciler.context.facts is not None
    assert scene.reconciler.context.facts.cluster.keeps == ("exactly.capacity",)


def test_facts_stay_while_a_driver_restarts() -> None:
    scene = Scene()
    scene.nodes.put({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}})
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.io", "nodeName": "a", "pool": pool, "devices": [{"name": "gpu-0"}]}
    published = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec}
    scene.slices.put({**published, "metadata": {"name": "s"}})
    scene.reconcile()
    scene.slices.remove("s")
    # What the node offers changes before what the devices are.
    for absence, writes in ((RESTART_SECONDS, 1), (MAX_ABSENCE_SECONDS, 2)):
        for scene.time, more in ((absence - 1, 0), (absence, 1)):
            scene.reconcile()
            assert len(scene.writes) == writes + more


# What a plugin advertises when the driver has withdrawn its pool, after how many seconds, and
# whether the node offers the devices of the driver.
WITHDRAWN = {
    "a restart": ({}, RESTART_SECONDS - 1, True),
    "a driver is gone": ({}, RESTART_SECONDS, False),
    "a plugin replaces the driver": ({"nvidia.com/gpu": "8"}, 0.0, False),
    "a plugin of a class replaces the driver": ({"example.com/gpu": "8"}, 0.0, False),
    "a plugin of other devices": ({"rdma/hca": "8"}, RESTART_SECONDS - 1, True),
}


@every_row("case", WITHDRAWN)
def test_a_node_offers_no_devices_of_a_driver_that_is_gone(case: str) -> None:
    names, seconds, offers = WITHDRAWN[case]
    scene = Scene()
    scene.put_class("gpu.example.com", extendedResourceName="example.com/gpu")
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    scene.nodes.put(node)
    scene.slices.put(SLICE)
    scene.reconcile()
    scene.slices.remove("a-gpus")
    scene.nodes.put({**node, "status": {"allocatable": names, "capacity": names}})
    scene.time = seconds
    scene.reconcile()
    assert scene.reconciler.context is not None
    facts = scene.reconciler.context.facts
    assert facts is not None
    assert any(each.classes for each in facts.offers) == offers
    assert scene.reconciler.publishing == ({"a": frozenset({"gpu.nvidia.com"})} if offers else {})
    assert not scene.reconciler.dual_nodes
    assert [each.driver for each in facts.products] == ["gpu.nvidia.com"]


def test_deleted_facts_are_published_again() -> None:
    scene = Scene()
    scene.reconcile()
    scene.maps.remove(FACTS_CONFIG_MAP, OWN)
    scene.reconcile()
    assert scene.writes == ["create", "create"]


def test_a_new_configuration_with_equal_facts_notifies_without_a_write() -> None:
    scene = Scene()
    scene.reconcile()
    scene.configuration = Configuration()
    scene.reconcile()
    assert (scene.writes, scene.notifications) == (["create"], 2)


def test_a_new_leader_says_what_was_published_of_the_scheduler() -> None:
    scene = Scene()
    scene.scheduler_missing = True
    scene.reconcile()
    leader = Scene()
    leader.maps = scene.maps
    leader.reconciler._store = scene.maps  # noqa: SLF001  # another process over the same objects
    leader.reconcile()
    leader.reconcile()
    assert (scene.was_missing, leader.was_missing) == ([False], [True, False])


def test_what_was_published_of_the_api_server_can_be_read_before_the_first_run() -> None:
    scene = Scene()
    assert asyncio.run(scene.reconciler.read_cluster()) is None
    scene.reconcile()
    scene.start()
    cluster = asyncio.run(scene.reconciler.read_cluster())
    assert cluster is not None
    assert (cluster.version, cluster.keeps) == (SUPPORT.version, SUPPORT.stored_fields)


def test_earlier_facts_are_found_by_their_hash() -> None:
    scene = Scene()
    scene.reconcile()
    assert scene.reconciler.context is not None
    before = scene.reconciler.context
    scene.put_class("nic.example.com")
    scene.reconcile()
    assert scene.reconciler.find_version(before.facts_digest) == before.facts
    assert scene.reconciler.find_version("sha256:0") is None


def test_an_object_that_cannot_be_decoded_is_reported_once_and_left_out() -> None:
    scene = Scene()
    scene.put_class("broken", selectors="none")
    scene.reconcile()
    scene.reconcile()
    assert len(scene.reporter.codes) == 1
    assert scene.reconciler.context is not None
    assert scene.reconciler.context.facts is not None
    assert [each.name for each in scene.reconciler.context.facts.classes] == ["gpu.example.com"]


def test_a_node_with_too_many_slices_of_an_owned_driver_is_reported_once() -> None:
    scene = Scene()
    scene.configuration = configured({"driver": "gpu.nvidia.com", "nodeSelector": {}})
    spec, metadata = SLICE["spec"], SLICE["metadata"]
    for number in range(65):
        pool = {**spec["pool"], "name": f"p{number}"}
        named = {**metadata, "name": f"s{number}"}
        scene.slices.put({**SLICE, "metadata": named, "spec": {**spec, "pool": pool}})
    scene.reconcile()
    scene.reconcile()
    assert scene.reporter.codes.count("TooManySlices") == 1


def test_the_next_run_resolves_a_conflict() -> None:
    scene = Scene()
    scene.reconcile()
    scene.put_class("nic.example.com")

    def conflict(_verb: str, _value: Unstructured) -> None:
        scene.maps.before_write = lambda _verb, _value: None
        raise ApiError(409, "Conflict")

    scene.maps.before_write = conflict
    with pytest.raises(ApiError):
        scene.reconcile()
    scene.reconcile()
    assert scene.notifications == 2


def refuse(_verb: str, _value: Unstructured) -> None:
    raise ApiError(422, "Invalid", "data: Forbidden: field is immutable")


@pytest.mark.parametrize("is_new_leader", [False, True])
def test_facts_that_cannot_be_written_leave_the_published_ones_and_tell_of_dual_nodes(
    is_new_leader: bool,  # noqa: FBT001  # a row
) -> None:
    scene = Scene()
    scene.reconcile()
    digest = scene.maps.objects[OWN, FACTS_CONFIG_MAP]["data"][CURRENT_KEY]
    if is_new_leader:
        scene.start()
    scene.maps.before_write = refuse
    scene.configuration = Configuration()
    scene.slices.put(SLICE)
    scene.nodes.put(NODE)
    for _ in range(2):
        with pytest.raises(ApiError):
            scene.reconcile()
    context = scene.reconciler.context
    assert context is not None
    assert (context.facts_digest, context.configuration) == (digest, scene.configuration)
    assert [each.node for each in scene.reconciler.dual_nodes or ()] == ["a"]
    assert scene.reporter.codes == ["ConfigMapRefused"]
    assert scene.notifications == 2


def test_a_version_is_parsed_once_and_forgotten_when_it_is_no_longer_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed, original = 0, serialized.read_facts

    def count(plain: object) -> object:
        nonlocal parsed
        parsed += 1
        return original(plain)

    monkeypatch.setattr(serialized, "read_facts", count)
    versions = ParsedVersions()
    live: Unstructured = {}
    for i in range(50):
        facts = Facts(cluster=Cluster(version=f"1.{i}"))
        digest = serialized.facts_hash(facts)
        live = compose_config_map(serialized.encode_facts(facts), digest, live) or live
        for _ in range(3):
            assert versions.find(live["data"], digest) == facts
        # A tenant can write any hash, also one that starts like a known one.
        assert versions.find(live["data"], f"{digest}0") is None
        assert versions.find(live["data"], f"sha256:{i:064}") is None
    assert parsed == 50
    assert len(vars(versions)["_parsed"]) <= VERSIONS


def test_facts_are_gathered_while_garbage_collection_is_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    paused: list[bool] = []

    def record(*inputs: Any) -> Any:  # noqa: ANN401
        paused.append(not gc.isenabled())
        return gather_facts(*inputs)

    monkeypatch.setattr(facts_reconciler, "gather_facts", record)
    vars(scene.reconciler)["_pause_collection"] = pause_garbage_collection
    scene.reconcile()
    assert paused == [True]
