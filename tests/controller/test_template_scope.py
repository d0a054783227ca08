"""Where templates are created and marked as used, and what their pods cost."""

import asyncio
import contextlib
import copy
import datetime as dt
from typing import Any

import jsonpatch
import pytest

from controller.fair_queue import FairQueue
from controller.protocols import Gauge, Unstructured
from controller.watched_objects import WatchedPodMetadata
from drawbridge.agreement.template_objects import build_object
from drawbridge.api_error import ApiError
from drawbridge.config.model import Configuration, Decisions, LabelSelector, Rollout, Scope
from drawbridge.config.string_formats import DNSLabel
from drawbridge.facts.model import ClassFacts, Cluster, Driver, Facts
from drawbridge.names import (
    ADMIN_ACCESS_LABEL,
    FACTS_ANNOTATION,
    TRANSLATE_LABEL,
    USED_ANNOTATION,
)
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.controller.waiting_pods import ASKED, NEW, OTHER, TEAM, WEBHOOK, Scene, translated
from tests.tables import every_row

# --- scope ----------------------------------------------------------------------------------------


def percent(value: int) -> Configuration:
    return Configuration(scope=Scope(rollout=Rollout(percent=value)))


# What admission sees beside the pod, and whether it would translate the pod.
SCOPES: dict[str, tuple[str, str, dict[str, str], Configuration, bool]] = {
    "an enforced namespace": (TEAM, "enforce", {}, Configuration(), True),
    "a namespace without the label": (TEAM, "", {}, Configuration(), False),
    "a namespace that left the scope": (TEAM, "off", {}, Configuration(), False),
    "a namespace that only reports": (TEAM, "report", {}, Configuration(), False),
    "an unknown label value": (TEAM, "yes", {}, Configuration(), False),
    "a selected namespace": (
        TEAM,
        "",
        {},
        Configuration(scope=Scope(namespace_selector=LabelSelector())),
        True,
    ),
    "an excluded namespace": (
        TEAM,
        "enforce",
        {},
        Configuration(scope=Scope(exclude_namespaces=(DNSLabel(TEAM),))),
        False,
    ),
    "kube-system": ("kube-system", "enforce", {}, Configuration(), False),
    "kube-system that the configuration does not exclude": (
        "kube-system",
        "enforce",
        {},
        Configuration(scope=Scope(exclude_namespaces=())),
        False,
    ),
    "a pod that opted out": (TEAM, "enforce", {TRANSLATE_LABEL: "off"}, Configuration(), False),
    "a pod that cannot opt in": (TEAM, "", {TRANSLATE_LABEL: "enforce"}, Configuration(), False),
    "a rollout without the pod": (TEAM, "enforce", {}, percent(0), False),
    "a rollout with the pod": (TEAM, "enforce", {}, percent(100), True),
}


@every_row("case", SCOPES.values(), ids=SCOPES)
def test_a_template_is_created_only_where_admission_translates(
    case: tuple[str, str, dict[str, str], Configuration, bool],
) -> None:
    namespace, mode, labels, configuration, included = case
    scene = Scene()
    scene.configuration = configuration
    scene.label(namespace, mode)
    pod, name = translated()
    scene.put({**pod, "metadata": {**pod["metadata"], "namespace": namespace, "labels": labels}})
    assert scene.reconcile() == ([name] if included else [])
    assert scene.reporter.codes == ([] if included else ["TemplateOutOfScope"])
    assert scene.templates.requests == ([("dry-run", name), ("create", name)] if included else [])


def test_a_pod_out_of_scope_is_not_reported_if_its_template_follows_at_once() -> None:
    scene = Scene()
    scene.label(TEAM, "off")
    pod, name = translated()
    scene.put(pod)
    asyncio.run(scene.reconciler.reconcile())
    assert scene.reporter.codes == []
    (template,) = translate(ASKED, NEW, TEAM).templates
    scene.templates.put(build_object(template, TEAM, scene.clock.now))
    assert (scene.reconcile(), scene.reporter.codes) == ([name], [])


def test_a_pod_out_of_scope_is_reported_once_with_the_remedy() -> None:
    scene = Scene()
    scene.label(TEAM, "off")
    pod, name = translated()
    scene.put(pod)
    scene.reconcile()
    scene.put(pod)
    scene.reconcile()
    (finding,) = scene.reporter.findings
    assert name in finding.message
    assert "drawbridge.dev/translate: enforce" in finding.remedy


