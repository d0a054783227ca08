"""Reviews of translated pods to which another webhook added a container with a request.

A request that is added later is judged as if it had been there from the start.
"""

import copy
from typing import Any

import msgspec
import pytest

from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.names import ORIGINAL_ANNOTATION
from tests.tables import YamlValue
from tests.webhook.admission.harness import AdmissionHarness, Response, pod
from webhook.admission.limit_ranges import LimitRange

GPU = "nvidia.com/gpu"
FACTS = {
    "classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}],
    "names": [{"name": GPU, "nodes": 0}],
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
