"""What PodDisruptionBudgets select and allow."""

import pytest

from drawbridge.models.budgets import read_budget
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
