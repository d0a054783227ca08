"""Tests of changed inventories: equal to a fresh one, and unchanged pools stay the same objects."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import Inventory, Pool, PoolCache, PoolID, build_inventory
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from tests.dra.short_slices import slice_of
from tests.thorough import drawn

NODES = (
    Node("n1", {"zone": "a"}),
    Node("n2", {"zone": "b", "rack": "7"}),
    Node("n3", {"zone": "a", "rack": "5"}),
    Node("", {"zone": "a"}),
)


def selector(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": list(terms)}


def labels(*requirements: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, "values": values}
            for key, operator, values in requirements
        ]
    }


def field(name: str) -> dict[str, Any]:
    requirement = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"matchFields": [requirement]}


SELECTORS = (
    selector(labels(("zone", "In", ["a", "c"]))),
    selector(labels(("zone", "In", ["b"]), ("rack", "Gt", ["6"]))),
    selector(labels(("rack", "Exists", []))),
    selector(labels(("rack", "Gt", ["6"]))),
    selector(labels(("zone", "NotIn", ["a"])), field("n1")),
    selector(field("n3")),
    selector(),
    selector(labels(("zone", "Near", ["a"]))),
)
DEVICE_NODES = (
    {"nodeName": "n1"},
    {"nodeName": "n2"},
    {"allNodes": True},
    *({"nodeSelector": each} for each in SELECTORS),
)
PLACES = st.one_of(
    st.sampled_from([{"nodeName": "n1"}, {"nodeName": "n2"}, {"nodeName": "n3"}]),
    st.just({"allNodes": True}),
    st.sampled_from([{"nodeSelector": each} for each in SELECTORS]),
    st.lists(st.sampled_from(DEVICE_NODES), max_size=2).map(lambda nodes: {"devices": nodes}),
)


@st.composite
def published(draw: st.DrawFn) -> Slice:
    place = draw(PLACES)
    names = draw(st.lists(st.sampled_from("xyz"), max_size=2))
    devices: list[dict[str, Any]] = [{"name": name} for name in names]
    if "devices" in place:
        devices = [{"name": f"d{i}", **where} for i, where in enumerate(place["devices"])]
        place = {"perDeviceNodeSelection": True}
    counters = {}
    if draw(st.integers(0, 3)) == 0:
        devices, counters = [], {"g": {"mem": "4"}}
    elif draw(st.integers(0, 3)) == 0:
        devices = [{**each, "consumes": {"g": {"mem": "1"}}} for each in devices]
    if draw(st.integers(0, 4)) == 0:
        devices = [{**each, "bindingConditions": ["ready"]} for each in devices]
    return slice_of(
        {
            "name": f"s{draw(st.integers(0, 5))}",
            "driver": draw(st.sampled_from(["a.io", "b.io"])),
            "pool": draw(st.sampled_from("pqr")),
            "generation": draw(st.integers(1, 2)),
            "count": draw(st.integers(1, 2)),
            "devices": devices,
            "counters": counters,
            **place,
        }
    )


taint_rules = st.builds(
    DeviceTaintRule,
    st.sampled_from(["t1", "t2"]),
    st.builds(Taint, st.sampled_from("kl"), st.just("NoSchedule")),
    st.builds(
        TaintSelector,
        st.sampled_from(["a.io", None]),
        st.sampled_from(["p", None]),
        st.sampled_from(["x", None]),
    ),
)
# A slice or rule is added or changed; a name is deleted.
events = st.lists(
    st.one_of(published(), published(), taint_rules, st.sampled_from(["s0", "s1", "s2", "t1"])),
    max_size=12,
)


def shown(pools: tuple[Pool, ...]) -> list[object]:
    return [
        (p.id, p.generation, p.incomplete, p.invalid, p.slices, p.other_slices, p.counter_sets)
        for p in pools
    ]


def pools_of(inventory: Inventory, node: Node, cache: PoolCache | None) -> tuple[Pool, ...] | str:
    try:
        return inventory.pools_for(node, cache)
    except NodeSelectorError as error:
        return str(error)


def answers(inventory: Inventory, cache: PoolCache | None = None) -> list[object]:
    answers = (pools_of(inventory, node, cache) for node in NODES)
    return [each if isinstance(each, str) else shown(each) for each in answers]


class Objects:
    """The objects of a cluster, and an inventory that follows their changes."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.inventory = build_inventory(())

    def apply(self, event: Slice | DeviceTaintRule | str) -> set[PoolID]:
        """Apply an event, and return the pools of slices that it changes."""
        if isinstance(event, DeviceTaintRule) or event == "t1":
            self.rules.pop(event if isinstance(event, str) else event.name, None)
            if isinstance(event, DeviceTaintRule):
                self.rules[event.name] = event
            self.inventory = self.inventory.with_taint_rules(self.rules.values())
            return set(self.inventory.pools)
        before = self.slices.pop(event if isinstance(event, str) else event.name, None)
        after = event if isinstance(event, Slice) else None
        if after is not None:
            self.slices[after.name] = after
        removed, added = ([each] if each is not None else [] for each in (before, after))
        self.inventory = self.inventory.with_slices(removed, added)
        return {PoolID(each.driver, each.pool) for each in (*removed, *added)}


