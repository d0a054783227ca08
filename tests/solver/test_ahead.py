"""Tests of what a copy of the process computes ahead: for how long its answers hold."""

import pickle
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.device import Device
from drawbridge.dra.gates import DEFAULTS
from drawbridge.ledger.planner import Planner
from drawbridge.solver import memo as memo_module
from drawbridge.solver.ahead import Answer, KnownAnswer, Learnt, LentState, Question, learn
from drawbridge.solver.answers import SolverResult
from drawbridge.solver.deviations import OURS, UPSTREAM
from drawbridge.solver.expressions import CompiledText, Evaluators, ProjectionOutcome
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from tests.allocator.cuts import answers_ahead
from tests.solver.scenario import Scenario, outcome, read, share_ids
from tests.solver.short import Json, scenario

TWO: Json = {
    "name": "two nodes",
    "nodes": ["n1", "n2"],
    "slices": [{"node": "n1", "devices": ["d0", "d1"]}, {"node": "n2", "devices": ["d0"]}],
    "claims": [{"requests": {"r": 2}}],
}
IN_RACK = {"key": "rack", "operator": "In", "values": ["a"]}


def ask(given: Scenario, memo: Memo) -> dict[str, SolverResult]:
    return solve(given.world, given.view, given.claims, given.nodes, memo=memo)


def of_copy(given: Scenario) -> list[Learnt]:
    told: list[Learnt] = []
    copy = Memo()
    copy.become_copy(told.append)
    ask(given, copy)
    return told


def taught(given: Scenario) -> Memo:
    """Return the memo of a process that a copy told all."""
    memo = Memo()
    list(teach(memo, given))
    return memo


def teach(memo: Memo, given: Scenario) -> Iterator[Learnt]:
    """Let a memo learn one after the other what a copy tells."""
    lent = LentState(given.world, given.nodes)
    nodes = {each.name: each for each in given.nodes}
    for learnt in of_copy(given):
        learn(memo, given.world, nodes, learnt, lent)
        yield learnt


def answers_of(memo: Memo) -> list[tuple[Question, KnownAnswer]]:
    return [each for answers in memo.ahead.values() for each in answers.items()]


def test_what_a_copy_answers_is_not_searched_again(searched: list[str]) -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    searched.clear()
    assert [outcome(each) for each in ask(given, memo).values()] == ["solved", "not this node"]
    assert searched == []


def test_a_share_of_an_answer_has_a_new_id_in_each_call(searched: list[str]) -> None:
    shared = {"node": "n1", "devices": [{"name": "d0", "shared": True}]}
    claims = [{"requests": {"r": 1}}]
    given = read(scenario(TWO | {"nodes": ["n1"], "slices": [shared], "claims": claims}))
    memo, ids = taught(given), share_ids()
    searched.clear()
    for expected in ("share-1", "share-2"):
        solved = solve(given.world, given.view, given.claims, given.nodes, ids=ids, memo=memo)
        (result,) = solved["n1"].allocations[0].devices.results  # type: ignore[union-attr]
        assert result.share_id == expected
    assert searched == []


def test_an_answer_ends_with_what_the_class_selects(searched: list[str]) -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    searched.clear()
    changed = replace(
        given.world, classes=read(scenario(TWO | {"classes": {"gpu": ["false"]}})).world.classes
    )
    answer = ask(replace(given, world=changed), memo)
    assert [outcome(each) for each in answer.values()] == ["not this node", "not this node"]
    assert searched == ["n1", "n2"]


def with_slice(given: Scenario, published: Json) -> Scenario:
    """Return the scenario with a slice instead of the one with its name."""
    changed = read(scenario(TWO | {"slices": [published]})).world.inventory.slices
    inventory = given.world.inventory
    removed = [each for each in inventory.slices if each.name == changed[0].name]
    inventory = inventory.with_slices(removed, changed)
    return replace(given, world=replace(given.world, inventory=inventory))


def test_an_answer_ends_with_the_slices_of_its_node_and_keeps_none_of_them(
    searched: list[str],
) -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    searched.clear()
    ask(with_slice(given, TWO["slices"][0] | {"generation": 2}), memo)
    assert searched == ["n1"]
    kept = {question.node: answer.state() for question, answer in answers_of(memo)}
    assert kept["n1"] is None
    assert kept["n2"] is not None


