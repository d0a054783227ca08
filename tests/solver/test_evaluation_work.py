"""The work of evaluations for a decision: equal whatever the caches hold, and limited."""

import pytest

from drawbridge.solver.answers import Failure, FailureKind
from drawbridge.solver.expressions import ExpensiveEvaluation
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from tests.solver.scenario import Scenario, read, share_ids
from tests.solver.short import scenario

DIGITS = "[1,2,3,4,5,6,7,8,9,10]"
LOOPS = f"{DIGITS}.all(a, {DIGITS}.all(b, {DIGITS}.all(c, a + b + c < 100)))"
# Reads an attribute that tells the devices of a node apart, and is false on each.
SELECTOR = f'{LOOPS} && device.attributes["gpu.example.com"].place == ""'
NODES = ("n1", "n2", "n3")


def given(selector: str = SELECTOR, **mode: object) -> Scenario:
    """Three nodes in the same state, whose devices differ in what the selector reads."""
    slices = [
        {
            "node": node,
            "devices": [{"name": f"d{n}", "attributes": {"place": f"p{n}"}} for n in range(8)],
        }
        for node in NODES
    ]
    requests = {"r": {"if": selector, **mode}}
    return read(scenario({"name": "n", "nodes": NODES, "slices": slices, "requests": requests}))


def spent(
    sent: Scenario, memo: Memo, nodes: tuple[str, ...] = NODES, max_work: int | None = None
) -> dict[str, tuple[int, int, str]]:
    """Solve for one node after the other; return the work, the evaluations and the outcome."""
    of_nodes = {}
    by_name = {node.name: node for node in sent.nodes}
    for name in nodes:
        work: list[int] = []
        evaluations: list[ExpensiveEvaluation] = []
        memo.count_evaluations(evaluations.append)
        answer = solve(
            sent.world, sent.view, sent.claims, [by_name[name]], ids=share_ids(), memo=memo,
            max_work=max_work, count_work=work.append,
        )[name]  # fmt: skip
        outcome = answer.outcome if isinstance(answer, Failure) else "solved"
        steps = sum(each.steps for each in evaluations)
        of_nodes[name] = (sum(work), steps, outcome)
    return of_nodes


@pytest.mark.parametrize("max_work", [None, 200, 20_000])
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("selector", [SELECTOR, SELECTOR.replace("==", "!="), LOOPS, f"!({LOOPS})"])
def test_evaluations_cost_the_same_whether_they_are_known_or_not(
    selector: str, count: int, max_work: int | None
) -> None:
    sent, memo = given(selector, count=count), Memo()
    cold = spent(sent, memo, max_work=max_work)
    assert all(steps for _, steps, _ in cold.values())
    # The results are known, then the results of selectors, then nothing, in another order.
    assert spent(sent, memo, max_work=max_work) == cold
    memo.demands.clear()
    assert spent(sent, memo, max_work=max_work) == cold
    assert spent(sent, Memo(), NODES[::-1], max_work=max_work) == cold


def test_equal_values_are_evaluated_and_counted_once_for_a_node() -> None:
    alike, different = spent(given(LOOPS, count=7), Memo())["n1"], spent(given(), Memo())["n1"]
    assert different[1] > 7 * alike[1] > 0


def test_a_cheap_evaluation_is_part_of_the_steps() -> None:
    assert spent(given("true"), Memo())["n1"][1] == 0


@pytest.mark.parametrize("mode", [{"count": 1}, {"all": True}])
def test_a_node_whose_devices_take_too_much_evaluation_is_given_up(mode: dict[str, object]) -> None:
    sent, memo = given(**mode), Memo()
    for _ in range(2):
        answer = solve(
            sent.world, sent.view, sent.claims, sent.nodes, ids=share_ids(), memo=memo, max_work=200
        )["n1"]
        assert isinstance(answer, Failure)
        assert answer.outcome is FailureKind.GAVE_UP
        assert [each.message for each in answer.reasons] == [
            "the selectors take more work on the devices of the node than 200 search steps"
        ]
