"""A decision that is cut anywhere is the decision that is not cut, or a named refusal."""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from allocator.decisions.shortlist import MAX_PASSED
from allocator.decisions.waiting import WaitingPods
from drawbridge.brief import (
    FORGIVEN_SECONDS,
    LEAST_SECONDS,
    USUAL_SECONDS,
    Brief,
    CutShort,
    NamespaceTimes,
)
from drawbridge.dra.device import Attribute
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.names import COMPATIBILITY_ANNOTATION
from drawbridge.process.alarm import cut_after
from drawbridge.process.forked import ForkLimits
from drawbridge.solver import memo
from drawbridge.solver.search import Search
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    as_slice,
    claim,
    gpu_slice,
    pod,
    rules,
)
from tests.allocator.contests import HIGH, LOW, Contest
from tests.allocator.cuts import answers_ahead, decide_in_a_copy
from tests.allocator.test_planned_holds import hold_of
from tests.cuts import CutAt

# A cut within the end of a generator is lost, and the next one counts.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
NODES = ("n1", "n2", "n3")
T = TypeVar("T")


def cluster(brief: Brief) -> Cluster:
    """Three nodes; the devices of the first two are alike, and a claim has some of the third."""
    made = Cluster(brief=brief)
    for node in NODES:
        slice_ = gpu_slice(node, 4)
        devices = tuple(
            replace(each, attributes={"place": Attribute(string=f"{node[:2]}-{number % 2}")})
            for number, each in enumerate(slice_.devices)
        )
        made.add(Node(node, {"name": node}), replace(slice_, devices=devices))
    return made


def request(name: str, count: int, *selectors: str) -> Plain:
    """A request of some devices."""
    exactly: Plain = {"deviceClassName": "gpu", "count": count}
    exactly["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": exactly}


def claim_with(**fields: object) -> Plain:
    """A claim with these fields of its devices."""
    made = claim("c")
    made["spec"]["devices"] = fields
    return made


PLACE = 'device.attributes["gpu.example.com"].place'
MATCH = [{"requests": ["a", "b"], "matchAttribute": "gpu.example.com/place"}]
NEAR = {"requests": ["a", "b"], "attributes": ["gpu.example.com/place"], "required": False}


def claims() -> Iterator[tuple[str, Plain]]:
    """Claims whose search takes different ways through the solver."""
    yield "a selector", claim_with(requests=[request("a", 1, f'{PLACE}.startsWith("n3")')])
    yield "no node", claim_with(requests=[request("a", 3, f'{PLACE}.endsWith("1")')])
    yield "an error", claim_with(requests=[request("a", 1, "device.attributes['x.io'].no == 1")])
    two = [request("a", 1), request("b", 1, f'{PLACE}.endsWith("1")')]
    yield "a constraint", claim_with(requests=two, constraints=MATCH)
    first = {
        "name": "a",
        "firstAvailable": [
            {"name": "x", "deviceClassName": "gpu", "count": 5},
            {"name": "y", "deviceClassName": "gpu", "count": 2},
        ],
    }
    yield "alternatives", claim_with(requests=[first])
    ruled = claim_with(requests=two)
    ruled["metadata"]["annotations"] = rules(near=[NEAR])
    yield "a rule", ruled


class Asked:
    """A pod that waits until copies have answered what was cut."""

    def __init__(self, brief: Brief, plain: Plain) -> None:
        self.cluster = cluster(brief)
        self.plain = plain
        self.waiting = WaitingPods(self.cluster.decisions)

    def ask(self) -> tuple[object, ...]:
        """Ask as the scheduler does."""
        reply = self.cluster.prefilter("p", self.plain)
        fitting = [each.node for each in reply.fit]
        self.waiting.note_answer("p", fitting, 0.0, complete=reply.complete)
        reasons = tuple((each.code, each.nodes, each.message) for each in reply.reasons)
        return sorted(fitting), reply.complete, reasons

    def decide(self) -> tuple[Any, ...]:
        """Return the answer in the end, and the devices that are reserved."""
        answer = self.ask()
        for _ in range(20):
            for _ in range(20):
                turn = self.waiting.wake(1.0)
                if turn.aside:
                    decide_in_a_copy(self.waiting, self.cluster.state.planner, turn.aside)
                elif not turn.unfinished:
                    break
            answer = self.ask()
            if answer[1]:
                break
        fit = answer[0]
        if isinstance(fit, list) and fit:
            assert self.cluster.decisions.reserve("p", fit[0], 1.0).reserved
        return (*answer, sorted(map(str, self.cluster.held())))


