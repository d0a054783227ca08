"""Entries of others in the quota that mirrors theirs, and a quota of others with its name."""

import pytest

from controller.mirrored_quota import RECOUNT
from controller.protocols import Unstructured
from drawbridge.names import MIRRORED_QUOTA
from tests.cluster.fake.fields import Owned, applied, fields
from tests.cluster.fake.kinds import copied
from tests.controller.test_quota_mirror import GPUS, LIMIT, PODS, TEAM, Scene
from tests.tables import YamlValue

OTHERS = ["pods", "requests.example.com/fpga", f"other-{GPUS}"]


class SharedScene(Scene):
    """A mirrored quota to which somebody adds an entry; applied fields are merged."""

    def __init__(self, entry: str) -> None:
        super().__init__({"quotas": {"team": LIMIT}})
        self.owners: Owned = {}
        store = self.quotas.apply

        async def apply(value: Unstructured, namespace: str = "") -> Unstructured:
            live = self.quotas.objects.get((namespace, MIRRORED_QUOTA), {})
            made = applied(live, copied(value), "ours", self.owners)
            self.owners["ours"] = fields(value)
            return await store(made, namespace)

        self.quotas.apply = apply  # type: ignore[method-assign]
        self.later(3)
        ours = self.quotas.objects[TEAM, MIRRORED_QUOTA]
        self.owners["theirs"] = frozenset({("spec", "hard", entry)})
        self.quotas.put({**ours, "spec": {"hard": {**ours["spec"]["hard"], entry: "5"}}})
        self.later(2)

    def later(self, runs: int) -> dict[str, str] | None:
        """Run the reconciler several times."""
        hard: dict[str, str] | None = None
        for _ in range(runs):
            self.seconds += 3
            hard = self.reconcile()
        return hard


@pytest.mark.parametrize("entry", OTHERS)
def test_an_entry_of_somebody_else_stays_and_keeps_no_limit_from_its_recount(entry: str) -> None:
    scene = SharedScene(entry)
    assert scene.writes == ["apply"] * 2  # the quota, and the recount
    scene.limit("team", {PODS: [12, 2]})
    assert scene.later(5) == {PODS: "12", GPUS: "10", entry: "5", RECOUNT: "0"}
    assert scene.writes == ["apply"] * 4


@pytest.mark.parametrize("entry", OTHERS)
def test_a_mirror_that_is_not_needed_leaves_the_entries_of_others(entry: str) -> None:
    scene = SharedScene(entry)
    scene.quotas.remove("team", TEAM)
    assert scene.later(5) == {entry: "5"}
    assert scene.writes == ["apply"] * 3
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    scene.quotas.put({**ours, "spec": {"hard": {}}})
    assert scene.later(1) is None


@pytest.mark.parametrize(
    ("entries", "codes"),
    [
        ({"requests.nvidia.com/gpu": [2, 0]}, ["QuotaNotOwned"]),
        ({"limits.nvidia.com/gpu": [2, 0], **LIMIT}, ["QuotaDoesNotBind", "QuotaNotOwned"]),
        ({"pods": [5, 0]}, []),
    ],
)
def test_a_quota_of_another_client_with_the_name_is_reported_and_not_written(
    entries: YamlValue, codes: list[str]
) -> None:
    scene = Scene({"quotas": {MIRRORED_QUOTA: entries}})
    for _ in range(3):
        scene.seconds += 3
        scene.reconcile()
    assert (scene.writes, sorted(scene.reporter.codes)) == ([], codes)
    scene.limit("team", LIMIT)
    scene.reconcile()
    assert scene.writes == []
    assert scene.reporter.codes.count("QuotaNotOwned") == 1
    scene.quotas.remove(MIRRORED_QUOTA, TEAM)
    assert scene.reconcile() == {PODS: "10", GPUS: "10"}
    assert scene.reporter.codes[-1] == "QuotaMirrored"
