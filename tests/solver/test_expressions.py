"""The evaluator of expressions keeps a bounded number of results, expressions and views."""

import pytest

from dra.device import Attribute, Device
from dra.gates import DEFAULTS
from solver import expressions
from solver.expressions import ExpressionEvaluator

DEVICES = [Device("d", attributes={"uuid": Attribute(string=f"u-{n}")}) for n in range(6)]
TEXT = 'device.attributes["d.io"].uuid == "u-{}"'


def kept(evaluator: ExpressionEvaluator) -> int:
    """The number of results that the evaluator keeps."""
    return sum(len(each.outcomes) for each in evaluator._selectors.values())  # noqa: SLF001  # its bound is tested


def test_the_results_of_all_expressions_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expressions, "MAX_OUTCOMES", 8)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number in range(4):
        for position, device in enumerate(DEVICES):
            found = evaluator.selects(TEXT.format(number), "d.io", device)
            assert found is (position == number)
            assert 0 < kept(evaluator) <= 8


def test_the_expressions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_EXPRESSIONS", 3)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number in range(6):
        assert evaluator.selects(TEXT.format(number), "d.io", DEVICES[number]) is True
        assert len(evaluator._selectors) <= 3  # noqa: SLF001  # its bound is tested


def test_the_views_of_devices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_VIEWS", 3)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number, device in enumerate([*DEVICES, *DEVICES]):
        assert evaluator.selects(TEXT.format(number % 6), "d.io", device) is True
        assert len(evaluator._views) <= 3  # noqa: SLF001  # its bound is tested
    # The driver is part of the name of an attribute.
    assert evaluator.selects(TEXT.format(0), "e.io", DEVICES[0]) is not True
