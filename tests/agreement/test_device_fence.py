"""The fence around the devices of owned pools: what counts as one, and since when."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from drawbridge.agreement.device_fence import (
    BINDING_SPEC,
    MAX_CHARACTERS,
    MAX_CHARACTERS_OF_NODE,
    MOST_CHARACTERS,
    FencePart,
    FenceParts,
    fence_rules,
    find_fence_problem,
    find_fenced_pools,
    find_nodes_to_taint,
    find_nodes_without_room,
    find_open_node,
    is_our_rule,
    make_rule,
    policy_spec,
    read_leaving,
    read_pools,
    rule_name,
    selects_as,
    without_fence,
    write_pools,
)
from drawbridge.config.model import LabelSelector, NodeFence, OwnedPool
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, taint_rule_reader
from drawbridge.names import LEAVING_POOLS_ANNOTATION
from tests.agreement.fence_parts import NAMESPACE, installed, part
from tests.tables import every_row

EXAMPLE = Path(__file__).parents[2] / "examples" / "owned-devices-policy.yaml"
POOL = PoolID("gpu.example.com", "a/b")


def stored(policy: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a policy with the defaults of the API server."""
    spec: dict[str, Any] = policy["spec"]
    matched = spec["matchConstraints"]
    rules = [{**each, "scope": "*"} for each in matched["resourceRules"]]
    defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    return {**spec, "matchConstraints": {**defaults, **matched, "resourceRules": rules}}


def test_the_example_is_the_policy_that_counts() -> None:
    policy, binding = yaml.safe_load_all(EXAMPLE.read_text("utf-8"))
    assert stored(policy) == policy_spec([], "drawbridge-system")
    assert binding["spec"] == BINDING_SPEC
    assert {policy["metadata"]["name"], binding["metadata"]["name"]} == {"drawbridge-owned-devices"}


SPEC = policy_spec([POOL], NAMESPACE)
OWNED_RESULTS = SPEC["variables"][1]
WEAKENED: dict[str, tuple[str, dict[str, Any]]] = {
    "a failure opens it": ("policy", {**SPEC, "failurePolicy": "Ignore"}),
    "a condition more": (
        "policy",
        {**SPEC, "matchConditions": [*SPEC["matchConditions"], {"name": "x"}]},
    ),
    "a parameter": ("policy", {**SPEC, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}),
    "another account": ("policy", policy_spec([POOL], "elsewhere")),
    "no pools": ("policy", {**SPEC, "variables": [OWNED_RESULTS]}),
    "pools that are no list": (
        "policy",
        {**SPEC, "variables": [{"name": "pools", "expression": "{}"}, OWNED_RESULTS]},
    ),
    "pools in another order": (
        "policy",
        {**SPEC, "variables": [{"name": "pools", "expression": '["e/f","c/d"]'}, OWNED_RESULTS]},
    ),
    "a pool without a name": (
        "policy",
        {**SPEC, "variables": [{"name": "pools", "expression": '["d"]'}, OWNED_RESULTS]},
    ),
    "it only warns": ("binding", {**BINDING_SPEC, "validationActions": ["Warn"]}),
    "some namespaces only": (
        "binding",
        {**BINDING_SPEC, "matchResources": {"namespaceSelector": {}}},
    ),
}


@every_row("weakened", WEAKENED)
def test_a_policy_that_refuses_less_does_not_count(weakened: str) -> None:
    name, spec = WEAKENED[weakened]
    parts = installed([POOL])._replace(**{name: part(spec)})
    assert "differs from" in find_fence_problem(parts, NAMESPACE)
    assert find_fenced_pools(parts, NAMESPACE) is None


@pytest.mark.parametrize("missing", FenceParts._fields)
def test_a_fence_without_a_part_is_none(missing: str) -> None:
    parts = installed([POOL])
    assert find_fenced_pools(parts, NAMESPACE) == frozenset([POOL])
    gone = part(getattr(parts, missing).spec, deletion="2026-11-23T10:00:00Z")
    for value in (None, gone):
        without = parts._replace(**{missing: value})
        assert find_fenced_pools(without, NAMESPACE) is None
        assert "does not exist" in find_fence_problem(without, NAMESPACE)


def test_the_pools_of_a_policy_are_read_as_they_were_written() -> None:
    pools = {POOL, PoolID("d", "a"), PoolID("D.io", "x-1.y/z")}
    assert read_pools(policy_spec(pools, NAMESPACE)) == pools
    assert write_pools(pools) == '["D.io/x-1.y/z","d/a","gpu.example.com/a/b"]'
    assert read_pools(None) == read_pools({"variables": 3}) == set()


def test_what_the_annotation_of_a_policy_does_not_say_does_not_leave() -> None:
    assert read_leaving(None) == set()
    for text in ("", "{}", '"a"', "[3]"):
        metadata = {"annotations": {LEAVING_POOLS_ANNOTATION: text}}
        assert read_leaving(msgspec.convert({"metadata": metadata}, FencePart)) == set()


@every_row("character", dict.fromkeys("'\"\\`${}[](),;\n\r\t\0 _#é\u2028\ud800"))
def test_no_name_of_a_pool_leaves_its_text(character: str) -> None:
    """The API server accepts none of them; the policy would not be written with one."""
    for pool in (PoolID("d", f"a{character}"), PoolID(f"d{character}", "a")):
        assert find_nodes_to_taint({POOL: "a", pool: "b"}) == {"b"}


