"""Quotas on legacy names and the one of ours beside them: the table, and how it is kept."""

import asyncio
from pathlib import Path

import pytest

from config.load import load
from config.model import Configuration
from controller.protocols import Object
from controller.quota_mirror import OURS, RECOUNT, QuotaDuty
from controller.watched_objects import Named, Quota
from dra.names import MIRRORED_QUOTA
from dra.quota import DEVICES
from facts.model import Class, Cluster, Facts
from tests.controller.harness import Ears, Kind, WorldError
from tests.tables import Plain, cases
from translate.legacy.codes import CODES
from translate.pods import Given, given

CASES = cases(Path(__file__).parent / "cases" / "quota.yaml")
TEAM = "team"
GPUS = f"gpu.nvidia.com{DEVICES}"
LIMIT = {"requests.nvidia.com/gpu": [10, 0]}


def world(case: Plain) -> Given:
    said = {
        "apiVersion": "drawbridge.dev/v1alpha1",
        "kind": "Configuration",
        "targets": case.get("targets", []),
        "legacy": {"renames": case.get("renames", {})},
    }
    configuration = load(said, CODES)
    assert isinstance(configuration, Configuration), configuration
    keeps = ("exactly.capacity", "constraints.distinctAttribute", "firstAvailable")
    gates = tuple(case.get("gates", ["extended_resource"]))
    facts = Facts(
        cluster=Cluster(gates=gates, keeps=keeps),
        classes=(Class("gpu.nvidia.com", extended=case.get("mapped", "")),),
    )
    return given(configuration, facts)


class Scene:
    """A namespace with quotas, and who mirrors them."""

    def __init__(self, case: Plain) -> None:
        self.quotas, self.namespaces, self.ears = Kind(Quota), Kind(Named), Ears()
        label = case.get("label", "enforce")
        self.namespaces.put(
            {"metadata": {"name": TEAM, "labels": {"drawbridge.dev/translate": label}}}
        )
        for name, entries in case["quotas"].items():
            self.limit(name, entries, **{k: case[k] for k in ("scopes",) if k in case})
        self.given: Given | None = world(case)
        self.seconds = 0.0
        self.duty = QuotaDuty(
            self.quotas,
            self.namespaces,
            self.quotas,
            lambda: self.given,
            self.ears,
            now=lambda: self.seconds,
        )
        if "held" in case:
            self.hold(case["held"])

    def limit(self, name: str, entries: Plain, **spec: Plain) -> None:
        """Put a quota of the administrator's there."""
        self.quotas.put(
            {
                "metadata": {"name": name, "namespace": TEAM},
                "spec": {"hard": {key: each[0] for key, each in entries.items()}, **spec},
                "status": {"used": {key: each[1] for key, each in entries.items()}},
            }
        )

    def beside(self, name: str, **metadata: Plain) -> None:
        """Put another namespace there, with the same quotas."""
        labels = {"drawbridge.dev/translate": "enforce"}
        self.namespaces.put({"metadata": {"name": name, "labels": labels, **metadata}})
        for each in [*self.quotas.objects.values()]:
            at = {"name": each["metadata"]["name"], "namespace": name}
            self.quotas.put({**each, "metadata": at})

    def hold(self, held: dict[str, int]) -> None:
        """Let the API server count what claims hold."""
        ours = self.quotas.objects.get((TEAM, MIRRORED_QUOTA)) or {
            "metadata": {"name": MIRRORED_QUOTA, "namespace": TEAM, "labels": dict(OURS)},
            "spec": {"hard": {GPUS: "1"}},
        }
        used = {f"{name}{DEVICES}": f"{count}" for name, count in held.items()}
        self.quotas.put({**ours, "status": {"used": used}})

    def step(self) -> dict[str, str] | None:
        """Step, and give the entries of our quota."""
        asyncio.run(self.duty.step())
        ours = self.quotas.objects.get((TEAM, MIRRORED_QUOTA))
        return ours["spec"]["hard"] if ours else None

    @property
    def writes(self) -> list[str]:
        """The verbs of all writes."""
        return [verb for verb, _ in self.quotas.asked]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_quotas(case: Plain) -> None:
    scene = Scene(case)
    assert scene.step() == case.get("ours")
    assert scene.ears.codes == case.get("findings", [])
    for finding, (_, about) in zip(scene.ears.findings, scene.ears.said, strict=True):
        assert finding.object == f"ResourceQuota/{about.name}"


MIRRORED = [each for each in CASES if "ours" in each and len(each["quotas"]) == 1]


@pytest.mark.parametrize("case", MIRRORED, ids=lambda case: case["name"])
def test_nobody_can_take_more_than_is_left(case: Plain) -> None:
    """Whatever one side takes up to its entry, together they stay within the limit."""
    ours = Scene(case).step() or {}
    (limits,) = case["quotas"].values()
    used, held = sum(each[1] for each in limits.values()), sum(case.get("held", {}).values())
    total = max(sum(int(each[0]) for each in limits.values()), used + held)
    for key, (_, taken) in limits.items():
        assert used - taken + max(int(ours[key]), taken) + held <= total
    assert used + max(int(ours[GPUS]), held) <= total


