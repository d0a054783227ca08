"""The role of a pod in its group of Kueue: that of the pod as asked, whatever translates it."""

import copy
from collections.abc import Callable
from pathlib import Path

import msgspec

from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.patch import apply_edits
from drawbridge.facts.model import ClassFacts, Facts, ResourceFacts
from drawbridge.translate.changes.kueue_roles import hash_role
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import test_rows

CASES = load_cases(Path(__file__).parent / "cases" / "kueue_roles.yaml")
ROLE = "kueue.x-k8s.io/role-hash"
GROUP = "kueue.x-k8s.io/pod-group-name"
DRA = Facts(classes=(ClassFacts("gpu.nvidia.com", devices=8, drivers=("gpu.nvidia.com",)),))
DUAL = Facts(classes=DRA.classes, names=(ResourceFacts("nvidia.com/gpu", nodes=1, devices=8),))
PLUGIN = Facts(names=DUAL.names)


def member(**spec: YamlValue) -> YamlValue:
    amounts = {"nvidia.com/gpu": 1}
    gpu = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
    return {"metadata": {"labels": {GROUP: "g"}}, "spec": {"containers": [gpu], **spec}}


def translated(pod: YamlValue, facts: Facts | None = DRA, **configured: YamlValue) -> YamlValue:
    return apply_edits(pod, translate(pod, make_context(Configuration(**configured), facts)).edits)


def role(pod: YamlValue) -> str:
    """Return the role that Kueue reads: of the annotation, else computed."""
    annotated: str | None = pod["metadata"].get("annotations", {}).get(ROLE)
    return annotated or hash_role(pod["spec"])


@every_row("case", CASES, ids=lambda case: str(case["name"]))
def test_the_role_of_a_pod_is_that_of_kueue(case: YamlValue) -> None:
    assert hash_role(case["spec"]) == case["role"]


def test_a_replacement_has_the_role_of_its_group_whatever_was_migrated_meanwhile() -> None:
    asked = member()
    roles = {role(asked)}
    for facts in (DRA, DUAL, PLUGIN, None):
        roles.add(role(translated(copy.deepcopy(asked), facts)))
    assert roles == {hash_role(asked["spec"])}
    assert translated(asked)["spec"] != translated(asked, DUAL)["spec"]


@every_row("case", test_rows.CASES, ids=test_rows.name)
def test_each_kind_of_request_keeps_its_role(case: YamlValue) -> None:
    asked = test_rows.pod(case)
    asked["metadata"].setdefault("labels", {})[GROUP] = "g"
    context = make_context(test_rows.configuration(case), test_rows.facts(case))
    after: YamlValue = apply_edits(asked, translate(asked, context, admin_access=True).edits)
    assert role(after) == hash_role(asked["spec"])


@every_row(
    "change",
    [
        lambda pod, number: pod["spec"].update(priority=number),
        lambda pod, number: pod["spec"].update(overhead={"cpu": number}),
        lambda pod, number: pod["spec"].update(resources={"requests": {"cpu": number}}),
        lambda pod, number: pod["spec"]["containers"][0].update(ports=[{"containerPort": number}]),
    ],
)
def test_members_that_differ_in_what_only_kueue_reads_have_two_roles(
    change: Callable[[YamlValue, int], None],
) -> None:
    context = make_context(Configuration(), DRA)
    roles = set()
    for number in (1, 2):
        pod = member()
        change(pod, number)
        roles.add(role(apply_edits(pod, translate(pod, context).edits)))
    assert len(roles) == 2


def test_a_role_that_the_pod_has_stays() -> None:
    asked = member()
    asked["metadata"]["annotations"] = {ROLE: "leader"}
    assert role(translated(asked)) == "leader"


def test_a_pod_of_no_group_gets_no_role() -> None:
    asked = member()
    asked["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    assert ROLE not in translated(asked)["metadata"]["annotations"]
    left = member()
    assert translated(left, PLUGIN) == left


def test_a_group_by_annotation_counts_as_one_by_label() -> None:
    asked = member()
    asked["metadata"] = {"annotations": {GROUP: "g"}}
    assert role(translated(asked)) == hash_role(asked["spec"])


def test_the_undo_patch_removes_the_role() -> None:
    asked = member()
    assert restore_original(translated(asked)) == asked


def test_a_manifest_whose_requests_are_not_filled_in_gets_no_role() -> None:
    context = make_context(Configuration(), DRA)
    asked = {"apiVersion": "v1", "kind": "Pod", **member()}
    del asked["spec"]["containers"][0]["resources"]["requests"]
    assert ROLE in apply_edits(asked, translate(asked, context).edits)["metadata"]["annotations"]
    after: YamlValue = apply_edits(asked, translate_object(asked, "", context).edits)
    assert after["spec"]["resourceClaims"]
    assert ROLE not in after["metadata"]["annotations"]


def test_a_member_that_only_gets_another_scheduler_keeps_its_role() -> None:
    asked = member()
    asked["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "g"
    del asked["spec"]["containers"][0]["resources"]
    facts = msgspec.structs.replace(DRA, scheduler=True)
    after = translated(asked, facts, placement=Placement.BRIDGE)
    assert after["spec"]["schedulerName"] == "drawbridge"
    assert role(after) == hash_role(asked["spec"])


def test_a_member_that_is_nested_too_deeply_is_translated_without_a_role() -> None:
    nested: YamlValue = []
    for _ in range(5000):
        nested = [nested]
    after = translated(member(priority=nested))
    assert after["spec"]["resourceClaims"]
    assert ROLE not in after["metadata"]["annotations"]
