"""Searches that are interrupted in the middle, because a tenant's expressions take long."""

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from allocator.decisions import node_searches, waiting
from allocator.decisions.shortlist import NodeSearch, Shortlist
from allocator.decisions.waiting import WaitingPods
from allocator.decisions.wake_turns import Turn
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreemptReply,
    PreFilterGroupRequest,
    PreFilterReply,
)
from drawbridge.brief import Brief
from drawbridge.dra.device import Attribute
from drawbridge.dra.nodes import Node
from drawbridge.solver.reasons import merge_reasons
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    as_claim,
    ask_group,
    claim,
    gpu_slice,
    pod,
)
from tests.allocator.contests import HIGH, LOW, Contest
from tests.allocator.cuts import decide_in_a_copy
from tests.cuts import CutAt
from tests.tables import every_row

NODES = ("n1", "n2", "n3")
# Reads an attribute that differs on each device, and selects only those of the last node.
SELECTOR = f'device.attributes["{DRIVER}"].place.startsWith("n3")'


def cluster(brief: Brief | None = None) -> Cluster:
    """Three nodes with four devices each, of which no two give the same projection."""
    made = Cluster(brief=brief)
    for node in NODES:
        slice_ = gpu_slice(node, 4)
        devices = tuple(
            replace(device, attributes={"place": Attribute(string=f"{node}-{device.name}")})
            for device in slice_.devices
        )
        made.add(Node(node, {"name": node}), replace(slice_, devices=devices))
    return made