def test_an_answer_outlives_a_change_of_a_pool_that_its_node_does_not_see(
    searched: list[str],
) -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    searched.clear()
    rack = {"nodeSelectorTerms": [{"matchExpressions": [IN_RACK]}]}
    added = {"pool": "rack", "nodeSelector": rack, "devices": ["d0"], "name": "rack"}
    for generation in (1, 2):
        given = with_slice(given, added | {"generation": generation})
        ask(given, memo)
    assert searched == []


def test_an_answer_outlives_a_slice_that_a_node_publishes_for_the_pool_of_another(
    searched: list[str],
) -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    searched.clear()
    foreign = {"node": "n1", "pool": "n2", "devices": ["d9"], "name": "foreign"}
    ask(with_slice(given, foreign), memo)
    assert "n2" not in searched


@pytest.mark.parametrize(
    ("planner", "learns"),
    [(Planner(), True), (Planner(unset_groups=UnsetGroups.ALL), False)],
    ids=["same", "other"],
)
def test_what_a_copy_told_under_other_settings_is_not_learnt(
    planner: Planner, *, learns: bool
) -> None:
    given, lender = read(scenario(TWO)), Planner()
    world = given.world
    for changed in (*world.inventory.slices, *world.classes.values(), *given.nodes):
        lender.update(changed)
        planner.update(changed)
    for told in of_copy(replace(given, world=planner.world())):
        planner.learn(told, lender.lend())
    assert bool(answers_ahead(planner)) is learns


def test_an_answer_ends_with_its_node() -> None:
    given = read(scenario(TWO))
    memo = taught(given)
    for name in ("n1", "n2"):
        memo.drop_node(name)
    assert [answer.state() for _, answer in answers_of(memo)] == [None, None]


def test_expressions_share_what_copies_read_of_a_device() -> None:
    copy, evaluator = (Evaluators().of_gates(DEFAULTS) for _ in range(2))
    told: list[CompiledText | ProjectionOutcome] = []
    copy.tell = told.append
    for number in range(3):
        copy.selects(f'device.driver == "none-{number}"', "gpu.example.com", Device("d0"))
    for learnt in told:
        evaluator.learn(pickle.loads(pickle.dumps(learnt)))  # noqa: S301  # our own
    kept = [key for each in evaluator._selectors.values() for key in each.outcomes]  # noqa: SLF001  # what is kept is the point
    assert len(kept) == 3
    assert len(set(map(id, kept))) == 1


def test_memos_with_the_same_evaluators_compile_an_expression_once() -> None:
    given = read(scenario(TWO))
    evaluators = Evaluators()
    told: list[Learnt] = []
    for deviations in (OURS, UPSTREAM):
        memo = Memo(evaluators)
        memo.become_copy(told.append)
        ask(replace(given, world=replace(given.world, deviations=deviations)), memo)
    kinds = Counter(type(each) for each in told)
    assert (kinds[CompiledText], kinds[ProjectionOutcome], kinds[Answer]) == (1, 1, 4)


def test_one_demand_displaces_its_own_oldest_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo_module, "MAX_BYTES_AHEAD", 64_000)
    nodes = [f"n{number}" for number in range(40)]
    slices = [{"node": node, "devices": ["d0"], "name": node} for node in nodes]
    given, memo = read(scenario(TWO | {"nodes": nodes, "slices": slices})), Memo()
    counts = [len(answers_of(memo)) for _ in teach(memo, given)]
    kept = [question.node for question, _ in answers_of(memo)]
    assert 1 < len(kept) < 40
    assert kept == nodes[-len(kept) :]
    assert counts == sorted(counts), "never all of them"
    assert memo.ahead.cost < 64_000 / 4


def test_demands_displace_the_least_recently_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo_module, "MAX_DEMANDS_AHEAD", 2)
    memo, given = Memo(), read(scenario(TWO))
    for count in (1, 2, 3):
        claims = read(scenario(TWO | {"claims": [{"requests": {"r": count}}]})).claims
        list(teach(memo, replace(given, claims=claims)))
    assert len(memo.ahead) == 2
    assert len(answers_of(memo)) == 4
