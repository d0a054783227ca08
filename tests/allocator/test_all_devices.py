"""Requests for all devices of a node (`allocationMode: All`) in the decisions of the allocator."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from allocator.decisions.shortlist import MAX_FAILING_NODES
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.solver.demand import MAX_RESULTS
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    allocation_on,
    claim,
    codes,
    gpu_class,
    gpu_slice,
)
from tests.allocator.test_quotas import DEVICES, limit

EVERY = {"deviceClassName": "gpu", "allocationMode": "All"}
ALL = [{"name": "r", "exactly": EVERY}]


def updated(name: str) -> tuple[Node, Slice]:
    """A node whose driver has published one of two slices."""
    return Node(name, {"name": name}), replace(gpu_slice(name, 1), slice_count=2)


def large(name: str) -> tuple[Node, Slice]:
    """A node with more devices than a claim can have."""
    return Node(name, {"name": name}), gpu_slice(name, MAX_RESULTS + 1)


@pytest.mark.parametrize("make", [updated, large])
def test_all_devices_are_found_behind_many_nodes_whose_pools_cannot_be_taken(
    make: Callable[[str], tuple[Node, Slice]],
) -> None:
    names = [f"n{number:02}" for number in range(3 * MAX_FAILING_NODES)]
    cluster = Cluster()
    for name in names:
        cluster.add(*make(name))
    cluster.add(Node("zz", {"name": "zz"}), gpu_slice("zz", 2))
    assert cluster.nodes("p", claim("c", requests=ALL), limit=1) == ["zz"]


def test_a_pool_that_cannot_be_taken_names_only_the_own_claim() -> None:
    cluster = Cluster(*updated("n1"))
    exactly = {"deviceClassName": "gpu", "allocationMode": "All"}
    requests = [{"name": "r", "exactly": exactly}]
    own, other = (
        cluster.prefilter(f"p-{e}", claim(e, requests=requests)) for e in ("own", "other")
    )
    assert "claim default/own" in own.reasons[0].message
    assert other.reasons[0].message == (
        "an equal claim cannot have all devices of the node (n1: gpu.example.com/n1)"
    )


def test_all_devices_of_a_free_node_are_found_behind_nodes_where_others_are_in_use() -> None:
    names = ["n1", "n2", "n3"]
    cluster = Cluster(**dict.fromkeys(names, 4))
    nic = {"name": "nic", "exactly": {"deviceClassName": "nic"}}
    for name, driver in (("gpu", DRIVER), ("nic", "nic.example.com")):
        cluster.add(gpu_class(name, f'device.driver == "{driver}"'))
    for name in names:
        cluster.add(replace(gpu_slice(name, 8), name=f"nic-{name}", driver="nic.example.com"))
    for name, number in (("n1", 1), ("n2", 0)):
        cluster.add_claim(claim(name, allocation=allocation_on(name, number)))
    assert cluster.nodes("p", claim("c", requests=[nic, *ALL])) == ["n3"]


def test_a_quota_counts_what_a_request_for_all_devices_gets() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=3, n2=2)
    assert cluster.nodes("p", claim("c", requests=ALL)) == ["n2"]


def test_a_pod_waits_for_room_and_takes_nothing_instead_of_all_devices() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=2)
    alternative = {"name": "one", "deviceClassName": "gpu", "count": 1}
    requests = [{"name": "r", "firstAvailable": [{"name": "every", **EVERY}, alternative]}]
    assert codes(cluster.prefilter("p", claim("c", requests=requests))) == ["DeviceQuotaUsedUp"]