@pytest.mark.parametrize(("name", "plain"), [pytest.param(*each, id=each[0]) for each in claims()])
def test_a_search_that_is_cut_at_any_call_has_the_same_result(name: str, plain: Plain) -> None:
    expected = Asked(Brief(), plain).decide()
    brief, cuts = CutAt(0), 0
    for calls in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584):
        brief = CutAt(calls)
        fitting, complete, *rest = Asked(brief, plain).decide()
        if fitting and not complete:  # nodes behind them were passed over
            assert {*fitting} < {*expected[0]}
            fitting, complete = expected[:2]
        assert (fitting, complete, *rest) == expected, f"{name}, cut at call {calls}"
        cuts += brief.cuts
    assert cuts > 10


@pytest.mark.parametrize("calls", [0, 7, 50, 150, 400, 1000])
def test_a_search_for_victims_that_is_cut_evicts_the_same_pods(calls: int) -> None:
    answers = []
    for brief in (Brief(), CutAt(calls)):
        contest = Contest(brief=brief, n1=4, n2=4)
        for node in contest.running:
            for number in range(4):
                contest.run(f"{node}-{number}", node, number, priority=number)
        waiting, planner = contest.waiting, contest.cluster.state.planner
        plain = claim("of-high", 2)
        for _ in range(40):
            reply = contest.cluster.prefilter("high", plain, priority=HIGH)
            fitting = [each.node for each in reply.fit]
            waiting.note_answer("high", fitting, 0.0, complete=reply.complete)
            if reply.complete:
                asked = contest.preemption("high")
                victims = contest.cluster.decisions.preempt(asked, 0.0)
                cut = asked if planner.was_cut else None
                waiting.note_preemption("high", refused=not victims.node, again=True, cut=cut)
                if victims.node:
                    break
            if aside := waiting.wake(1.0).aside:
                decide_in_a_copy(waiting, planner, aside)
        answers.append((victims.node, victims.victims))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("calls", [0, 7, 50, 150, 400, 1000])
def test_a_pod_whose_search_to_take_over_is_cut_gets_the_same_devices(calls: int) -> None:
    contest = Contest(brief=(brief := CutAt(1 << 30)), n1=4, n2=4)
    decisions, waiting = contest.cluster.decisions, contest.waiting
    for node in ("n1", "n2"):
        contest.run(f"on-{node}", node, 0, 1)
    assert contest.woken() == []
    assert contest.ask("high", 3) == []
    for uid in ("low-0", "low-1"):
        assert contest.ask(uid, 2, priority=LOW)
        assert decisions.promises.make(uid, 0.0).node
    contest.end("on-n2")
    assert contest.ask("low-2", 2, priority=LOW) == ["n2"]
    assert decisions.promises.make("low-2", 0.0).node == "n2"
    brief.calls = calls
    for _ in range(40):
        turn = waiting.wake(1.0)
        if turn.woken or decisions.reservations.is_promised("high"):
            break
        if turn.aside:
            decide_in_a_copy(waiting, contest.cluster.state.planner, turn.aside)
    assert turn.woken == ("high",)
    assert decisions.reservations.is_promised("high")


@pytest.mark.parametrize("calls", [0, 7, 50, 150, 400, 1000])
def test_a_gang_whose_search_is_cut_gets_the_same_devices(calls: int) -> None:
    held = []
    for brief in (Brief(), CutAt(calls)):
        made = cluster(brief)
        waiting = WaitingPods(made.decisions)
        uids = [f"g-{number}" for number in range(3)]
        for uid in uids:
            reply = made.ask_group("default/g", *uids, min_count=3, asking=uid, count=3)
            fitting = [each.node for each in reply.fit]
            waiting.note_answer(uid, fitting, 0.0, complete=reply.complete)
        for _ in range(60):
            if aside := waiting.wake(1.0).aside:
                decide_in_a_copy(waiting, made.state.planner, aside)
        held.append(sorted(map(str, made.held())))
    assert len(held[0]) == 9
    assert held[0] == held[1]


class CutOn(Brief):
    """Cuts each search on some nodes before it asks anything, and counts the cuts."""

    def __init__(self, *nodes: str) -> None:
        super().__init__()
        self.nodes, self.cuts = frozenset(nodes), 0

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        cells = (each.cell_contents for each in compute.__closure__ or ())
        if any(isinstance(each, Node) and each.name in self.nodes for each in cells):
            self.cuts += 1
            raise CutShort
        return compute()


