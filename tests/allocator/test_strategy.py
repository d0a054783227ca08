"""The allocator follows the strategy of the configuration: nodes, devices, and CPU beside them."""

import gc
from collections import Counter
from typing import Any, get_args

import pytest

from allocator.decisions.strategy import ConfiguredStrategy
from allocator.state.caches import without_unused_parts
from drawbridge.choice.amounts import NodeRoom, Task
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.levels import ByLevels
from drawbridge.choice.strategy import JudgedNode
from drawbridge.dra.claim import ClaimMetadata
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.rules import StrategyName
from drawbridge.dra.slices import Slice
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.ledger.node_choice import DecidedPod, NodeChoice
from drawbridge.ledger.pods import Pod, pod_reader
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    as_slice,
    claim,
    device,
    gpu_slice,
    pod_fields,
    rules,
)


def _node(name: str) -> Node:
    return Node(name, {"name": name}, allocatable={"cpu": parse("8"), "memory": parse("16Gi")})


def _busy_pod(node: str, cpu: str, phase: str = "Running") -> Pod:
    """A pod without claims, as the cache of the allocator keeps it."""
    fields = pod_fields(f"busy-{node}", node=node, phase=phase)
    fields["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    read = pod_reader().read(fields)
    assert isinstance(read, Pod)
    return without_unused_parts(read)


def _part(name: str, memory: str) -> Plain:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": memory}}}
    return claim(name, requests=[{"name": "r", "exactly": exactly}])


def _schedule(cluster: Cluster, uid: str, plain: Plain, limit: int = 0) -> tuple[str, list[str]]:
    """Schedule a pod as kube-scheduler does; return its node and its devices."""
    node = cluster.prefilter(uid, plain, limit=limit).fit[0].node
    assert not cluster.reserve(uid, node)
    reserved = cluster.state.ledger.reservations[plain["metadata"]["uid"]].reservation
    return node, [each.device for each in reserved.allocation.devices.results]


def test_the_best_node_of_all_is_found_and_not_of_the_first_ones() -> None:
    cluster = Cluster(strategy="packed", **{f"n{number:02}": 4 for number in range(40)})
    cluster.add_claim(claim("held", allocation=allocation_on("n37", 0), pods=["x"]))
    assert _schedule(cluster, "p", claim("c"), limit=5) == ("n37", ["gpu-1"])
    assert _schedule(cluster, "q", claim("d"), limit=5) == ("n37", ["gpu-2"])


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, ["gpu-0", "gpu-0", "gpu-0"]),
        ("packed", ["gpu-0", "gpu-0", "gpu-0"]),
        ("spread", ["gpu-0", "gpu-1", "gpu-0"]),
    ],
)
def test_parts_of_devices_are_packed_or_spread(strategy: str | None, expected: list[str]) -> None:
    cluster = Cluster(strategy=strategy)
    capacity = {"memory": {"value": "80Gi"}}
    cluster.add(_node("n1"), gpu_slice("n1", 2, allowMultipleAllocations=True, capacity=capacity))
    parts = [_schedule(cluster, f"p{n}", _part(f"c{n}", "20Gi"))[1] for n in range(3)]
    assert [each for devices in parts for each in devices] == expected


def _shared(node: str, count: int, memory: str) -> Slice:
    capacity = {"memory": {"value": memory}}
    return gpu_slice(node, count, allowMultipleAllocations=True, capacity=capacity)


@pytest.mark.parametrize("strategy", ["usable", "fgd", "best-fit", "packed"])
def test_devices_that_are_asked_for_nothing_do_not_stop_other_pods(strategy: str) -> None:
    cluster = Cluster(strategy=strategy)
    cluster.add(_node("n1"), _shared("n1", 2, "80Gi"), _node("n2"), _shared("n2", 2, "80Gi"))
    exactly = {"deviceClassName": "gpu", "count": 2, "capacity": {"requests": {"memory": "0"}}}
    _schedule(cluster, "p", claim("c", requests=[{"name": "r", "exactly": exactly}]))
    for number in range(4):
        _schedule(cluster, f"p{number}", _part(f"c{number}", "80Gi"))
        _catch_up(cluster)


