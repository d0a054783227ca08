"""The state: which pools count, and what changes of the caches mean."""

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from allocator.state import cluster_state
from allocator.state.caches import without_conditions, without_unused_parts
from allocator.state.cluster_state import MAX_SLICES, AllocatorState, FindNode
from allocator.state.pool_filter import make_pool_filter
from drawbridge.agreement.owned_pools import FENCE, LocalPool
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID, PublishedPool, read_published_pool
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from drawbridge.facts.model import Facts
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.names import CHECKPOINTS_ANNOTATION
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    allocation_on,
    as_claim,
    claim,
    codes,
    device,
    gpu_slice,
    pod,
)


def owns_labelled(pool: PoolID, local: LocalPool | None, find: FindNode, _: object) -> bool:
    """Own the pools on nodes with the label `owned`."""
    node = find(local.node) if local else None
    return pool.driver == DRIVER and node is not None and "owned" in node.labels


def labelled() -> AllocatorState:
    return AllocatorState(Planner(), Ledger(), owns_labelled)


def published(state: AllocatorState) -> list[str]:
    return sorted(each.name for each in state.planner.world().inventory.slices)


OWNED, OTHER = Node("n1", {"owned": ""}), Node("n1")


def test_a_pool_counts_while_it_is_owned_whatever_comes_first() -> None:
    for objects in ([OWNED, gpu_slice("n1", 1)], [gpu_slice("n1", 1), OWNED]):
        state = labelled()
        for obj in objects:
            state.apply(None, obj)  # type: ignore[arg-type]  # a node or a slice
        assert published(state) == ["n1-gpu"]
        assert list(state.nodes_with_pools) == ["n1"]
        state.apply(OWNED, OTHER)
        assert published(state) == []
        assert list(state.nodes_with_pools) == []
        state.apply(OTHER, OWNED)
        assert published(state) == ["n1-gpu"]
        state.apply(OWNED, None)
        assert published(state) == []


def test_a_pool_is_found_whoever_owns_it_up_to_the_size_of_a_node() -> None:
    for node in (OWNED, OTHER):
        state = labelled()
        state.apply(None, node)
        state.apply(None, gpu_slice("n1", 2))
        pool = state.find_pool(PoolID(DRIVER, "n1"))
        assert pool
        assert len(pool.devices) == 2
        assert state.find_pool(PoolID(DRIVER, "n2")) is None
    for number in range(MAX_SLICES):
        state.apply(None, replace(gpu_slice("n1", 1), name=f"n1-{number}"))
    assert state.find_pool(PoolID(DRIVER, "n1")) is None


def test_a_pool_of_others_is_read_once_for_all_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[PoolID] = []

    def read(pool: PoolID, slices: Iterable[Slice]) -> PublishedPool | None:
        reads.append(pool)
        return read_published_pool(pool, slices)

    monkeypatch.setattr(cluster_state, "read_published_pool", read)
    state = labelled()
    state.apply(None, OTHER)
    for count in (2, 3):
        state.apply(None, gpu_slice("n1", count))
        pools = [state.find_pool(PoolID(DRIVER, "n1")) for _ in range(4)]
        assert [len(each.devices) for each in pools if each] == [count] * 4
    assert len(reads) == 2


def test_a_slice_that_moves_to_another_pool_leaves_the_first() -> None:
    state = labelled()
    state.apply(None, OWNED)
    first = gpu_slice("n1", 1)
    state.apply(None, first)
    moved = replace(first, pool="other")
    state.apply(first, moved)
    assert published(state) == ["n1-gpu"]
    assert state.node_of(PoolID(DRIVER, "other")) == "n1"
    assert state.node_of(PoolID(DRIVER, "n1")) is None
    state.apply(moved, None)
    assert list(state.nodes_with_pools) == []


def test_a_change_of_the_configuration_decides_all_owners_again() -> None:
    state = AllocatorState(Planner(), Ledger(), lambda pool, *_: pool.name == "n1")
    for name in ("n1", "n2"):
        state.apply(None, gpu_slice(name, 1))
    before = state.epoch()
    state.decide_owners(lambda pool, *_: pool.name == "n2")
    assert published(state) == ["n2-gpu"]
    assert state.epoch() != before


def test_an_equal_object_changes_no_decision() -> None:
    cluster = Cluster(n1=1)
    before = cluster.state.epoch()
    cluster.state.apply(gpu_slice("n1", 1), gpu_slice("n1", 1))
    cluster.state.apply(None, Node("n1", {"name": "n1"}))
    assert before == cluster.state.epoch()


def test_a_taint_rule_changes_decisions_until_it_is_deleted() -> None:
    cluster = Cluster(n1=1)
    rule = DeviceTaintRule("r", Taint("t", "NoSchedule"), TaintSelector(driver=DRIVER))
    before = cluster.state.epoch()
    cluster.state.apply(None, rule)
    assert before != cluster.state.epoch()
    assert cluster.nodes("p", claim("c")) == []
    cluster.state.apply(rule, None)
    assert cluster.nodes("p", claim("c")) == ["n1"]


