"""Tests of the pools of a node: the case table, then properties of any inventory."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.device import Taint
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.inventory import (
    Inventory,
    Pool,
    PoolCache,
    PoolID,
    build_inventory,
    find_published_pool,
    is_device_for_node,
)
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from tests.dra.short_slices import slice_of
from tests.tables import every_row, read_yaml

CASES = read_yaml((Path(__file__).parent / "cases" / "pools.yaml").read_text("utf-8"))


def gates_of(case: dict[str, Any]) -> Gates:
    chosen = gates_of_version(case.get("version", "1.37"), case.get("gates", {}))
    assert isinstance(chosen, Gates), chosen
    return chosen


def node_of(case: dict[str, Any]) -> Node:
    return Node(**case.get("node", {"name": "n1", "labels": {"zone": "a"}}))


def shown(pool: Pool, expected: dict[str, Any], node: Node) -> dict[str, Any]:
    """Write a pool as the table does."""
    state = "incomplete" if pool.incomplete else f"invalid: {pool.invalid}" if pool.invalid else ""
    row: dict[str, Any] = {"pool": pool.id.name, "state": state}
    row["slices"] = [each.name for each in pool.slices]
    row["elsewhere"] = [each.name for each in pool.other_slices]
    row["sets"] = list(pool.counter_sets)
    if "driver" in expected:
        row["driver"] = pool.id.driver
    if "selected" in expected:
        row["selected"] = [
            d.name for member, d in pool.devices() if is_device_for_node(member, d, node)
        ]
    return row


@every_row("case", CASES, ids=[case["name"] for case in CASES])
def test_a_node_has_the_pools_that_the_scheduler_considers(case: dict[str, Any]) -> None:
    built = build_inventory(map(slice_of, case["slices"]), gates=gates_of(case))
    node = node_of(case)
    if "aborts" in case:
        with pytest.raises(NodeSelectorError) as error:
            built.pools_for(node)
        assert case["aborts"] in str(error.value)
        return
    empty = {"state": "", "slices": [], "elsewhere": [], "sets": []}
    expected = [empty | row for row in case["pools"]]
    pools = built.pools_for(node)
    assert len(pools) == len(expected)
    assert [shown(p, e, node) for p, e in zip(pools, expected, strict=True)] == expected


@every_row("case", CASES, ids=[case["name"] for case in CASES])
def test_neither_slice_order_nor_a_cache_changes_the_pools(case: dict[str, Any]) -> None:
    slices = [slice_of(each) for each in case["slices"]]
    there = build_inventory(slices, gates=gates_of(case))
    back = build_inventory(reversed(slices), gates=gates_of(case))
    memo = PoolCache()
    for name in ("n1", "n2", "n9", "n1"):
        node = Node(name, {"zone": "a"})
        assert answer(there, node, None) == answer(back, node, None) == answer(there, node, memo)


def answer(built: Inventory, node: Node, memo: PoolCache | None) -> object:
    try:
        pools = built.pools_for(node, memo)
    except NodeSelectorError as error:
        return str(error)
    return [
        (p.id, p.incomplete, p.invalid, p.slices, p.other_slices, dict(p.counter_sets))
        for p in pools
    ]


def test_every_slice_of_every_generation_is_kept() -> None:
    shorts = [
        {"name": "s", "generation": 1},
        {"name": "t", "generation": 7},
        {"name": "u", "pool": "q"},
    ]
    built = build_inventory(map(slice_of, shorts))
    assert [each.name for each in built.slices] == ["s", "t", "u"]
    published = built.published_slices(PoolID("d.example.com", "p"))
    assert [each.generation for each in published] == [1, 7]
    assert built.published_slices(PoolID("d.example.com", "nowhere")) == ()


def test_what_a_pool_publishes_is_read_once_until_its_slices_change() -> None:
    slices = [slice_of({"name": "s", "devices": ["x"]}), slice_of({"name": "t", "pool": "q"})]
    built, pool = build_inventory(slices), PoolID("d.example.com", "p")
    read = find_published_pool(built, pool)
    assert read is not None
    assert find_published_pool(built.with_slices((), slices[1:]), pool) is read
    changed = built.with_slices((), [slice_of({"name": "s", "devices": ["x", "y"]})])
    after = find_published_pool(changed, pool)
    assert after is not None
    assert [[*each.devices] for each in (read, after)] == [["x"], ["x", "y"]]


def test_nodes_without_own_slices_share_the_same_pools() -> None:
    built = build_inventory([slice_of({"name": "s", "devices": ["x"]})])
    memo = PoolCache()
    first = built.pools_for(Node("n1"), memo)
    assert all(built.pools_for(Node(f"n{i}"), memo) is first for i in range(2, 50))


def test_the_pools_of_a_node_are_evaluated_once() -> None:
    shorts = [{"name": "s", "nodeName": "n1", "devices": ["x"]}, {"name": "t", "pool": "q"}]
    built = build_inventory(map(slice_of, shorts))
    memo = PoolCache()
    first, second = built.pools_for(Node("n1"), memo), built.pools_for(Node("n1"), memo)
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]


def test_rules_taint_devices_if_the_gate_is_enabled() -> None:
    rule = DeviceTaintRule("r", Taint("k", "NoExecute"), TaintSelector(device="x"))
    slices = [slice_of({"name": "s", "devices": ["x", "y"]})]
    for version, tainted in (("1.37", {"x": ["k"], "y": []}), ("1.36", {"x": [], "y": []})):
        chosen = gates_of_version(version)
        assert isinstance(chosen, Gates)
        built = build_inventory(slices, taint_rules=[rule], gates=chosen)
        (pool,) = built.pools_for(Node("n1"))
        assert {d.name: [t.key for t in d.taints] for _, d in pool.devices()} == tainted


def naive(slices: list[Slice], node: Node) -> list[object]:
    """Do what upstream does, without any index: for plain slices with all gates on."""
    relevant = [
        s
        for s in sorted(slices, key=lambda s: s.name)
        if (s.node_name == node.name if s.node_name else s.all_nodes)
    ]
    result: list[object] = []
    for pool in sorted({(s.driver, s.pool) for s in relevant}):
        mine = [s for s in relevant if (s.driver, s.pool) == pool]
        newest = max(s.generation for s in mine)
        mine = [s for s in mine if s.generation == newest]
        if len(mine) == mine[0].slice_count:
            result.append((pool, [s.name for s in mine]))
            continue
        everywhere = [s for s in slices if (s.driver, s.pool) == pool]
        if max(s.generation for s in everywhere) > newest:
            continue
        count = sum(s.generation == newest for s in everywhere)
        complete = count == mine[0].slice_count
        result.append((pool, [s.name for s in mine] if complete else "incomplete"))
    return result


plain = st.fixed_dictionaries(
    {
        "pool": st.sampled_from("pq"),
        "generation": st.integers(1, 3),
        "count": st.integers(1, 3),
        "where": st.sampled_from(["n1", "n2", ""]),
    }
)


@given(st.lists(plain, max_size=8))
def test_the_index_returns_the_same_pools_as_a_linear_search(rows: list[dict[str, Any]]) -> None:
    shorts = [
        {
            "name": f"s{i}",
            "pool": row["pool"],
            "generation": row["generation"],
            "count": row["count"],
            "devices": [f"x{i}"],
            **({"nodeName": row["where"]} if row["where"] else {"allNodes": True}),
        }
        for i, row in enumerate(rows)
    ]
    slices = [slice_of(short) for short in shorts]
    built, memo = build_inventory(slices), PoolCache()
    for name in ("n1", "n2", "n3"):
        pools = built.pools_for(Node(name), memo)
        actual = [
            (tuple(p.id), "incomplete" if p.incomplete else [s.name for s in p.slices])
            for p in pools
        ]
        assert actual == naive(slices, Node(name))
