"""Tests of the planner: its caches never change a result."""

# ruff: noqa: D102  # the name of a rule or an invariant is its sentence

import itertools
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.dra.taints import DeviceTaintRule, taint_rule_reader
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.solver import solve as module
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View
from tests.ledger.claims import claim
from tests.thorough import drawn

NODES = ("n0", "n1", "n2")
nodes = st.sampled_from(NODES)

Plain = dict[str, Any]


def node(name: str, zone: str) -> Node:
    return Node(name, {"zone": zone})


def device_class(expression: str, name: str = "gpu") -> DeviceClass:
    read = read_class(
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    )
    assert isinstance(read, DeviceClass)
    return read


def pool_slice(name: str, where: Plain, devices: list[Plain], generation: int = 1) -> Slice:
    return slice_of_several(name, 1, {"devices": devices, **where}, generation, name=f"s-{name}")


def slice_of_several(
    pool: str, count: int, spec: Plain, generation: int = 1, *, name: str
) -> Slice:
    of_pool = {"name": pool, "generation": generation, "resourceSliceCount": count}
    plain = {"metadata": {"name": name}, "spec": {"driver": "d.io", "pool": of_pool, **spec}}
    read = read_slice(plain)
    assert isinstance(read, Slice)
    return read


def in_zone(*zones: str) -> Plain:
    expression = {"key": "zone", "operator": "In", "values": list(zones)}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


COUNTED = {"consumesCounters": [{"counterSet": "g", "counters": {"mem": {"value": "6"}}}]}


def device(name: str, model: str, *, shared: bool = False) -> Plain:
    made: Plain = {
        "name": name,
        "attributes": {"model": {"string": model}},
        "capacity": {"bandwidth": {"value": "8G"}},
    }
    return made | {"allowMultipleAllocations": True} if shared else made


def make_claim(*requests: Plain, constraints: tuple[Plain, ...] = ()) -> Claim:
    devices = {"requests": list(requests), "constraints": list(constraints)}
    read = read_claim({"metadata": {"name": "c"}, "spec": {"devices": devices}})
    assert isinstance(read, Claim)
    return read


def exactly(name: str, **fields: object) -> Plain:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def only(model: str) -> list[Plain]:
    return [{"cel": {"expression": f'device.attributes["d.io"].model == "{model}"'}}]


SAME_MODEL = {"matchAttribute": "d.io/model"}
CLAIMS = (
    (make_claim(exactly("r")),),
    (make_claim(exactly("r", count=2), constraints=(SAME_MODEL,)),),
    (make_claim(exactly("r", selectors=only("a"))), make_claim(exactly("s", selectors=only("b")))),
    (make_claim(exactly("r", capacity={"requests": {"bandwidth": "3G"}})),),
    (make_claim(exactly("r", allocationMode="All", tolerations=[{"operator": "Exists"}])),),
    (
        make_claim(
            exactly("r", selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])
        ),
    ),
)
PLACES: tuple[Plain, ...] = (
    {"nodeName": "n0"},
    {"nodeName": "n2"},
    {"allNodes": True},
    in_zone("w"),
)
SELECTORS = ("true", 'device.attributes["d.io"].model == "a"', "device.driver == 'other'")


