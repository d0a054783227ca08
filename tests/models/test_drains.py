"""Which drains may never end, whatever node a scheduler chooses for pods that are created again."""

import pytest

from drawbridge.models.budgets import Budget
from drawbridge.models.cluster import BLOCKED, ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served

GPU = {"nvidia.com/gpu": 1}


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
    cluster.drain(["drained"])
    blocked = (e for e in cluster.take_changes() if e.what == BLOCKED)
    assert {cluster.kinds[each.kind].full_owner for each in blocked} == expected
