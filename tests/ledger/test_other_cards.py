"""Devices of other drivers beside those of the first one: what relates them, and their groups."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from drawbridge.choice.amounts import WHOLE, AskedOthers, OtherDevices, Shape, Task
from drawbridge.choice.catalog import ChosenStrategy, make_strategy
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import TypicalTasks, typical_tasks
from drawbridge.dra.allocation import AllocatedDevices, Allocation, AllocationResult
from drawbridge.dra.nodes import Node
from drawbridge.ledger.cards import driver_of, find_cards, kind_of, near_attribute
from drawbridge.ledger.other_cards import (
    find_near,
    find_other_cards,
    most_typical_kinds,
    with_kinds,
)
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    as_claim,
    as_slice,
    claim,
    gpu_class,
    rules,
)

NICS = "nic.example.com"
_ROOT = "resource.kubernetes.io/pcieRoot"
_NEAR = f"{NICS} {_ROOT}"


def _allocation(*results: tuple[str, str]) -> Allocation:
    """An allocation of devices by request and driver."""
    allocated = (
        AllocationResult(request=request, driver=driver, pool="n1", device=f"d-{number}")
        for number, (request, driver) in enumerate(results)
    )
    return Allocation(devices=AllocatedDevices(results=tuple(allocated)))


def _related(*names: str, attribute: str = _ROOT) -> Plain:
    return {"requests": [*names], "matchAttribute": attribute}


@pytest.mark.parametrize(
    ("constraints", "annotations", "expected"),
    [
        ([], {}, {}),
        ([_related("gpu", "nic")], {}, {NICS: _ROOT}),
        ([_related("gpu/a", "nic/b")], {}, {NICS: _ROOT}),
        ([_related()], {}, {NICS: _ROOT}),
        ([_related("nic")], {}, {}),
        ([_related("gpu")], {}, {}),
        ([{"requests": ["gpu", "nic"], "distinctAttribute": _ROOT}], {}, {}),
        ([_related("gpu", "nic"), _related("gpu", "nic", attribute="a/b")], {}, {NICS: _ROOT}),
        (
            [],
            rules(joint=[{"primary": ["gpu"], "others": ["nic"], "attributes": [_ROOT, "a/b"]}]),
            {NICS: _ROOT},
        ),
        ([], rules(near=[{"requests": ["gpu", "nic"], "attributes": [_ROOT]}]), {NICS: _ROOT}),
        ([], rules(near=[{"requests": ["gpu"], "attributes": [_ROOT]}]), {}),
    ],
)
def test_what_relates_the_requests_of_two_drivers_makes_devices_near(
    constraints: list[Plain], annotations: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    requests = [{"name": each, "exactly": {"deviceClassName": "gpu"}} for each in ("gpu", "nic")]
    plain: dict[str, Any] = claim("c", requests=requests, annotations=annotations)
    plain["spec"]["devices"]["constraints"] = constraints
    allocations = [_allocation(("gpu/a", DRIVER), ("nic/b", NICS))]
    assert find_near([as_claim(plain)], allocations) == expected
    assert find_near([as_claim(plain)], [_allocation(("gpu", DRIVER))]) == {}
    assert find_near([as_claim(plain)], []) == {}


def test_a_kind_is_a_driver_and_what_relates_it() -> None:
    near, anywhere = kind_of(NICS, {NICS: _ROOT}), kind_of(NICS, {"other": _ROOT})
    assert (near, anywhere) == (_NEAR, NICS)
    assert (driver_of(near), driver_of(anywhere)) == (NICS, NICS)
    assert (near_attribute(near), near_attribute(anywhere)) == (_ROOT, "")


def _roots(*roots: str) -> list[Plain]:
    return [{_ROOT: {"string": each}} if each else {} for each in roots]


def test_devices_of_both_drivers_are_in_the_group_of_their_attribute() -> None:
    cluster = Cluster()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    for driver, roots in ((DRIVER, ("a", "b", "", "b")), (NICS, ("b", "c", ""))):
        devices = [{"name": f"d-{n}", "attributes": e} for n, e in enumerate(_roots(*roots))]
        spec = {"driver": driver, "nodeName": "n1", "pool": pool, "devices": devices}
        cluster.add(Node("n1"), as_slice({"metadata": {"name": driver}, "spec": spec}))
    pools = cluster.state.planner.node_pools("n1")
    others = find_other_cards(pools, find_cards(pools, DRIVER), [_NEAR, NICS, "none"])
    assert [each.devices for each in others] == [
        OtherDevices(_NEAR, (1, 2, -1), (0, 1, -1, 1)),
        OtherDevices(NICS, (-1, -1, -1), (-1, -1, -1, -1)),
        OtherDevices("none", (), (-1, -1, -1, -1)),
    ]
    assert [len(each.cards) for each in others] == [3, 3, 0]


def _task(*kinds: str, devices: int = 1) -> Task:
    return Task(devices, WHOLE, 1, 1, others=tuple(AskedOthers(e, 1, 250) for e in kinds))


def test_the_two_most_typical_kinds_are_followed() -> None:
    counted = [(_task("a"), 3), (_task("b"), 2), (_task("c", "d", devices=4), 1), (_task(), 9)]
    typical = typical_tasks(counted)
    kinds = most_typical_kinds(typical)
    assert kinds == ("c", "d")
    assert with_kinds(typical, kinds).weights == {_task(): 14, counted[2][0]: 1}
    assert with_kinds(typical, ()).total == typical.total
    assert most_typical_kinds(typical_tasks([(_task(), 1)])) == ()


# --- the allocator learns from the pods that have such devices ---


def _with_nics(name: str, gpus: int = 4) -> list[Any]:
    """A node whose GPUs have a NIC for each two, on their PCIe roots."""
    capacity = {"bandwidth": {"value": "1000"}}
    nics = [
        {
            "name": f"nic-{number}", "attributes": {_ROOT: {"string": f"pci0000:{number}"}},
            "capacity": capacity, "allowMultipleAllocations": True,
        }
        for number in range(gpus // 2)
    ]  # fmt: skip
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    cards = [
        {"name": f"gpu-{number}", "attributes": {_ROOT: {"string": f"pci0000:{number // 2}"}}}
        for number in range(gpus)
    ]
    slices = ((f"{name}-gpu", DRIVER, cards), (f"{name}-nic", NICS, nics))
    return [
        Node(name, {"name": name}),
        *(
            as_slice(
                {
                    "metadata": {"name": of_driver},
                    "spec": {"driver": driver, "nodeName": name, "pool": pool, "devices": devices},
                }
            )
            for of_driver, driver, devices in slices
        ),
    ]


def _asked(
    name: str, bandwidth: str, allocation: Plain | None = None, pods: Sequence[str] = ()
) -> Plain:
    """A claim for a GPU and a part of the NIC on its root."""
    part = {"capacity": {"requests": {"bandwidth": bandwidth}}}
    requests = [
        {"name": each, "exactly": {"deviceClassName": each, **more}}
        for each, more in (("gpu", {}), ("nic", part))
    ]
    plain = claim(name, requests=requests, allocation=allocation, pods=pods)
    plain["spec"]["devices"]["constraints"] = [_related("gpu", "nic")]
    return plain


def _cluster(strategy: str, *nodes: str) -> Cluster:
    cluster = Cluster(strategy=strategy)
    for name, driver in (("gpu", DRIVER), ("nic", NICS)):
        cluster.add(gpu_class(name, f'device.driver == "{driver}"'))
    for node in nodes:
        cluster.add(*_with_nics(node))
    return cluster


def _held(name: str, node: str, gpu: int, bandwidth: str) -> Plain:
    """A claim that has a GPU and a part of the NIC on its root."""
    nic = {
        "request": "nic", "driver": NICS, "pool": node, "device": f"nic-{gpu // 2}",
        "shareID": name, "consumedCapacity": {"bandwidth": bandwidth},
    }  # fmt: skip
    gpus = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{gpu}"}
    allocation = {"devices": {"results": [gpus, nic]}}
    return _asked(name, bandwidth, allocation=allocation, pods=[f"pod-{name}"])


def _schedule(cluster: Cluster, name: str, bandwidth: str) -> tuple[str, set[str]]:
    """Schedule a pod that asks for a GPU and a part of a NIC; return its node and devices."""
    while cluster.decisions.strategy.catch_up():
        pass
    node = cluster.prefilter(f"pod-{name}", _asked(name, bandwidth), limit=1).fit[0].node
    assert not cluster.reserve(f"pod-{name}", node)
    reserved = cluster.state.ledger.reservations[name].reservation
    return node, {each.device for each in reserved.allocation.devices.results}


@pytest.mark.parametrize("strategy", ["usable", "fgd"])
def test_what_is_left_of_nics_counts_after_pods_with_nics_were_seen(strategy: str) -> None:
    cluster = _cluster(strategy, "n1", "n2", "n3", "n4")
    for gpu in range(4):
        cluster.add_claim(_held(f"n1-{gpu}", "n1", gpu, "500"))
    cluster.add_claim(_held("n2-2", "n2", 2, "500"))
    # One GPU of n3 is held without a NIC, so that the other one on its root can have all of it.
    cluster.add_claim(claim("n3-0", allocation=allocation_on("n3", 0), pods=["x"]))
    assert _schedule(cluster, "large", "1000") == ("n3", {"gpu-1", "nic-0"})


def test_a_node_whose_nics_change_is_judged_again() -> None:
    cluster = _cluster("usable", "n1", "n2")
    for gpu in range(3):
        cluster.add_claim(_held(f"n1-{gpu}", "n1", gpu, "500"))
    assert _schedule(cluster, "first", "500")[0] == "n1"
    cluster.add_claim(_held("n2-0", "n2", 0, "500"))
    cluster.add_claim(_held("n2-2", "n2", 2, "750"))
    # The GPU beside what is left of the NIC is of no use to others.
    assert _schedule(cluster, "second", "250") == ("n2", {"gpu-3", "nic-1"})


def test_a_strategy_knows_the_nodes_with_the_kinds_that_became_typical(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels: list[set[str]] = []

    def make(
        chosen: ChosenStrategy, shapes: Mapping[Shape, int], typical: TypicalTasks
    ) -> ChoiceStrategy:
        labels.append({shape.label for shape in shapes})
        return make_strategy(chosen, shapes, typical)

    monkeypatch.setattr("drawbridge.ledger.node_choice.make_strategy", make)
    cluster = _cluster("usable", "n1", "n2")
    cluster.add_claim(_held("n1-0", "n1", 0, "500"))
    assert _schedule(cluster, "pod", "500")[0] == "n1"
    assert len(labels[-1]) == 1
    assert all("bandwidth" in label for label in labels[-1])