def selecting(uid: str, expression: str = SELECTOR, count: int = 1) -> Plain:
    """A claim whose request has a selector."""
    exactly = {
        "deviceClassName": "gpu",
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return claim(uid, requests=[{"name": "r", "exactly": exactly}])


class Evaluations:
    """Interrupts a search after each evaluation, and counts them."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bool:
        """Say that the time is over."""
        self.number += 1
        return True


def search_in_steps(made: Cluster, plain: Plain) -> tuple[Shortlist, int]:
    """Repeat an interrupted search until it is complete; return the result and the calls."""
    made.add_claim(plain)
    request = NodeSearch(pod=made.pod("p"), claims=(as_claim(plain),), out_of_time=Evaluations())
    searches = node_searches.NodeSearches(made.state)
    for calls in range(1, 100):
        ran = searches.run(request, 0.0)
        if ran.fitting or ran.complete:
            return ran, calls
    raise AssertionError("the search makes no progress")


def test_an_interrupted_search_continues_where_it_was_and_finds_the_same() -> None:
    answer, calls = search_in_steps(cluster(), selecting("c"))
    assert [each.name for each in answer.fitting] == ["n3"]
    assert calls == 3


def test_an_interrupted_search_that_finds_nothing_has_the_reasons_of_one_that_was_not() -> None:
    plain = selecting("c", count=5)
    answer, calls = search_in_steps(cluster(), plain)
    made = cluster()
    made.add_claim(plain)
    whole = NodeSearch(pod=made.pod("p"), claims=(as_claim(plain),))
    expected = node_searches.NodeSearches(made.state).run(whole, 0.0)
    assert calls == 3
    assert answer.examined == expected.examined == 3
    assert merge_reasons(answer.reasons) == merge_reasons(expected.reasons)


def test_nodes_that_changed_and_were_not_examined_again_are_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_searches, "FEW_NODES", 0)
    made = Cluster(n1=1, n2=1, n3=1)
    plain = claim("c", 2)
    made.add_claim(plain)
    request = NodeSearch(pod=made.pod("p"), claims=(as_claim(plain),))
    searches = node_searches.NodeSearches(made.state, nodes_per_call=1)
    while not searches.run(request, 0.0).complete:
        pass
    made.add(gpu_slice("n1", 1, generation=2), gpu_slice("n2", 2, generation=2))
    for _ in range(10):
        if fitting := searches.run(request, 0.0).fitting:
            break
    assert [each.name for each in fitting] == ["n2"]


def test_a_pod_whose_search_takes_long_does_not_hold_up_the_others() -> None:
    made = cluster()
    waiting = WaitingPods(made.decisions)
    for number in range(5):
        plain = selecting(f"of-slow{number}", f"{SELECTOR} && {number} < 0")
        made.decisions.prefilter(made.request(f"slow{number}", plain), 0.0, lambda: True)
        waiting.note_answer(f"slow{number}", (), 0.0)
    made.prefilter("p", claim("of-p", 9))
    waiting.note_answer("p", (), 1.0)
    made.add(gpu_slice("n4", 9), Node("n4", {"name": "n4"}))
    for _ in range(60):
        if woken := waiting.wake(1.0, out_of_time=lambda: True).woken:
            break
    assert woken == ("p",)


def test_a_pod_whose_search_finds_nothing_later_asks_again_so_that_it_can_preempt() -> None:
    made = cluster()
    waiting = WaitingPods(made.decisions)
    reply = made.decisions.prefilter(made.request("p", claim("of-p", 9)), 0.0, lambda: True)
    assert not reply.complete
    assert not reply.preemptible
    waiting.note_answer("p", (), 0.0, complete=reply.complete)
    woken = [uid for _ in range(60) for uid in waiting.wake(1.0, out_of_time=lambda: True).woken]
    assert woken == ["p"]
    assert made.prefilter("p", claim("of-p", 9)).preemptible


# A selector that takes long on each device, and one that takes long to compile.
LOOP = "[1,2,3,4,5,6,7,8,9,10]"
SLOW = (
    f"{LOOP}.all(a, {LOOP}.all(b, {LOOP}.all(c, {LOOP}.all(d, a + b + c + d < 99)))) && {SELECTOR}"
)
LONG = " || ".join([SELECTOR] * 60)
FAILING = 'device.attributes["x.io"].missing == 1'


# A search with one of them is cut at this call of a function, and no other.
CALLS = 3000


class Aside:
    """Waiting pods whose searches are cut on each node."""

    def __init__(self, **namespaces: str) -> None:
        self.cluster = cluster(CutAt(CALLS))
        self.waiting = WaitingPods(self.cluster.decisions)
        for uid, namespace in namespaces.items():
            self.ask(uid, selecting(f"of-{uid}", f"{SLOW} && {len(uid)} > 0"), namespace)

    def ask(self, uid: str, plain: Plain, namespace: str = "default") -> PreFilterReply:
        """Ask for a pod, as the scheduler does."""
        reply = self.cluster.prefilter(uid, plain, namespace=namespace)
        fitting = [each.node for each in reply.fit]
        self.waiting.note_answer(uid, fitting, 0.0, complete=reply.complete)
        return reply

    def decide_one(self) -> str:
        """Let a copy of the process decide about a pod, and return it."""
        while True:
            turn = self.waiting.wake(1.0)
            if turn.aside:
                decide_in_a_copy(self.waiting, self.cluster.state.planner, turn.aside)
                return turn.aside
            assert turn.unfinished, "no search was cut"

    def finish(self) -> list[str]:
        """Let copies decide about all pods, and return those that are woken meanwhile."""
        woken: list[str] = []
        for _ in range(100):
            turn = self.waiting.wake(1.0)
            woken += turn.woken
            if turn.aside:
                decide_in_a_copy(self.waiting, self.cluster.state.planner, turn.aside)
            elif not turn.unfinished:
                return woken
        raise AssertionError("the searches make no progress")


@pytest.mark.parametrize("expression", [SLOW, LONG])
def test_a_selector_that_takes_long_is_evaluated_in_a_copy(expression: str) -> None:
    aside, plain = Aside(), selecting("c", expression)
    assert not aside.ask("p", plain).complete
    assert aside.finish() == ["p"]
    assert aside.cluster.nodes("p", plain) == ["n3"]


@pytest.mark.parametrize("expression", [SLOW, LONG])
def test_a_search_that_finds_nothing_in_a_copy_gives_the_usual_reasons(
    expression: str,
) -> None:
    aside, plain = Aside(), selecting("c", expression, count=5)
    aside.ask("p", plain)
    assert aside.finish() == ["p"]
    made = cluster()
    made.add_claim(plain)
    whole = NodeSearch(pod=made.pod("p"), claims=(as_claim(plain),))
    expected = node_searches.NodeSearches(made.state).run(whole, 0.0)
    reply = aside.ask("p", plain)
    assert reply.complete
    assert [each.message for each in reply.reasons] == [
        each.message for each in merge_reasons(expected.reasons)
    ]


def test_copies_decide_in_turns_by_namespace() -> None:
    aside = Aside(a="one", bb="one", ccc="one", dddd="two")
    assert [aside.decide_one() for _ in range(4)] == ["a", "dddd", "bb", "ccc"]


def hold_all(expression: str) -> Contest:
    """Pods have all devices of a node; another one wants some, of which two with a selector."""
    contest, plain = Contest(), claim("of-high", requests=[plain_request("a", 1)])
    plain["spec"]["devices"]["requests"].append(plain_request("b", 2, expression))
    slice_ = gpu_slice("n1", 6)
    devices = tuple(
        replace(device, attributes={"place": Attribute(string=f"n1-{device.name}")})
        for device in slice_.devices
    )
    contest.running["n1"] = {}
    contest.cluster.add(Node("n1", {"name": "n1"}), replace(slice_, devices=devices))
    # The results for the devices that an equal pod was offered are known.
    equal = claim("of-equal", requests=plain["spec"]["devices"]["requests"])
    reply = contest.cluster.prefilter("equal", equal, priority=HIGH)
    contest.waiting.note_answer("equal", (), 0.0, complete=reply.complete)
    while uid := contest.waiting.wake(1.0).aside:
        decide_in_a_copy(contest.waiting, contest.cluster.state.planner, uid)
    contest.waiting.end("equal")
    for number in range(6):
        important = number < 3
        priority = LOW + 3 * important
        contest.run(f"p{number}", "n1", number, priority=priority, violates=important)
    assert contest.cluster.prefilter("high", plain, priority=HIGH).preemptible
    return contest


def plain_request(name: str, count: int, expression: str = "true") -> Plain:
    """A request of some devices."""
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": "gpu", "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly}


@pytest.mark.parametrize("expression", ["true", SLOW.replace('"n3"', '"n1"')])
def test_a_selector_that_takes_long_changes_no_victims(expression: str) -> None:
    contest = hold_all(expression)
    reply = contest.cluster.decisions.preempt(contest.preemption("high"), 2.0)
    assert (reply.victims, reply.violations) == (("p3", "p4", "p5"), 0)


@pytest.mark.parametrize("failing", [(), (0,), (3,), (10,), (3, 7, 11)])
def test_a_search_in_parts_continues_behind_nodes_with_an_error(failing: tuple[int, ...]) -> None:
    made = Cluster()
    for number in range(20):
        place = Attribute(integer=1) if number in failing else Attribute(string=f"n{number}")
        slice_ = gpu_slice(f"n{number:02}", 1)
        devices = tuple(replace(each, attributes={"place": place}) for each in slice_.devices)
        made.add(Node(f"n{number:02}", {"name": "n"}), replace(slice_, devices=devices))
    pods = WaitingPods(made.decisions)
    plain = selecting("c", f'device.attributes["{DRIVER}"].place.startsWith("n19")')
    reply = made.decisions.prefilter(made.request("p", plain), 0.0, lambda: True)
    pods.note_answer("p", (), 0.0, complete=reply.complete)
    turns = (pods.wake(1.0, out_of_time=lambda: True) for _ in range(100))
    assert next(filter(None, (turn.woken for turn in turns)), ()) == ("p",)


def test_an_expression_that_fails_everywhere_ends_the_search_and_names_only_the_own_claim() -> None:
    made = Cluster(**{f"n{number}": 1 for number in range(100)})
    replies = [made.prefilter(f"p-{uid}", selecting(uid, FAILING)) for uid in ("own", "other")]
    assert [(each.complete, each.preemptible) for each in replies] == [(True, False)] * 2
    assert "claim default/own" in replies[0].reasons[0].message
    assert replies[1].reasons[0].message.startswith("an expression of an equal claim fails (n")


def test_many_searches_that_have_not_ended_hide_none_that_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "VISITS_PER_TURN", 4)
    aside = Aside(**{f"slow{number}": "other" for number in range(8)})
    aside.ask("p", claim("of-p", 9))
    promises = aside.cluster.decisions.promises
    assert promises.is_refused(promises.request_key("p") or b"")
    aside.waiting.note_answer("p", (), 0.0, complete=False)
    assert [uid for _ in range(4) for uid in aside.waiting.wake(1.0, may_copy=False).woken] == ["p"]


def test_pods_are_woken_while_a_copy_decides() -> None:
    aside = Aside(slow="other")
    aside.ask("p", claim("of-p", 9))
    assert aside.waiting.wake(1.0).aside
    aside.cluster.add(gpu_slice("n4", 9), Node("n4", {"name": "n4"}))
    turn = aside.waiting.wake(1.0, may_copy=False)
    assert turn == Turn(("p",), unfinished=False)


def test_no_copy_decides_about_a_pod_that_is_deleted() -> None:
    aside = Aside(slow="other")
    aside.decide_one()
    aside.waiting.end("slow")
    assert aside.waiting.wake(1.0) == Turn((), unfinished=False)


# The attributes a, b, c and d of 16 devices, the count of each request, and constraints that need
# millions of steps.
DEVICES = [
    "3223", "4043", "1112", "3013", "0324", "0104", "4330", "5122",
    "3222", "2413", "0033", "0102", "3345", "3123", "3141", "1021",
]  # fmt: skip
COUNTS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1)
DISTINCT = [("c", 11, 2, 7, 4), ("a", 8, 4, 0), ("a", 9, 2, 0, 12), ("d", 6, 8), ("c", 11, 5)]
MATCHING = [
    ("b", 13, 8, 10), ("b", 8, 4), ("a", 3, 6), ("a", 12, 0, 6), ("c", 12, 3, 9, 8),
    ("a", 12, 11, 10), ("b", 8, 9),
]  # fmt: skip


def test_a_node_that_needs_millions_of_steps_is_decided_in_a_copy() -> None:
    aside = Aside()
    made = aside.cluster
    slice_ = gpu_slice("n4", 16)
    devices = tuple(
        replace(device, attributes=dict(zip("abcd", map(_text, values), strict=True)))
        for device, values in zip(slice_.devices, DEVICES, strict=True)
    )
    made.add(Node("n4", {"name": "n4"}), replace(slice_, devices=devices))
    plain = claim(
        "c",
        requests=[
            {"name": f"r{i}", "exactly": {"deviceClassName": "gpu", "count": count}}
            for i, count in enumerate(COUNTS)
        ],
    )
    plain["spec"]["devices"]["constraints"] = [
        {"requests": [f"r{i}" for i in some], kind: f"{DRIVER}/{name}"}
        for kind, listed in (("distinctAttribute", DISTINCT), ("matchAttribute", MATCHING))
        for name, *some in listed
    ]
    assert not aside.ask("p", plain).complete
    assert aside.finish() == ["p"]
    reply = aside.ask("p", plain)
    assert reply.complete
    assert "SearchGaveUp" in {each.code for each in reply.reasons}


def _text(value: str) -> Attribute:
    return Attribute(string=value)


def preempt_in(contest: Contest, steps: int, count: int) -> PreemptReply:
    """Ask for victims with time for a number of steps."""
    assert contest.ask("high", count) == []
    left = iter(range(steps))
    request = contest.preemption("high")
    return contest.cluster.decisions.preempt(request, 0.0, lambda: next(left, None) is None)


def test_a_search_for_victims_that_takes_long_on_one_node_continues() -> None:
    contest = Contest(n1=40, n2=40)
    for node in contest.running:
        for number in range(40):
            contest.run(f"{node}-{number}", node, number)
    replies = [preempt_in(contest, 8, 2)]
    assert replies[0].unfinished
    while replies[-1].unfinished:
        assert len(replies) < 40, "the search makes no progress"
        replies.append(preempt_in(contest, 8, 2))
    assert len(replies[-1].victims) == 2


@every_row("steps", range(3, 9))
def test_a_search_for_victims_with_outdated_answers_evicts_nobody_in_vain(steps: int) -> None:
    contest = Contest(n1=6)
    for number in range(6):
        contest.run(f"p{number}", "n1", number)
    assert preempt_in(contest, steps, 3).unfinished
    # The claim of a pod has another user now, so that its eviction releases nothing.
    contest.cluster.add(pod("user", "of-p5", node="n1"))
    shared = claim("of-p5", version=9, allocation=allocation_on("n1", 5), pods=["p5", "user"])
    contest.cluster.add_claim(shared)
    attempts = (preempt_in(contest, 1000, 3).victims for _ in range(2))
    assert next(filter(None, attempts)) == ("p2", "p3", "p4")


def test_a_search_for_victims_begins_again_when_the_node_has_changed() -> None:
    contest = Contest(n1=6)
    for number in range(6):
        contest.run(f"p{number}", "n1", number)
    assert preempt_in(contest, 7, 3).unfinished
    contest.end("p0")
    assert preempt_in(contest, 1000, 3).victims == ("p4", "p5")


@every_row("steps", range(3, 9))
def test_a_search_for_victims_begins_again_when_another_pod_waits_for_a_victim(steps: int) -> None:
    contest = Contest(n1=6)
    for number in range(6):
        contest.run(f"p{number}", "n1", number)
    assert preempt_in(contest, steps, 3).unfinished
    assert contest.victims("other") == ["p5"]
    assert preempt_in(contest, 1000, 3).victims == ("p2", "p3", "p4")


# --- gangs ---


class Gangs(Aside):
    """Waiting gangs on nodes that are full, whose searches are cut after each step."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.cluster = Cluster(**{f"n{number}": 8 for number in range(nodes)})
        self.waiting = WaitingPods(self.cluster.decisions)
        for number in range(nodes):
            held = allocation_on(f"n{number}", *range(8))
            self.cluster.add_claim(claim(f"full{number}", 8, allocation=held, pods=["x"]))

    def ask_gang(
        self, namespace: str, name: str, members: int, expression: str = "true", count: int = 1
    ) -> None:
        """Ask about each member, as the scheduler does."""
        uids = [f"{name}-{number}" for number in range(members)]
        asking = tuple(
            GroupMember(
                pod=self.cluster.pod(uid, namespace=namespace),
                claims=(Raw(msgspec.json.encode(selecting(f"of-{uid}", expression, count))),),
            )
            for uid in uids
        )
        group = GroupReference(key=f"{namespace}/{name}", min_count=members)
        for uid in uids:
            request = PreFilterGroupRequest(pod_uid=uid, group=group, members=asking)
            reply = ask_group(self.cluster.decisions, request, 0.0, lambda: True)
            self.waiting.note_answer(uid, (), 0.0, complete=reply.complete)

    def turns_until(self, uid: str) -> int:
        """Free the devices of a node; return how many short turns it takes to wake a pod."""
        self.cluster.add_claim(claim("full0", 8, version=9))
        for turns in range(1, 1000):
            if uid in self.waiting.wake(5.0, out_of_time=lambda: True).woken:
                return turns
        raise AssertionError("the pod is not woken")


@pytest.mark.parametrize("members", [8, 64])
def test_a_gang_with_a_long_search_delays_pods_behind_it_by_one_step(members: int) -> None:
    gangs = Gangs(nodes=4)
    gangs.ask_gang("greedy", "g", members)
    gangs.ask("alone", claim("of-alone"))
    assert gangs.turns_until("alone") <= 3


def test_searches_for_gangs_go_in_turns_by_namespace() -> None:
    alone = Gangs(nodes=4)
    alone.ask_gang("modest", "h", 2)
    steps = alone.turns_until("h-0")
    among = Gangs(nodes=4)
    for number in range(20):
        among.ask_gang("greedy", f"g{number}", 1, count=9)
    among.ask_gang("modest", "h", 2)
    # Each gang has one step in the pass, or two if it is alone; then each second turn is modest's.
    assert among.turns_until("h-0") <= 20 + 2 * (steps + 1)


@pytest.mark.parametrize("expression", [SLOW, LONG])
def test_a_selector_of_a_gang_that_takes_long_is_evaluated_in_a_copy(
    expression: str,
) -> None:
    gangs = Gangs(nodes=0)
    gangs.cluster = cluster(CutAt(CALLS))
    gangs.waiting = WaitingPods(gangs.cluster.decisions)
    gangs.ask_gang("default", "g", 2, expression)
    assert gangs.cluster.held() == []
    assert gangs.decide_one() in {"g-0", "g-1"}
    assert set(gangs.finish()) == {"g-0", "g-1"}