def test_a_taint_rule_that_becomes_one_of_the_fence_is_not_obeyed_any_more() -> None:
    cluster = Cluster(n1=1)
    rule = DeviceTaintRule("r", Taint("t", "NoSchedule"), TaintSelector(driver=DRIVER))
    fence = replace(rule, taint=FENCE)
    cluster.state.apply(None, fence)
    assert cluster.nodes("p", claim("c")) == ["n1"]
    cluster.state.apply(fence, rule)
    assert cluster.nodes("p", claim("c")) == []
    cluster.state.apply(rule, fence)
    assert cluster.nodes("p", claim("c")) == ["n1"]


def test_a_claim_of_the_same_name_is_another_claim() -> None:
    cluster = Cluster(n1=1)
    first = as_claim(claim("u1", allocation=allocation_on("n1", 0)))
    second = replace(first, metadata=replace(first.metadata, uid="u2", resource_version="2"))
    cluster.state.apply(None, first)
    cluster.state.apply(first, second)
    assert list(cluster.state.claims) == ["u2"]
    assert list(cluster.state.ledger.holders(device("n1"))) == ["u2"]


def test_what_is_told_late_of_a_claim_hides_no_later_one_of_its_name() -> None:
    """A scheduler tells of the second claim before the watch tells how the first one went."""
    old, ends = (claim("c", version=version) for version in (1, 2))
    ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = claim("c", version=3)
    new["metadata"]["uid"] = "new"
    cluster = Cluster(n1=1)
    cluster.add(pod("p", "c"))
    cluster.add_claim(old)
    cluster.prefilter("p", new)
    told = [
        (as_claim(old), as_claim(ends)),
        (as_claim(ends), None),
        (None, as_claim(new)),
        (as_claim(new), None),
    ]
    named = []
    for before, after in told:
        cluster.state.apply(before, after)
        named.append([each.metadata.uid for each in cluster.state.claims_of("p")])
    assert named == [["new"], ["new"], ["new"], []]


def test_an_outdated_claim_is_not_applied() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("c", version=5))
    assert not cluster.state.observe_claim(as_claim(claim("c", version=4)))
    cluster.delete_claim("c")
    assert not cluster.state.observe_claim(as_claim(claim("c", version=6)))


def test_claims_of_a_pod_are_those_it_names_and_those_reserved_for_it() -> None:
    cluster = Cluster(n1=2)
    cluster.add_claim(claim("named"))
    cluster.add_claim(claim("reserved", allocation=allocation_on("n1", 0), pods=["p"]))
    cluster.add(pod("p", "named", "missing"))
    names = [each.metadata.name for each in cluster.state.claims_of("p")]
    assert names == ["named", "reserved"]


def test_a_claim_is_being_released_only_if_all_its_pods_are() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["a", "b"]))
    for uid in ("a", "b"):
        cluster.add(pod(uid, "c", node="n1"))
    cluster.state.apply(pod("a", "c"), None)
    assert not cluster.state.pods.releasing
    cluster.add(pod("b", "c", node="n1", phase="Failed"))
    assert list(cluster.state.pods.releasing) == ["c"]
    cluster.add_claim(claim("c", version=2, allocation=allocation_on("n1", 0), pods=["x"]))
    assert not cluster.state.pods.releasing


def test_an_allocation_without_pods_is_being_released_once_its_claim_is_deleted() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("c", allocation=allocation_on("n1", 0)))
    assert not cluster.state.pods.releasing
    assert codes(cluster.prefilter("p", claim("other"))) == ["NoDeviceFree"]
    deleted: dict[str, Any] = claim("c", version=2, allocation=allocation_on("n1", 0))
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.add_claim(deleted)
    assert list(cluster.state.pods.releasing) == ["c"]
    assert codes(cluster.prefilter("p", claim("other")))[0] == "DevicesBeingReleased"


def test_a_claim_with_another_kind_of_consumer_is_not_being_released() -> None:
    cluster = Cluster(n1=1)
    plain: dict[str, Any] = claim("c", allocation=allocation_on("n1", 0))
    plain["status"]["reservedFor"] = [
        {"apiGroup": "x.io", "resource": "jobs", "name": "j", "uid": "j"}
    ]
    cluster.add_claim(plain)
    assert not cluster.state.pods.releasing


