"""Claims of a class that has mapped a name count when it does so no more."""

from typing import Final

from drawbridge.dra.quota import DEVICES
from drawbridge.names import MIRRORED_QUOTA
from tests.controller.test_quota_mirror import GPUS, PODS, TEAM, Scene, make_scene_context
from tests.tables import YamlValue, every_row

NAME: Final = "nvidia.com/gpu"
MAPPED: Final = {"mapped": NAME}
NEW: Final = f"new{DEVICES}"
_TARGETS: Final = [{"kind": "gpu", "driver": "gpu.nvidia.com", "class": "new"}]
RENAMED: Final = {"targets": _TARGETS, "classes": ["new"]}
BOTH: Final = {"targets": _TARGETS, "classes": ["gpu.nvidia.com", "new"], "mapped": NAME}
NEW_MAPS: Final = {**RENAMED, "mapped": {"new": NAME}}

# The changes, and the entries with 8 claims of the former class, without any, and in the end.
CHANGES: Final[dict[str, tuple[list[YamlValue], dict[str, str], dict[str, str] | None]]] = {
    "the class is renamed": ([RENAMED], {PODS: "2", GPUS: "10", NEW: "2"}, {PODS: "10", NEW: "10"}),
    "first the target, then the class": (
        [BOTH, RENAMED], {PODS: "2", GPUS: "10", NEW: "2"}, {PODS: "10", NEW: "10"},
    ),
    "the new class maps the name": ([NEW_MAPS], {PODS: "2", GPUS: "10"}, None),
    "the class maps the name no more": (
        [{}], {PODS: "2", GPUS: "10"}, {PODS: "10", GPUS: "10"},
    ),
    "the class is gone": ([{"classes": []}], {PODS: "2", GPUS: "10"}, None),
    "the class still maps the name": ([MAPPED | {"renames": {"example.com/x": NAME}}], {}, None),
}  # fmt: skip


@every_row(("changes", "entries", "left"), [*CHANGES.values()])
def test_claims_of_a_class_that_has_mapped_the_name_count_until_they_are_gone(
    changes: list[YamlValue], entries: dict[str, str], left: dict[str, str] | None
) -> None:
    scene = Scene({"quotas": {"team": {PODS: [10, 0]}}, **MAPPED})
    assert scene.reconcile() is None
    for change in changes:
        scene.context = make_scene_context(change)
        scene.reconcile()
    ours = scene.quotas.objects.get((TEAM, MIRRORED_QUOTA))
    assert bool(ours) is bool(entries)
    if not ours:
        return
    scene.start()  # the quota says itself what a later leader has to know
    scene.set_claim_usage({"gpu.nvidia.com": 8})
    assert scene.reconcile() == entries
    scene.set_claim_usage({"gpu.nvidia.com": 0})
    assert scene.reconcile() == left


def test_what_was_counted_is_not_remembered() -> None:
    scene = Scene({"quotas": {"team": {PODS: [10, 0]}}, **MAPPED})
    scene.reconcile()
    scene.context = make_scene_context({"classes": []})
    scene.reconcile()
    scene.set_claim_usage({"gpu.nvidia.com": 0})
    assert scene.reconcile() is None
    scene.limit("other", {"pods": [10, 1]})
    assert scene.reconcile() is None
    assert scene.writes == ["apply", "delete"]


def test_a_namespace_that_is_gone_is_not_remembered() -> None:
    scene = Scene({"quotas": {"team": {PODS: [10, 0]}}, **MAPPED})
    scene.reconcile()
    scene.context = make_scene_context({"classes": []})
    (label,) = (each["metadata"] for each in scene.namespaces.objects.values())
    scene.configuration = scene.context.configuration
    scene.namespaces.put({"metadata": {**label, "labels": {}}})
    assert scene.reconcile() is None, "remembered, as long as nothing asks for it"
    (quota,) = scene.quotas.objects.values()
    scene.quotas.objects.clear()
    scene.reconcile()
    scene.namespaces.put({"metadata": label})
    scene.quotas.put(quota)
    assert scene.reconcile() is None