@settings(max_examples=drawn(30, thorough=150))
@given(events)
def test_a_changed_inventory_equals_a_fresh_one(
    steps: list[Slice | DeviceTaintRule | str],
) -> None:
    objects, cache = Objects(), PoolCache()
    for event in steps:
        objects.apply(event)
        fresh = build_inventory(objects.slices.values(), objects.rules.values())
        assert objects.inventory.slices == fresh.slices
        assert set(objects.inventory.pools) == set(fresh.pools)
        assert answers(objects.inventory) == answers(fresh)
        assert answers(objects.inventory, cache) == answers(fresh)
        # The keys of the index are those of the slices that exist.
        assert set(objects.inventory.index.pools) == set(fresh.index.pools)
        assert objects.inventory.index.label_keys == fresh.index.label_keys


@settings(max_examples=drawn(20, thorough=100))
@given(events)
def test_the_pools_that_a_change_does_not_concern_stay_the_same_objects(
    steps: list[Slice | DeviceTaintRule | str],
) -> None:
    objects, cache = Objects(), PoolCache()
    for event in steps:
        before = [pools_of(objects.inventory, node, cache) for node in NODES]
        changed = objects.apply(event)
        after = [pools_of(objects.inventory, node, cache) for node in NODES]
        for earlier, other in zip(before, after, strict=True):
            if not isinstance(earlier, str) and not isinstance(other, str):
                kept = {id(pool) for pool in earlier if pool.id not in changed}
                assert kept == {id(pool) for pool in other if pool.id not in changed}


def test_an_inventory_stays_as_it_is_when_another_one_is_derived() -> None:
    first, other = (slice_of({"name": name, "devices": ["x"], "pool": name}) for name in "ab")
    before = build_inventory([first])
    after = before.with_slices([first], [other])
    assert (before.slices, after.slices) == ((first,), (other,))
    assert [pool.id.name for pool in before.pools_for(NODES[0])] == ["a"]


def test_a_rule_changes_only_the_slices_whose_devices_it_taints() -> None:
    slices = [slice_of({"name": name, "devices": [name], "count": 2}) for name in "xy"]
    before = build_inventory(slices)
    rule = DeviceTaintRule("r", Taint("k", "NoSchedule"), TaintSelector(device="x"))
    tainted = before.with_taint_rules([rule])
    assert [each.devices[0].taints for each in tainted.slices] == [(rule.taint,), ()]
    other = DeviceTaintRule("s", Taint("k", "NoSchedule"), TaintSelector(device="unknown"))
    same = tainted.with_taint_rules([rule, other])
    assert all(one is two for one, two in zip(tainted.slices, same.slices, strict=True))
    assert same.pools.changed_keys(tainted.pools) == set()