@pytest.mark.parametrize(("changes", "told"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("elsewhere", [2, 1])
def test_a_node_about_which_copies_say_nothing_keeps_no_gang_from_others(
    elsewhere: int, *, changes: bool, told: bool
) -> None:
    made = Cluster(brief=CutOn("a"), a=2, b=elsewhere)
    waiting = WaitingPods(made.decisions)
    for uid in ("m0", "m1"):
        reply = made.ask_group("default/g", "m0", "m1", min_count=2, asking=uid)
        waiting.note_answer(uid, [each.node for each in reply.fit], 0.0, complete=reply.complete)
    for generation in range(2, 12):
        aside = waiting.wake(1.0).aside
        if aside and told:
            decide_in_a_copy(waiting, made.state.planner, aside)
        elif aside:
            waiting.note_ahead(aside)
            waiting.note_copy(aside, 0.0)
        if changes:
            made.add(gpu_slice("a", 2, generation=generation))
    held = {each.partition("/")[0] for each in made.held()}
    is_answered = told and not changes
    assert held == ({"a"} if is_answered else {"b"} if elsewhere == 2 else set())
    # Where it fits nowhere else, it is not refused by what is not known.
    assert bool(held) or not made.decisions.groups.is_refused("default/g")


LOOP = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"
DECLARED = f"{LOOP}.all(a,{LOOP}.all(b,{LOOP}.all(c,a+b+c<{{}})))"


def declaring(driver_slice: Slice, declarations: int, **declared: object) -> Slice:
    """A slice with selectors that take some milliseconds each on a device."""
    several = [
        {"selector": f"!{DECLARED.format(100 + each)}", **declared} for each in range(declarations)
    ]
    return replace(driver_slice, annotations={COMPATIBILITY_ANNOTATION: json.dumps(several)})


def cluster_with_costly_driver(brief: Brief, declarations: int) -> Cluster:
    """Two nodes; the driver of the first one declares what takes long on each device."""
    made = Cluster(brief=brief)
    costly = declaring(gpu_slice("n1", 4), declarations, compatibleOnlyWith="true")
    made.add(Node("n1", {"name": "n1"}), costly, Node("n2", {"name": "n2"}), gpu_slice("n2", 4))
    return made


def test_what_the_driver_of_a_node_declares_keeps_no_pod_from_other_nodes() -> None:
    with cut_after(0.005) as brief:
        check_other_nodes(cluster_with_costly_driver(brief, 60))


@pytest.mark.parametrize(
    ("cut", "fitting", "slow"),
    [
        ("", "abcdefgh", False),
        ("a", "bcdefgh", False),
        ("h", "abcdefg", False),
        ("ab", "cdefgh", True),
        ("abcd", "efgh", True),
        ("bdegh", "acf", True),  # the fifth ends the call, and what fits in front of it counts
        ("abcde", "", True),
        ("abcdefgh", "", True),
    ],
)
def test_a_node_on_which_the_search_is_cut_keeps_no_pod_from_others(
    cut: str, fitting: str, *, slow: bool
) -> None:
    made = Cluster(brief=(brief := CutOn(*cut)), **dict.fromkeys("abcdefgh", 1))
    reply = made.prefilter("p", claim("c"))
    assert sorted(each.node for each in reply.fit) == [*fitting]
    assert reply.complete is not bool(cut)
    assert brief.cuts == min(len(cut), MAX_PASSED + 1)
    assert made.state.planner.is_slow is slow


def test_a_decision_in_several_searches_is_cut_once_on_a_node() -> None:
    brief = CutOn("a")
    made = Cluster(brief=brief, strategy="usable", **dict.fromkeys("abcd", 1))
    assert made.prefilter("p", claim("c"), limit=4).fit
    assert brief.cuts == 1


@pytest.mark.parametrize("cut", ["b", "bc"])
def test_nodes_that_a_strategy_looks_at_in_vain_take_no_time_of_a_namespace(cut: str) -> None:
    made = Cluster(brief=CutOn(*cut), strategy="usable", a=2, b=2, c=2)
    assert [each.node for each in made.prefilter("p", claim("c"), limit=1).fit] == ["a"]
    assert not made.state.planner.is_slow


def test_nodes_that_are_held_for_plans_take_no_time_of_who_asks_for_others() -> None:
    made = Cluster(brief=(brief := CutOn("a", "b")), a=1, b=1, c=1)
    made.add(Node("c", {"name": "c"}))
    for node in "ab":
        made.add_claim(claim(f"of-for-{node}"))
        hold = hold_of(f"for-{node}")
        made.add(pod(f"for-{node}", f"of-for-{node}"), Node(node, {"name": node}, hold=hold))
    reply = made.prefilter("p", claim("c"), nodeSelector={"name": "c"})
    assert [each.node for each in reply.fit] == ["c"]
    assert brief.cuts == len("ab")
    assert not made.state.planner.is_slow


def test_nodes_behind_those_that_change_all_the_time_have_their_turn() -> None:
    made = Cluster(brief=CutOn(*"abcde"), **dict.fromkeys("abcdefgh", 2))
    replies = []
    for generation in range(2, 5):
        made.add(*(gpu_slice(node, 2, generation=generation) for node in "abcde"))
        replies.append(made.nodes("p", claim("c")))
    assert replies[-1] == ["f", "g", "h"]


def check_other_nodes(made: Cluster) -> None:
    """Pods get devices of the other node, until there are none."""
    assert made.schedule("p", claim("c", 4)) == "n2"
    assert not made.state.planner.was_cut
    # Without devices elsewhere, it is the node about which a copy has to decide.
    reply = made.prefilter("q", claim("d", 4))
    assert not reply.complete
    assert made.state.planner.was_cut


def test_a_copy_evaluates_what_a_driver_declares_for_who_wants_its_devices() -> None:
    asked = Asked(CutAt(2000), claim("c", 2))
    asked.cluster = cluster_with_costly_driver(CutAt(2000), 4)
    asked.cluster.schedule("first", claim("full", 4))
    asked.waiting = WaitingPods(asked.cluster.decisions)
    assert asked.decide()[:2] == (["n1"], True)


def test_a_device_whose_groups_take_long_is_not_reserved_before_they_are_known() -> None:
    brief = CutAt(1 << 30)
    counters = {"s": {"counters": {"parts": {"value": "4"}}}}
    used = [{"counterSet": "s", "counters": {"parts": {"value": "1"}}}]
    gpus = [{"name": "gpu-0", "consumesCounters": used}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    published, sets = (
        as_slice({"metadata": {"name": name}, "spec": {**spec, "driver": DRIVER, "pool": pool}})
        for name, spec in (
            ("gpus", {"nodeName": "n1", "devices": gpus}),
            ("sets", {"nodeName": "n1", "sharedCounters": [{"name": "s", **counters["s"]}]}),
        )
    )
    made = Cluster(brief=brief)
    made.add(Node("n1", {"name": "n1"}), declaring(published, 2, groups=["a"]), sets)
    assert made.nodes("p", claim("c")) == ["n1"]
    brief.calls = 0
    refused = made.reserve("p", "n1")
    assert "takes long" in refused
    assert made.held() == []
    brief.calls = 1 << 30
    assert not made.reserve("p", "n1")


def test_answers_for_a_node_that_changed_meanwhile_do_not_count() -> None:
    asked = Asked(CutAt(0), claim("c", 4))
    planner = asked.cluster.state.planner
    assert asked.ask()[:2] == ([], False)
    while not (uid := asked.waiting.wake(1.0).aside):
        pass
    lent = planner.lend()
    asked.cluster.add(gpu_slice("n1", 2, generation=2))
    asked.cluster.add(Node("n2", {"name": "n2", "changed": "yes"}))
    planner_lend, planner.lend = planner.lend, lambda: lent  # type: ignore[method-assign]
    decide_in_a_copy(asked.waiting, planner, uid)
    planner.lend = planner_lend  # type: ignore[method-assign]
    # The copy knew the changed nodes; what it told was taken for an earlier state.
    assert {each.node for each in answers_ahead(planner)} <= {"n3"}


def test_what_copies_answer_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_BYTES_AHEAD", 40_000)
    kept = []
    asked = Asked(CutAt(0), claim("c", 4))
    planner = asked.cluster.state.planner
    for number in range(40):
        plain = claim(f"c{number}", 1 + number % 4)
        reply = asked.cluster.prefilter(
            f"p{number}", plain, nodeSelector={"name": f"n{number % 3 + 1}"}
        )
        asked.waiting.note_answer(f"p{number}", (), 0.0, complete=reply.complete)
        while uid := asked.waiting.wake(1.0).aside:
            decide_in_a_copy(asked.waiting, planner, uid)
        kept.append(len(answers_ahead(planner)))
    assert 2 < max(kept) < 40


def test_a_node_about_which_no_copy_can_decide_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Search.run

    def is_first(node: str) -> bool:
        return node == "n1"

    def never_end(self: Search) -> object:
        while is_first(self.state.node_view.node.name):
            pass
        return run(self)

    monkeypatch.setattr(Search, "run", never_end)
    monkeypatch.setattr("tests.allocator.cuts.LIMITS", ForkLimits(seconds=0.3))
    asked = Asked(CutAt(2000), claim("c", 3))
    answer = asked.decide()
    assert answer[0] == ["n2", "n3"]
    asked = Asked(CutAt(2000), claim("c", 5))
    assert "SearchGaveUp" in {code for code, *_ in asked.decide()[2]}  # type: ignore[attr-defined]


def test_a_namespace_whose_searches_are_cut_has_less_time_for_the_next_ones() -> None:
    briefs = NamespaceTimes()
    seconds = []
    for _ in range(5):
        briefs.note_cut("greedy", 1.0)
        seconds.append(briefs.seconds("greedy", 1.0))
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == LEAST_SECONDS
    assert briefs.seconds("other", 1.0) == USUAL_SECONDS
    assert briefs.seconds("greedy", 1.0 + FORGIVEN_SECONDS) == USUAL_SECONDS
