"""Which pods are preempted: no more than needed, the least important ones, budgets first."""

import itertools
import random
from collections.abc import Callable, Collection

import pytest

from drawbridge.dra.decode import Metadata
from drawbridge.dra.device import Requirement
from drawbridge.ledger.disruption_budgets import (
    BudgetSelector,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    can_evict_all,
    has_several,
    split_by_budgets,
)
from drawbridge.ledger.victims import NodeVictims, RunningPod, choose_victims, find_victims
from tests.tables import every_row


def running(name: str, priority: int = 0, started: str = "", **labels: str) -> RunningPod:
    return RunningPod("default", name, "n1", priority, started, labels=labels)


def budget(allowed: int, namespace: str = "default", **labels: str) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Metadata("b", namespace),
        spec=DisruptionBudgetSpec(BudgetSelector(labels)),
        status=DisruptionBudgetStatus(allowed),
    )


def frees(number: int, **devices: int) -> Callable[[Collection[RunningPod]], bool]:
    """Return whether removed pods free at least `number` devices."""
    return lambda removed: sum(devices[each.pod_name] for each in removed) >= number


def names(victims: NodeVictims | None) -> list[str]:
    assert victims is not None
    return [each.pod_name for each in victims.pods]


def test_the_least_important_pods_are_evicted() -> None:
    pods = [running("a", 3), running("b", 1), running("c", 2)]
    assert names(find_victims("n1", pods, (), frees(1, a=1, b=1, c=1))) == ["b"]
    assert names(find_victims("n1", pods, (), frees(2, a=1, b=1, c=1))) == ["c", "b"]


def test_of_equal_priorities_the_youngest_pod_is_evicted() -> None:
    pods = [
        running("new", started="2026-01-02T00:00:00Z"),
        running("old", started="2026-01-01T00:00:00Z"),
        running("newest"),
    ]
    assert names(find_victims("n1", pods, (), frees(1, new=1, old=1, newest=1))) == ["newest"]
    assert names(find_victims("n1", pods, (), frees(2, new=1, old=1, newest=1))) == [
        "new",
        "newest",
    ]


def test_a_more_important_pod_is_evicted_if_the_others_do_not_free_enough() -> None:
    pods = [running("big", 5), running("small", 0)]
    assert names(find_victims("n1", pods, (), frees(4, big=4, small=1))) == ["big"]


def test_without_enough_candidates_nobody_is_evicted() -> None:
    assert find_victims("n1", [running("a")], (), frees(2, a=1)) is None


def test_a_budget_protects_a_less_important_pod() -> None:
    pods = [running("kept", 0, app="db"), running("evicted", 9)]
    fits = frees(1, kept=1, evicted=1)
    assert names(find_victims("n1", pods, [budget(0, app="db")], fits)) == ["evicted"]
    assert names(find_victims("n1", pods, [budget(1, app="db")], fits)) == ["kept"]
    assert names(find_victims("n1", pods, [budget(0, "elsewhere", app="db")], fits)) == ["kept"]


def test_a_violation_is_counted_if_it_cannot_be_avoided() -> None:
    pods = [running("a", app="db"), running("b", app="db")]
    victims = find_victims("n1", pods, [budget(1, app="db")], frees(2, a=1, b=1))
    assert victims is not None
    assert (names(victims), victims.violations) == (["a", "b"], 1)


@every_row(
    ("selector", "matches"),
    [
        (BudgetSelector(), False),
        (BudgetSelector({"app": "db"}), True),
        (BudgetSelector({"app": "web"}), False),
        (BudgetSelector({}, (Requirement("app", "In", ("db", "web")),)), True),
        (BudgetSelector({}, (Requirement("app", "NotIn", ("db",)),)), False),
        (BudgetSelector({}, (Requirement("other", "NotIn", ("db",)),)), True),
        (BudgetSelector({}, (Requirement("app", "Exists"),)), True),
        (BudgetSelector({}, (Requirement("app", "DoesNotExist"),)), False),
        (BudgetSelector({}, (Requirement("app", "Gt"),)), False),
    ],
)
def test_a_budget_counts_the_pods_that_its_selector_matches(
    selector: BudgetSelector, *, matches: bool
) -> None:
    spec = DisruptionBudgetSpec(selector)
    budget = DisruptionBudget(metadata=Metadata("b", "default"), spec=spec)
    assert budget.counts(running("a", app="db")) is matches


