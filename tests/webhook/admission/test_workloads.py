"""An object that makes pods, and what its author reads."""

from pathlib import Path

import msgspec
import pytest

from registration.controller_codes import NAME_NOT_ACTIVE
from tests.tables import Plain, cases
from tests.webhook.admission.harness import ENFORCE, Known, Town
from webhook.admission.limit_ranges import LimitRange

CASES = cases(Path(__file__).parent / "cases" / "workloads.yaml")
FACTS = {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}
pytestmark = pytest.mark.asyncio


def deployment(case: Plain, spec: Plain) -> Plain:
    metadata = {"annotations": case.get("annotations", {}), "labels": case.get("pod_labels", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"replicas": 3, "template": {"metadata": metadata, "spec": spec}},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_the_table_of_workloads(case: Plain) -> None:
    town = Town(Known(namespaces={"team": case.get("labels", ENFORCE)}))
    town.decides(case.get("configuration", {}), FACTS)
    town.known.ranges = msgspec.convert(case.get("ranges", []), tuple[LimitRange, ...])
    object_ = case.get("object") or deployment(case, case["spec"])
    request: Plain = {}
    if "old" in case:
        old = case["spec"] if case["old"] == "same" else case["old"]
        request = {"operation": "UPDATE", "old": {**deployment(case, old), "status": {}}}
    answer = await town.workload(object_, **request)
    assert answer.reply.outcome == case["outcome"]
    assert answer.status.get("code") == case.get("code")
    assert answer.allowed is ("code" not in case)
    assert not answer.patch
    assert town.store.calls == []
    if "warnings" in case:
        begun = [w.startswith(b) for w, b in zip(answer.warnings, case["warnings"], strict=True)]
        assert all(begun), answer.warnings
    else:
        assert case["message"] in answer.status["message"]


async def test_what_may_keep_its_pods_from_us_is_told_where_they_would_be_translated() -> None:
    town = Town()
    town.decides({}, FACTS)
    town.known.lacks = (NAME_NOT_ACTIVE.at("webhooks[0].matchConditions", "another than ours"),)
    lines = []
    for name in ("nvidia.com/gpu", "cpu"):
        containers = [{"name": "main", "resources": {"limits": {name: 1}}}]
        lines.append((await town.workload(deployment({}, {"containers": containers}))).warnings)
    assert any(each.startswith("NameNotActive: webhooks[0]") for each in lines[0]), lines
    assert lines[1] == []


async def test_without_facts_an_object_is_let_through() -> None:
    town = Town()
    town.known.by = None
    assert (await town.workload(deployment({}, {"containers": []}))).allowed


async def test_an_object_that_is_none_is_refused() -> None:
    answer = await Town().workload({"kind": "Deployment"}, object=None)
    assert answer.status["code"] == 400


async def test_a_kind_without_end_makes_no_warning_without_end() -> None:
    kind = {"group": "g" * 5000, "version": "v1", "kind": "K" * 5000}
    spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    answer = await Town().workload(deployment({}, spec), kind=kind)
    assert answer.warnings[-1].startswith("all of it: kubectl get kkk")  # and none is too long
