"""Devices that an administrator holds for a pod while a plan to defragment is carried out."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from allocator.state.preemptors import KEEP_SECONDS
from drawbridge.brief import USUAL_SECONDS, Brief, CutShort
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import Taint
from drawbridge.ledger.node_holds import MAX_HOLD_SECONDS, NodeHold, write_node_hold
from drawbridge.pod_groups import COSCHEDULING_LABEL
from drawbridge.solver.memo import CutOnNodeError
from tests.allocator.api_served import ReviewServer, serving_api
from tests.allocator.clusters import (
    START,
    Cluster,
    allocation_on,
    as_claim,
    claim,
    codes,
    pod,
)
from tests.allocator.contests import HIGH, Contest
from tests.allocator.test_api_searches import local
from tests.allocator.test_quotas import DEVICES, limit

MINUTES = 60.0
T = TypeVar("T")


def hold_of(uid: str, *evicted: str, seconds: float = 30 * MINUTES, name: str = "") -> str:
    """Return the annotation for a pod whose name is its UID."""
    until = datetime.fromtimestamp(START + seconds, UTC)
    return write_node_hold(NodeHold(f"default/{name or uid}", uid, until, evicted))


class Plan:
    """A node with three GPUs, of which `a` and `b` have one each; `big` waits for three."""

    def __init__(self, devices: int = 3) -> None:
        self.contest = Contest(n1=devices, n2=1)
        self.cluster = self.contest.cluster
        self.contest.run("a", "n1", 0)
        self.contest.run("b", "n1", 1)
        self.wait_for("big", 3)

    def wait_for(self, uid: str, count: int = 1) -> None:
        """Add a pod that waits, with its claim."""
        self.cluster.add_claim(claim(f"of-{uid}", count))
        self.cluster.add(pod(uid, f"of-{uid}"))

    def annotate(self, text: str, *taints: Taint, unschedulable: bool = False) -> None:
        """Change the annotation of the node."""
        self.cluster.add(
            Node("n1", {"name": "n1"}, hold=text, taints=taints, unschedulable=unschedulable)
        )

    def ask(self, uid: str, count: int = 1, priority: int = 0) -> list[str]:
        """Ask for a pod; returns the nodes."""
        return self.contest.ask(uid, count, priority)


@pytest.fixture
def plan() -> Plan:
    return Plan()


def test_others_get_what_the_evicted_pods_release_without_a_hold(plan: Plan) -> None:
    plan.ask("big", 3)
    plan.contest.end("a")
    assert plan.ask("other", 2) == ["n1"]


def test_what_the_evicted_pods_release_and_what_is_free_goes_to_the_pod(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    assert plan.ask("first") == ["n2"]
    for uid in ("a", "b"):
        assert plan.ask("big", 3) == []
        plan.contest.end(uid)
        assert plan.ask("other", 2) == []
    assert plan.contest.woken() == ["big"]
    assert plan.ask("big", 3) == ["n1"]
    assert not plan.cluster.reserve("big", "n1")


def test_the_refusal_of_a_pod_that_asks_the_same_is_none_of_the_pod(plan: Plan) -> None:
    plan.wait_for("ahead", 3)
    for uid in ("ahead", "big"):
        assert plan.ask(uid, 3) == []
    plan.contest.end("a")
    plan.contest.end("b")
    # What is held begins with the question of the pod that waits for longer.
    plan.annotate(hold_of("big"))
    assert plan.contest.woken() == ["big"]


class CutWithoutUsualTime(Brief):
    """Cuts each search that has less than the usual time."""

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        if self.seconds < USUAL_SECONDS:
            raise CutShort
        return compute()


def test_a_hold_has_the_usual_time_however_little_is_left_to_who_asks() -> None:
    made = Cluster(brief=CutWithoutUsualTime(), n1=1, n2=1)
    made.state.planner.begin_decision(USUAL_SECONDS / 2)  # of another namespace
    made.add_claim(claim("of-p"))
    made.add(pod("p", "of-p"), Node("n1", {"name": "n1"}, hold=hold_of("p")))
    made.decisions.expire(made.now)
    assert made.decisions.preemptors.find("p") is not None
    state = made.state
    with pytest.raises(CutOnNodeError):
        state.planner.solve_nodes(state.ledger.view(), [state.claims["of-p"]], ["n2"])


def test_another_process_holds_the_same_before_it_answers(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    plan.contest.end("a")
    assert plan.ask("other", 2) == []
    plan.cluster.decisions.begin_term()
    assert plan.ask("other", 2) == []
    plan.contest.end("b")
    plan.cluster.decisions.begin_term()
    assert plan.ask("other", 3) == []
    assert plan.ask("big", 3) == ["n1"]


def test_the_pod_is_told_that_devices_are_held_for_it_and_evicts_nobody(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    reply = plan.cluster.prefilter("big", claim("of-big", 3), priority=HIGH)
    assert codes(reply)[0] == "DevicesHeld"
    assert "until 2026-01-01T00:30:00Z; 2 claims of pods to evict" in reply.message
    preempted = plan.contest.preempt("big", 3)
    assert (preempted.waiting, preempted.victims) == (True, ())


def test_a_cordoned_node_is_held_until_it_is_open_again(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"), unschedulable=True)
    plan.contest.end("a")
    plan.contest.end("b")
    reply = plan.cluster.prefilter("big", claim("of-big", 3))
    assert (reply.fit, codes(reply)[0]) == ((), "DevicesHeld")
    plan.annotate(hold_of("big", "a", "b"))
    assert plan.ask("other", 2) == []
    assert plan.ask("big", 3) == ["n1"]


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("", id="none"),
        pytest.param("big", id="unreadable"),
        pytest.param(hold_of("big", "a", "b", seconds=-1), id="over"),
        pytest.param(hold_of("big", "a", "b", seconds=MAX_HOLD_SECONDS + 1), id="too long"),
        pytest.param(hold_of("earlier", "a", "b", name="big"), id="an earlier pod of the name"),
        pytest.param(hold_of("unknown", "a", "b"), id="unknown pod"),
        pytest.param(hold_of("a", "b"), id="a pod that runs"),
    ],
)
def test_nothing_is_held_for(plan: Plan, annotation: str) -> None:
    plan.annotate(annotation)
    assert plan.ask("other") == ["n1", "n2"]
    plan.contest.end("a")
    plan.contest.end("b")
    assert plan.ask("more", 3) == ["n1"]


def test_only_the_pods_that_are_named_are_expected_to_go(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a"))
    assert plan.ask("other") == ["n1", "n2"]
    plan.contest.end("b")
    assert plan.ask("more", 2) == []


def test_a_hold_gets_what_another_pod_leaves_of_an_evicted_one() -> None:
    plan = Plan(devices=6)
    plan.contest.run("c", "n2", 0)
    plan.contest.run("large", "n1", *range(2, 6))
    assert plan.contest.victims("high", 3) == ["large"]
    plan.wait_for("small")
    plan.annotate(hold_of("small", "large"))
    assert plan.ask("small") == []
    plan.contest.end("large")
    assert plan.ask("other") == []
    assert plan.ask("high", 3, HIGH) == plan.ask("small") == ["n1"]


def test_a_hold_without_evictions_keeps_free_devices(plan: Plan) -> None:
    plan.wait_for("small")
    plan.annotate(hold_of("small"))
    assert plan.ask("other") == ["n2"]
    assert plan.ask("small") == ["n1"]


@pytest.mark.parametrize("ending", ["removed", "replaced", "deleted", "over", "other taint"])
def test_a_hold_ends(plan: Plan, ending: str) -> None:
    plan.wait_for("small")
    plan.annotate(hold_of("small"))
    assert plan.ask("other") == ["n2"]
    match ending:
        case "removed":
            plan.annotate("")
        case "replaced":
            plan.annotate(hold_of("unknown"))
        case "deleted":
            plan.cluster.state.apply(plan.cluster.pods.pop(("default", "small")), None)
            plan.contest.woken()
        case "over":
            plan.contest.woken(at=30 * MINUTES)
        case _:
            plan.annotate(hold_of("small"), Taint("gone", "NoSchedule"))
            plan.ask("other")
            assert plan.cluster.held() == ["n1/gpu-0", "n1/gpu-1"]
            return
    assert plan.ask("other") == ["n1", "n2"]


def test_a_hold_lasts_as_long_as_it_says_and_while_evicted_pods_end(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    plan.contest.woken(at=29 * MINUTES)
    assert plan.ask("other") == ["n2"]
    plan.contest.evict("a")
    plan.contest.woken(at=30 * MINUTES)
    assert plan.ask("other") == ["n2"]
    plan.contest.woken(at=30 * MINUTES + 2 * KEEP_SECONDS + 1)
    plan.contest.end("a")
    assert plan.ask("other") == ["n1", "n2"]


def test_a_hold_lasts_if_another_pod_uses_a_claim_of_an_evicted_one(plan: Plan) -> None:
    """Nobody else is evicted for the plan, which holds what the others release."""
    plan.annotate(hold_of("big", "a", "b"))
    assert plan.ask("other", 2) == []
    before = plan.cluster.state.claims["of-a"]
    both = claim("of-a", version=3, allocation=allocation_on("n1", 0), pods=["a", "c"])
    plan.cluster.add(pod("c", "of-a", node="n1"))
    plan.cluster.state.apply(before, as_claim(both))
    assert plan.contest.woken() == []
    plan.contest.end("b")
    assert plan.ask("other", 2) == []


def test_the_pod_that_is_placed_elsewhere_needs_no_hold(plan: Plan) -> None:
    plan.wait_for("small")
    plan.annotate(hold_of("small"))
    plan.ask("small")
    plan.cluster.decisions.reserve("small", "n1", plan.cluster.now)
    held = plan.cluster.held()
    plan.ask("other")
    assert plan.cluster.held() == held
    plan.cluster.decisions.unreserve("small", plan.cluster.now)
    assert plan.ask("other") == ["n2"]


def test_a_pod_with_a_higher_priority_takes_over(plan: Plan) -> None:
    plan.wait_for("small")
    plan.wait_for("urgent", 3)
    plan.annotate(hold_of("small"))
    plan.contest.end("a")
    plan.contest.end("b")
    assert plan.ask("urgent", 3, HIGH) == ["n1"]
    assert not plan.cluster.reserve("urgent", "n1")
    assert plan.ask("small") == ["n2"]


def test_a_pod_with_a_higher_priority_that_waits_takes_over_what_becomes_free(plan: Plan) -> None:
    plan.contest.run("c", "n1", 2)
    plan.annotate(hold_of("big"))
    assert plan.ask("urgent", 3, HIGH) == []
    assert plan.ask("big", 3) == []
    for uid in ("a", "b", "c"):
        plan.contest.end(uid)
    assert plan.contest.woken() == ["urgent"]
    assert plan.ask("urgent", 3, HIGH) == ["n1"]


def test_a_pod_over_its_quota_and_a_member_of_a_gang_get_no_hold() -> None:
    for cluster, labels in (
        (Cluster(n1=1, quotas=[limit({DEVICES: "0"})]), {}),
        (Cluster(n1=1), {COSCHEDULING_LABEL: "g"}),
    ):
        cluster.add_claim(claim("of-p"))
        cluster.add(pod("p", "of-p", labels=labels))
        cluster.add(Node("n1", {"name": "n1"}, hold=hold_of("p")))
        cluster.prefilter("other", claim("c"))
        assert cluster.held() == []


def test_a_claim_that_comes_later_is_held_then(plan: Plan) -> None:
    plan.cluster.add(pod("late", "of-late"))
    plan.annotate(hold_of("late"))
    assert plan.ask("other") == ["n1", "n2"]
    plan.cluster.add_claim(claim("of-late"))
    assert plan.ask("other") == ["n2"]


@pytest.mark.asyncio
async def test_the_api_says_for_whom_devices_of_a_node_are_held(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    async with local(plan.cluster) as served:
        served.add_pod(plan.cluster.pods["default", "big"])
        _, before, _ = await served.send("GET /v1/nodes/n1")
        plan.ask("other")
        _, node, _ = await served.send("GET /v1/nodes/n1")
        _, told, _ = await served.send(
            "POST /v1/explain", body={"namespace": "default", "name": "big"}
        )
        _, other, _ = await served.send("GET /v1/nodes/n2")
    described = {"pod": "default/big", "until": "2026-01-01T00:30:00Z"}
    assert before["hold"] == {**described, "active": False, "waitsFor": 0}
    assert node["hold"] == {**described, "active": True, "waitsFor": 2}
    assert other["hold"] is None
    assert told["reasons"][0]["code"] == "DevicesHeld"
    assert told["message"].startswith("devices on a node are held for the pod until 2026-01-01")
    assert told["reasons"][0]["example"] == "n1"


@pytest.mark.asyncio
async def test_who_may_not_list_nodes_is_not_told_which_one_is_held(plan: Plan) -> None:
    plan.annotate(hold_of("big", "a", "b"))
    plan.ask("other")
    rights = ["get pods in default"]
    reviews = ReviewServer({"t": "dev"}, {"dev": rights})
    async with serving_api(plan.cluster, reviews) as served:
        served.add_pod(plan.cluster.pods["default", "big"])
        body = {"namespace": "default", "name": "big"}
        _, told, _ = await served.send("POST /v1/explain", "t", body)
    assert "devices on a node are held" in told["message"]
    assert "n1" not in str(told)


def test_a_node_holds_nothing_that_pods_have_on_other_nodes(plan: Plan) -> None:
    plan.contest.run("c", "n2", 0)
    plan.annotate(hold_of("big", "a", "b", "c"))
    reply = plan.cluster.prefilter("big", claim("of-big", 3))
    assert "; 2 claims of pods to evict" in reply.message
