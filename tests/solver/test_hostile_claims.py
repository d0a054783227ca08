"""What a tenant or a driver writes takes a limited number of calls on each node, without timing."""

import contextlib
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from bench._hostile_claims import DRIVER, Shape, claim, planner
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.names import COMPATIBILITY_ANNOTATION
from drawbridge.solver import solve as solving
from drawbridge.solver.answers import Failure, FailureKind, Solution, SolverResult
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import MOST_CHOICES, MOST_RULES
from drawbridge.solver.memo import Memo
from drawbridge.solver.meter import SearchLimitExceeded, WorkMeter
from drawbridge.solver.orders import CandidateOrders
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View
from tests.solver.scenario import Scenario, read, share_ids
from tests.solver.short import scenario
from tests.tables import every_row

# A step takes about 2 µs, and a call of a function some 50 ns.
CALLS_PER_STEP, MAX_WORK = 60, 20_000


def solve_one(shape: Shape) -> SolverResult:
    """Solve for one node."""
    return work_of(shape)[0]


def test_preferred_rules_are_kept() -> None:
    few = solve_one(Shape(claims=2, requests=2, near=4, groups=1))
    assert isinstance(few, Solution)
    assert few.preferences == 8


@every_row(
    ("shape", "message"),
    [
        (Shape(claims=129, requests=32, devices_first=""), "4,128 requests and alternatives"),
        (Shape(claims=17, alternatives=8, devices_first=""), "4,352 requests and alternatives"),
        (Shape(claims=64, near=32), "characters"),
    ],
)
def test_claims_that_are_too_large_are_refused_before_they_are_read(
    shape: Shape, message: str
) -> None:
    answer = solve_one(shape)
    assert isinstance(answer, Failure)
    assert answer.outcome is FailureKind.ERROR
    (reason,) = answer.reasons
    assert reason.code == "SearchGaveUp"
    assert message in reason.message
    assert f"{MOST_CHOICES:,}" in reason.message or f"{MOST_RULES:,}" in reason.message


# --- time ---


def dead_end() -> Scenario:
    """Two equal nodes whose search takes some thousand steps."""
    devices = [{"name": f"d{n}", "attributes": {"root": f"{n % 3}"}} for n in range(24)]
    slices = [{"node": node, "devices": devices} for node in ("n1", "n2")]
    claims = [
        {"requests": {f"r{n}": 1 for n in range(8)}, "match": ["gpu.example.com/root"]}
        for _ in range(4)
    ]
    given = {"name": "dead end", "nodes": ["n1", "n2"], "slices": slices, "claims": claims}
    return read(scenario(given))


def solve_both(sent: Scenario, memo: Memo) -> list[SolverResult]:
    answers = solve(sent.world, sent.view, sent.claims, sent.nodes, ids=share_ids(), memo=memo)
    return [answers[node.name] for node in sent.nodes]


def test_a_search_that_takes_too_much_time_of_the_processor_is_given_up() -> None:
    sent, now = dead_end(), itertools.count()
    for answer in solve_both(sent, memo := Memo(clock=lambda: float(next(now)))):
        assert isinstance(answer, Failure)
        assert answer.outcome is FailureKind.GAVE_UP
        assert answer.reasons[0].message == "the search ended without a result after 500 ms"
    read_before = next(now)
    solve_both(sent, memo)
    assert next(now) == read_before + 1, "the nodes are searched again"


def test_time_decides_nothing_about_a_search_that_ends_before() -> None:
    sent = dead_end()
    timed = solve_both(sent, Memo(clock=lambda: 0.0))
    assert timed == solve_both(sent, Memo())


def test_a_search_that_time_has_ended_is_no_answer_for_an_equal_node() -> None:
    sent = dead_end()
    expected = solve_both(sent, Memo())[1]
    for reading in range(1, 12):
        late = itertools.chain(itertools.repeat(0.0, reading), itertools.repeat(1.0))
        first, second = solve_both(sent, Memo(clock=late.__next__))
        assert isinstance(first, Failure)
        if first.outcome is not FailureKind.GAVE_UP:
            break
        assert second == expected, reading
    assert reading > 3


