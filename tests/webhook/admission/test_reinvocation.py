"""Reviews of translated pods to which another webhook added a container with a request.

A request that is added later is judged as if it had been there from the start.
"""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from drawbridge.translate.changes.undo import shorten
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue
from tests.webhook.admission.harness import AdmissionHarness, Response, pod
from webhook.admission.limit_ranges import LimitRange

GPU = "nvidia.com/gpu"
SERVED = "amd.com/gpu"  # by a device plugin
FACTS = {
    "classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}],
    "names": [{"name": GPU, "nodes": 0}, {"name": SERVED, "nodes": 1}],
}
RANGE = {"metadata": {"name": "gpus"}, "spec": {"limits": [{"type": "Pod", "max": {GPU: 3}}]}}
CHARGED = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
QUOTA = {
    "metadata": {"name": "gpus"},
    "spec": {"hard": {CHARGED: 3}},
    "status": {"hard": {CHARGED: 3}, "used": {CHARGED: 0}},
}
SINGLE = {"quotas": [{"name": "small", "single": {"gpu.nvidia.com": {"devices": 3}}}]}


def build_harness(settings: YamlValue, ranges: YamlValue, quotas: YamlValue) -> AdmissionHarness:
    harness = AdmissionHarness()
    harness.configure({**settings, "findings": {"QuotaExceeded": "enforce"}}, FACTS)
    harness.cluster.ranges = msgspec.convert(ranges, tuple[LimitRange, ...])
    harness.cluster.quotas = msgspec.convert(quotas, tuple[ResourceQuota, ...])
    return harness


def with_container(asked: YamlValue, amount: str, **fields: str) -> YamlValue:
    resources = {"limits": {GPU: amount}, "requests": {GPU: amount}}
    whole = copy.deepcopy(asked)
    part = whole["spec"].setdefault("initContainers" if fields else "containers", [])
    part.append({"name": "side", "image": "x", "resources": resources, **fields})
    return whole


async def review_twice(harness: AdmissionHarness, amount: str, **fields: str) -> Response:
    first = await harness.pod(pod({GPU: "2"}))
    assert first.patch
    return await harness.pod(with_container(first.after, amount, **fields))


@pytest.mark.parametrize(
    ("settings", "ranges", "quotas", "code"),
    [
        ({}, [RANGE], [], "LimitRangeExceeded"),
        (SINGLE, [], [], "DeviceQuotaTooSmall"),
        ({}, [], [QUOTA], "QuotaExceeded"),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"restartPolicy": "Always"}])
@pytest.mark.asyncio
async def test_limits_apply_to_both_requests(
    settings: Any,  # noqa: ANN401  # a table
    ranges: YamlValue,
    quotas: YamlValue,
    code: str,
    fields: dict[str, str],
) -> None:
    for amount, allowed in (("1", True), ("2", False)):
        whole = with_container(pod({GPU: "2"}), amount, **fields)
        at_once = await build_harness(settings, ranges, quotas).pod(whole)
        later = await review_twice(build_harness(settings, ranges, quotas), amount, **fields)
        assert (at_once.allowed, later.allowed) == (allowed, allowed)
        if not allowed:
            assert later.status["message"] == at_once.status["message"]
            assert later.status["message"].startswith(code)


AMOUNTS = [
    f"/spec/containers/0/resources/{part}/nvidia.com~1gpu" for part in ("limits", "requests")
]


