"""Whom a drain meets, whatever node a scheduler chooses for pods that are created again."""

import pytest

from drawbridge.audit.risks import find_failing_jobs
from drawbridge.audit.templates import Templates
from drawbridge.models.budgets import Budget
from drawbridge.models.cluster import BLOCKED, ClusterStart, ModelCluster
from drawbridge.models.jobs import JobRules
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served

GPU = {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        pytest.param({"rdma/nic": 4}, [("a", "Job/train")], id="the node has all it asks for"),
        pytest.param({}, [], id="the node has no network device for it"),
    ],
)
def test_a_job_can_fail_where_a_scheduler_can_put_its_pods(
    offered: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    units = {**GPU, "rdma/nic": 1}
    asked = AskedOfNode(units, {}, frozenset({"drained", "other"}))
    kind = PodKind("a", "Job/train", {}, asked, units=units, job=JobRules(0))
    drained, other = node_of("drained", 1), node_of("other", 1)
    drained.free |= offered
    pod = ModelPod(0, "other", Served.PLUGIN, placed=1)
    cluster = ModelCluster(ClusterStart([kind], [pod], [drained, other]))
    failing = find_failing_jobs([cluster], Templates(()), ["drained"], obeys_budgets=True)
    assert failing == expected


def node_of(name: str, gpus: int, *, cordoned: bool = False) -> ModelNode:
    """Return a node whose plugin offers GPUs."""
    return ModelNode(name, {"nvidia.com/gpu": gpus}, {}, has_plugin=True, is_cordoned=cordoned)


@pytest.mark.parametrize(
    ("least", "gpus", "cordoned", "placed", "expected"),
    [
        pytest.param("1", 1, False, 1, {"a/Deployment/w"}, id="the scheduler may choose the node"),
        pytest.param("0", 1, False, 1, set(), id="its budget allows an eviction"),
        pytest.param("1", 0, False, 1, set(), id="the node has no GPU for it"),
        pytest.param("1", 1, True, 1, set(), id="the node was cordoned before"),
        pytest.param("1", 1, False, 0, set(), id="the pod has run since before the plan"),
    ],
)
def test_a_drain_may_stop_at_a_pod_that_a_scheduler_can_put_there(
    least: str, gpus: int, placed: int, expected: set[str], *, cordoned: bool
) -> None:
    asked = AskedOfNode(GPU, {}, frozenset({"drained", "other"}))
    kind = PodKind("a", "Deployment/w", {"app": "w"}, asked, units=GPU, wanted=1)
    pod = ModelPod(0, "other", Served.PLUGIN, placed=placed)
    nodes = [node_of("drained", gpus, cordoned=cordoned), node_of("other", 1)]
    budget = Budget("w", "a", {"app": "w"}, least=least)
    cluster = ModelCluster(ClusterStart([kind], [pod], nodes, [budget]))
    # A step can cordon the node for other reasons before it drains it.
    cluster.cordon(["drained"], cordoned=True)
    cluster.drain(["drained"])
    blocked = (e for e in cluster.take_changes() if e.what == BLOCKED)
    assert {cluster.kinds[each.kind].full_owner for each in blocked} == expected