def test_a_meter_counts_and_reads_a_clock_once_in_a_while() -> None:
    endless = WorkMeter()
    endless.spend(10**9)
    assert endless.spent == 10**9
    read: list[float] = []

    def clock() -> float:
        read.append(0.0 if len(read) < 3 else 1.0)
        return read[-1]

    meter = WorkMeter(clock)
    for _ in range(300):
        meter.spend(1)
    assert len(read) == 3
    meter.return_to(10)
    with pytest.raises(SearchLimitExceeded):
        meter.spend(10**6)
    assert meter.is_late


# --- slices ---


def annotated(declared: list[dict[str, object]], devices: int = 64) -> dict[str, Any]:
    """A node whose slice declares compatibility in its annotation, and a claim of two devices."""
    listed = [{"name": f"d{n}", "attributes": {"uuid": f"GPU-{n}"}} for n in range(devices)]
    annotations = {COMPATIBILITY_ANNOTATION: json.dumps(declared)}
    slices = [{"node": "n1", "devices": listed, "annotations": annotations}]
    return scenario({"name": "annotated", "slices": slices, "requests": {"r": 2}})


LOOP = f"[{','.join(map(str, range(17)))}]"
LOOPS = f"{LOOP}.all(a,{LOOP}.all(b,{LOOP}.all(c,a+b+c<999)))"
UUID = f'device.attributes["{DRIVER}"].uuid'


def test_each_device_has_what_its_driver_declares() -> None:
    declared: list[dict[str, object]] = [
        {"selector": f'{UUID} == "GPU-{number}"', "compatibleOnlyWith": f'{UUID} == "GPU-63"'}
        for number in range(16)
    ]
    sent = read(annotated(declared))
    answer = solve(sent.world, sent.view, sent.claims, sent.nodes)["n1"]
    assert isinstance(answer, Solution)
    chosen = [each.device for each in answer.allocations[0].devices.results]
    assert chosen == ["d0", "d63"]


def beside_another_driver(
    requests: dict[str, int], own_rule: dict[str, object], **declared: object
) -> Scenario:
    """A node with partitions of this driver, and with those of one whose slice declares much."""
    slices: list[dict[str, Any]] = []
    for driver in (DRIVER, "nic.example.com"):
        devices = [
            {"name": f"d{n}", "attributes": {"uuid": f"{n}"}, "draws": {"set": {"parts": 1}}}
            for n in range(8)
        ]
        counters = {"set": {"parts": 8}}
        common = {"node": "n1", "driver": driver, "devices": devices}
        slices += [
            {**common, "pool": driver, "count": 2},
            {**common, "pool": driver, "count": 2, "counters": counters},
        ]
        del slices[-1]["devices"]
    selectors = [f'{LOOPS} && {UUID} == "x{number}"' for number in range(20)]
    text = json.dumps([{"selector": each, **declared} for each in selectors])
    slices[0]["devices"] = [{**each, **own_rule} for each in slices[0]["devices"]]
    slices[2]["annotations"] = {COMPATIBILITY_ANNOTATION: text}
    given = {"name": "beside another driver", "slices": slices}
    given["allocated"] = [{"device": f"{each['driver']}/{each['pool']}/d7"} for each in slices[::2]]
    given["claims"] = [{"requests": requests, "match": [f"{DRIVER}/uuid"]}] * 2
    return read(scenario(given))


@pytest.mark.parametrize("own_rule", [{}, {"onlyWith": "true"}])
@pytest.mark.parametrize("declared", [{"compatibleOnlyWith": "true"}, {"groups": ["a"]}])
@pytest.mark.parametrize("requests", [{"r": 1}, {"r": 1, "s": 1}])
def test_what_a_driver_declares_is_not_evaluated_for_devices_of_another_one(
    declared: dict[str, object], requests: dict[str, int], own_rule: dict[str, object]
) -> None:
    sent, memo = beside_another_driver(requests, own_rule, **declared), Memo()
    evaluated: list[object] = []
    memo.bind(sent.world)
    memo.expressions.tell = evaluated.append
    answer = solve(sent.world, sent.view, sent.claims, sent.nodes, memo=memo)["n1"]
    assert isinstance(answer, Solution if len(requests) == 1 else Failure)
    assert evaluated
    assert not [each for each in evaluated if LOOPS in f"{each}"]


# --- what counts ---


