"""Of whom another scheduler can decide otherwise who gives them devices."""

from drawbridge.models.cluster import ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served
from drawbridge.models.undecided import find_undecided

GPU, CLASS = "nvidia.com/gpu", "gpu.nvidia.com"


def node_of(name: str, units: int, devices: float) -> ModelNode:
    """Return a node with free units of a plugin, or devices of a driver."""
    free = {GPU: units} if units else {}
    return ModelNode(name, free, {CLASS: devices}, has_plugin=bool(units), is_moved=not units)


def kind_of(owner: str, *names: str) -> PodKind:
    """Return the kind of pods for which a class serves the name where no plugin does."""
    nodes = frozenset(names)
    asked = AskedOfNode({GPU: 1}, {CLASS: 1}, nodes, nodes)
    return PodKind("a", owner, {}, asked, by_class=True, units={GPU: 1})


def owners(cluster: ModelCluster) -> set[str]:
    """Return the owners of the pods that are undecided."""
    return {cluster.kinds[cluster.pods[key].kind].full_owner for key in find_undecided(cluster)}


def played(other: PodKind) -> ModelCluster:
    """Return a cluster where two pods have been placed: one on a plugin, and one on a driver."""
    nodes = [node_of("plugin", 1, 0), node_of("driver", 0, 1), node_of("more", 0, 1)]
    kinds = [other, kind_of("Deployment/web", "plugin", "driver")]
    cluster = ModelCluster(ClusterStart(kinds, [], nodes))
    for kind in (0, 1):
        cluster.create_beside(kind)
        cluster.schedule()
    return cluster


def test_a_pod_can_have_the_place_of_one_that_fits_elsewhere() -> None:
    cluster = played(kind_of("Deployment/other", "plugin", "more"))
    cluster.cordon(["more"], cordoned=False)
    assert "a/Deployment/web" in owners(cluster)


def test_no_pod_can_have_the_place_of_one_that_fits_nowhere_else() -> None:
    assert owners(played(kind_of("Deployment/other", "plugin"))) == set()


def test_pods_that_one_drain_ends_can_come_in_any_order() -> None:
    nodes = [node_of("drained", 2, 0), node_of("left", 1, 0)]
    kinds = [kind_of(each, "drained", "left") for each in ("Deployment/a", "Deployment/b")]
    pods = [ModelPod(each, "drained", Served.PLUGIN) for each in (0, 1)]
    cluster = ModelCluster(ClusterStart(kinds, pods, nodes))
    cluster.drain(["drained"])
    assert owners(cluster) == {"a/Deployment/a", "a/Deployment/b"}


def test_pods_that_together_have_what_one_waits_for_are_undecided_with_it() -> None:
    nodes = [node_of("drained", 4, 0), node_of("left", 2, 0)]
    small = kind_of("Deployment/small", "drained", "left")
    large = small._replace(
        owner="Deployment/large", asked=small.asked._replace(amounts={GPU: 2}), units={GPU: 2}
    )
    places = [ModelPod(each, "drained", Served.PLUGIN) for each in (0, 0, 1)]
    cluster = ModelCluster(ClusterStart([small, large], places, nodes))
    cluster.drain(["drained"])
    assert len(find_undecided(cluster)) == 3