def test_a_pod_whose_namespace_returns_to_the_scope_gets_its_template() -> None:
    scene = Scene()
    scene.label(TEAM, "off")
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == []
    scene.label(TEAM, "enforce")
    scene.reconciler.namespace_changed(None, scene.namespaces.get(TEAM))
    assert scene.reconcile() == [name]
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}


@pytest.mark.parametrize("creator", ["drawbridge", "client", ""])
def test_a_pod_that_leaves_the_scope_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, creator: str
) -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    if creator == "drawbridge":
        assert scene.reconcile() == [name]
    else:
        asyncio.run(scene.reconciler.reconcile())  # its client has time
    if creator == "client":
        (template,) = translate(ASKED, NEW, TEAM).templates
        scene.templates.put(build_object(template, TEAM, scene.clock.now))
    scene.label(TEAM, "off")
    scene.clock.now += dt.timedelta(seconds=20)
    includes, looks = scene.reconciler._scope.includes, list[str]()  # noqa: SLF001

    def look(metadata: WatchedPodMetadata) -> bool | None:
        looks.append(metadata.name)
        return includes(metadata)

    monkeypatch.setattr(scene.reconciler._scope, "includes", look)  # noqa: SLF001
    for _ in range(2):
        scene.reconcile()
    assert looks == ["train"]


def test_without_the_webhook_configuration_no_template_is_created() -> None:
    scene = Scene()
    scene.webhook = None
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == []
    scene.webhook = WEBHOOK
    scene.reconciler.queue_unresolved()
    assert scene.reconcile() == [name]


def test_a_pod_of_an_unknown_namespace_waits_without_a_report() -> None:
    scene = Scene()
    scene.namespaces.remove(TEAM)
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == []
    assert scene.reporter.reported == []
    scene.label(TEAM, "enforce")
    scene.reconciler.namespace_changed(None, scene.namespaces.get(TEAM))
    assert scene.reconcile() == [name]


# --- use ------------------------------------------------------------------------------------------


def ahead(scene: Scene, name: str, **metadata: Any) -> None:  # noqa: ANN401
    """Store the template of a pod as admission creates it, before the pod exists."""
    template = next(each for each in translate(ASKED, NEW, TEAM).templates if each.name == name)
    made: Any = build_object(template, TEAM)
    made["metadata"] |= {"managedFields": [{"manager": "drawbridge"}], **metadata}
    scene.templates.put(made)


def read_use(scene: Scene, name: str) -> str | None:
    annotations: dict[str, str] = scene.templates.objects[TEAM, name]["metadata"].get(
        "annotations", {}
    )
    return annotations.get(USED_ANNOTATION)


def test_the_first_pod_of_a_template_marks_it_as_used_once() -> None:
    scene = Scene()
    pod, name = translated()
    ahead(scene, name)
    for pod_name in ("one", "two"):
        scene.put({**pod, "metadata": {**pod["metadata"], "name": pod_name}})
        scene.reconcile()
    assert read_use(scene, name) == "2026-03-01T12:00:00Z"
    assert scene.templates.requests == [("merge", name)]
    assert scene.reporter.counts == {("templates", "used"): 1}


def test_a_template_that_another_client_applied_is_not_marked() -> None:
    scene = Scene()
    pod, name = translated()
    ahead(scene, name, managedFields=[{"manager": "argocd-controller"}])
    scene.put(pod)
    scene.reconcile()
    assert scene.templates.requests == []


def test_a_template_out_of_scope_is_not_marked() -> None:
    scene = Scene()
    scene.label(TEAM, "off")
    pod, name = translated()
    ahead(scene, name)
    scene.put(pod)
    scene.reconcile()
    assert scene.templates.requests == []
    assert scene.reporter.reported == []


def test_a_template_that_was_deleted_meanwhile_is_not_an_error() -> None:
    scene = Scene()
    pod, name = translated()
    ahead(scene, name)

    def delete_first(verb: str, _value: Unstructured) -> None:
        if verb == "merge":
            scene.templates.remove(name, TEAM)

    scene.templates.before_write = delete_first
    scene.put(pod)
    scene.reconcile()
    assert (TEAM, name) not in scene.templates.objects
    assert scene.reporter.counts == {("templates", "use-unrecorded"): 1}


# --- work -----------------------------------------------------------------------------------------


