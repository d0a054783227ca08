"""The plans of mirrored quotas, which are kept until something changes that decides them."""

from itertools import permutations

import pytest

from controller.mirrored_quota import MirrorPlan
from controller.quota_charges import NameCharge
from controller.quota_mirror import NameLimit, QuotaMirrorReconciler, plan_mirror
from controller.watched_objects import WatchedQuota
from drawbridge.dra.quota import DEVICES
from tests.controller.test_quota_mirror import (
    CASES,
    GPUS,
    LIMIT,
    TEAM,
    Scene,
    make_scene_context,
)
from tests.tables import YamlValue, every_row

CASE = {"quotas": {"gpus": LIMIT}}
SPACES = [f"team-{number}" for number in range(100)]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the namespaces of the plans that are made."""
    made: list[str] = []
    make_plan = QuotaMirrorReconciler._make_plan  # noqa: SLF001  # how often it runs

    def count(reconciler: QuotaMirrorReconciler, quotas: list[WatchedQuota]) -> MirrorPlan:
        made.append(quotas[0].metadata.namespace)
        return make_plan(reconciler, quotas)

    monkeypatch.setattr(QuotaMirrorReconciler, "_make_plan", count)
    return made


def settled(planned: list[str]) -> Scene:
    """A scene in which all quotas are written and were counted again."""
    scene = Scene(CASE)
    for name in SPACES:
        scene.add_namespace(name)
    for _ in range(4):
        scene.seconds += 3
        scene.reconcile()
    planned.clear()
    return scene


def test_a_change_of_a_quota_makes_only_the_plan_of_its_namespace(planned: list[str]) -> None:
    scene = settled(planned)
    written = len(scene.writes)
    changed = scene.quotas.objects["team-7", "gpus"]
    hard = dict.fromkeys(changed["spec"]["hard"], "12")
    scene.quotas.put({**changed, "spec": {"hard": hard}})
    scene.reconcile()
    assert planned == ["team-7"]
    assert len(scene.writes) == written + 1
    ours = [value for (at, name), value in scene.quotas.objects.items() if at == "team-7"]
    assert {each["spec"]["hard"].get(GPUS) for each in ours} == {None, "12"}


def test_a_change_of_the_configuration_or_facts_makes_all_plans(planned: list[str]) -> None:
    scene = settled(planned)
    scene.context = make_scene_context(CASE)
    scene.reconcile()
    assert len(planned) == 1 + len(SPACES)


def test_the_plan_of_a_namespace_that_is_gone_is_not_kept(planned: list[str]) -> None:
    scene = settled(planned)
    for namespace, name in [key for key in scene.quotas.objects if key[0] in SPACES]:
        scene.quotas.remove(name, namespace)
    scene.reconcile()
    assert scene.reconciler._plans.keys() == {TEAM}  # noqa: SLF001  # what it keeps


@every_row("order", permutations(["a", "b", "c"]))
def test_names_that_share_classes_with_a_third_one_share_one_limit(order: tuple[str, ...]) -> None:
    of_name = dict(zip(order, ({"x", "y"}, {"x"}, {"y"}), strict=True))
    limits = {name: NameLimit(4, 0, "gpus") for name in of_name}
    former = {name: frozenset(classes) for name, classes in of_name.items()}
    plan = plan_mirror(limits, lambda _: NameCharge(), {"x": 3}, former)
    assert (plan.hard[f"x{DEVICES}"], plan.hard[f"y{DEVICES}"]) == (12, 12 - 3)


UNBOUND = [each for each in CASES if "QuotaDoesNotBind" in each.get("findings", [])]


@every_row("case", UNBOUND, ids=lambda case: case["name"])
def test_an_entry_that_does_not_bind_is_told_with_the_one_that_does(case: YamlValue) -> None:
    scene = Scene(case)
    scene.reconcile()
    (remedy,) = (e.remedy for e in scene.reporter.findings if e.code == "QuotaDoesNotBind")
    assert remedy == f"Add {GPUS} to a ResourceQuota of the namespace."