@contextlib.contextmanager
def counted_steps() -> Iterator[list[WorkMeter]]:
    """Yield a list that gets the meter of each node."""
    meters: list[WorkMeter] = []

    class Kept(WorkMeter):
        __slots__ = ()

        def __init__(self, clock: Callable[[], float] | None = None) -> None:
            super().__init__(clock)
            meters.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "WorkMeter", Kept)
        yield meters


def work_of(shape: Shape, memo: Memo | None = None) -> tuple[SolverResult, int]:
    """Solve for a node; return the result and how many steps it took."""
    made, chosen = planner(shape), random.Random(1)
    claims = [read_claim(claim(shape, number, chosen)) for number in range(shape.claims)]
    (node,) = (each for each in made.nodes.values() if each.name == "n0")
    with counted_steps() as meters:
        answer = solve(
            made.world(),
            View(),
            [each for each in claims if isinstance(each, Claim)],
            [node],
            memo=memo,
            checks_size=True,
        )["n0"]
    return answer, sum(each.spent for each in meters)


def late_after(readings: int) -> Memo:
    """A memo with a clock that is late after so many readings."""
    times = itertools.chain(itertools.repeat(0.0, readings), itertools.repeat(1.0))
    return Memo(clock=times.__next__)


def test_the_reason_of_a_node_takes_a_step_for_each_device() -> None:
    none = {"requests": {"r": {"if": "false"}}}
    steps = []
    for count in (50, 100):
        slices = [{"node": "n1", "devices": [f"d{number}" for number in range(count)]}]
        given = read(scenario({"name": "none", "slices": slices, **none}))
        with counted_steps() as meters:
            solve(given.world, given.view, given.claims, given.nodes)
        steps.append(sum(each.spent for each in meters))
    # What the search and the reason look at.
    assert steps[1] - steps[0] == 2 * 50


def test_each_constraint_takes_a_part_of_a_step_for_each_device() -> None:
    few = Shape(claims=1, requests=8, match=1, groups=1, devices_first="")
    many = msgspec.structs.replace(few, match=32)
    (_, steps_of_few), (_, steps_of_many) = work_of(few), work_of(many)
    assert steps_of_many >= steps_of_few + 8 * 16


def test_orders_take_steps_and_are_made_once_for_equal_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    equal = Shape(claims=2, requests=32, near=8)
    varied = msgspec.structs.replace(equal, varied=True)
    listed = msgspec.structs.replace(equal, devices_first="")
    names_read: list[str] = []
    find = Candidate.find_attribute

    def count(candidate: Candidate, name: str) -> Any:  # noqa: ANN401  # passed on
        names_read.append(name)
        return find(candidate, name)

    monkeypatch.setattr(Candidate, "find_attribute", count)
    orders: list[object] = []
    sort = CandidateOrders._sort  # noqa: SLF001  # counted

    def count_orders(of: CandidateOrders, *arguments: Any) -> Any:  # noqa: ANN401  # passed on
        orders.append(arguments)
        return sort(of, *arguments)

    monkeypatch.setattr(CandidateOrders, "_sort", count_orders)
    (_, steps), (_, steps_without) = work_of(equal), work_of(listed)
    assert len(orders) == 1
    assert steps > steps_without + 128
    names_read.clear()
    answer, _ = work_of(varied, late_after(15))
    assert isinstance(answer, Failure)
    assert answer.outcome is FailureKind.GAVE_UP
    assert len(names_read) <= 128 * 8, "each attribute of a device is read once for all orders"


def test_preferred_rules_take_steps() -> None:
    shape = Shape(claims=16, requests=2, near=32, groups=1, devices_first="")
    answer, steps = work_of(shape)
    assert isinstance(answer, Solution)
    assert answer.preferences == 512
    cut, _ = work_of(shape, late_after(steps // 256))
    assert isinstance(cut, Solution)
    assert 0 < cut.preferences < 512
    assert steps > 1_000


def test_a_preferred_rule_is_about_the_devices_of_its_claim() -> None:
    answer, _ = work_of(
        Shape(claims=2, requests=2, near=1, groups=3, devices=12, devices_first="", attributes=1)
    )
    assert isinstance(answer, Solution)
    devices = [
        [each.device for each in allocation.devices.results] for allocation in answer.allocations
    ]
    assert devices == [["gpu-0", "gpu-3"], ["gpu-1", "gpu-4"]]