@pytest.mark.parametrize(
    ("op", "paths"),
    [("remove", AMOUNTS), ("replace", AMOUNTS), ("remove", ["/spec/containers/0"])],
)
@pytest.mark.asyncio
async def test_no_undo_patch_takes_a_pod_out_of_a_limit(op: str, paths: list[str]) -> None:
    forged = [{"op": op, "path": path, "value": "1"} for path in paths]
    asked = pod({GPU: "4"})
    asked["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: msgspec.json.encode(forged).decode()}
    response = await build_harness({}, [RANGE], []).pod(asked)
    assert not response.allowed
    assert response.status["message"].startswith("LimitRangeExceeded")


@pytest.mark.asyncio
async def test_no_undo_patch_that_fits_only_as_a_whole_stops_a_translation() -> None:
    original = f"/metadata/annotations/{ORIGINAL_ANNOTATION.replace('/', '~1')}"
    forged = [
        {"op": "remove", "path": "/metadata/annotations"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": original, "value": "x"},
    ]
    asked = pod({GPU: "2"})
    asked["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: msgspec.json.encode(forged).decode()}
    response = await build_harness({}, [], []).pod(asked)
    assert (response.allowed, bool(response.patch)) == (True, True)


def strip_claims(changed: YamlValue) -> None:
    """As a webhook does whose types of a pod are older than claims."""
    del changed["spec"]["resourceClaims"], changed["spec"]["containers"][0]["resources"]["claims"]


def replace_tolerations(changed: YamlValue) -> None:
    changed["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]


def strip_used(changed: YamlValue) -> None:
    del changed["spec"]["containers"][0]["resources"]["claims"]


def replace_claim(changed: YamlValue) -> None:
    """As somebody does who writes a claim of his own into a translated manifest."""
    changed["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "gpu"}]
    changed["spec"]["containers"][0]["resources"]["claims"] = [{"name": "own"}]


def change_scheduler(changed: YamlValue) -> None:
    """As of a member of a group: bridge placement changes its scheduler, and it has no claim."""
    strip_claims(changed)
    at, ours = "/spec/schedulerName", "drawbridge-scheduler"
    undo = [{"op": "test", "path": at, "value": ours}, {"op": "remove", "path": at}]
    annotations = {ORIGINAL_ANNOTATION: msgspec.json.encode(undo).decode()}
    changed["metadata"]["annotations"] = annotations


def copy_annotations(changed: YamlValue) -> None:
    """As an operator does that creates a pod of its own beside one with devices."""
    strip_claims(changed)
    changed["spec"]["containers"][0]["name"] = "helper"


def drop_facts(changed: YamlValue) -> None:
    """As somebody does who takes the translation out of a pod and leaves one annotation."""
    del changed["metadata"]["annotations"][FACTS_ANNOTATION]


def copy_original(changed: YamlValue) -> None:
    strip_claims(changed)
    drop_facts(changed)


def strip_used_and_facts(changed: YamlValue) -> None:
    strip_used(changed)
    drop_facts(changed)


def request_instead(**limits: str) -> Callable[[YamlValue], None]:
    def change(changed: YamlValue) -> None:
        strip_claims(changed)
        changed["spec"]["containers"][0]["resources"]["limits"] = limits

    return change


def shorten_undo(change: Callable[[YamlValue], None]) -> Callable[[YamlValue], None]:
    """As of a manifest that the command line wrote with `--short-original`."""

    def change_both(changed: YamlValue) -> None:
        change(changed)
        annotations = changed["metadata"]["annotations"]
        undo = msgspec.json.decode(annotations[ORIGINAL_ANNOTATION])
        annotations[ORIGINAL_ANNOTATION] = msgspec.json.encode(shorten(undo)).decode()

    return change_both


@pytest.mark.parametrize(
    "change",
    [
        strip_claims,
        strip_used,
        strip_used_and_facts,
        shorten_undo(strip_claims),
        request_instead(cpu="1", **{"example.com/fpga": "0"}),
    ],
)
@pytest.mark.parametrize("policy", ["", "warn"])
@pytest.mark.asyncio
async def test_a_pod_that_lost_all_its_claims_is_denied(
    policy: str, change: Callable[[YamlValue], None]
) -> None:
    harness = AdmissionHarness()
    harness.configure({"findings": {"TranslationChanged": policy} if policy else {}}, FACTS)
    changed = (await harness.pod(pod({GPU: "2"}))).after
    change(changed)
    reviewed = await harness.pod(changed)
    assert reviewed.allowed is bool(policy)
    if not policy:
        message = reviewed.status["message"]
        assert message.startswith("TranslationChanged: metadata.annotations")
        assert "no container has a claim or requests devices" in message
    del changed["metadata"]["annotations"]
    assert (await harness.pod(changed)).allowed


@pytest.mark.asyncio
async def test_claims_are_lost_of_a_pod_that_was_translated_without_facts() -> None:
    """Nothing but the annotation and the claims tells of its translation."""
    harness = AdmissionHarness()
    changed = (await harness.pod(pod({GPU: "2"}))).after
    assert list(changed["metadata"]["annotations"]) == [ORIGINAL_ANNOTATION]
    strip_claims(changed)
    assert not (await harness.pod(changed)).allowed


@pytest.mark.parametrize(
    "change",
    [
        replace_tolerations,
        replace_claim,
        change_scheduler,
        copy_annotations,
        shorten_undo(copy_annotations),
        copy_original,
        shorten_undo(copy_original),
        request_instead(**{SERVED: "1"}),
        request_instead(**{"example.com/fpga": "1"}),
        request_instead(**{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}),
    ],
)
@pytest.mark.asyncio
async def test_a_pod_without_what_its_translation_wrote_is_reported(
    change: Callable[[YamlValue], None],
) -> None:
    harness = build_harness({}, [], [])
    changed = (await harness.pod(pod({GPU: "2"}))).after
    assert (await harness.pod(changed)).warnings == []
    change(changed)
    reviewed = await harness.pod(changed)
    assert (reviewed.allowed, reviewed.patch) == (True, [])
    codes = [each.partition(":")[0] for each in reviewed.warnings]
    assert (codes[0], codes[-1]) == ("TranslationChanged", "details")


@pytest.mark.asyncio
async def test_a_fraction_that_a_plugin_serves_is_a_request_of_a_pod_without_claims() -> None:
    harness = build_harness({}, [], [])
    changed = (await harness.pod(pod({GPU: "2"}))).after
    strip_claims(changed)
    changed["metadata"]["annotations"]["gpu-fraction"] = "0.5"
    changed["metadata"]["labels"] = {"kai.scheduler/queue": "a"}
    harness.configure({}, {"names": [{"name": GPU, "nodes": 1}]})
    reviewed = await harness.pod(changed)
    assert (reviewed.allowed, reviewed.patch) == (True, [])
    assert reviewed.warnings[0].startswith("TranslationChanged")


@pytest.mark.parametrize("is_put_back", [False, True])
@pytest.mark.asyncio
async def test_a_request_gets_no_second_claim_if_the_first_one_cannot_be_undone(
    *, is_put_back: bool
) -> None:
    harness = build_harness({}, [], [])
    changed = (await harness.pod(pod({GPU: "2"}))).after
    replace_tolerations(changed)
    if is_put_back:
        changed["spec"]["containers"][0]["resources"]["limits"] = {GPU: "2"}
    else:
        changed = with_container(changed, "1")
    reviewed = await harness.pod(changed)
    assert not reviewed.allowed
    assert reviewed.status["message"].startswith("RequestsContradict: metadata.annotations")
    assert "spec.tolerations[0] has changed" in reviewed.status["message"]


@pytest.mark.asyncio
async def test_a_pod_without_claims_is_translated_whatever_its_annotation_says() -> None:
    """As a manifest with the annotations of another pod, or a webhook that puts back all fields."""
    harness = build_harness({}, [], [])
    translated = (await harness.pod(pod({GPU: "2"}))).after
    copied = pod({GPU: "2"})
    copied["metadata"]["annotations"] = translated["metadata"]["annotations"]
    assert (await harness.pod(copied)).after["spec"] == translated["spec"]


BRIDGE = {"placement": "bridge", "ownedPools": [{"driver": "gpu.nvidia.com", "nodeSelector": {}}]}


@pytest.mark.parametrize("settings", [{}, BRIDGE], ids=["native", "bridge"])
@pytest.mark.parametrize("amount", ["", "2"], ids=["no request", "a request put back"])
@pytest.mark.parametrize(
    ("scheduler", "allowed"),
    [
        ("yunikorn", False),
        ("slurm-bridge-scheduler", False),
        ("koord-scheduler", False),
        ("tensor-fusion-scheduler", False),
        ("volcano", True),
        ("my-scheduler", True),
    ],
)
@pytest.mark.asyncio
async def test_a_translated_pod_is_denied_a_later_scheduler_that_never_runs_claims(
    settings: YamlValue, amount: str, scheduler: str, *, allowed: bool
) -> None:
    harness = AdmissionHarness()
    harness.configure(settings, {**FACTS, "scheduler": True})
    changed = (await harness.pod(pod({GPU: "2"}))).after
    assert (await harness.pod(changed)).allowed
    changed["spec"]["schedulerName"] = scheduler
    if amount:
        changed["spec"]["containers"][0]["resources"]["limits"] = {GPU: amount}
    reviewed = await harness.pod(changed)
    assert reviewed.allowed is allowed
    if not allowed:
        message = reviewed.status["message"]
        assert message.startswith("SchedulerWithoutClaims: spec.schedulerName")
        assert 'set label drawbridge.dev/translate: "off" on the pods' in message


@pytest.mark.asyncio
async def test_a_bound_pod_keeps_its_claims_whatever_its_scheduler() -> None:
    harness = build_harness({}, [], [])
    changed = (await harness.pod(pod({GPU: "2"}))).after
    changed["spec"].update(schedulerName="yunikorn", nodeName="node-1")
    assert (await harness.pod(changed)).allowed


@pytest.mark.parametrize("amount", ["", "1"], ids=["no request", "another request"])
@pytest.mark.asyncio
async def test_a_node_that_a_later_webhook_sets_is_reported(amount: str) -> None:
    harness = build_harness({}, [], [])
    translated = (await harness.pod(pod({GPU: "2"}))).after
    changed = copy.deepcopy(translated)
    changed["spec"]["nodeName"] = "node-1"
    if amount:
        changed = with_container(changed, amount)
    reviewed = await harness.pod(changed)
    assert (reviewed.allowed, reviewed.patch) == (True, [])
    told = [each for each in reviewed.warnings if each.startswith("PodBound: spec.nodeName: ")]
    assert len(told) == 1, reviewed.warnings
    # The scheduler sets the node, and later updates get no warning.
    updated = await harness.pod(changed, operation="UPDATE", old=translated)
    assert updated.warnings == []


@pytest.mark.asyncio
async def test_a_manifest_that_has_a_node_gets_no_such_warning() -> None:
    harness = build_harness({}, [], [])
    changed = (await harness.pod(pod({GPU: "2"}))).after
    changed["spec"]["nodeName"] = "node-1"
    manifest = {"apiVersion": "v1", "kind": "Pod", **changed}
    assert translate_object(manifest, "Pod/p", TranslationContext()).findings == ()
