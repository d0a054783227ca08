"""Quotas on legacy names and the quota that mirrors them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.admission_scope import AdmissionScope
from controller.caches import ControllerCaches
from controller.mirrored_quota import RECOUNT, is_ours
from controller.protocols import Unstructured
from controller.quota_mirror import (
    MAX_ENTRIES_OF_REDUCED,
    QuotaMirrorReconciler,
    collect_limits,
    reduce_quota,
)
from controller.watched_objects import (
    PartialObject,
    WatchedQuota,
)
from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.errors import UnreachableError
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.dra.quantity import from_json
from drawbridge.dra.quota import DEVICES
from drawbridge.facts.model import ClassFacts, Cluster, Facts
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION
from drawbridge.translate.context import TranslationContext, make_context
from tests.cluster.cached import fill
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "quota.yaml")
TEAM = "team"
WEBHOOK = {"webhooks": [{"name": "pods.drawbridge.dev"}]}
GPUS = f"gpu.nvidia.com{DEVICES}"
LIMIT = {"requests.nvidia.com/gpu": [10, 0]}


def make_scene_context(case: YamlValue) -> TranslationContext:
    value = {
        "apiVersion": "drawbridge.dev/v1alpha1",
        "kind": "Configuration",
        "targets": case.get("targets", []),
        "legacy": {"renames": case.get("renames", {})},
    }
    configuration = accept_configuration(value, {})
    assert isinstance(configuration, Configuration), configuration
    keeps = ("exactly.capacity", "constraints.distinctAttribute", "firstAvailable")
    gates = tuple(case.get("gates", ["extended_resource"]))
    mapped = case.get("mapped", "")
    mapped = mapped if isinstance(mapped, dict) else {"gpu.nvidia.com": mapped}
    classes = case.get("classes", ["gpu.nvidia.com"])
    facts = Facts(
        cluster=Cluster("1.36", gates=gates, keeps=keeps),
        classes=tuple(ClassFacts(name, extended=mapped.get(name, "")) for name in classes),
    )
    return make_context(configuration, facts)


def test_a_quota_that_is_left_out_limits_devices_as_before() -> None:
    case = {"quotas": {"a": LIMIT}, "held": {"gpu.nvidia.com": 4}}
    whole, reduced = Scene(case), Scene(case)
    reduced.quotas.decode = lambda raw: reduce_quota(msgspec.json.decode(raw, type=WatchedQuota))
    reduced.limit("a", {**{f"count/e{each}": [1, 0] for each in range(1000)}, **LIMIT})
    assert reduced.reconcile() == whole.reconcile()
    assert reduced.quotas.cached((TEAM, "a")).value.spec.hard == {"requests.nvidia.com/gpu": 10}
    assert "removed" not in str(reduced.reporter.counts)


@pytest.mark.parametrize("scope", [{"scopes": ["BestEffort"]}, {"scopeSelector": {"a": ["b"]}}])
def test_a_quota_that_is_left_out_keeps_that_it_has_scopes(scope: YamlValue) -> None:
    read = msgspec.convert({"spec": {"hard": {"requests.x.com/y": 1}, **scope}}, WatchedQuota)
    assert collect_limits([read]) == collect_limits([reduce_quota(read)]) == {}


def test_other_objects_of_a_namespace_do_not_displace_its_quota() -> None:
    no_session: Any = None
    caches = ControllerCaches(no_session, memory_limit=1_000_000)

    def read(cache: Cache[Any], name: str, **spec: YamlValue) -> None:
        metadata = {"namespace": TEAM, "name": name, "uid": "u", "resourceVersion": "1"}
        fill(cache, [{"metadata": metadata, "spec": spec}])

    for number in range(100):
        read(caches.templates, f"t{number}", f="x" * 9_000)
    assert caches.templates.too_large > 0
    hard = {"requests.nvidia.com/gpu": "10", **{f"count/e{each}": "1" for each in range(100)}}
    read(caches.quotas, "q", hard=hard)
    many = {f"requests.example.com/{each}": "1" for each in range(1000)}
    for number in range(20):
        read(caches.quotas, f"q{number}", hard=many)
    kept = {each.name: each.value.spec.hard for each in caches.quotas.all()}
    assert kept["q"] == hard
    assert len(kept["q19"]) == MAX_ENTRIES_OF_REDUCED


def as_stored(quota: YamlValue) -> YamlValue:
    """Return a quota with amounts as the API server writes them."""
    hard = {key: f"{from_json(amount)}" for key, amount in quota["spec"]["hard"].items()}
    return {**quota, "spec": {**quota["spec"], "hard": hard}}


class Scene:
    """A reconciler over the quotas of a namespace."""

    def __init__(self, case: YamlValue) -> None:
        self.quotas, self.namespaces = MemoryStore(WatchedQuota), MemoryStore(PartialObject)
        self.quotas.admit = as_stored
        self.reporter = FakeReporter()
        label = case.get("label", "enforce")
        self.namespaces.put(
            {"metadata": {"name": TEAM, "labels": {"drawbridge.dev/translate": label}}}
        )
        for name, entries in case["quotas"].items():
            self.limit(name, entries, **{k: case[k] for k in ("scopes",) if k in case})
        self.context: TranslationContext | None = make_scene_context(case)
        self.configuration = make_scene_context(case).configuration
        self.seconds = 0.0
        self.start()
        if "held" in case:
            self.set_claim_usage(case["held"])

    def start(self) -> None:
        """Begin a term."""
        self.reconciler = QuotaMirrorReconciler(
            self.quotas,
            self.namespaces,
            self.quotas,
            is_enforced=AdmissionScope(
                self.namespaces, lambda: WEBHOOK, lambda: self.configuration
            ).is_enforced,
            context=lambda: self.context,
            reporter=self.reporter,
            now=lambda: self.seconds,
        )

    def limit(self, name: str, entries: YamlValue, **spec: YamlValue) -> None:
        """Store a quota of the administrator."""
        self.quotas.put(
            {
                "metadata": {"name": name, "namespace": TEAM},
                "spec": {"hard": {key: each[0] for key, each in entries.items()}, **spec},
                "status": {"used": {key: each[1] for key, each in entries.items()}},
            }
        )

    def add_namespace(self, name: str, **metadata: YamlValue) -> None:
        """Add another namespace with the same quotas."""
        labels = {"drawbridge.dev/translate": "enforce"}
        self.namespaces.put({"metadata": {"name": name, "labels": labels, **metadata}})
        for obj in [*self.quotas.objects.values()]:
            at = {"name": obj["metadata"]["name"], "namespace": name}
            self.quotas.put({**obj, "metadata": at})

    def set_claim_usage(self, held: dict[str, int]) -> None:
        """Set the usage of claims in the mirrored quota."""
        ours = self.quotas.objects.get((TEAM, MIRRORED_QUOTA)) or {
            "metadata": {"name": MIRRORED_QUOTA, "namespace": TEAM, "labels": dict(MANAGED_BY)},
            "spec": {"hard": {GPUS: "1"}},
        }
        used = {f"{name}{DEVICES}": f"{count}" for name, count in held.items()}
        self.quotas.put({**ours, "status": {"used": used}})

    def reconcile(self) -> dict[str, str] | None:
        """Run the reconciler once and return the entries of the mirrored quota."""
        asyncio.run(self.reconciler.reconcile())
        ours = self.quotas.objects.get((TEAM, MIRRORED_QUOTA))
        return ours["spec"]["hard"] if ours else None

    @property
    def writes(self) -> list[str]:
        """The verbs of all writes."""
        return [verb for verb, _ in self.quotas.requests if verb != "read"]


@every_row("case", CASES, ids=lambda case: case["name"])
def test_quotas_are_mirrored_as_the_table_says(case: YamlValue) -> None:
    scene = Scene(case)
    assert scene.reconcile() == case.get("ours")
    assert scene.reporter.codes == case.get("findings", [])
    for finding, (_, about) in zip(scene.reporter.findings, scene.reporter.reported, strict=True):
        assert finding.object == f"ResourceQuota/{about.name}"


MIRRORED = [each for each in CASES if "ours" in each and len(each["quotas"]) == 1]


@every_row("case", MIRRORED, ids=lambda case: case["name"])
def test_neither_side_can_use_more_than_the_remainder(case: YamlValue) -> None:
    """If one side uses all of its entry, both sides together stay within the limit."""
    ours = Scene(case).reconcile() or {}
    (limits,) = case["quotas"].values()
    used, held = sum(each[1] for each in limits.values()), sum(case.get("held", {}).values())
    total = max(sum(from_json(each[0]).nanos() / 1e9 for each in limits.values()), used + held)
    for key, (_, taken) in limits.items():
        assert used - taken + max(int(ours[key]), taken) + held <= total
    assert used + max(int(ours[GPUS]), held) <= total


def test_the_mirror_follows_the_usage_of_both_sides() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.set_claim_usage({"gpu.nvidia.com": 4})
    assert scene.reconcile() == {"requests.nvidia.com/gpu": "6", GPUS: "10"}
    scene.limit("team", {"requests.nvidia.com/gpu": [10, 6]})
    assert scene.reconcile() == {"requests.nvidia.com/gpu": "6", GPUS: "4"}


def test_the_higher_of_two_pod_counts_wins() -> None:
    scene = Scene({"quotas": {"team": {"requests.nvidia.com/gpu": [10, 1]}}})
    scene.reconcile()
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    scene.quotas.put({**ours, "status": {"used": {"requests.nvidia.com/gpu": "6"}}})
    assert scene.reconcile() == {"requests.nvidia.com/gpu": "10", GPUS: "4"}


def test_a_second_run_writes_and_reports_nothing() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.reconcile()
    assert scene.writes == ["apply"]
    assert scene.reporter.codes == ["QuotaMirrored"]


def test_the_mirror_is_deleted_with_the_mirrored_quota() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.quotas.remove("team", TEAM)
    assert scene.reconcile() is None
    assert scene.writes == ["apply", "delete"]


def test_a_quota_without_the_managed_label_is_never_deleted() -> None:
    scene = Scene({"quotas": {MIRRORED_QUOTA: {"requests.cpu": [4, 0]}}})
    scene.reconcile()
    assert scene.writes == []


def test_the_mirror_is_deleted_when_a_class_maps_the_name() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.context = make_scene_context({"mapped": "nvidia.com/gpu"})
    assert scene.reconcile() is None


OTHER = f"whole-gpu{DEVICES}"
TO_OTHER = {
    "classes": ["gpu.nvidia.com", "whole-gpu"],
    "targets": [{"kind": "gpu", "driver": "gpu.nvidia.com", "class": "whole-gpu"}],
}
OTHER_MAPS = {**TO_OTHER, "mapped": {"whole-gpu": "nvidia.com/gpu"}}
FORMER_MAPS = {**TO_OTHER, "mapped": {"gpu.nvidia.com": "nvidia.com/gpu"}}
PODS = "requests.nvidia.com/gpu"


@pytest.mark.parametrize("is_new_leader", [False, True])
@pytest.mark.parametrize(
    ("after", "entries", "left"),
    [
        ({}, {PODS: "2", GPUS: "10"}, {PODS: "10", GPUS: "10"}),
        (TO_OTHER, {PODS: "2", GPUS: "10", OTHER: "2"}, {PODS: "10", OTHER: "10"}),
        # No claim can be made any more; the class can be created again.
        ({"classes": []}, {PODS: "2", GPUS: "10"}, None),
        # The API server charges new claims to the name, and the former ones to their class.
        (OTHER_MAPS, {PODS: "2", GPUS: "10"}, None),
        # Only claims of the former class are charged to the name.
        (FORMER_MAPS, {PODS: "10", OTHER: "10"}, {PODS: "10", OTHER: "10"}),
    ],
    ids=["the same", "another", "none", "another that maps the name", "the former maps the name"],
)
def test_claims_of_a_former_class_count_as_long_as_they_exist(
    after: YamlValue,
    entries: dict[str, str],
    left: dict[str, str] | None,
    is_new_leader: bool,  # noqa: FBT001  # a row
) -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.set_claim_usage({"gpu.nvidia.com": 8})
    scene.reconcile()
    scene.context = make_scene_context(after)
    for _ in range(2):  # the quota says itself what the second run has to know
        if is_new_leader:
            scene.start()
        assert scene.reconcile() == entries
    scene.set_claim_usage({"gpu.nvidia.com": 0})
    assert scene.reconcile() == left


def test_claims_of_a_former_class_limit_only_the_name_that_had_it() -> None:
    name = "example.com/fpga"
    fpga = {"driver": "fpga.example.com", "class": "fpga", "resources": [name]}
    case = {"classes": ["gpu.nvidia.com", "whole-gpu", "fpga"], "targets": [fpga]}
    scene = Scene({**case, "quotas": {"team": {**LIMIT, f"requests.{name}": [5, 0]}}})
    scene.reconcile()
    scene.set_claim_usage({"gpu.nvidia.com": 8})
    scene.reconcile()
    scene.context = make_scene_context({**case, "targets": [fpga, *TO_OTHER["targets"]]})
    scene.start()
    ours = scene.reconcile() or {}
    assert (ours[PODS], ours[OTHER], ours[f"requests.{name}"]) == ("2", "2", "5")


@pytest.mark.parametrize("text", ["{", "[]", '{"nvidia.com/gpu": 1}'])
def test_former_classes_that_cannot_be_read_are_none(text: str) -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    annotations = {QUOTA_CLASSES_ANNOTATION: text}
    scene.quotas.put({**ours, "metadata": {**ours["metadata"], "annotations": annotations}})
    assert scene.reconcile() == {PODS: "10", GPUS: "10"}
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    assert ours["metadata"]["annotations"][QUOTA_CLASSES_ANNOTATION] != text


def test_a_quota_that_is_left_out_keeps_the_former_classes() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.quotas.decode = lambda raw: reduce_quota(msgspec.json.decode(raw, type=WatchedQuota))
    scene.reconcile()
    scene.reconcile()
    assert scene.writes == ["apply"]
    own = scene.quotas.cached((TEAM, MIRRORED_QUOTA)).value
    assert reduce_quota(own) == own
    # A policy of others removes the label; the annotation says whose it is.
    unlabelled = msgspec.structs.replace(own.metadata, labels={})
    assert is_ours(reduce_quota(msgspec.structs.replace(own, metadata=unlabelled)))
    long = {QUOTA_CLASSES_ANNOTATION: "x" * 10_000, "other": "x"}
    big = msgspec.structs.replace(own.metadata, annotations=long)
    assert not reduce_quota(msgspec.structs.replace(own, metadata=big)).metadata.annotations


def test_nothing_is_written_before_the_first_facts() -> None:
    scene = Scene({"quotas": {"team": LIMIT}, "held": {"gpu.nvidia.com": 1}})
    scene.context = None
    scene.reconcile()
    assert scene.writes == []


def test_a_mirror_with_a_conflict_is_deleted_in_the_next_run() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.reconcile()
    scene.quotas.remove("team", TEAM)

    def conflict(_verb: str, _value: Unstructured) -> None:
        raise ApiError(409, "Conflict")

    scene.quotas.before_write = conflict
    assert scene.reconcile() is not None
    scene.quotas.before_write = lambda _verb, _value: None
    assert scene.reconcile() is None


def test_one_recount_is_requested_after_a_change() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    hard = {GPUS: "10", "requests.nvidia.com/gpu": "10"}
    assert scene.reconcile() == hard
    for seconds, expected in ((1, hard), (3, {**hard, RECOUNT: "0"}), (9, {**hard, RECOUNT: "0"})):
        scene.seconds = seconds
        assert scene.reconcile() == expected
    assert scene.quotas.requests == [("apply", MIRRORED_QUOTA)] * 2
    scene.limit("gpus", {"requests.nvidia.com/gpu": [10, 2]})
    assert scene.reconcile() == {GPUS: "8", "requests.nvidia.com/gpu": "10"}
    scene.seconds = 12
    assert RECOUNT in (scene.reconcile() or {})


@pytest.mark.parametrize("limit", [999, 1000, 1500, 12000])
def test_a_quota_that_the_api_server_writes_in_another_form_is_written_once(limit: int) -> None:
    scene = Scene({"quotas": {"gpus": {"requests.nvidia.com/gpu": [limit, 0]}}})
    for scene.seconds in range(0, 60, 3):
        scene.reconcile()
    assert scene.quotas.requests == [("apply", MIRRORED_QUOTA)] * 2  # the quota, and the recount


def test_a_new_leader_requests_one_recount() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    hard = {GPUS: "10", "requests.nvidia.com/gpu": "10", RECOUNT: "0"}
    metadata = {
        "name": MIRRORED_QUOTA,
        "namespace": TEAM,
        "labels": dict(MANAGED_BY),
        "annotations": {QUOTA_CLASSES_ANNOTATION: '{"nvidia.com/gpu":["gpu.nvidia.com"]}'},
    }
    scene.quotas.put({"metadata": metadata, "spec": {"hard": hard}, "status": {"used": {}}})
    assert scene.reconcile() == hard
    scene.seconds = 3
    assert scene.reconcile() == {key: value for key, value in hard.items() if key != RECOUNT}


def test_a_recount_is_requested_in_each_term() -> None:
    """Another leader that changed a limit can have ended before its recount."""
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.reconcile()
    scene.seconds = 3
    scene.reconcile()
    scene.start()
    requests = [*scene.quotas.requests]
    scene.reconcile()
    assert scene.quotas.requests == requests
    scene.seconds = 6
    scene.reconcile()
    assert scene.quotas.requests == [*requests, ("apply", MIRRORED_QUOTA)]


def test_a_rejection_in_one_namespace_does_not_stop_the_others() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.add_namespace("strict")

    def reject(_verb: str, value: Unstructured) -> None:
        if value["metadata"]["namespace"] == "strict":
            raise ApiError(403, "Forbidden", "a policy")

    scene.quotas.before_write = reject
    with pytest.raises(ApiError):
        scene.reconcile()
    assert (TEAM, MIRRORED_QUOTA) in scene.quotas.objects
    assert ("strict", MIRRORED_QUOTA) not in scene.quotas.objects


def test_a_terminating_namespace_gets_no_quota() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.add_namespace("going", deletionTimestamp="2026-03-01T12:00:00Z")
    scene.reconcile()
    assert (TEAM, MIRRORED_QUOTA) in scene.quotas.objects
    assert ("going", MIRRORED_QUOTA) not in scene.quotas.objects


def test_a_mirror_stays_while_its_namespace_is_not_known_yet() -> None:
    """A new leader can know the quotas of a namespace before the namespace."""
    scene = Scene({"quotas": {"gpus": LIMIT}})
    hard = scene.reconcile()
    scene.namespaces.remove(TEAM)
    scene.start()
    assert scene.reconcile() == hard
    assert scene.writes == ["apply"]


def test_a_namespace_that_comes_back_is_reported_again() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.reconcile()
    told, held = scene.reporter.codes, dict(scene.quotas.objects)
    for _, name in held:
        scene.quotas.remove(name, TEAM)
    scene.reconcile()
    for quota in held.values():
        scene.quotas.put(quota)
    scene.reconcile()
    assert scene.reporter.codes == [*told, *told]


def test_a_quota_whose_write_got_no_response_is_counted_again() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    for scene.seconds in (0, 3):
        scene.reconcile()
    counted = scene.reporter.counts["quota", "recounted"]

    def store(_: str, value: Unstructured) -> None:
        scene.quotas.before_write = lambda *_: None
        scene.quotas.put({**scene.quotas.objects[TEAM, MIRRORED_QUOTA], "spec": value["spec"]})
        raise ApiError(504, "Timeout")

    scene.set_claim_usage({"gpu.nvidia.com": 4})
    scene.quotas.before_write = store
    with pytest.raises(ApiError):
        scene.reconcile()
    for scene.seconds in (6, 9):
        scene.reconcile()
    assert scene.reporter.counts["quota", "recounted"] == counted + 1


def test_a_namespace_whose_writes_get_no_response_keeps_no_others_from_their_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.add_namespace("first")
    scene.add_namespace("last")
    apply = scene.quotas.apply

    async def hang(value: Unstructured, namespace: str = "") -> None:
        if namespace == "first":
            raise UnreachableError("no response")
        await apply(value, namespace)

    monkeypatch.setattr(scene.quotas, "apply", hang)
    for _ in range(2):
        with pytest.raises(UnreachableError):
            scene.reconcile()
    assert {space for space, name in scene.quotas.objects if name == MIRRORED_QUOTA} == {
        TEAM,
        "last",
    }
