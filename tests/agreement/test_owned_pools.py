"""Which nodes and pools only the Drawbridge allocator uses."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.agreement.owned_pools import (
    NodeOwnership,
    PoolOwner,
    decide_node,
    decide_pool,
    find_local_pool,
    find_unfenced_nodes,
    report_all_unfenced,
    report_closed_nodes,
    report_disagreement,
    report_missing_drivers,
    report_shared_pool,
    report_shared_pools,
    report_unfenced_nodes,
)
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.dra.device import NodeSelector, Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.families import known_families
from drawbridge.facts.withheld import find_withheld_drivers
from tests.agreement.bridge_configuration import configured
from tests.tables import every_row, load_cases

TABLE = load_cases(Path(__file__).parent / "cases" / "owned_pools.yaml")
POOL = PoolID("gpu.example.com", "pool")
FENCE = Taint("drawbridge.dev/owned", "NoSchedule")


def entry(label: str, *, unfenced: bool = False, driver: str = POOL.driver) -> dict[str, Any]:
    """Select the nodes that have a label."""
    requirement = {"key": label, "operator": "Exists"}
    selector = {"matchExpressions": [requirement]}
    return {"driver": driver, "nodeSelector": selector, "unfenced": unfenced}


def published(number: int, short: dict[str, Any]) -> Slice:
    return Slice(
        name=f"s{number}",
        driver=POOL.driver,
        pool=POOL.name,
        generation=short.get("generation", 1),
        slice_count=1,
        node_name=short.get("node"),
        node_selector=NodeSelector(()) if "selector" in short else None,
        all_nodes=short.get("all"),
        per_device_node_selection=short.get("each"),
    )


@every_row("case", TABLE, ids=lambda case: str(case["name"]))
def test_table(case: dict[str, Any]) -> None:
    owned = owned_pools(configured(*case["owned"]))
    slices = [published(i, each) for i, each in enumerate(case["slices"])]
    nodes = {name: Node(name, labels, taints=(FENCE,)) for name, labels in case["nodes"].items()}
    pool = PoolID(POOL.driver, case.get("pool", POOL.name))
    local = find_local_pool(pool, slices)
    owner = decide_pool(owned, pool, local, nodes.get)
    assert owner == case["owner"]
    bare = {name: msgspec.structs.replace(each, taints=()) for name, each in nodes.items()}
    unfenced = PoolOwner.UNFENCED if owner is PoolOwner.DRAWBRIDGE else owner
    assert decide_pool(owned, pool, local, bare.get) is unfenced
    free = [msgspec.structs.replace(each, unfenced=True) for each in owned]
    assert decide_pool(free, pool, local, bare.get) is owner
    if owner is PoolOwner.SHARED:
        finding = report_shared_pool(POOL, slices)
        assert finding.message == (
            f"pool pool of driver gpu.example.com is not local to one node: {case['reach']}"
        )


def test_a_pool_without_slices_is_not_owned() -> None:
    owned = owned_pools(configured(entry("a")))
    local = find_local_pool(POOL, ())
    assert decide_pool(owned, POOL, local, dict[str, Node]().get) is PoolOwner.SHARED


def test_native_placement_owns_nothing() -> None:
    configuration = msgspec.structs.replace(configured(entry("a")), placement="native")
    assert owned_pools(configuration) == ()
    assert decide_node((), {"a": "1"}) == NodeOwnership()
    assert not decide_node((), {}).owned


def test_a_node_is_owned_for_the_drivers_of_all_entries_that_select_it() -> None:
    owned = configured(entry("a"), entry("b", driver="nic.example.com"), entry("c")).owned_pools
    ownership = decide_node(owned, {"a": "", "b": ""})
    assert ownership == NodeOwnership(
        (0, 1), frozenset({POOL.driver, "nic.example.com"}), fenced=True
    )
    assert ownership.owned


def test_a_node_has_no_fence_only_if_all_its_entries_omit_it() -> None:
    owned = configured(entry("a"), entry("b", unfenced=True), entry("c", unfenced=True)).owned_pools
    assert decide_node(owned, {"b": "", "c": ""}).fenced is False
    assert decide_node(owned, {"b": "", "c": ""}).disagreeing is False
    assert decide_node(owned, {"a": "", "b": ""}).fenced is True
    assert decide_node(owned, {"a": "", "b": ""}).disagreeing is True


@pytest.mark.parametrize(
    ("labels", "by_rules"),
    [
        ({"rules": ""}, True),
        ({"taint": ""}, False),
        ({"free": ""}, False),
        ({"rules": "", "taint": ""}, False),
        ({"rules": "", "free": ""}, True),
        ({"taint": "", "free": ""}, False),
        ({}, False),
    ],
)
def test_rules_replace_the_taint_of_a_node_if_no_entry_needs_it(
    labels: dict[str, str], *, by_rules: bool
) -> None:
    rules = {**entry("rules"), "fence": "rules"}
    owned = configured(rules, entry("taint"), entry("free", unfenced=True)).owned_pools
    ownership = decide_node(owned, labels)
    assert ownership.by_rules is by_rules
    assert ownership.needs_taint(rules_hold=False) is ownership.fenced
    assert ownership.needs_taint(rules_hold=True) is (ownership.fenced and not by_rules)
    nodes = [Node("n", labels)]
    lacks = find_unfenced_nodes(owned, nodes, rules_hold=True)
    assert bool(lacks) is ownership.needs_taint(rules_hold=True)
    assert bool(find_unfenced_nodes(owned, nodes)) is ownership.fenced
    if ownership.fenced:
        reported = report_all_unfenced(owned, nodes, rules_hold=True)
        assert (reported is None) is by_rules


def test_entries_that_disagree_are_reported_with_the_nodes() -> None:
    owned = configured(entry("a"), entry("b", unfenced=True)).owned_pools
    both, single = decide_node(owned, {"a": "", "b": ""}), decide_node(owned, {"a": ""})
    finding = report_disagreement({"n2": both, "n1": both, "n3": single})
    assert finding is not None
    assert finding.message.startswith("ownedPools[0] and ownedPools[1] select nodes n1, n2, and")
    assert report_disagreement({"n3": single, "n4": decide_node(owned, {"b": ""})}) is None


@pytest.mark.parametrize(
    ("taints", "lacks"),
    [
        ((), True),
        ((FENCE,), False),
        ((Taint(FENCE.key, FENCE.effect, "true"),), False),
        ((Taint(FENCE.key, "PreferNoSchedule"),), True),
        ((Taint("example.com/owned", FENCE.effect),), True),
    ],
)
def test_an_owned_node_needs_the_taint(taints: tuple[Taint, ...], *, lacks: bool) -> None:
    owned = configured(entry("a"), entry("b", unfenced=True)).owned_pools
    nodes = (
        Node("ours", {"a": ""}, taints=taints),
        Node("unfenced", {"b": ""}),
        Node("theirs", {}),
    )
    assert find_unfenced_nodes(owned, nodes) == (("ours",) if lacks else ())


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ((), True),
        ((Node("theirs", {}),), True),
        ((Node("fenced", {"a": ""}, taints=(FENCE,)),), False),
        ((Node("unfenced", {"b": ""}),), False),
    ],
)
def test_a_node_without_the_taint_stops_the_allocator_only_if_there_is_no_other(
    others: tuple[Node, ...], *, reported: bool
) -> None:
    owned = configured(entry("a"), entry("b", unfenced=True)).owned_pools
    finding = report_all_unfenced(owned, (Node("bare", {"a": ""}), *others))
    assert (finding is not None) is reported
    assert report_all_unfenced(owned, others) is None


def test_the_finding_about_missing_taints_names_ten_nodes() -> None:
    finding = report_unfenced_nodes([f"n{i:02}" for i in range(12)])
    assert finding is not None
    assert finding.code == "FenceMissing"
    assert finding.message == (
        "nodes n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more nodes lack the taint "
        "drawbridge.dev/owned:NoSchedule"
    )
    assert report_unfenced_nodes(()) is None


def test_a_node_with_the_taint_despite_its_fence_of_rules_is_reported() -> None:
    owned = configured({**entry("open"), "fence": "rules"}, entry("closed")).owned_pools
    closed = Node("n1", {"closed": "", "open": ""}, taints=(FENCE,))
    assert report_closed_nodes(owned, (closed, Node("n2", {"open": ""}))) is None
    finding = report_closed_nodes(owned, (closed, Node("n3", {"open": ""}, taints=(FENCE,))))
    assert finding is not None
    assert finding.code == "FenceWithoutRules"
    assert finding.message.startswith("node n3 has the taint drawbridge.dev/owned:NoSchedule")


KNOWN = known_families(Configuration())
EXTENDED = {"example.com/gpu": frozenset({"gpu.example.com"})}


def node(*names: str, **labels: str) -> Node:
    return Node("n", labels, allocatable={name: parse("1") for name in names})


def test_devices_of_a_node_without_a_device_plugin_are_available() -> None:
    assert find_withheld_drivers(node("cpu", "hugepages-1Gi"), KNOWN, EXTENDED) == frozenset()


def test_a_known_name_withholds_the_driver_of_its_family() -> None:
    drivers = find_withheld_drivers(node("nvidia.com/gpu"), KNOWN, EXTENDED)
    assert "gpu.nvidia.com" in drivers
    assert "gpu.amd.com" not in drivers


def test_the_name_of_a_class_withholds_the_drivers_that_it_selects() -> None:
    drivers = find_withheld_drivers(node("example.com/gpu"), KNOWN, EXTENDED)
    assert drivers == {"gpu.example.com"}


def test_a_name_that_is_advertised_with_amount_zero_withholds_nothing() -> None:
    empty = Node("n", allocatable={"nvidia.com/gpu": parse("0")})
    assert find_withheld_drivers(empty, KNOWN, EXTENDED) == frozenset()


def test_a_name_of_which_a_node_still_has_a_capacity_withholds_its_driver() -> None:
    drivers = find_withheld_drivers(Node("n", stopped=("nvidia.com/gpu",)), KNOWN, EXTENDED)
    assert "gpu.nvidia.com" in drivers


def test_the_label_of_a_dual_node_without_names_withholds_each_driver_of_a_plugin() -> None:
    labelled = Node("n", {"drawbridge.dev/dual": "true"})
    drivers = find_withheld_drivers(labelled, KNOWN, EXTENDED)
    assert {"gpu.nvidia.com", "gpu.amd.com", "gpu.example.com", "dra.net"} <= drivers


@every_row("name", ["nvidia.com/gpu", "koordinator.sh/rdma", "example.com/gpu"])
@every_row("how", ["served", "stopped", "gone", "held"])
def test_the_label_of_a_dual_node_withholds_the_drivers_of_names_on_it(name: str, how: str) -> None:
    labelled = Node(
        "n",
        {"drawbridge.dev/dual": "true"},
        allocatable={name: parse("1" if how == "served" else "0")} if how != "held" else {},
        stopped=(name,) if how == "stopped" else (),
    )
    drivers = find_withheld_drivers(labelled, KNOWN, EXTENDED, [name] if how == "held" else [])
    expected = {
        "nvidia.com/gpu": {"gpu.nvidia.com", "hami-core-gpu.project-hami.io"},
        "koordinator.sh/rdma": {"dra.net"},
        "example.com/gpu": {"gpu.example.com"},
    }
    assert drivers == expected[name]


RDMA, UNKNOWN = "koordinator.sh/rdma", "acme.com/gpu"
GPUS_TOO = {"dra.net", "gpu.nvidia.com", "gpu.amd.com"}


@every_row(
    ("amounts", "given", "expected"),
    [
        # A class, or the configuration, no longer says what a plugin of GPUs served.
        ({RDMA: "4", UNKNOWN: "0"}, {}, GPUS_TOO),
        ({RDMA: "4", UNKNOWN: "0"}, {"held": {UNKNOWN}}, GPUS_TOO),
        ({RDMA: "4"}, {"held": {UNKNOWN}}, GPUS_TOO),
        ({RDMA: "4", UNKNOWN: "0"}, {"held": {RDMA}}, {"dra.net"}),
        ({RDMA: "4", UNKNOWN: "1"}, {}, {"dra.net"}),
        ({RDMA: "4", UNKNOWN: "1"}, {"held": {UNKNOWN}}, {"dra.net"}),
        # The kubelet no longer names what it was, because the node was registered again.
        ({RDMA: "4"}, {"publishing": {"gpu.nvidia.com"}}, GPUS_TOO),
        ({RDMA: "4"}, {"publishing": {"gpu.nvidia.com", "dra.net"}}, {"dra.net"}),
        ({RDMA: "0"}, {"publishing": {"gpu.nvidia.com"}}, {"dra.net"}),
        ({"nvidia.com/gpu": "0"}, {"publishing": {"dra.net"}}, {"gpu.nvidia.com"}),
    ],
)
def test_a_name_hides_no_other_plugin_that_the_label_of_a_dual_node_can_be_about(
    amounts: dict[str, str], given: dict[str, set[str]], expected: set[str]
) -> None:
    allocatable = {name: parse(amount) for name, amount in amounts.items()}
    labelled = Node("n", {"drawbridge.dev/dual": "true"}, allocatable=allocatable)
    drivers = find_withheld_drivers(labelled, KNOWN, EXTENDED, **given)
    assert drivers & GPUS_TOO == expected


@pytest.mark.parametrize(
    ("driver", "hint"),
    [("gpu.nvida.com", "; did you mean gpu.nvidia.com?"), ("gpu.amd.com", ""), ("nic.x.io", "")],
)
def test_the_driver_of_a_known_family_is_not_misspelt(driver: str, hint: str) -> None:
    slices = [msgspec.structs.replace(published(0, {"node": "a"}), driver="gpu.nvidia.com")]
    owned = configured(entry("a", driver=driver)).owned_pools
    (finding,) = report_missing_drivers(owned, slices)
    assert finding.message == f"no ResourceSlice is of driver {driver}{hint}"


def test_shared_pools_of_owned_drivers_are_reported_by_name() -> None:
    slices = [
        published(0, {"all": True}),
        msgspec.structs.replace(published(1, {"node": "a"}), pool="local"),
        msgspec.structs.replace(published(2, {"all": True}), driver="nic.example.com"),
    ]
    owned = configured(entry("a")).owned_pools
    findings = report_shared_pools(owned, slices)
    assert [(each.code, each.message.partition(" is ")[0]) for each in findings] == [
        ("PoolNotLocal", "pool pool of driver gpu.example.com")
    ]
    assert report_shared_pools((), slices) == ()
