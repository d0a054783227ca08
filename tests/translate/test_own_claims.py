"""Bridge placement: the scheduler and the toleration of pods with claims."""

import copy
from pathlib import Path

from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.documents.patch import apply_edits
from drawbridge.facts.model import ClassFacts, Cluster, Driver, Facts, ResourceFacts
from drawbridge.finding import Severity
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases

TABLE = load_cases(Path(__file__).parent / "cases" / "own_claims.yaml")
OWNED = tuple(
    OwnedPool(DriverName(name), LabelSelector())  # type: ignore[arg-type]  # as it is loaded
    for name in ("gpu.nvidia.com", "dra.net")
)
BRIDGE = Configuration(placement=Placement.BRIDGE, owned_pools=OWNED)
TOLERATION = {"key": "drawbridge.dev/owned", "operator": "Exists", "effect": "NoSchedule"}


def pod(case: YamlValue) -> YamlValue:
    """Build the pod of a case."""
    claims = [{"name": "own", "resourceClaimTemplateName": "gpu"}]
    container = {"name": "main", "resources": {"claims": [{"name": "own"}]}}
    return {"spec": {"containers": [container], "resourceClaims": claims, **case["spec"]}}


def done(case: YamlValue, configuration: Configuration = BRIDGE) -> Translation:
    names = case.get("drivers")
    drivers = tuple(Driver(each, devices=8) for each in names or ())
    classes = tuple(ClassFacts(each) for each in case.get("classes", ()))
    facts = None if names is None else Facts(drivers=drivers, classes=classes)
    return translate(pod(case), make_context(configuration, facts))


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_table(case: YamlValue) -> None:
    before, made = pod(case), done(case)
    after: YamlValue = apply_edits(before, made.edits)
    assert after["spec"] == {**before["spec"], **case["after"]}
    assert bool(made.edits) == bool(case["after"])
    assert [f"{each.code}: {each.message}" for each in made.findings] == case["findings"]
    assert made.templates == ()


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_undo_restores_the_pod_and_a_second_translation_changes_nothing(case: YamlValue) -> None:
    made = done(case)
    after: YamlValue = apply_edits(pod(case), made.edits)
    if made.edits:
        restored: YamlValue = restore_original(after)
        assert restored["spec"] == pod(case)["spec"]
    again = done({**case, "spec": after["spec"]})
    assert apply_edits(copy.deepcopy(after), again.edits) == after


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_native_placement_changes_nothing(case: YamlValue) -> None:
    made = done(case, Configuration())
    assert made.edits == ()
    pending = [each for each in case["findings"] if each.endswith("stays pending")]
    assert [f"{each.code}: {each.message}" for each in made.findings] == pending


def legacy(**spec: object) -> YamlValue:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"spec": {"containers": [container], **spec}}


@every_row(
    ("scheduler", "tolerated"),
    [
        (None, True),
        ("default-scheduler", True),
        ("drawbridge", True),
        ("koord-scheduler", True),
        ("volcano", False),
        ("mine", False),
    ],
)
def test_only_translated_pods_of_our_scheduler_tolerate_the_fence(
    scheduler: str | None, *, tolerated: bool
) -> None:
    given = legacy() if scheduler is None else legacy(schedulerName=scheduler)
    made = translate(given, make_context(BRIDGE))
    after: YamlValue = apply_edits(given, made.edits)
    assert after["spec"]["resourceClaims"]
    assert (TOLERATION in after["spec"].get("tolerations", ())) is tolerated
    assert (after["spec"].get("schedulerName") == "drawbridge") is tolerated
    assert restore_original(after)["spec"] == given["spec"]  # type: ignore[index,call-overload]
    assert translate(after, make_context(BRIDGE)).edits == ()


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


@every_row(
    ("scheduler", "placement", "refused"),
    [
        (None, Placement.BRIDGE, True),
        ("drawbridge", Placement.BRIDGE, True),
        ("volcano", Placement.BRIDGE, False),
        (None, Placement.NATIVE, False),
        ("drawbridge", Placement.NATIVE, True),
    ],
)
def test_a_translated_pod_of_our_scheduler_with_an_implicit_name_is_refused(
    scheduler: str | None, placement: Placement, *, refused: bool
) -> None:
    """The scheduler would wait for the name for ever."""
    given = legacy() if scheduler is None else legacy(schedulerName=scheduler)
    given["spec"]["containers"].append({"resources": {"limits": {IMPLICIT: "1"}}})
    made = translate(given, make_context(Configuration(placement=placement, owned_pools=OWNED)))
    told = [each for each in made.findings if each.code == "ClassNameMixed"]
    assert bool(told) is refused
    assert bool(made.edits) is not refused
    if refused:
        assert [(each.severity, each.path) for each in told] == [
            (Severity.ERROR, f"spec.containers[1].resources.limits[{IMPLICIT}]")
        ]


def test_a_translated_pod_waits_for_a_plugin_of_a_name_that_a_class_serves_as_well() -> None:
    """The plugin may be on nodes that an autoscaler adds for the pod."""
    given = legacy()
    given["spec"]["containers"].append({"resources": {"limits": {"a.io/fpga": "1"}}})
    facts = Facts(
        classes=(ClassFacts("gpu.nvidia.com", drivers=("gpu.nvidia.com",), devices=8),),
        drivers=(Driver("gpu.nvidia.com", devices=8),),
        names=(ResourceFacts("a.io/fpga", classes=("fpga",)),),
        cluster=Cluster(gates=("extended_resource",)),
    )
    made = translate(given, make_context(BRIDGE, facts))
    (told,) = (each for each in made.findings if each.code == "ClassNameUnserved")
    assert told.severity is Severity.WARNING
    assert made.edits


def test_a_name_of_a_class_that_a_plugin_serves_does_not_keep_a_pod_off_our_scheduler() -> None:
    rows = (
        ResourceFacts("a.io/gpu", classes=("a",)),
        ResourceFacts("b.io/gpu", classes=("b",), nodes=1),
        ResourceFacts("c.io/gpu", nodes=1),
    )
    facts = Facts(names=rows, cluster=Cluster(gates=("extended_resource",)))
    names = ("a.io/gpu", "b.io/gpu", "c.io/gpu", "d.io/gpu", IMPLICIT)
    assert facts.left_to_classes(names) == ("a.io/gpu", IMPLICIT)


def test_a_translated_pod_of_another_scheduler_that_tolerates_the_fence_is_reported() -> None:
    given = legacy(schedulerName="volcano", tolerations=[TOLERATION])
    codes = [each.code for each in translate(given, make_context(BRIDGE)).findings]
    assert "FenceTolerated" in codes
    assert "SchedulerKept" in codes