@pytest.mark.parametrize("strategy", ["usable", "fgd", "best-fit", "packed"])
@pytest.mark.parametrize("memory", ["0", "-1Gi", "1m", "9E"])
def test_a_node_that_lies_about_a_capacity_does_not_stop_other_nodes(
    strategy: str, memory: str
) -> None:
    cluster = Cluster(strategy=strategy)
    cluster.add(_node("n1"), _shared("n1", 1, "80Gi"))
    assert _schedule(cluster, "p", _part("c", "40Gi")) == ("n1", ["gpu-0"])
    cluster.add(_shared("n1", 1, memory), _node("n2"), _shared("n2", 1, "80Gi"))
    _catch_up(cluster)
    assert "n2" in {each.node for each in cluster.prefilter("q", _part("d", "40Gi")).fit}
    _catch_up(cluster)


@pytest.mark.parametrize("strategy", ["usable", "fgd", "best-fit", "packed"])
@pytest.mark.parametrize(("total", "drawn"), [(-8, 1), (8, -8), (0, 0), (8, 1 << 62)])
def test_a_node_that_lies_about_counters_does_not_stop_other_nodes(
    strategy: str, total: int, drawn: int
) -> None:
    cluster = Cluster(strategy=strategy)
    cluster.add(_node("n1"), *_partitioned("n1", 8, 1), _node("n2"), *_partitioned("n2", 8, 1))
    on = [_schedule(cluster, f"p{number}", claim(f"c{number}"))[0] for number in range(2)]
    lying, other = (on[0], "n2") if on[0] == "n1" else (on[0], "n1")
    cluster.add(*_partitioned(lying, total, drawn))
    _catch_up(cluster)
    assert other in {each.node for each in cluster.prefilter("q", claim("d")).fit}
    _catch_up(cluster)


@pytest.mark.parametrize("strategy", ["usable", "packed"])
def test_nothing_stays_of_products_that_no_node_has_any_more(strategy: str) -> None:
    before, cluster = _count_choosers(), Cluster(strategy=strategy, other=1)
    for number in range(20):
        attributes = {"productName": {"string": f"product-{number}"}}
        cluster.add(_node("n1"), gpu_slice("n1", 1, attributes=attributes))
        assert len(cluster.prefilter(f"p{number}", claim(f"c{number}")).fit) == 2
    assert _count_choosers() == before + 2


def _count_choosers() -> int:
    gc.collect()
    return sum(isinstance(each, NodeChooser) for each in gc.get_objects())


