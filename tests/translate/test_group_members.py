"""Bridge placement: members of groups get one scheduler, and nobody else gets another one."""

import copy
from pathlib import Path

from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.documents.patch import apply_edits
from drawbridge.facts.model import ClassFacts, Driver, Facts, ResourceFacts
from drawbridge.pod_groups import Member, find_group
from drawbridge.translate.changes.group_members import report_split_gangs
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases

TABLE = load_cases(Path(__file__).parent / "cases" / "group_members.yaml")
OWNED = (OwnedPool(DriverName("gpu.nvidia.com"), LabelSelector()),)  # type: ignore[arg-type]  # as it is loaded
BRIDGE = Configuration(placement=Placement.BRIDGE, owned_pools=OWNED)


def pod_of(case: YamlValue) -> YamlValue:
    """Build the pod of a case."""
    container: YamlValue = {"name": "main"}
    spec: YamlValue = {"containers": [container]}
    if "limits" in case:
        container["resources"] = {"limits": case["limits"]}
    if "claims" in case:
        container["resources"] = {"claims": [{"name": "own"}]}
        spec["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "gpu"}]
    metadata = {"name": "a", "labels": case.get("labels", {})}
    return {"metadata": metadata, "spec": {**spec, **copy.deepcopy(case.get("spec", {}))}}


def done(case: YamlValue, pod: YamlValue, configuration: Configuration = BRIDGE) -> Translation:
    facts = Facts(
        drivers=tuple(Driver(name, devices=8) for name in case.get("drivers", ["gpu.nvidia.com"])),
        classes=(ClassFacts("gpu.nvidia.com", devices=8, drivers=("gpu.nvidia.com",)),),
        names=tuple(ResourceFacts(name, nodes=2) for name in case.get("plugins", ())),
        scheduler=True,
    )
    return translate(pod, make_context(configuration, facts))


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_table(case: YamlValue) -> None:
    before = pod_of(case)
    made = done(case, before)
    after: YamlValue = apply_edits(before, made.edits)
    named = ("schedulerName", "tolerations")
    changed = {k: after["spec"][k] for k in named if after["spec"].get(k) != before["spec"].get(k)}
    expected = {k: v for k, v in case["after"].items() if v != before["spec"].get(k)}
    assert changed == expected
    assert bool(made.edits) == bool(case["after"])
    if "codes" in case:
        codes = {each.code for each in made.findings}
        assert codes.issuperset(case["codes"])
    else:
        assert [f"{each.code}: {each.message}" for each in made.findings] == case["findings"]


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_undo_restores_the_pod_and_a_second_translation_changes_nothing(case: YamlValue) -> None:
    before = pod_of(case)
    made = done(case, before)
    after: YamlValue = apply_edits(before, made.edits)
    if made.edits:
        restored: YamlValue = restore_original(after)
        assert restored["spec"] == before["spec"]
    again = done(case, copy.deepcopy(after))
    assert apply_edits(copy.deepcopy(after), again.edits) == after


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_native_placement_moves_nobody(case: YamlValue) -> None:
    before = pod_of(case)
    after: YamlValue = apply_edits(before, done(case, before, Configuration()).edits)
    assert after["spec"].get("schedulerName") == before["spec"].get("schedulerName")


def test_members_of_different_groups_share_one_translation() -> None:
    context = make_context(BRIDGE, Facts(scheduler=True))
    first, second = (
        {"spec": {"containers": [{"name": "a"}], "schedulingGroup": {"podGroupName": name}}}
        for name in ("one", "two")
    )
    assert translate(first, context) is translate(second, context)


def test_a_pod_of_a_group_and_one_without_do_not_share_a_translation() -> None:
    context = make_context(BRIDGE, Facts(scheduler=True))
    member: YamlValue = {
        "metadata": {"labels": {"ray.io/cluster": "c"}},
        "spec": {"containers": [{"name": "a"}]},
    }
    other = {**member, "metadata": {"labels": {"ray.io/cluster": ""}}}
    assert translate(member, context).edits
    assert not translate(other, context).edits


def test_a_gang_without_our_scheduler_is_not_reported() -> None:
    group = find_group({"spec": {"schedulingGroup": {"podGroupName": "train"}}})
    assert group is not None
    others = [Member(group, "a", "volcano"), Member(group, "b", "default-scheduler")]
    assert not list(report_split_gangs(others))
    ((_, finding),) = report_split_gangs([*others, Member(group, "c", "drawbridge")])
    assert finding.code == "GangSplit"
    assert finding.message == (
        "PodGroup default/train has several schedulers: default-scheduler has 1 member (b), "
        "drawbridge has 1 member (c), volcano has 1 member (a)"
    )
