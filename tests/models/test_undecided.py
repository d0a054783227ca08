"""Of whom another scheduler can decide otherwise who gives them devices."""

import pytest

from drawbridge.models.cluster import BLOCKED, ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served
from drawbridge.models.undecided import can_lose_devices, find_undecided

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


def played_large(devices: int) -> ModelCluster:
    """Return a cluster where a pod asks for two devices after two for one came to two nodes."""
    nodes = [node_of("one", 0, devices), node_of("two", 0, devices)]
    small = kind_of("Deployment/small", "one", "two")
    asked = small.asked._replace(devices={CLASS: 2})
    large = small._replace(owner="Deployment/large", asked=asked)
    cluster = ModelCluster(ClusterStart([small, large], [], nodes))
    for kind, cordoned in ((0, "one"), (0, "two"), (1, "")):
        cluster.drain([])  # what comes afterwards is later
        for each in ("one", "two"):
            cluster.cordon([each], cordoned=each == cordoned)
        cluster.create_beside(kind)
        cluster.schedule()
    waiting = {cluster.kinds[each].owner for each, _ in cluster.waiting_kinds()}
    assert waiting == {"Deployment/large"}
    return cluster


def test_a_pod_that_waits_can_have_the_devices_that_others_leave_free_on_several_nodes() -> None:
    assert "a/Deployment/large" in owners(played_large(2))


def test_a_pod_waits_for_sure_if_fewer_devices_are_free_than_it_asks_for() -> None:
    assert "a/Deployment/large" not in owners(played_large(1))


def test_a_pod_on_a_driver_that_may_be_on_the_drained_node_can_come_back_with_its_pods() -> None:
    nodes = [node_of("drained", 2, 0), node_of("driver", 0, 1)]
    web, other = (
        kind_of(each, "drained", "driver") for each in ("Deployment/web", "Deployment/other")
    )
    cluster = ModelCluster(
        ClusterStart([web, other], [ModelPod(1, "drained", Served.PLUGIN)], nodes)
    )
    cluster.cordon(["drained"], cordoned=True)
    cluster.create_beside(0)
    cluster.schedule()
    cluster.cordon(["drained"], cordoned=False)
    cluster.drain(["drained"])
    assert owners(cluster) == {"a/Deployment/web", "a/Deployment/other"}


@pytest.mark.parametrize(
    ("asked", "missing", "expected"),
    [
        pytest.param(2, 1, True, id="the device of one pod and the free one"),
        pytest.param(3, 1, False, id="one device more"),
        pytest.param(3, 2, True, id="two pods are missing at once"),
        pytest.param(4, 2, False, id="more than the node has"),
    ],
)
def test_a_pod_that_waits_can_have_what_a_restart_frees(
    asked: int, missing: int, *, expected: bool
) -> None:
    small, large = kind_of("StatefulSet/small", "one"), kind_that_asks(asked, "one")
    pods = [ModelPod(0, "one", Served.DRIVER), ModelPod(0, "one", Served.DRIVER), ModelPod(1)]
    cluster = ModelCluster(ClusterStart([small, large], pods, [node_of("one", 0, 3)]))
    assert can_lose_devices(cluster, "a/StatefulSet/small", missing) is expected


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        pytest.param(1, True, id="a scheduler has placed the others, and can do so otherwise"),
        pytest.param(0, False, id="the others are where they are"),
    ],
)
def test_a_restart_frees_devices_beside_others_wherever_a_scheduler_puts_those(
    placed: int, *, expected: bool
) -> None:
    names = "one", "two"
    kinds = [kind_of("StatefulSet/small", *names), kind_that_asks(2, *names)]
    kinds.append(kind_of("Deployment/other", *names))
    others = [ModelPod(2, each, Served.DRIVER, placed=placed) for each in names]
    pods = [ModelPod(0, "one", Served.DRIVER), ModelPod(1), *others]
    cluster = ModelCluster(ClusterStart(kinds, pods, [node_of(each, 0, 2) for each in names]))
    assert can_lose_devices(cluster, "a/StatefulSet/small", 1) is expected
    cluster.restart(["a/StatefulSet/small"])
    assert any(each.what == BLOCKED for each in cluster.take_changes()) is expected


def kind_that_asks(devices: int, *names: str) -> PodKind:
    """Return the kind of pods that ask drivers for so many devices."""
    kind = kind_of("Deployment/large", *names)
    return kind._replace(asked=kind.asked._replace(devices={CLASS: devices}))


def test_pods_that_may_be_on_one_node_are_decided_beside_others_that_ask_for_the_same() -> None:
    kinds = [kind_of("Deployment/both", "plugin", "driver"), kind_of("Deployment/one", "plugin")]
    nodes = [node_of("plugin", 2, 0), node_of("driver", 0, 2)]
    cluster = ModelCluster(ClusterStart(kinds, [], nodes))
    for kind in (0, 1):
        cluster.create_beside(kind)
    cluster.schedule()
    assert owners(cluster) == {"a/Deployment/both"}


def test_owners_that_ask_for_the_same_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_serves(80, monkeypatch) < 2 * count_serves(20, monkeypatch)


def count_serves(owners: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often nodes are asked about pods of so many owners."""
    names = [f"n{number}" for number in range(20)]
    kinds = [kind_of(f"Deployment/{number}", *names) for number in range(owners)]
    nodes = [node_of(each, 8, 0) for each in names[:10]] + [node_of(e, 0, 8) for e in names[10:]]
    cluster = ModelCluster(ClusterStart(kinds, [], nodes))
    for kind in range(owners):
        cluster.create_beside(kind)
    cluster.schedule()
    serve, calls = ModelNode.serve, [0]

    def count(node: ModelNode, kind: PodKind, *, translated: bool) -> Served | None:
        calls[0] += 1
        return serve(node, kind, translated=translated)

    with monkeypatch.context() as patched:
        patched.setattr(ModelNode, "serve", count)
        assert find_undecided(cluster)
    return calls[0]