class Remembering(RuleBasedStateMachine):
    """A planner that is told of changes and asked in between."""

    @initialize()
    def start(self) -> None:
        self.planner, self.ledger, self.version = Planner(), Ledger(), 0
        for name in NODES:
            self.planner.update(node(name, "z"))
            self.a_node_publishes(name, ["a", "b"], 1)
        self.planner.update(device_class("true"))

    @rule(name=nodes, models=st.lists(st.sampled_from("ab"), max_size=3), generation=st.just(1))
    def a_node_publishes(self, name: str, models: list[str], generation: int) -> None:
        devices = [device(f"x{i}", model) for i, model in enumerate(models)]
        self.planner.update(pool_slice(name, {"nodeName": name}, devices, generation))

    @rule(name=nodes)
    def a_slice_is_deleted(self, name: str) -> None:
        self.planner.remove(Slice, f"s-{name}")

    @rule(zone=st.sampled_from("zw"), generation=st.integers(1, 2))
    def a_zone_publishes(self, zone: str, generation: int) -> None:
        devices = [device("nic", "b", shared=True)]
        self.planner.update(pool_slice("net", in_zone(zone), devices, generation))

    @rule(models=st.lists(st.sampled_from("ab"), max_size=2))
    def all_nodes_get_devices(self, models: list[str]) -> None:
        devices = [device(f"x{i}", model) for i, model in enumerate(models)]
        self.planner.update(pool_slice("all", {"allNodes": True}, devices))

    @rule(places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=2))
    def devices_select_their_nodes(self, places: list[Plain]) -> None:
        devices = [device(f"y{i}", "a") | place for i, place in enumerate(places)]
        self.planner.update(pool_slice("fabric", {"perDeviceNodeSelection": True}, devices))

    @rule(
        name=nodes,
        number=st.integers(0, 1),
        memory=st.sampled_from(["6", "12"]),
        generation=st.integers(1, 2),
    )
    def a_slice_of_a_partitioned_pool_changes(
        self, name: str, number: int, memory: str, generation: int
    ) -> None:
        partitions = [device(f"x{i}", "a") | COUNTED for i in range(2)]
        counters = {"name": "g", "counters": {"mem": {"value": memory}}}
        spec = ({"sharedCounters": [counters]}, {"devices": partitions})[number] | {
            "nodeName": name
        }
        slice_name = f"s-partitions-{number}"
        self.planner.update(slice_of_several("parts", 2, spec, generation, name=slice_name))

    @rule(number=st.integers(0, 1))
    def a_slice_of_a_partitioned_pool_is_deleted(self, number: int) -> None:
        self.planner.remove(Slice, f"s-partitions-{number}")

    @rule(name=nodes, zone=st.sampled_from("zw"))
    def a_node_moves(self, name: str, zone: str) -> None:
        self.planner.update(node(name, zone))

    @rule(name=nodes)
    def a_node_is_deleted(self, name: str) -> None:
        self.planner.remove(Node, name)

    @rule(expression=st.sampled_from(SELECTORS))
    def the_class_changes(self, expression: str) -> None:
        self.planner.update(device_class(expression))

    @rule()
    def the_class_is_deleted(self) -> None:
        self.planner.remove(DeviceClass, "gpu")

    @rule(name=nodes, there=st.booleans())
    def a_rule_taints(self, name: str, there: bool) -> None:  # noqa: FBT001  # drawn
        self.planner.remove(DeviceTaintRule, "t")
        spec = {"deviceSelector": {"pool": name}, "taint": {"key": "k", "effect": "NoSchedule"}}
        read = taint_rule_reader().read(
            {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "t"}, "spec": spec}
        )
        assert isinstance(read, DeviceTaintRule)
        if there:
            self.planner.update(read)

    @rule(
        uid=st.sampled_from("ab"),
        where=st.sampled_from([*NODES, "all", "parts", "fabric"]),
        what=st.sampled_from(["x0", "x1", "y0", ""]),
    )
    def a_claim_changes(self, uid: str, where: str, what: str) -> None:
        self.version += 1
        self.ledger.observe(claim(uid, self.version, *([f"{where}/{what}"] if what else [])))

    @rule(share=st.sampled_from(["net/nic:1=6G", "net/nic:1=1G", "net/nic"]))
    def the_shared_device_is_used(self, share: str) -> None:
        self.version += 1
        self.ledger.observe(claim("c", self.version, share))

    @rule(claims=st.sampled_from(CLAIMS), some=st.sets(nodes, min_size=1))
    def solve(self, claims: tuple[Claim, ...], some: set[str]) -> None:
        view, asked = self.ledger.view(), sorted(some & self.planner.nodes.keys())
        answers = self.planner.solve_nodes(view, claims, some, ids=lambda: "id")
        assert answers == self.solve_fresh(claims, asked)

    def solve_fresh(self, claims: tuple[Claim, ...], names: list[str]) -> object:
        world, asked = self.planner.world(), [self.planner.nodes[name] for name in names]
        return solve(world, self.ledger.view(), claims, asked, ids=lambda: "id")


Remembering.TestCase.settings = settings(
    max_examples=drawn(16, thorough=80), stateful_step_count=40, derandomize=True
)
TestRemembering = Remembering.TestCase


def test_an_equal_object_changes_nothing() -> None:
    planner = Planner()
    devices = [device("x", "a")]
    assert planner.update(pool_slice("p", {"nodeName": "n"}, devices))
    assert planner.update(node("n", "z"))
    before = planner.world()
    assert not planner.update(pool_slice("p", {"nodeName": "n"}, devices))
    assert not planner.update(node("n", "z"))
    assert planner.world() is before


def test_a_change_invalidates_only_what_depends_on_it() -> None:
    planner = Planner()
    planner.update(pool_slice("p", {"nodeName": "n"}, [device("x", "a")]))
    before = planner.world()
    planner.update(node("n", "z"))
    assert planner.world() is before
    planner.update(device_class("true"))
    assert planner.world().inventory is before.inventory
    planner.update(pool_slice("p", {"nodeName": "n"}, [device("x", "b")]))
    assert planner.world().inventory is not before.inventory
    assert planner.remove(Slice, "s-p")
    assert not planner.remove(Slice, "s-p")


def test_unknown_node_names_are_ignored() -> None:
    planner = Planner()
    planner.update(node("n", "z"))
    answers = planner.solve_nodes(Ledger().view(), CLAIMS[0], ["n", "m"], ids=lambda: "id")
    assert list(answers) == ["n"]


def test_a_decision_depends_on_the_pools_visible_from_the_node() -> None:
    planner = Planner()
    planner.update(node("n", "z"))
    planner.update(pool_slice("p", {"nodeName": "n"}, []))
    planner.update(pool_slice("q", {"allNodes": True}, []))
    planner.update(pool_slice("r", {"nodeName": "m"}, []))
    assert [each.name for each in planner.pools_for("n")] == ["p", "q"]