def test_a_pod_that_is_being_evicted_is_not_charged_twice() -> None:
    status = DisruptionBudgetStatus(0, {"a": "2026-01-01T00:00:00Z"})
    spec = DisruptionBudgetSpec(BudgetSelector({"app": "db"}))
    budget = DisruptionBudget(metadata=Metadata("b", "default"), spec=spec, status=status)
    pods = [running("a", app="db"), running("b", app="db")]
    violating, others = split_by_budgets(pods, [budget])
    assert ([x.pod_name for x in violating], [x.pod_name for x in others]) == (["b"], ["a"])


def budget_with(
    allowed: int, selector: BudgetSelector | None, namespace: str = ""
) -> DisruptionBudget:
    spec, status = DisruptionBudgetSpec(selector), DisruptionBudgetStatus(allowed)
    return DisruptionBudget(metadata=Metadata("b", namespace), spec=spec, status=status)


@every_row(
    ("budgets", "number"),
    [
        pytest.param([], 2, id="none"),
        pytest.param([budget_with(0, None)], 2, id="without a selector"),
        pytest.param([budget_with(0, BudgetSelector())], 0, id="of all pods of the namespace"),
        pytest.param([budget_with(1, BudgetSelector())], 1, id="of all pods, of which one may go"),
        pytest.param([budget_with(0, BudgetSelector(), "other")], 2, id="of another namespace"),
        pytest.param([budget_with(0, BudgetSelector({"app": "web"}))], 2, id="of other pods"),
        pytest.param([budget_with(-1, BudgetSelector({"app": "db"}))], 0, id="violated already"),
        pytest.param([budget_with(9, BudgetSelector({"app": "db"}))], 2, id="with enough pods"),
    ],
)
def test_the_api_server_evicts_as_many_pods_as_budgets_allow(
    budgets: list[DisruptionBudget], number: int
) -> None:
    pods = [running("a", app="db"), running("b", app="db")]
    assert [can_evict_all(pods[:n], budgets) for n in (1, 2)] == [n <= number for n in (1, 2)]
    assert not has_several(pods[0], budgets)
    assert has_several(pods[0], [*budgets, *[budget_with(9, BudgetSelector())] * 2])


def victims(node: str, *pods: RunningPod, violations: int = 0) -> NodeVictims:
    return NodeVictims(node, pods, violations)


@every_row(
    ("best", "other"),
    [
        pytest.param(
            victims("z", running("a", 9)),
            victims("a", running("b", 1), violations=1),
            id="fewer violations",
        ),
        pytest.param(
            victims("z", running("a", 1), running("b", 1), running("c", 1)),
            victims("a", running("d", 2)),
            id="a less important first victim",
        ),
        pytest.param(
            victims("z", running("a", 2), running("b", 0)),
            victims("a", running("c", 2), running("d", 1)),
            id="a smaller sum of priorities",
        ),
        pytest.param(
            victims("z", running("a", -5)),
            victims("a", running("b", -5), running("c", -7)),
            id="fewer pods, also of negative priorities",
        ),
        pytest.param(
            victims("z", running("a", 1, "2026-01-02T00:00:00Z")),
            victims("a", running("b", 1, "2026-01-01T00:00:00Z")),
            id="a younger victim",
        ),
        pytest.param(victims("a", running("x")), victims("z", running("y")), id="the first name"),
    ],
)
def test_the_node_with_the_least_harm_is_chosen(best: NodeVictims, other: NodeVictims) -> None:
    assert choose_victims([other, best]) == best
    assert choose_victims([best, other]) == best


def test_without_a_node_there_is_no_choice() -> None:
    assert choose_victims([]) is None


@every_row("seed", range(200))
def test_no_victim_is_superfluous_and_a_solution_is_always_found(seed: int) -> None:
    chance = random.Random(seed)  # test data
    pods = [
        running(f"p{i}", chance.randrange(4), app=chance.choice(["a", "b"]))
        for i in range(chance.randrange(1, 7))
    ]
    devices = {each.pod_name: chance.randrange(4) for each in pods}
    fits = frees(chance.randrange(1, 9), **devices)
    budgets = [budget(chance.randrange(3), app="a")]
    victims = find_victims("n1", pods, budgets, fits)
    subsets = [s for n in range(len(pods) + 1) for s in itertools.combinations(pods, n)]
    working = [each for each in subsets if fits(each)]
    assert (victims is not None) == bool(working)
    if victims is None:
        return
    assert fits(victims.pods)
    assert not any(fits([x for x in victims.pods if x is not each]) for each in victims.pods)
    highest = max((each.priority for each in victims.pods), default=-1)
    without_budget = find_victims("n1", pods, (), fits)
    assert without_budget is not None
    least = min(max((x.priority for x in each), default=-1) for each in working)
    assert max((each.priority for each in without_budget.pods), default=-1) == least <= highest
