"""Reviews of created pods."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from drawbridge.agreement.admission_codes import TEMPLATE_LATER
from drawbridge.agreement.operation_codes import OTHER_WEBHOOK
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.names import ORIGINAL_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate.changes.patch import restore_original
from tests.tables import YamlValue, load_cases
from tests.webhook.admission.harness import (
    ENFORCE,
    AdmissionHarness,
    FakeClusterView,
    Response,
    pod,
    review,
)
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.replies import await_reply
from webhook.admission.responses import compose_file_command

pytestmark = pytest.mark.asyncio
CASES = load_cases(Path(__file__).parent / "cases" / "pods.yaml")
AUDIT_CASES = load_cases(Path(__file__).parent / "cases" / "audit.yaml")
# A device plugin advertised the name on no node, and a DeviceClass exists.
FACTS = {
    "classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}],
    "names": [{"name": "nvidia.com/gpu", "nodes": 0}],
}


def build_pod(case: YamlValue) -> YamlValue:
    if "limits" in case:
        return pod(case["limits"])
    given = case["pod"]
    metadata = {"name": "p", "namespace": "team", **given.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given["spec"]}


def as_dry_run(response: Response) -> Response:
    """Return the response as metrics and logs see it after a dry run."""
    return replace(response, reply=msgspec.structs.replace(response.reply, dry_run=True))


@pytest.mark.parametrize("case", AUDIT_CASES, ids=lambda case: case["name"])
async def test_audit_record_cases(case: YamlValue) -> None:
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": case.get("labels", ENFORCE)}))
    harness.configure({}, case.get("facts", FACTS))
    send = harness.guarded_pod if case.get("guarded") else harness.pod
    replies = [(await send(build_pod(case), **case.get("request", {}))).reply for _ in range(2)]
    assert [each.dry_run for each in replies] == [case.get("request", {}).get("dryRun", False)] * 2
    # The second answer is a cached one.
    written = [msgspec.json.decode(msgspec.json.encode(each.audit)) for each in replies]
    assert written == [case["audit"]] * 2


async def test_texts_of_a_tenant_are_cut_and_printable_in_the_audit_record() -> None:
    harness, hostile = AdmissionHarness(), pod({"nvidia.com/gpu": 1})
    hostile["metadata"]["name"] = "x\n{}" + "y" * 10_000
    hostile["metadata"]["ownerReferences"] = [
        {"kind": "Job\u202e", "name": "z" * 10_000, "controller": True}
    ]
    limits = {f"nvidia.com/mig-{n}g.5gb": 1 for n in range(1000)}
    hostile["spec"]["containers"] = [
        {"name": "c\r\n" + "d" * 10_000, "resources": {"limits": limits}} for _ in range(3)
    ]
    reply = (await harness.pod(hostile)).reply
    assert reply.audit is not None
    texts = [reply.name, reply.audit.owner, *reply.audit.changes]
    assert all(text.isprintable() and len(text) <= 400 for text in texts)
    assert len(texts) <= 18


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_pod_cases(case: YamlValue) -> None:
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": case.get("labels", ENFORCE)}))
    harness.configure(case.get("configuration", {}), case.get("facts", FACTS))
    harness.cluster.ranges = msgspec.convert(case.get("ranges", []), tuple[LimitRange, ...])
    harness.cluster.quotas = msgspec.convert(case.get("quotas", []), tuple[ResourceQuota, ...])
    before = build_pod(case)
    response = await harness.pod(before, **case.get("request", {}))
    assert (response.allowed, response.status.get("code")) == (case["allowed"], case.get("code"))
    assert response.reply.outcome == case.get("outcome", response.reply.outcome)
    if "claims" in case:
        claims = [each["name"] for each in response.after["spec"]["resourceClaims"]]
        assert claims == case["claims"]
    else:
        assert not response.patch
    if "warnings" in case and not case.get("loosely"):
        begun = [w.startswith(b) for w, b in zip(response.warnings, case["warnings"], strict=True)]
        assert all(begun), response.warnings
    elif "warnings" in case:
        assert response.warnings[0].startswith(case["warnings"][0]), response.warnings
    elif response.reply.outcome == "allowed":
        assert response.warnings == []
    for part in case.get("message", []):
        assert part in response.status["message"]
    if "resources" in case:
        resources = response.after["spec"]["containers"][0]["resources"]
        assert {k: v for k, v in resources.items() if k != "claims"} == case["resources"]
    if "scheduler" in case:
        assert response.after["spec"].get("schedulerName") == case["scheduler"]
        noted = response.after["metadata"]["annotations"].get(PLACEMENT_LABEL)
        assert noted == ("bridge" if case["scheduler"] == "drawbridge" else None)
    for code in case.get("codes", ()):
        assert any(code in each for each in response.warnings), response.warnings
    # The second response comes from the cache.
    second_response = await harness.pod(before, **case.get("request", {}))
    assert second_response == response


async def test_a_changed_label_of_the_namespace_changes_the_placement_of_equal_pods() -> None:
    cluster = FakeClusterView()
    harness = AdmissionHarness(cluster)
    pool = {"driver": "gpu.nvidia.com", "nodeSelector": {}}
    harness.configure({"placement": "bridge", "ownedPools": [pool]}, FACTS)
    schedulers = []
    for placement in ("bridge", "native", "bridge"):
        cluster.namespaces = {"team": {**ENFORCE, PLACEMENT_LABEL: placement}}
        response = await harness.pod(pod({"nvidia.com/gpu": 2}))
        schedulers.append(response.after["spec"].get("schedulerName"))
    assert schedulers == ["drawbridge", "default-scheduler", "drawbridge"]


async def test_audit_annotations_describe_the_translation() -> None:
    harness = AdmissionHarness()
    harness.configure({}, FACTS)
    response = await harness.pod(pod({"nvidia.com/gpu": 1}))
    context = harness.cluster.translation_context()
    assert context is not None
    claim = response.after["spec"]["resourceClaims"][0]
    assert response.audit == {
        "outcome": "translated",
        "findings": "TolerationAdded",
        "templates": claim["resourceClaimTemplateName"],
        "facts": context.facts_digest,
    }
    assert [name for _, name in harness.store.stored] == [claim["resourceClaimTemplateName"]]


async def test_a_dry_run_gets_the_same_response_and_creates_no_template() -> None:
    harness = AdmissionHarness()
    tried = await harness.pod(pod({"nvidia.com/gpu": 1}), dryRun=True)
    assert harness.store.stored == {}
    assert "create" not in harness.store.calls
    done = await harness.pod(pod({"nvidia.com/gpu": 1}))
    assert tried == as_dry_run(done)
    assert len(harness.store.stored) == 1


async def test_a_dry_run_reports_a_template_conflict() -> None:
    harness = AdmissionHarness()
    await harness.pod(pod({"nvidia.com/gpu": 1}))
    (stored,) = harness.store.stored.values()
    spec: YamlValue = stored["spec"]
    spec["spec"]["devices"]["requests"][0]["exactly"]["count"] = 8
    harness.clock.advance(minutes=5)
    tried = await harness.pod(pod({"nvidia.com/gpu": 1}), dryRun=True)
    harness.clock.advance(minutes=5)
    real = await harness.pod(pod({"nvidia.com/gpu": 1}))
    assert tried == as_dry_run(real)
    assert real.status["code"] == 403
    assert (
        "TemplateTaken: spec.resourceClaims: ResourceClaimTemplate team/" in real.status["message"]
    )
    assert "kubectl delete resourceclaimtemplate -n team drawbridge-" in real.status["message"]


async def test_a_pod_is_admitted_if_its_template_cannot_be_created_now() -> None:
    harness = AdmissionHarness()
    harness.store.is_failing = True
    response = await harness.pod(pod({"nvidia.com/gpu": 1}))
    assert response.allowed
    assert response.patch
    assert TEMPLATE_LATER.name in response.reply.codes
    harness.store.is_failing = False
    assert TEMPLATE_LATER.name not in (await harness.pod(pod({"nvidia.com/gpu": 1}))).reply.codes


async def test_waiting_for_a_template_ends_at_the_timeout() -> None:
    harness = AdmissionHarness()
    harness.store.unblocked.clear()
    response = await await_reply(
        harness.admission.review_pod(review(pod({"nvidia.com/gpu": 1})), 0.01)
    )
    assert response.outcome == "translated"
    assert TEMPLATE_LATER.name in response.codes


async def test_a_dropped_field_denies_the_pod() -> None:
    harness = AdmissionHarness()
    harness.store.dropped_fields = ("capacity",)
    response = await harness.pod(pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}))
    assert response.status["code"] == 422
    assert (
        "ClaimFieldDropped: spec.spec.devices.requests[0].exactly.capacity"
        in response.status["message"]
    )
    assert harness.store.stored == {}, "a template for entire devices must not be left behind"


async def test_templates_are_created_concurrently() -> None:
    harness = AdmissionHarness()
    harness.store.unblocked.clear()
    review_task = asyncio.create_task(harness.pod(pod({"nvidia.com/gpu": 40})))
    for _ in range(5):
        await asyncio.sleep(0)
    assert harness.store.calls == ["dry-run", "dry-run"], "the second does not wait for the first"
    harness.store.unblocked.set()
    claims = (await review_task).after["spec"]["resourceClaims"]
    assert [each["name"] for each in claims] == ["drawbridge", "drawbridge-2"]
    names = {("team", each["resourceClaimTemplateName"]) for each in claims}
    assert set(harness.store.stored) == names


async def test_a_pod_in_an_unknown_namespace_is_denied_with_503() -> None:
    harness = AdmissionHarness()
    response = await harness.pod(pod({"nvidia.com/gpu": 1}), namespace="nowhere")
    assert response.status["code"] == 503
    assert "namespace nowhere is not cached yet; try again" in response.status["message"]
    assert harness.cluster.reads == ["nowhere"]


async def test_an_unknown_namespace_is_read() -> None:
    harness = AdmissionHarness()
    harness.cluster.unwatched["new"] = ENFORCE
    response = await harness.pod(pod({"nvidia.com/gpu": 1}), namespace="new")
    assert response.reply.outcome == "translated"


async def test_pods_are_denied_until_facts_are_loaded() -> None:
    harness = AdmissionHarness()
    harness.cluster.context = None
    response = await harness.pod(pod({"nvidia.com/gpu": 1}))
    assert (response.allowed, response.status["code"]) == (False, 503)


async def test_a_second_webhook_that_adds_a_container_gets_a_second_claim() -> None:
    harness = AdmissionHarness()
    first = (await harness.pod(pod({"nvidia.com/gpu": 1}))).after
    added = {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    changed = json.loads(json.dumps(first))
    changed["spec"]["containers"].append(added)
    second = (await harness.pod(changed)).after
    names = [each["name"] for each in second["spec"]["resourceClaims"]]
    assert names == ["drawbridge", "drawbridge-2"]
    assert second["spec"]["containers"][0] == first["spec"]["containers"][0]
    assert not (await harness.pod(second)).patch
    back: YamlValue = restore_original(second)
    assert [each.get("resources") for each in back["spec"]["containers"]] == [
        pod({"nvidia.com/gpu": 1})["spec"]["containers"][0]["resources"],
        added["resources"],
    ]
    assert "resourceClaims" not in back["spec"]


async def test_zero_amounts_are_not_translated_again() -> None:
    harness = AdmissionHarness()
    limit = {"type": "Container", "max": {"nvidia.com/gpu": 8}, "default": {"nvidia.com/gpu": 0}}
    harness.cluster.ranges = [msgspec.convert({"spec": {"limits": [limit]}}, LimitRange)]
    original = pod({"nvidia.com/gpu": "2"})
    after = (await harness.pod(original)).after
    none = {"nvidia.com/gpu": "0"}
    resources = after["spec"]["containers"][0]["resources"]
    assert (resources["limits"], resources["requests"]) == (none, none)
    assert not (await harness.pod(after)).patch
    assert restore_original(after) == original
    second_response = await harness.pod(original, operation="UPDATE", old=after)
    assert second_response.after == after


async def test_a_copy_of_a_translated_pod_is_unchanged() -> None:
    harness = AdmissionHarness()
    first = (await harness.pod(pod({"nvidia.com/gpu": 1}))).after
    copied = {**first, "metadata": {**first["metadata"], "name": "copy"}}
    response = await harness.pod(copied)
    assert response.allowed
    assert not response.patch


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "[]",
        "no json",
        "[" * 5000,
        '[{"op":"replace","path":"/spec/containers","value":[]}]',
        '[{"op":"add","path":"/metadata/finalizers","value":["x/y"]}]',
        '[{"op":"add","path":"/x","value":"\\ud800"}]',
        '[{"op":"remove","path":"/metadata"}]',
    ],
)
async def test_a_forged_original_annotation_does_not_change_the_translation(forged: str) -> None:
    honest, harness = pod({"nvidia.com/gpu": 1}), AdmissionHarness()
    lying = pod({"nvidia.com/gpu": 1})
    lying["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: forged}
    responses = [await harness.pod(each) for each in (honest, lying)]
    assert responses[0].after["spec"] == responses[1].after["spec"]


async def test_a_command_replaces_warnings_that_do_not_fit() -> None:
    harness = AdmissionHarness()
    containers = [
        {
            "name": f"c{i}",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "env": [
                {"name": "CUDA_VISIBLE_DEVICES", "value": "v" * 300},
                {"name": "NCCL_IB_HCA", "value": "=mlx5_0\n\x7f\u00e4"},
            ],
        }
        for i in range(16)
    ]
    many = pod(containers=containers)
    response = await harness.pod(many)
    assert response.reply.outcome == "translated"
    assert response.warnings[0].startswith("translated: nvidia.com/gpu: 1 of container c0, ")
    assert response.warnings[-1] == compose_file_command("team")


async def test_quotas_are_checked_for_cached_responses() -> None:
    harness = AdmissionHarness()
    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"

    def used(amount: int) -> ResourceQuota:
        plain = {"spec": {"hard": {devices: 2}}, "status": {"used": {devices: amount}}}
        return msgspec.convert(plain, ResourceQuota)

    outcomes = []
    for amount in (0, 1, 2, 1):
        harness.cluster.quotas = [used(amount)]
        outcomes.append((await harness.pod(pod({"nvidia.com/gpu": 1}))).reply.outcome)
    assert outcomes == ["translated", "translated", "denied", "translated"]
    assert harness.answers.misses == 1


@pytest.mark.parametrize("mapping", [["gpu.nvidia.com"], ["newer", "gpu.nvidia.com"], ["newer"]])
async def test_each_class_is_charged_to_its_extended_resource(mapping: list[str]) -> None:
    harness = AdmissionHarness()
    classes = [
        {"name": each, "extended": "example.com/gpu" if each in mapping else "", "devices": 8}
        for each in ("newer", "gpu.nvidia.com")
    ]
    names = [{"name": "example.com/gpu", "classes": mapping, "nodes": 1}]
    cluster = {"version": "1.37"}
    harness.configure({}, {"cluster": cluster, "classes": classes, "names": names})
    plain = {"spec": {"hard": {"requests.example.com/gpu": 1}}, "status": {"used": {}}}
    harness.cluster.quotas = [msgspec.convert(plain, ResourceQuota)]
    outcome = (await harness.pod(pod({"nvidia.com/gpu": 2}))).reply.outcome
    assert outcome == ("denied" if "gpu.nvidia.com" in mapping else "translated")


async def test_translated_pods_get_findings_about_other_webhooks() -> None:
    harness = AdmissionHarness()
    harness.configure({}, FACTS)
    about = OTHER_WEBHOOK.at("", "another webhook adds devices later")
    harness.cluster.webhook_findings = (about,)
    lines = [
        (await harness.pod(pod(limits))).warnings for limits in ({"nvidia.com/gpu": 1}, {"cpu": 1})
    ]
    assert any("another webhook adds devices" in each for each in lines[0])
    assert lines[1] == []


async def test_a_pod_with_a_rejected_template_is_admitted_with_the_reason() -> None:
    harness = AdmissionHarness()
    harness.configure({}, FACTS)
    harness.store.refusal = "exceeded quota: objects"
    for dry in (False, True):
        response = await harness.pod(pod({"nvidia.com/gpu": 1}), dryRun=dry)
        assert response.allowed
        assert response.after["spec"]["resourceClaims"]
        assert response.reply.outcome == "translated"
        (line,) = [each for each in response.warnings if each.startswith("TemplateRefused: ")]
        assert "exceeded quota: objects" in line


async def test_a_pod_that_takes_too_much_work_is_denied_before_anything_is_written() -> None:
    harness = AdmissionHarness()
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}
    containers = [
        {"name": f"c{i}", "resources": {"limits": {**limits, "nvidia.com/gpumem": i + 1}}}
        for i in range(100)
    ]
    response = await harness.pod(pod(containers=containers))
    assert not response.allowed
    assert harness.store.calls == []


async def test_a_pod_with_too_large_annotations_is_denied_before_anything_is_written() -> None:
    harness = AdmissionHarness()
    large = pod({"nvidia.com/gpu": 1})
    large["metadata"]["annotations"] = {"note": "x" * 262_000}
    response = await harness.pod(large)
    assert not response.allowed
    assert "AnnotationsTooLarge" in response.status["message"]
    assert harness.store.calls == []