def test_it_follows_what_either_side_takes() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.step()
    scene.hold({"gpu.nvidia.com": 4})
    assert scene.step() == {"requests.nvidia.com/gpu": "6", GPUS: "10"}
    scene.limit("team", {"requests.nvidia.com/gpu": [10, 6]})
    assert scene.step() == {"requests.nvidia.com/gpu": "6", GPUS: "4"}


def test_of_two_counts_of_the_same_pods_the_higher_is_believed() -> None:
    scene = Scene({"quotas": {"team": {"requests.nvidia.com/gpu": [10, 1]}}})
    scene.step()
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    scene.quotas.put({**ours, "status": {"used": {"requests.nvidia.com/gpu": "6"}}})
    assert scene.step() == {"requests.nvidia.com/gpu": "10", GPUS: "4"}


def test_what_is_right_is_not_written_again_nor_told_again() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.step()
    scene.step()
    assert scene.writes == ["apply"]
    assert scene.ears.codes == ["QuotaMirrored"]


def test_ours_goes_with_the_quota_it_stands_beside() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.step()
    scene.quotas.remove("team", TEAM)
    assert scene.step() is None
    assert scene.writes == ["apply", "delete"]


def test_a_quota_of_our_name_that_is_somebody_else_s_is_never_deleted() -> None:
    scene = Scene({"quotas": {MIRRORED_QUOTA: {"requests.cpu": [4, 0]}}})
    scene.step()
    assert scene.writes == []


def test_a_class_that_begins_to_map_the_name_ends_the_mirror() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.step()
    scene.given = world({"mapped": "nvidia.com/gpu"})
    assert scene.step() is None


def test_before_any_facts_nothing_is_touched() -> None:
    scene = Scene({"quotas": {"team": LIMIT}, "held": {"gpu.nvidia.com": 1}})
    scene.given = None
    scene.step()
    assert scene.writes == []


def test_ours_that_changed_a_moment_ago_is_deleted_the_next_time() -> None:
    scene = Scene({"quotas": {"team": LIMIT}})
    scene.step()
    scene.quotas.remove("team", TEAM)

    def changed(_verb: str, _value: Object) -> None:
        raise WorldError(409, "Conflict")

    scene.quotas.trouble = changed
    assert scene.step() is not None
    scene.quotas.trouble = lambda _verb, _value: None
    assert scene.step() is None


def test_some_time_after_a_change_the_api_server_counts_once_more() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    hard = {GPUS: "10", "requests.nvidia.com/gpu": "10"}
    assert scene.step() == hard
    for seconds, expected in ((1, hard), (3, {**hard, RECOUNT: "0"}), (9, {**hard, RECOUNT: "0"})):
        scene.seconds = seconds
        assert scene.step() == expected
    assert scene.quotas.asked == [("apply", MIRRORED_QUOTA)] * 2
    scene.limit("gpus", {"requests.nvidia.com/gpu": [10, 2]})
    assert scene.step() == {GPUS: "8", "requests.nvidia.com/gpu": "10"}
    scene.seconds = 12
    assert RECOUNT in (scene.step() or {})


def test_a_new_leader_lets_all_be_counted_once() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    hard = {GPUS: "10", "requests.nvidia.com/gpu": "10", RECOUNT: "0"}
    metadata = {"name": MIRRORED_QUOTA, "namespace": TEAM, "labels": dict(OURS)}
    scene.quotas.put({"metadata": metadata, "spec": {"hard": hard}, "status": {"used": {}}})
    assert scene.step() == hard
    scene.seconds = 3
    assert scene.step() == {key: value for key, value in hard.items() if key != RECOUNT}


def test_a_namespace_that_refuses_keeps_no_other_from_its_quota() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.beside("strict")

    def refuses(_verb: str, value: Object) -> None:
        if value["metadata"]["namespace"] == "strict":
            raise WorldError(403, "a policy")

    scene.quotas.trouble = refuses
    with pytest.raises(WorldError):
        scene.step()
    assert (TEAM, MIRRORED_QUOTA) in scene.quotas.objects
    assert ("strict", MIRRORED_QUOTA) not in scene.quotas.objects


def test_in_a_namespace_that_is_being_deleted_nothing_is_tried() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.beside("going", deletionTimestamp="2026-03-01T12:00:00Z")
    scene.step()
    assert (TEAM, MIRRORED_QUOTA) in scene.quotas.objects
    assert ("going", MIRRORED_QUOTA) not in scene.quotas.objects


def test_a_namespace_that_is_gone_is_forgotten_and_told_again_when_it_comes_back() -> None:
    scene = Scene({"quotas": {"gpus": LIMIT}})
    scene.step()
    told, held = scene.ears.codes, dict(scene.quotas.objects)
    for _, name in held:
        scene.quotas.remove(name, TEAM)
    scene.step()
    for each in held.values():
        scene.quotas.put(each)
    scene.step()
    assert scene.ears.codes == [*told, *told]