def test_the_state_after_random_changes_is_the_state_of_the_objects() -> None:
    random_changes = random.Random(7)
    state = labelled()
    nodes: dict[str, Node] = {}
    slices: dict[str, Slice] = {}
    for _ in range(600):
        name = f"n{random_changes.randrange(4)}"
        if random_changes.random() < 0.5:
            labels = {"owned": ""} if random_changes.random() < 0.5 else {}
            node = Node(name, labels) if random_changes.random() < 0.8 else None
            state.apply(nodes.get(name), node) if node or name in nodes else None
            nodes.pop(name, None)
            nodes |= {name: node} if node else {}
        else:
            key = f"{name}-{random_changes.randrange(2)}"
            made = replace(
                gpu_slice(f"n{random_changes.randrange(4)}", random_changes.randrange(3)), name=key
            )
            changed = made if random_changes.random() < 0.8 else None
            state.apply(slices.get(key), changed) if changed or key in slices else None
            slices.pop(key, None)
            slices |= {key: changed} if changed else {}
        fresh = labelled()
        for each_object in (*nodes.values(), *slices.values()):
            fresh.apply(None, each_object)
        assert published(state) == published(fresh)
        assert list(state.nodes_with_pools) == list(fresh.nodes_with_pools)


def test_pods_without_claims_are_not_remembered_after_their_deletion() -> None:
    cluster = Cluster(n1=1)
    for number in range(100):
        cluster.state.apply(pod(f"plain{number}"), None)
    assert cluster.state.pods.take_settled() == []
    assert not cluster.state.pods.is_gone("plain0")
    cluster.state.apply(pod("p", "c"), None)
    assert cluster.state.pods.take_settled() == ["p"]
    assert cluster.state.pods.is_gone("p")


def test_a_slice_for_another_node_takes_no_pool_away() -> None:
    configuration = accept_configuration(
        {
            "apiVersion": "drawbridge.dev/v1alpha1",
            "kind": "Configuration",
            "placement": "bridge",
            "ownedPools": [{"driver": DRIVER, "nodeSelector": {}, "unfenced": True}],
        },
        (),
    )
    assert isinstance(configuration, Configuration), configuration
    state = AllocatorState(
        Planner(),
        Ledger(),
        make_pool_filter(configuration, Facts(), lambda _: True, lambda _: False, {}),
    )
    own, forged = gpu_slice("n1", 1), gpu_slice("n2", 1)
    forged = replace(forged, name="forged", pool=own.pool, generation=999)
    for obj in (Node("n1"), Node("n2"), own, forged):
        state.apply(None, obj)  # type: ignore[arg-type]  # a node or a slice
    assert published(state) == [own.name]
    # The driver of n1 restarts: until it publishes again, the pool is not that of n2.
    state.apply(own, None)
    assert published(state) == []
    state.apply(None, own)
    assert published(state) == [own.name]
    assert state.node_of(PoolID(DRIVER, own.pool)) == "n1"
    # Without a node n1, nothing says that the pool has its name from it.
    state.apply(own, None)
    state.apply(Node("n1"), None)
    assert published(state) == ["forged"]
    state.apply(None, Node("n1"))
    assert published(state) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"schedulingGroup": {"podGroupName": "g"}},
        {"workloadRef": {"name": "w", "podGroup": "g"}},
        {"schedulingGates": [{"name": "queue"}], "schedulingGroup": {"podGroupName": "g"}},
    ],
)
def test_the_cache_of_pods_keeps_the_group_of_a_pod(fields: dict[str, Any]) -> None:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}], **fields}
    value = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": spec}
    read = pod_reader().read(value)
    assert isinstance(read, Pod)
    kept = without_unused_parts(read)
    assert kept.group == read.group is not None
    assert kept.spec.scheduling_gates == read.spec.scheduling_gates


def test_what_must_be_known_of_a_pod_stays_small_whatever_its_author_writes() -> None:
    name, many = "n" * 253, [f"example.com/{number:0200}" for number in range(1000)]
    labels = dict.fromkeys(many, "v" * 63)
    expressions = [{"key": name, "operator": "In", "values": many}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    large = pod(
        name,
        name,
        name=name,
        namespace="n" * 63,
        generateName=name,
        labels=labels,
        annotations=dict.fromkeys((*many, CHECKPOINTS_ANNOTATION), "x" * 250_000),
        finalizers=many,
        ownerReferences=[{"kind": name, "name": name, "controller": False}] * 1000,
        spec={
            "schedulerName": name,
            "priorityClassName": name,
            "nodeSelector": labels,
            "affinity": affinity,
            "tolerations": [{"key": name, "value": "v" * 63}] * 1000,
            "schedulingGroup": {"podGroupName": name},
            "workloadRef": {"name": name, "podGroup": name, "podGroupReplicaKey": name},
            "schedulingGates": [{"name": each} for each in many],
            "overhead": {"cpu": "9" * 100},
            "containers": [{"name": name, "resources": {"requests": {"cpu": "1"}}}] * 1000,
        },
    )
    kept = without_conditions(without_unused_parts(large))
    assert kept.spec.scheduling_gates
    assert len(msgspec.json.encode(kept, enc_hook=str)) < 8192


def test_a_pod_that_names_a_claim_twice_is_forgotten_whole() -> None:
    state, named_twice = labelled(), pod("p", "c", "c")
    state.apply(None, named_twice)
    state.apply(named_twice, None)
    assert state.pods.users_of("default/c") == ()
    assert state.pods.is_gone("p")