def test_many_pods_of_one_namespace_do_not_delay_the_others() -> None:
    scene = Scene()
    pod, name = translated(OTHER)
    for i in range(20):
        scene.put({**pod, "metadata": {**pod["metadata"], "name": f"a-{i:02}", "namespace": TEAM}})
    late, late_name = translated()
    assert late_name != name
    reported_before = []

    def record(_verb: str, _value: Unstructured) -> None:
        reported_before.append(len(scene.reporter.reported))

    scene.templates.before_write = record
    scene.put({**late, "metadata": {**late["metadata"], "namespace": "two"}})
    scene.reconcile()
    assert reported_before == [1, 1]  # it is tried, and created


def test_deleted_pods_and_templates_leave_nothing_behind() -> None:
    scene = Scene()
    taken: Any = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "x"}}]}}
    for i in range(30):
        name = f"drawbridge-{i:032x}"
        pod, _ = translated(name=f"p-{i}")
        pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name
        stored = scene.put(pod)
        if i % 2:
            scene.templates.put(
                {"metadata": {"name": name, "namespace": TEAM}, "spec": {"spec": taken}}
            )
        scene.reconcile()
        scene.pods.remove(f"p-{i}", TEAM)
        scene.reconciler.pod_changed(stored, None)
        if i % 2:
            scene.reconciler.template_changed(scene.templates.remove(name, TEAM), None)
    kept = {
        name: value
        for name, value in vars(scene.reconciler).items()
        if isinstance(value, dict | set | list | FairQueue) and value
    }
    assert kept == {}


def test_findings_show_a_bounded_part_of_what_a_tenant_writes() -> None:
    scene = Scene()
    pod, _ = translated(OTHER)
    claims = [
        {"name": f"c-{i}", "resourceClaimTemplateName": f"drawbridge-{i:032x}"} for i in range(500)
    ]
    pod["spec"]["resourceClaims"] = claims
    pod["metadata"]["annotations"][FACTS_ANNOTATION] = "x" * 100_000
    scene.put(pod)
    scene.label("full", "off")
    scene.put({**pod, "metadata": {**pod["metadata"], "namespace": "full"}})
    scene.reconcile()
    assert sorted(scene.reporter.codes) == ["TemplateNotReproduced", "TemplateOutOfScope"]
    for finding in scene.reporter.findings:
        assert "and 495 more templates" in finding.message
        assert len(finding.message) < 1000


@pytest.mark.parametrize(("label", "created"), [("true", True), ("false", False), (None, False)])
def test_a_template_with_admin_access_needs_the_label_of_the_namespace(
    label: str | None, *, created: bool
) -> None:
    allowing = Configuration(decisions=Decisions(admin_access="allow"))
    facts = Facts(
        cluster=Cluster(keeps=("exactly.adminAccess",)),
        classes=(ClassFacts("gpu.intel.com", drivers=("gpu.intel.com",), devices=8),),
        drivers=(Driver("gpu.intel.com", kind="gpu", devices=8, nodes=2),),
    )
    context = make_context(allowing, facts)
    asked: Any = copy.deepcopy(ASKED)
    limits = {"gpu.intel.com/i915_monitoring": "1"}
    asked["spec"]["containers"][0]["resources"]["limits"] = limits
    done = translate(asked, context, TEAM, admin_access=True)
    (template,) = done.templates
    scene = Scene(now=context)
    labels = {TRANSLATE_LABEL: "enforce", **({ADMIN_ACCESS_LABEL: label} if label else {})}
    scene.namespaces.put({"metadata": {"name": TEAM, "labels": labels}})
    scene.put(jsonpatch.apply_patch(asked, to_operations(done.edits)))
    assert scene.reconcile() == ([template.name] if created else [])


@pytest.mark.parametrize("code", [0, 401, 403, 429, 500])
def test_a_use_that_cannot_be_recorded_leaves_no_pod_without_a_template(code: int) -> None:
    scene = Scene(now=OTHER)
    (_, used), (pod, name) = translated(), translated(OTHER)
    ahead(scene, used)
    claim = {"name": "used", "resourceClaimTemplateName": used}
    pod["spec"]["resourceClaims"].append(claim)
    scene.put(pod)

    def refuse(verb: str, _value: Unstructured) -> None:
        if verb == "merge":
            raise ApiError(code, "Forbidden", "a policy")

    scene.templates.before_write = refuse
    for _ in range(2):
        with contextlib.suppress(ApiError):  # which is tried again
            scene.reconcile()
        scene.clock.now += dt.timedelta(seconds=5)
    assert [template for _, template in scene.templates.objects] == [used, name]
    assert scene.reporter.codes == []
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}
