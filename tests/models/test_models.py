"""What the models decide, by the rules of the parts that they stand for."""

from typing import Any

import pytest

from drawbridge.models.budgets import read_budget
from drawbridge.models.jobs import read_job


def budget(**spec: Any) -> Any:  # noqa: ANN401  # JSON
    return {"metadata": {"name": "b", "namespace": "a"}, "spec": {"selector": {}, **spec}}


@pytest.mark.parametrize(
    ("spec", "wanted", "running", "allowed"),
    [
        ({"maxUnavailable": 1}, 3, 3, True),
        ({"maxUnavailable": 1}, 3, 2, False),
        ({"maxUnavailable": "34%"}, 3, 2, True),  # 1.02 pods are two
        ({"maxUnavailable": "33%"}, 3, 2, False),
        ({"minAvailable": 2}, 3, 3, True),
        ({"minAvailable": 3}, 3, 3, False),
        ({"minAvailable": "50%"}, 3, 3, True),  # 1.5 pods are two
        ({"minAvailable": "50%"}, 3, 2, False),
        ({"minAvailable": "100%"}, 3, 3, False),
        ({"maxUnavailable": 0}, 3, 3, False),
    ],
)
def test_a_budget_allows_evictions_as_the_api_server_does(
    spec: dict[str, Any], wanted: int, running: int, *, allowed: bool
) -> None:
    assert read_budget(budget(**spec)).allows(wanted, running) is allowed


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
    ],
)
def test_a_budget_selects_pods_of_its_namespace(
    selector: dict[str, Any], *, selected: bool
) -> None:
    read = read_budget(budget(selector=selector))
    assert read.selects("a", {"app": "web"}) is selected
    assert not read.selects("b", {"app": "web"})


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}
ENDED = {"onExitCodes": {"operator": "In", "values": [143]}}


@pytest.mark.parametrize(
    ("spec", "failures", "evicted", "survives"),
    [
        ({"backoffLimit": 0}, 1, True, False),
        ({"backoffLimit": 1}, 1, True, True),
        ({}, 6, True, True),
        ({}, 7, True, False),
        ({"backoffLimitPerIndex": 0}, 1, True, False),
        (
            {"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": "Ignore", **DISRUPTED}]}},
            1,
            True,
            True,
        ),
        (
            {"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": "Ignore", **DISRUPTED}]}},
            1,
            False,
            False,
        ),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", **DISRUPTED}]}}, 1, True, False),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", **ENDED}]}}, 1, True, False),
    ],
)
def test_a_job_survives_the_end_of_a_pod_as_its_controller_says(
    spec: dict[str, Any], failures: int, *, evicted: bool, survives: bool
) -> None:
    assert read_job({"spec": spec}).survives(failures, evicted=evicted) is survives


def test_failures_of_the_past_count() -> None:
    job = {"spec": {"backoffLimit": 2}, "status": {"failed": 2}}
    assert not read_job(job).survives(1, evicted=True)
