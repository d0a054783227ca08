"""Which strategy decides about a pod, by a case table."""

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.dra.rules import API_VERSION, KIND
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.names import RULES_ANNOTATION
from tests.allocator.clusters import as_claim, claim
from tests.tables import load_cases

_CASES = load_cases(Path(__file__).parent / "cases" / "chosen_strategies.yaml")
_FIELDS = ("default", "by_class", "weights", "weights_by_class")


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in _CASES])
def test_the_strategy_of_the_table_decides(case: dict[str, Any]) -> None:
    names = StrategyNames(**{name: case[name] for name in _FIELDS if name in case})
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": each}}
        for number, each in enumerate(case.get("classes", ["gpu"]))
    ]
    annotation = {"apiVersion": API_VERSION, "kind": KIND, "strategy": case.get("rules")}
    annotations = {RULES_ANNOTATION: json.dumps(annotation)} if "rules" in case else {}
    chosen = names.of([as_claim(claim("c", requests=requests, annotations=annotations))])
    assert [chosen.name, dict(chosen.weights)] == case["expect"]


def test_weights_of_pods_are_told_from_those_of_the_configuration() -> None:
    names = StrategyNames("packed", {}, {"memory": 3}, {"nic": {"devices": 2}})
    for weights in ((("memory", 3),), (("devices", 2),), ()):
        assert names.knows(names.of_others._replace(weights=weights))
    assert not names.knows(names.of_others._replace(weights=(("memory", 4),)))


def test_alternatives_name_classes_too() -> None:
    names = StrategyNames("packed", {"npu": "spread"})
    alternatives = [{"name": "a", "deviceClassName": "npu"}]
    asked = claim("c", requests=[{"name": "r", "firstAvailable": alternatives}])
    assert names.of([as_claim(asked)]).name == "spread"
    assert names.of([]).name == "packed"
