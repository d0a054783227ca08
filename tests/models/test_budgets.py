"""What PodDisruptionBudgets select and allow."""

import pytest

from drawbridge.models.budgeted_kinds import BudgetedKinds
from drawbridge.models.budgets import Budget, index_budgets, read_budget
from drawbridge.models.pods import AskedOfNode, Health, ModelPod, PodKind
from tests.tables import YamlValue

APP = {"selector": {"matchLabels": {"app": "w"}}}
ALL = {"selector": {}}


@pytest.mark.parametrize(
    ("spec", "selects", "allows"),
    [
        pytest.param({**APP, "minAvailable": 2}, True, True, id="a number that must run"),
        pytest.param({**APP, "minAvailable": "100%"}, True, False, id="all must run"),
        pytest.param({**APP, "minAvailable": 0}, True, True, id="none must run"),
        pytest.param({**APP, "maxUnavailable": 1}, True, True, id="a number that may be away"),
        pytest.param({**APP, "maxUnavailable": 0}, True, False, id="none may be away"),
        pytest.param(APP, True, False, id="without a number, no eviction is ever allowed"),
        pytest.param({**ALL, "minAvailable": 2}, True, True, id="an empty selector selects all"),
        pytest.param({"minAvailable": 2}, False, True, id="no selector selects no pod"),
        pytest.param({"selector": None, "minAvailable": 2}, False, True, id="neither does null"),
    ],
)
def test_a_budget_selects_and_allows_as_the_api_server_does(
    spec: YamlValue, *, selects: bool, allows: bool
) -> None:
    budget = read_budget({"metadata": {"name": "b", "namespace": "a"}, "spec": spec})
    assert budget.selects("a", {"app": "w"}) == selects
    assert budget.can_ever_allow(3) == allows


@pytest.mark.parametrize(
    ("owner", "rule", "allows"),
    [
        ("Deployment/w", {"maxUnavailable": 1}, True),
        ("Job/w", {"maxUnavailable": 1}, False),
        ("Job/w", {"minAvailable": "10%"}, False),
        ("Job/w", {"minAvailable": 1}, True),
        ("DaemonSet/w", {"maxUnavailable": "50%"}, False),
        ("Pod/driver", {"maxUnavailable": 1}, False),
    ],
)
def test_a_share_of_what_owners_want_is_counted_only_where_they_have_a_scale(
    owner: str, rule: dict[str, YamlValue], *, allows: bool
) -> None:
    budget = read_budget({"metadata": {"name": "b", "namespace": "a"}, "spec": {**APP, **rule}})
    asked = PodKind("a", owner, {"app": "w"}, AskedOfNode(), wanted=4, is_of_pod="driver" in owner)
    other = PodKind("a", "Deployment/other", {"app": "w"}, AskedOfNode(), wanted=4)
    budgeted = BudgetedKinds([asked, other], [budget], [])
    refusing = [budgeted.find_refusing(ModelPod(kind), {0: 4, 1: 4}) for kind in (0, 1)]
    assert refusing == (["", ""] if allows else ["budget b"] * 2)
    assert budgeted.bound_kinds == ([] if allows else [0, 1])


def test_a_budget_that_the_api_server_cannot_count_allows_nothing() -> None:
    """Whether the owners of other APIs have a scale, only its status tells."""
    failed = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}
    spec = {**APP, "maxUnavailable": 1}
    budget = read_budget({"spec": spec, "status": {"conditions": [failed]}})
    assert not budget.can_ever_allow(3)


ALWAYS = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}


@pytest.mark.parametrize(
    ("rule", "health", "ready", "allows"),
    [
        ({"minAvailable": 2}, Health.READY, 3, True),
        ({"minAvailable": 2}, Health.READY, 2, False),
        ({"minAvailable": 2}, Health.NOT_READY, 2, True),
        ({"minAvailable": 2}, Health.NOT_READY, 1, False),
        ({"minAvailable": 2, **ALWAYS}, Health.NOT_READY, 0, True),
        ({"minAvailable": 2, **ALWAYS}, Health.READY, 2, False),
        ({"minAvailable": 2}, Health.UNGUARDED, 0, True),
        ({"minAvailable": 0}, Health.NOT_READY, 0, False),
        ({"maxUnavailable": 1}, Health.NOT_READY, 3, True),
        ({"maxUnavailable": 0}, Health.NOT_READY, 3, False),
        ({}, Health.NOT_READY, 3, False),
        (ALWAYS, Health.NOT_READY, 0, True),
    ],
)
def test_a_pod_that_is_not_ready_is_evicted_as_the_policy_of_its_budget_says(
    rule: dict[str, YamlValue], health: Health, ready: int, *, allows: bool
) -> None:
    budget = read_budget({"metadata": {"name": "b", "namespace": "a"}, "spec": {**APP, **rule}})
    kind = PodKind("a", "Deployment/w", {"app": "w"}, AskedOfNode(), wanted=4)
    refusing = BudgetedKinds([kind], [budget], []).find_refusing(
        ModelPod(0, health=health), {0: ready}
    )
    assert refusing == ("" if allows else "budget b")


BUDGETS = [
    Budget("app", "a", {"team": "x", "app": "w"}),
    Budget("all", "a", {}),
    Budget("other namespace", "b", {"app": "w"}),
    Budget("no selector", "a", None),
    Budget("another value", "a", {"team": "x", "app": "v"}),
    Budget("by expression", "a", {}, (("app", "In", ("w",)),)),
    Budget("team", "a", {"team": "x"}),
]


@pytest.mark.parametrize(
    ("namespace", "labels", "selected"),
    [
        ("a", {"app": "w", "team": "x"}, ["app", "all", "by expression", "team"]),
        ("a", {"app": "w"}, ["all", "by expression"]),
        ("a", {"team": "x"}, ["all", "team"]),
        ("a", {}, ["all"]),
        ("b", {"app": "w"}, ["other namespace"]),
        ("c", {"app": "w"}, []),
    ],
)
def test_an_index_of_budgets_finds_those_that_select_a_pod(
    namespace: str, labels: dict[str, str], selected: list[str]
) -> None:
    chosen = index_budgets(BUDGETS)(namespace, labels)
    assert [BUDGETS[each].name for each in chosen] == selected


def test_budgets_of_other_workloads_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each workload of a namespace has its own budget, and all of them share a label."""
    tried: list[str] = []
    selects = Budget.selects

    def count(budget: Budget, namespace: str, labels: dict[str, str]) -> bool:
        tried.append(budget.name)
        return selects(budget, namespace, labels)

    monkeypatch.setattr(Budget, "selects", count)
    find = index_budgets(Budget(f"{n}", "a", {"team": "x", "app": f"{n}"}) for n in range(100))
    for number in range(100):
        assert find("a", {"team": "x", "app": f"{number}"}) == [number]
    assert len(tried) == 100