def test_a_node_alone_with_too_many_pools_gets_its_taint() -> None:
    """Its names would leave no room for those of the other nodes."""
    few = len(write_pools([PoolID("d", "")]))
    for size, tainted in ((0, set()), (1, {"many"})):
        pools = {PoolID("d", "a" * (MAX_CHARACTERS_OF_NODE - few + size)): "many", POOL: "one"}
        assert find_nodes_to_taint(pools) == tainted
    several = {PoolID("d", f"{number:020}"): "many" for number in range(150)}
    assert find_nodes_to_taint(several) == set()
    assert find_nodes_to_taint({**several, PoolID("d", "b" * 300): "many"}) == {"many"}


@pytest.mark.parametrize(("size", "without"), [(0, set()), (1, {"many"}), (9, {"many"})])
def test_the_node_whose_pools_take_most_gives_way(size: int, without: set[str]) -> None:
    """What the policy names stays, also that of which nothing tells the node."""
    x, y, z = (PoolID("d", each) for each in ("xx", "y", "z"))
    rest = len(write_pools([PoolID("d", ""), x, y, z]))
    named = PoolID("d", "a" * (MOST_CHARACTERS - rest + size))
    nodes = {x: "many", y: "many", z: "one"}
    assert find_nodes_without_room([named], nodes, [x, y, z]) == without
    assert find_nodes_without_room([named, x, y], nodes, [x, y]) == set()


@pytest.mark.parametrize(("size", "without"), [(0, set()), (1, {"z"})])
def test_pools_that_stay_take_no_room_of_those_that_leave(size: int, without: set[str]) -> None:
    z = PoolID("d", "z")
    rest = len(write_pools([PoolID("d", ""), z]))
    stays = PoolID("d", "a" * (MAX_CHARACTERS - rest + size))
    nodes = {stays: "a", z: "z"}
    assert find_nodes_without_room([stays], nodes, [stays, z]) == without
    assert find_nodes_without_room([stays], nodes, [z]) == set()


def test_a_rule_taints_the_devices_of_one_pool() -> None:
    made = make_rule(POOL)
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", **made}
    read = taint_rule_reader().read(document)
    assert (read,) == fence_rules([POOL])
    assert made["spec"]["deviceSelector"] == {"driver": POOL.driver, "pool": POOL.name}
    assert rule_name(POOL) != rule_name(PoolID(POOL.driver, "a"))


def test_rules_with_the_label_or_such_a_name_are_ours() -> None:
    rule = make_rule(POOL)
    assert is_our_rule(rule)
    assert is_our_rule({"metadata": {"name": rule_name(POOL)}})
    assert is_our_rule({**rule, "metadata": {**rule["metadata"], "name": "other"}})
    for name in ("other", f"{rule_name(POOL)}0", f"my-{rule_name(POOL)}", "drawbridge-owned"):
        assert not is_our_rule({**rule, "metadata": {"name": name}})
    assert not is_our_rule({"metadata": {"labels": {"drawbridge.dev/owned": "true"}}})


@pytest.mark.parametrize(
    ("path", "value", "same"),
    [
        (("taint", "timeAdded"), "2026-11-20T10:00:00Z", True),
        (("taint", "key"), "other", False),
        (("taint", "effect"), "None", False),
        (("deviceSelector", "pool"), "c", False),
        (("deviceSelector", "device"), "gpu-0", False),
    ],
)
def test_a_rule_that_was_changed_is_another_one(
    path: tuple[str, str], value: str, *, same: bool
) -> None:
    rule = make_rule(POOL)
    rule["spec"][path[0]][path[1]] = value
    assert selects_as(rule, make_rule(POOL)) is same


def test_the_allocator_obeys_all_rules_but_those_of_the_fence() -> None:
    other = DeviceTaintRule("broken", Taint("example.com/broken", "NoSchedule"))
    assert without_fence((*fence_rules([POOL]), other)) == (other,)


LOCAL = Slice("s", "gpu.example.com", "n", 1, 1, node_name="n")


@pytest.mark.parametrize(
    ("fences", "labels", "expected"),
    [
        ((NodeFence.RULES,), {"a": "b"}, True),
        ((NodeFence.TAINT,), {"a": "b"}, False),
        ((NodeFence.RULES, NodeFence.TAINT), {"a": "b"}, False),
        ((NodeFence.RULES,), {}, False),
        ((), {"a": "b"}, False),
    ],
)
def test_a_pool_is_fenced_by_rules_if_no_entry_needs_the_taint(
    fences: tuple[NodeFence, ...], labels: dict[str, str], *, expected: bool
) -> None:
    selector = LabelSelector(match_labels={LabelKey("a"): LabelValue("b")})
    owned = [OwnedPool(DriverName(LOCAL.driver), selector, fence=each) for each in fences]
    pool, nodes = PoolID(LOCAL.driver, "n"), {"n": Node("n", labels=labels)}
    assert find_open_node(owned, pool, [LOCAL], nodes.get) == ("n" if expected else None)
    assert find_open_node(owned, pool, [LOCAL], lambda _: None) is None


def test_parts_are_read_from_objects_as_they_are() -> None:
    value = {"apiVersion": "v1", "metadata": {"uid": "u", "generation": 3}, "spec": {"a": "b"}}
    read = msgspec.convert(value, FencePart)
    assert (read.metadata.generation, read.spec) == (3, {"a": "b"})
