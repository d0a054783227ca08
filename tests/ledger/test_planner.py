"""What the planner remembers changes no answer, whatever changed in between."""

# ruff: noqa: D102  # the name of a rule or an invariant is its sentence

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dra.claim import Claim, read_claim
from dra.classes import DeviceClass, read_class
from dra.nodes import Node
from dra.slices import Slice, read_slice
from dra.taints import DeviceTaintRule, read_taint_rules
from ledger.ledger import Ledger
from ledger.planner import Planner
from solver.solve import solve
from tests.ledger.claims import claim

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
    pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d.io", "pool": pool, "devices": devices, **where}
    read = read_slice({"metadata": {"name": f"s-{name}"}, "spec": spec})
    assert isinstance(read, Slice)
    return read


def device(name: str, model: str, *, shared: bool = False) -> Plain:
    made: Plain = {
        "name": name,
        "attributes": {"model": {"string": model}},
        "capacity": {"bandwidth": {"value": "8G"}},
    }
    return made | {"allowMultipleAllocations": True} if shared else made


def wanted(*requests: Plain, constraints: tuple[Plain, ...] = ()) -> Claim:
    devices = {"requests": list(requests), "constraints": list(constraints)}
    read = read_claim({"metadata": {"name": "c"}, "spec": {"devices": devices}})
    assert isinstance(read, Claim)
    return read


def exactly(name: str, **fields: object) -> Plain:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def only(model: str) -> list[Plain]:
    return [{"cel": {"expression": f'device.attributes["d.io"].model == "{model}"'}}]


SAME_MODEL = {"matchAttribute": "d.io/model"}
QUESTIONS = (
    (wanted(exactly("r")),),
    (wanted(exactly("r", count=2), constraints=(SAME_MODEL,)),),
    (wanted(exactly("r", selectors=only("a"))), wanted(exactly("s", selectors=only("b")))),
    (wanted(exactly("r", capacity={"requests": {"bandwidth": "3G"}})),),
    (wanted(exactly("r", allocationMode="All", tolerations=[{"operator": "Exists"}])),),
    (wanted(exactly("r", selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])),),
)
SELECTORS = ("true", 'device.attributes["d.io"].model == "a"', "device.driver == 'other'")


class Remembering(RuleBasedStateMachine):
    """A planner that is told of changes and asked in between."""

    @initialize()
    def start(self) -> None:
        self.planner, self.ledger, self.version = Planner(), Ledger(), 0
        for name in NODES:
            self.planner.put(node(name, "z"))
            self.a_node_publishes(name, ["a", "b"], 1)
        self.planner.put(device_class("true"))

    @rule(name=nodes, models=st.lists(st.sampled_from("ab"), max_size=3), generation=st.just(1))
    def a_node_publishes(self, name: str, models: list[str], generation: int) -> None:
        devices = [device(f"x{i}", model) for i, model in enumerate(models)]
        self.planner.put(pool_slice(name, {"nodeName": name}, devices, generation))

    @rule(name=nodes)
    def a_slice_goes(self, name: str) -> None:
        self.planner.remove(Slice, f"s-{name}")

    @rule(zone=st.sampled_from("zw"), generation=st.integers(1, 2))
    def a_zone_publishes(self, zone: str, generation: int) -> None:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        devices = [device("nic", "b", shared=True)]
        self.planner.put(pool_slice("net", where, devices, generation))

    @rule(name=nodes, zone=st.sampled_from("zw"))
    def a_node_moves(self, name: str, zone: str) -> None:
        self.planner.put(node(name, zone))

    @rule(expression=st.sampled_from(SELECTORS))
    def the_class_changes(self, expression: str) -> None:
        self.planner.put(device_class(expression))

    @rule()
    def the_class_goes(self) -> None:
        self.planner.remove(DeviceClass, "gpu")

    @rule(name=nodes, there=st.booleans())
    def a_rule_taints(self, name: str, there: bool) -> None:  # noqa: FBT001  # drawn
        self.planner.remove(DeviceTaintRule, "t")
        spec = {"deviceSelector": {"pool": name}, "taint": {"key": "k", "effect": "NoSchedule"}}
        read = read_taint_rules(
            {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "t"}, "spec": spec}
        )
        if there:
            self.planner.put(read.objects[0])

    @rule(uid=st.sampled_from("ab"), where=nodes, what=st.sampled_from(["x0", "x1", ""]))
    def a_claim_changes(self, uid: str, where: str, what: str) -> None:
        self.version += 1
        self.ledger.observe(claim(uid, self.version, *([f"{where}/{what}"] if what else [])))

    @rule(share=st.sampled_from(["net/nic:1=6G", "net/nic:1=1G", "net/nic"]))
    def the_shared_device_is_used(self, share: str) -> None:
        self.version += 1
        self.ledger.observe(claim("c", self.version, share))

    @rule(question=st.sampled_from(QUESTIONS), some=st.sets(nodes, min_size=1))
    def it_is_asked(self, question: tuple[Claim, ...], some: set[str]) -> None:
        view, asked = self.ledger.view(), sorted(some)
        answers = self.planner.answers(view, question, asked, ids=lambda: "id")
        fresh = solve(
            self.planner.world(),
            view,
            question,
            [self.planner.nodes[name] for name in asked],
            ids=lambda: "id",
        )
        assert answers == fresh

    @rule()
    def everything_is_forgotten(self) -> None:
        self.planner.forget()


Remembering.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestRemembering = Remembering.TestCase


def test_what_says_the_same_again_changes_nothing() -> None:
    planner = Planner()
    devices = [device("x", "a")]
    assert planner.put(pool_slice("p", {"nodeName": "n"}, devices))
    assert planner.put(node("n", "z"))
    before = planner.world()
    assert not planner.put(pool_slice("p", {"nodeName": "n"}, devices))
    assert not planner.put(node("n", "z"))
    assert planner.world() is before


def test_only_what_a_change_concerns_is_made_anew() -> None:
    planner = Planner()
    planner.put(pool_slice("p", {"nodeName": "n"}, [device("x", "a")]))
    before = planner.world()
    planner.put(node("n", "z"))
    assert planner.world() is before
    planner.put(device_class("true"))
    assert planner.world().inventory is before.inventory
    planner.put(pool_slice("p", {"nodeName": "n"}, [device("x", "b")]))
    assert planner.world().inventory is not before.inventory
    assert planner.remove(Slice, "s-p")
    assert not planner.remove(Slice, "s-p")


def test_names_that_are_no_node_are_left_out() -> None:
    planner = Planner()
    planner.put(node("n", "z"))
    answers = planner.answers(Ledger().view(), QUESTIONS[0], ["n", "m"], ids=lambda: "id")
    assert list(answers) == ["n"]


def test_a_decision_depends_on_the_pools_that_the_node_sees() -> None:
    planner = Planner()
    planner.put(node("n", "z"))
    planner.put(pool_slice("p", {"nodeName": "n"}, []))
    planner.put(pool_slice("q", {"allNodes": True}, []))
    planner.put(pool_slice("r", {"nodeName": "m"}, []))
    assert [each.name for each in planner.pools("n")] == ["p", "q"]
