"""A copy of a cluster plays alone, and pods that found no node are tried where room came."""

import pytest

from drawbridge.audit.namespaces import find_restartable
from drawbridge.models.cluster import ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served
from drawbridge.models.rollouts import PodRollout

GPU, CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
NODES = frozenset({"first", "second"})


def kind_of(owner: str, gpus: int = 1) -> PodKind:
    """Return the kind of pods that ask a plugin for GPUs, and with claims a driver."""
    units = {GPU: gpus}
    asked = AskedOfNode(units, {}, NODES, NODES)
    translated = AskedOfNode({}, {CLASS: gpus}, NODES, NODES)
    return PodKind("a", owner, {}, asked, translated, units=units, rollout=PodRollout(1, 0))


def cluster_of(kinds: list[PodKind], pods: list[ModelPod], gpus: int = 1) -> ModelCluster:
    """Return two nodes whose plugin offers GPUs, and whose driver will."""
    nodes = [
        ModelNode(
            each, {GPU: gpus}, {}, {CLASS: gpus}, {GPU: gpus}, "gpu.nvidia.com", has_plugin=True
        )
        for each in sorted(NODES)
    ]
    return ModelCluster(ClusterStart(kinds, pods, nodes))


def places(cluster: ModelCluster) -> list[tuple[int, str]]:
    """Return the kinds of pods with their nodes."""
    return sorted((each.kind, each.node) for each in cluster.pods.values())


def test_neither_of_two_copies_sees_what_the_other_does() -> None:
    pods = [ModelPod(0, "first", Served.PLUGIN), ModelPod(1, "second", Served.PLUGIN)]
    cluster = cluster_of([kind_of("Deployment/a"), kind_of("Deployment/b")], pods)
    before = places(cluster)
    other = cluster.copy()
    other.drain(["first"])
    other.swap(["first"])
    assert places(cluster) == before
    assert cluster.nodes["first"].has_plugin
    assert cluster.offered() == frozenset()
    cluster.drain(["second"])
    assert places(other) == [(0, ""), (1, "second")]
    assert not other.nodes["second"].is_cordoned
    assert [len(each.of_kinds([0, 1])) for each in (cluster, other)] == [2, 2]


def test_a_pod_that_found_no_node_starts_where_one_ended() -> None:
    pods = [ModelPod(0, "first", Served.PLUGIN), ModelPod(0, "second", Served.PLUGIN), ModelPod(1)]
    cluster = cluster_of([kind_of("Job/a"), kind_of("Job/b")], pods)
    cluster.schedule()
    assert (1, "") in places(cluster)
    cluster.suspend(["a/Job/a"])
    assert [node for kind, node in places(cluster) if kind] == ["first"]


@pytest.mark.parametrize(
    ("gpus", "pods", "expected"),
    [
        pytest.param(2, 2, ("Deployment/a",), id="the driver has as many devices"),
        pytest.param(2, 3, (), id="the driver has fewer devices than there are pods"),
        pytest.param(1, 1, ("Deployment/a",), id="one pod of one device"),
    ],
)
def test_an_owner_is_restarted_only_where_drivers_have_devices_for_all_its_pods(
    gpus: int, pods: int, expected: tuple[str, ...]
) -> None:
    running = [ModelPod(0, "second", Served.PLUGIN)] * pods
    cluster = cluster_of([kind_of("Deployment/a")], running, gpus)
    cluster.swap(["first"])
    assert find_restartable(cluster, "a") == expected