def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the nodes that are searched from now on."""
    searched: list[str] = []
    original = module._SolveCall._search  # noqa: SLF001  # counts private calls

    def count(call: module._SolveCall, of: NodeView) -> tuple[SolverResult, bool, int]:
        searched.append(of.node.name)
        return original(call, of)

    monkeypatch.setattr(module._SolveCall, "_search", count)  # noqa: SLF001  # the same
    return searched


def test_only_the_nodes_that_changed_are_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner, ledger, asked = Planner(), Ledger(), CLAIMS[0]
    planner.update(device_class("true"))
    for name in NODES:
        planner.update(node(name, "z"))
        planner.update(pool_slice(name, {"nodeName": name}, [device("x0", "a"), device("x1", "a")]))

    def solve() -> dict[str, SolverResult]:
        return planner.solve_nodes(ledger.view(), asked, NODES, ids=lambda: "id")

    solve()
    searched = searches(monkeypatch)
    assert (list(solve()), searched) == (list(NODES), [])
    ledger.observe(claim("c", 1, "n0/x0"))
    solve()
    planner.update(pool_slice("n1", {"nodeName": "n1"}, [device("x1", "a")]))
    solve()
    planner.update(node("n2", "w"))
    solve()
    assert searched == ["n0", "n1", "n2"]
    planner.remove(Node, "n2")
    assert (list(solve()), searched[3:]) == (["n0", "n1"], [])
    planner.update(pool_slice("net", {"allNodes": True}, [device("x", "a")]))
    assert (list(solve()), searched[3:]) == (["n0", "n1"], ["n0", "n1"])


def test_a_pool_for_labels_concerns_the_nodes_with_the_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner, ledger = Planner(), Ledger()
    planner.update(device_class("true"))
    for name in NODES:
        planner.update(node(name, f"z-{name}"))
    planner.solve_nodes(ledger.view(), CLAIMS[0], NODES, ids=lambda: "id")
    searched = searches(monkeypatch)
    planner.update(pool_slice("net", in_zone("z-n1", "z-n3"), [device("nic", "b")]))
    answers = planner.solve_nodes(ledger.view(), CLAIMS[0], NODES, ids=lambda: "id")
    assert searched == ["n1"]
    assert [isinstance(answers[name], Solution) for name in NODES] == [False, True, False]


def test_a_call_for_some_nodes_searches_no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, ledger = Planner(), Ledger()
    for name in NODES:
        planner.update(node(name, "z"))
    searched = searches(monkeypatch)
    planner.update(device_class("true"))
    planner.solve_nodes(ledger.view(), CLAIMS[0], ["n1"], ids=lambda: "id")
    assert searched == ["n1"]


def test_shares_get_new_ids_in_each_call() -> None:
    planner, ledger, numbers = Planner(), Ledger(), itertools.count()
    planner.update(device_class("true"))
    planner.update(node("n0", "z"))
    planner.update(pool_slice("n0", {"nodeName": "n0"}, [device("nic", "b", shared=True)]))

    def solve() -> str:
        view, ids = ledger.view(), (f"id-{number}" for number in numbers)
        return f"{planner.solve_nodes(view, CLAIMS[3], ['n0'], ids=ids.__next__)}"

    ids = [re.findall("id-[0-9]", solve()) for _ in range(2)]
    assert ids == [["id-0"], ["id-1"]]


@pytest.mark.parametrize(
    ("allocator", "enabled", "placed"),
    [
        (Allocator.DRAWBRIDGE, False, [True, False]),
        (Allocator.DRAWBRIDGE, True, [True, False]),
        (Allocator.UPSTREAM, True, [True, False]),
        (Allocator.UPSTREAM, False, [False, False]),  # the scheduler ignores the slice
    ],
)
def test_published_groups_are_enforced_whatever_the_gate(
    allocator: Allocator, placed: list[bool], *, enabled: bool
) -> None:
    gates = gates_of_version("1.37", {"DRADeviceCompatibilityGroups": enabled})
    assert isinstance(gates, Gates)
    planner = Planner(gates, allocator=allocator)
    counters = [{"name": "c", "counters": {"slots": {"value": "2"}}}]
    devices = [
        {
            "name": f"d{group}",
            "consumesCounters": [
                {
                    "counterSet": "c",
                    "counters": {"slots": {"value": "1"}},
                    "compatibilityGroups": [group],
                }
            ],
        }
        for group in ("mig", "vgpu")
    ]
    specs: tuple[Plain, ...] = ({"sharedCounters": counters}, {"devices": devices})
    for number, spec in enumerate(specs):
        where = {"nodeName": "n0", **spec}
        planner.update(slice_of_several("p", 2, where, name=f"s{number}"))
    planner.update(Node("n0"))
    planner.update(device_class("true"))
    answers = [
        planner.solve_nodes(View(), [make_claim(exactly("r", count=count))], ["n0"])["n0"]
        for count in (1, 2)
    ]
    assert [isinstance(answer, Solution) for answer in answers] == placed