def _partitioned(node: str, total: int, drawn: int) -> list[Slice]:
    """The slices of a GPU with four partitions, with what it has and what each one draws."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool}
    counters = [{"name": "gpu", "counters": {"slices": {"value": f"{total}"}}}]
    consumes = [{"counterSet": "gpu", "counters": {"slices": {"value": f"{drawn}"}}}]
    devices = [{"name": f"gpu-{i}", "consumesCounters": consumes} for i in range(4)]
    return [
        as_slice({"metadata": {"name": f"{node}-{kind}"}, "spec": {**spec, kind: content}})
        for kind, content in (("sharedCounters", counters), ("devices", devices))
    ]


def test_a_claim_that_the_devices_of_the_strategy_do_not_suit_gets_others() -> None:
    cluster = Cluster(strategy="spread")
    cluster.add(_node("n1"), gpu_slice("n1", 2))
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "selectors": selectors, "count": 2}
    asked = claim("c", requests=[{"name": "r", "exactly": exactly}])
    assert _schedule(cluster, "p", asked) == ("n1", ["gpu-0", "gpu-1"])


def test_pods_without_claims_take_cpu_from_the_nodes() -> None:
    cluster = Cluster(strategy="best-fit", n1=2, n2=2)
    cluster.add(_node("n1"), _node("n2"), _busy_pod("n2", "6"))
    assert cluster.state.amounts.left("n2")["cpu"] == 2000
    assert cluster.prefilter("p", claim("c")).fit[0].node == "n2"


def test_pods_that_ended_or_are_deleted_give_cpu_back() -> None:
    cluster, runs = Cluster(n1=1), _busy_pod("n1", "6")
    cluster.add(_node("n1"), runs)
    cluster.state.apply(runs, _busy_pod("n1", "6", phase="Succeeded"))
    assert cluster.state.amounts.left("n1")["cpu"] == 8000
    cluster.state.apply(_busy_pod("n1", "6", phase="Succeeded"), None)
    assert cluster.state.amounts.left("n1")["cpu"] == 8000


def test_a_device_that_failed_lately_is_not_preferred() -> None:
    cluster = Cluster(strategy="packed", n1=2, n2=2)
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    cluster.state.penalise(device("n1", 1), until=60.0)
    assert _schedule(cluster, "p", claim("c")) == ("n2", ["gpu-0"])


def test_a_pod_with_a_promise_stays_on_its_node() -> None:
    cluster = Cluster(strategy="spread", n1=1)
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    assert not cluster.prefilter("p", claim("c")).fit
    cluster.add(_node("n2"), gpu_slice("n2", 2), _node("n3"), gpu_slice("n3", 2))
    promised = cluster.decisions.promises.make("p", cluster.now).node
    cluster.add_claim(claim("other", allocation=allocation_on(promised, 1), pods=["y"]))
    assert cluster.prefilter("p", claim("c")).fit[0].node == promised


def _catch_up(cluster: Cluster) -> int:
    """Prepare the strategy to the end; return the number of turns."""
    turns = 1
    while cluster.decisions.strategy.catch_up():
        turns += 1
    return turns


def test_nodes_that_no_decision_has_looked_at_are_prepared_in_turns() -> None:
    cluster = Cluster(strategy="packed", **{f"n{number:03}": 3 for number in range(300)})
    cluster.add_claim(claim("held", allocation=allocation_on("n290", 0), pods=["x"]))
    assert _schedule(cluster, "p", claim("c"), limit=5)[0] != "n290"
    assert _catch_up(cluster) > 2
    cluster.add_claim(claim("more", allocation=allocation_on("n290", 1), pods=["z"]))
    assert _schedule(cluster, "q", claim("d"), limit=5) == ("n290", ["gpu-2"])


def test_a_decision_ends_with_its_time_and_the_next_ones_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, judged = Cluster(strategy="packed"), Counter[str]()
    for number in range(40):
        name, cpu = f"n{number:03}", parse(f"{64_000 + number}m")
        cluster.add(Node(name, allocatable={"cpu": cpu}), gpu_slice(name, 4))
    cluster.add_claim(claim("held", allocation=allocation_on("n020", 0), pods=["x"]))
    judge = ByLevels.judge

    def counted(self: ByLevels, node: NodeRoom, task: Task) -> JudgedNode | None:
        judged.update(["judged"])
        return judge(self, node, task)

    monkeypatch.setattr(ByLevels, "judge", counted)
    request = cluster.request("p", claim("c"), limit=5)
    cluster.decisions.prefilter(request, 0.0, lambda: judged.total() > 0)
    assert judged.total() == 1
    # The others are judged one in each turn.
    turns = 1
    while cluster.decisions.strategy.catch_up(lambda: True):
        turns += 1
    assert turns > 35
    assert _schedule(cluster, "q", claim("d"), limit=5)[0] == "n020"


def test_nodes_are_judged_between_decisions() -> None:
    cluster = Cluster(strategy="packed")
    for number in range(300):
        name, cpu = f"n{number:03}", parse(f"{64_000 + number}m")
        cluster.add(Node(name, allocatable={"cpu": cpu}), gpu_slice(name, 4))
    for place in range(3):
        held = claim(f"held-{place}", allocation=allocation_on("n150", place), pods=["x"])
        cluster.add_claim(held)
    # No two nodes are equal. Two decisions judge fewer than there are.
    assert _schedule(cluster, "p", claim("c"), limit=5)[0] != "n150"
    _catch_up(cluster)
    assert _schedule(cluster, "q", claim("d"), limit=5)[0] == "n150"


def test_new_devices_of_a_node_count_at_once() -> None:
    cluster = Cluster(strategy="spread", **{f"n{number:03}": 1 for number in range(100)})
    cluster.add(_node("new"))
    _schedule(cluster, "p", claim("c"))
    _catch_up(cluster)
    for number in range(100):
        held = claim(f"held-{number}", allocation=allocation_on(f"n{number:03}", 0), pods=["x"])
        cluster.add_claim(held)
    _catch_up(cluster)
    cluster.add(gpu_slice("new", 2))
    assert _schedule(cluster, "q", claim("d")) == ("new", ["gpu-0"])


def test_the_best_node_is_one_that_the_pod_allows() -> None:
    cluster = Cluster(strategy="packed", **{f"n{number:02}": 4 for number in range(60)})
    # More nodes are better than are examined, and the pod allows two of all.
    for number in range(40):
        held = [allocation_on(f"n{number:02}", place) for place in range(2)]
        for place, each in enumerate(held):
            cluster.add_claim(claim(f"held-{number}-{place}", allocation=each, pods=["x"]))
    cluster.add_claim(claim("held", allocation=allocation_on("n57", 0), pods=["x"]))
    only = {"key": "name", "operator": "In", "values": ["n55", "n57"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [only]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    reply = cluster.prefilter("p", claim("c"), limit=5, nodeAffinity=affinity)
    assert [each.node for each in reply.fit] == ["n57", "n55"]
    assert reply.complete
    reply = cluster.prefilter("q", claim("d"), limit=5, nodeSelector={"name": "n59"})
    assert [each.node for each in reply.fit] == ["n59"]


def test_other_nodes_follow_if_the_claims_do_not_fit_the_best() -> None:
    cluster = Cluster(strategy="packed")
    for name in [*(f"n{number:02}" for number in range(30)), "z0", "z1", "z2"]:
        size = {"string": "large" if name.startswith("z") else "small"}
        cluster.add(Node(name), gpu_slice(name, 2, attributes={"size": size}))
    for number in range(30):
        held = allocation_on(f"n{number:02}", 0)
        cluster.add_claim(claim(f"held-{number}", allocation=held, pods=["x"]))
    selectors = [{"cel": {"expression": "device.attributes['gpu.example.com'].size == 'large'"}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]
    reply = cluster.prefilter("p", claim("c", requests=requests), limit=9)
    assert (sorted(each.node for each in reply.fit), reply.complete) == (["z0", "z1", "z2"], True)


def test_a_node_that_was_deleted_is_forgotten() -> None:
    cluster = Cluster(strategy="packed", n1=2, n2=3)
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    assert _schedule(cluster, "p", claim("c"))[0] == "n1"
    cluster.state.apply(cluster.state.planner.nodes["n1"], None)
    assert _schedule(cluster, "q", claim("d"))[0] == "n2"


def test_tasks_are_learned_from_claims_that_exist_at_the_start() -> None:
    cluster = Cluster(strategy="usable", n1=2)
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    again = Cluster(strategy="usable", n1=2)
    again.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    strategy = ConfiguredStrategy(again.state, StrategyNames("usable"))
    assert not strategy.catch_up()
    assert strategy.orders


def test_at_the_start_no_namespace_keeps_the_claims_of_others_from_being_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, learned = Cluster(n1=2), Counter[str]()
    for number in range(1100):
        cluster.add_claim(
            claim(f"held-{number}", allocation=allocation_on("n1", 0), pods=[f"x-{number}"])
        )
    other = claim("other", allocation=allocation_on("n1", 1), pods=["y"], namespace="later")
    cluster.add_claim(other)
    monkeypatch.setattr(NodeChoice, "learn", lambda _, pod: learned.update([pod.namespace]))
    strategy = ConfiguredStrategy(cluster.state, StrategyNames("usable"))
    while strategy.catch_up():
        pass
    assert learned == {"default": 1023, "later": 1}


def test_only_pods_whose_claims_are_allocated_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned = Counter[str]()
    monkeypatch.setattr(NodeChoice, "learn", lambda _, pod: learned.update([pod.key]))
    cluster = Cluster(strategy="usable", n1=4, n2=4)
    for number in range(50):
        assert cluster.prefilter(f"asks-{number}", claim(f"asked-{number}")).fit
    _schedule(cluster, "reserves", claim("reserved"))
    cluster.schedule_group("a", "b", "c")
    _catch_up(cluster)
    assert not learned
    for number in range(2):
        held = claim(f"held-{number}", allocation=allocation_on("n1", number), pods=["runs"])
        cluster.add_claim(held)
    _catch_up(cluster)
    cluster.add_claim(held | {"metadata": held["metadata"] | {"resourceVersion": "99"}})
    _catch_up(cluster)
    assert learned == {"runs": 2}


def test_a_pod_with_several_claims_is_learned_as_one_task() -> None:
    cluster = Cluster(strategy="usable", n1=4)
    for number in range(2):
        held = claim(f"held-{number}", allocation=allocation_on("n1", number), pods=["runs"])
        cluster.add_claim(held)
    learned: list[DecidedPod] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeChoice, "learn", lambda _, pod: learned.append(pod))
        _catch_up(cluster)
    devices = [
        {each.device for one in pod.allocations for each in one.devices.results} for pod in learned
    ]
    assert devices == [{"gpu-0", "gpu-1"}] * 2


def test_the_class_of_the_devices_decides_the_strategy() -> None:
    cluster = Cluster(strategy="packed", classes={"other": "spread"}, n1=3, n2=3)
    cluster.add(DeviceClass(metadata=ClaimMetadata(name="other")))
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    exactly = {"deviceClassName": "other"}
    other = claim("o", requests=[{"name": "r", "exactly": exactly}])
    assert _schedule(cluster, "p", other)[0] == "n2"
    assert _schedule(cluster, "q", claim("c"))[0] == "n1"


# --- strategies of pods, in the rules of their claims ---


def test_a_pod_with_a_strategy_of_its_own_gets_the_best_node_of_all() -> None:
    cluster = Cluster(**{f"n{number:02}": 4 for number in range(40)})
    cluster.add_claim(claim("held", allocation=allocation_on("n37", 0), pods=["x"]))
    assert not cluster.decisions.strategy.orders
    packed = claim("c", annotations=rules(strategy={"name": "packed"}))
    assert _schedule(cluster, "p", packed, limit=5) == ("n37", ["gpu-1"])
    assert _schedule(cluster, "q", claim("d"), limit=5)[0] != "n37"
    assert cluster.decisions.strategy.orders


_NUMA = "resource.kubernetes.io/numaNode"


def _on_numa_nodes(name: str, *numbers: int) -> Slice:
    devices = [
        {"name": f"gpu-{i}", "attributes": {_NUMA: {"int": each}}} for i, each in enumerate(numbers)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return as_slice({"metadata": {"name": f"{name}-gpu"}, "spec": spec})


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, ("n1", ["gpu-0", "gpu-1"])),
        ("packed", ("n1", ["gpu-0", "gpu-1"])),
        ("numa", ("n2", ["gpu-1", "gpu-3"])),
        ("topology-aware", ("n2", ["gpu-1", "gpu-3"])),
    ],
)
def test_several_devices_are_near_each_other(
    strategy: str | None, expected: tuple[str, list[str]]
) -> None:
    cluster = Cluster(strategy=strategy)
    cluster.add(_node("n1"), _on_numa_nodes("n1", 0, 1, 2, 3))
    cluster.add(_node("n2"), _on_numa_nodes("n2", 0, 1, 2, 1))
    assert _schedule(cluster, "p", claim("c", 2)) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [({"memory": 1}, ["gpu-0"]), ({"cores": 1}, ["gpu-1"]), ({"cores": 1, "memory": 9}, ["gpu-0"])],
)
def test_the_weights_of_a_pod_decide_what_is_packed(
    weights: dict[str, int], expected: list[str]
) -> None:
    cluster = Cluster()
    capacity = {"memory": {"value": "80Gi"}, "cores": {"value": "100"}}
    cluster.add(_node("n1"), gpu_slice("n1", 2, allowMultipleAllocations=True, capacity=capacity))
    for number, (memory, cores) in enumerate((("60Gi", "10"), ("10Gi", "50"))):
        held = allocation_on("n1", number)
        (result,) = held["devices"]["results"]
        result |= {
            "consumedCapacity": {"memory": memory, "cores": cores},
            "shareID": f"0f36a3e7-5b0e-4c3a-9d9a-00000000000{number}",
        }
        cluster.add_claim(claim(f"held-{number}", allocation=held, pods=["x"]))
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi", "cores": "1"}}}
    asked = claim(
        "c",
        requests=[{"name": "r", "exactly": exactly}],
        annotations=rules(strategy={"name": "packed", "weights": weights}),
    )
    assert _schedule(cluster, "p", asked)[1] == expected


def test_strategies_of_many_pods_take_no_memory_of_others() -> None:
    """Each strategy follows all nodes, and a tenant can name each one."""
    cluster = Cluster(strategy="usable", **{f"n{number}": 40 for number in range(3)})
    for number, name in enumerate(get_args(StrategyName)):
        _schedule(
            cluster, f"own{number}", claim(f"o{number}", annotations=rules(strategy={"name": name}))
        )
        _schedule(cluster, f"p{number}", claim(f"c{number}"))
    choice = cluster.decisions.strategy._choice  # noqa: SLF001  # what it remembers
    names = [chosen.name for _, chosen in choice._drivers]  # noqa: SLF001
    assert "usable" in names
    assert len(names) == 5


def test_weights_of_many_pods_take_no_memory_and_no_turn_of_others() -> None:
    cluster = Cluster(strategy="packed", **{f"n{number:03}": 40 for number in range(3)})
    for number in range(20):
        own = rules(strategy={"name": "spread", "weights": {"devices": number + 1}})
        _schedule(cluster, f"p{number}", claim(f"c{number}", annotations=own))
    choice = cluster.decisions.strategy._choice  # noqa: SLF001  # what it remembers
    assert len(choice._drivers) <= 5  # noqa: SLF001
    _catch_up(cluster)
    cluster.add(*(_node(f"new{number}") for number in range(200)))
    cluster.add(*(gpu_slice(f"new{number}", 1) for number in range(200)))
    # Only the strategy of the configuration looks at them between decisions.
    assert _catch_up(cluster) <= 5
