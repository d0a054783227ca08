"""Reviews of objects that create pods."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.agreement.operation_codes import NAME_NOT_ACTIVE
from tests.tables import YamlValue, load_cases
from tests.webhook.admission.harness import ENFORCE, AdmissionHarness, FakeClusterView
from webhook.admission import pods
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.pods import PodDecision
from webhook.admission.workloads import MAX_TEMPLATES

CASES = load_cases(Path(__file__).parent / "cases" / "workloads.yaml")
FACTS = {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}
pytestmark = pytest.mark.asyncio


def deployment(case: YamlValue, spec: YamlValue) -> YamlValue:
    metadata = {"annotations": case.get("annotations", {}), "labels": case.get("pod_labels", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"replicas": 3, "template": {"metadata": metadata, "spec": spec}},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_workload_cases(case: YamlValue) -> None:
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": case.get("labels", ENFORCE)}))
    harness.configure(case.get("configuration", {}), FACTS)
    harness.cluster.ranges = msgspec.convert(case.get("ranges", []), tuple[LimitRange, ...])
    object_ = case.get("object") or deployment(case, case["spec"])
    request: YamlValue = {}
    if "old" in case:
        old = case["spec"] if case["old"] == "same" else case["old"]
        request = {"operation": "UPDATE", "old": {**deployment(case, old), "status": {}}}
    answer = await harness.workload(object_, **request)
    assert answer.reply.outcome == case["outcome"]
    assert answer.status.get("code") == case.get("code")
    assert answer.allowed is ("code" not in case)
    assert not answer.patch
    assert harness.store.calls == []
    if "warnings" in case:
        begun = [w.startswith(b) for w, b in zip(answer.warnings, case["warnings"], strict=True)]
        assert all(begun), answer.warnings
    else:
        assert case["message"] in answer.status["message"]


async def test_inactive_conditions_are_reported_for_workloads_with_device_requests() -> None:
    harness = AdmissionHarness()
    harness.configure({}, FACTS)
    harness.cluster.condition_findings = (
        NAME_NOT_ACTIVE.at("webhooks[0].matchConditions", "different expression"),
    )
    lines = []
    for name in ("nvidia.com/gpu", "cpu"):
        containers = [{"name": "main", "resources": {"limits": {name: 1}}}]
        lines.append((await harness.workload(deployment({}, {"containers": containers}))).warnings)
    assert any(each.startswith("NameNotActive: webhooks[0]") for each in lines[0]), lines
    assert lines[1] == []


async def test_a_job_of_volcano_that_was_translated_in_its_manifest_gets_no_warning() -> None:
    harness = AdmissionHarness()
    pools = [{"driver": "gpu.nvidia.com", "nodeSelector": {}}]
    drivers = [{"name": "gpu.nvidia.com", "devices": 8}]
    bridge = {"placement": "bridge", "ownedPools": pools}
    harness.configure(bridge, {**FACTS, "drivers": drivers, "scheduler": True})
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    template = {"spec": {"resourceClaims": claims, "containers": [{"name": "main"}]}}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    answer = await harness.workload({**job, "spec": {"tasks": [{"template": template}]}})
    assert "SchedulerOurs" in answer.reply.codes
    assert not any("QueueReadsTemplate" in each for each in answer.warnings)


async def test_an_object_is_allowed_until_facts_are_loaded() -> None:
    harness = AdmissionHarness()
    harness.cluster.context = None
    assert (await harness.workload(deployment({}, {"containers": []}))).allowed


async def test_a_missing_object_is_denied() -> None:
    answer = await AdmissionHarness().workload({"kind": "Deployment"}, object=None)
    assert answer.status["code"] == 400


async def test_a_very_long_kind_does_not_exceed_the_warning_length() -> None:
    kind = {"group": "g" * 5000, "version": "v1", "kind": "K" * 5000}
    spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    answer = await AdmissionHarness().workload(deployment({}, spec), kind=kind)
    assert answer.warnings[-1].startswith("details: kubectl get kkk")


async def test_a_review_translates_a_limited_number_of_templates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided: list[int] = []
    decide = pods.decide

    def record(*args: Any, **named: Any) -> PodDecision:  # noqa: ANN401  # as `decide`
        decided.append(1)
        return decide(*args, **named)

    monkeypatch.setattr(pods, "decide", record)
    bad = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "-1"}}}]}
    denied = {}
    for count in (MAX_TEMPLATES, MAX_TEMPLATES + 1):
        tasks = [{"template": {"spec": bad}}] * count
        object_ = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}}
        harness = AdmissionHarness()
        harness.configure({}, FACTS)
        answer = await harness.workload({**object_, "spec": {"tasks": tasks}})
        denied[count] = not answer.allowed
    assert len(decided) == 2 * MAX_TEMPLATES
    # A template that was not translated may be able to start.
    assert denied == {MAX_TEMPLATES: True, MAX_TEMPLATES + 1: False}
