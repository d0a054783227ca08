"""The evaluator of expressions keeps a bounded number of results, expressions and devices."""

import contextlib
import pickle
from functools import partial

import pytest

from drawbridge.brief import CutShort
from drawbridge.cel.dra import device_variables
from drawbridge.cel.programs import Programs
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.gates import DEFAULTS
from drawbridge.solver import expressions
from drawbridge.solver.expressions import (
    CompiledText,
    EvaluationFailure,
    ExpressionEvaluator,
    ProjectionOutcome,
)
from tests.cuts import CutAt

DEVICES = [Device("d", attributes={"uuid": Attribute(string=f"u-{n}")}) for n in range(6)]
TEXT = 'device.attributes["d.io"].uuid == "u-{}"'


def kept(evaluator: ExpressionEvaluator) -> int:
    """The number of results that the evaluator keeps."""
    return sum(len(each.outcomes) for _, each in evaluator._selectors.items())  # noqa: SLF001  # its bound is tested


def test_the_results_of_all_expressions_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expressions, "MAX_OUTCOMES", 8)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number in range(4):
        for position, device in enumerate(DEVICES):
            selected = evaluator.selects(TEXT.format(number), "d.io", device)
            assert selected is (position == number)
            assert 0 < kept(evaluator) <= 8


def _large(told: CompiledText | ProjectionOutcome) -> CompiledText | ProjectionOutcome:
    if isinstance(told, CompiledText):
        return told
    return told._replace(projection=(told.projection, "x" * 100))


def test_a_large_result_of_a_copy_counts_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_OUTCOMES", 8)
    told: list[CompiledText | ProjectionOutcome] = []
    copy, evaluator = ExpressionEvaluator(DEFAULTS), ExpressionEvaluator(DEFAULTS)
    copy.tell = told.append
    for device in DEVICES:
        copy.selects(TEXT.format(0), "d.io", device)
    for message in told:
        evaluator.learn(_large(message))
        assert kept(evaluator) <= 2
    assert kept(evaluator) == 2


def test_a_large_result_counts_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_OUTCOMES", 40)
    evaluator = ExpressionEvaluator(DEFAULTS)
    whole_map = 'device.attributes["d.io"].exists(name, name == "none")'
    for number in range(8):
        attributes = {f"a{n}": Attribute(string=f"{number}" * 60) for n in range(8)}
        evaluator.selects(whole_map, "d.io", Device("d", attributes=attributes))
        assert 0 < kept(evaluator) <= 4


def test_the_expressions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_EXPRESSIONS", 3)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number in range(6):
        assert evaluator.selects(TEXT.format(number), "d.io", DEVICES[number]) is True
        assert len(evaluator._selectors) <= 3  # noqa: SLF001  # its bound is tested


def test_the_devices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_SEEN_DEVICES", 3)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number, device in enumerate([*DEVICES, *DEVICES]):
        assert evaluator.selects(TEXT.format(number % 6), "d.io", device) is True
        assert len(evaluator._seen) <= 3  # noqa: SLF001  # its bound is tested
    # The driver is part of the name of an attribute.
    assert evaluator.selects(TEXT.format(0), "e.io", DEVICES[0]) is not True


def test_a_device_is_converted_only_for_the_first_of_equal_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    converted = []

    def convert(driver: str, device: Device, *, list_attributes: bool) -> object:
        converted.append(device)
        return device_variables(driver, device, list_attributes=list_attributes)

    monkeypatch.setattr(expressions, "device_variables", convert)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for device in DEVICES:
        assert evaluator.selects('device.driver == "d.io"', "d.io", device) is True
    assert converted == DEVICES[:1]


def test_a_device_with_an_unreadable_attribute_fails_expressions_that_do_not_name_it() -> None:
    evaluator = ExpressionEvaluator(DEFAULTS)
    invalid = Device("d", attributes={"v": Attribute(version="one")})
    for device in (DEVICES[0], invalid, DEVICES[1]):
        selected = evaluator.selects('device.driver == "d.io"', "d.io", device)
        assert isinstance(selected, EvaluationFailure) is (device is invalid)


LOOP = "[1,2,3,4,5,6,7,8,9,10]"
SLOW = f"{LOOP}.all(a, {LOOP}.all(b, {LOOP}.all(c, {LOOP}.all(d, a + b + c + d < 99))))"


@pytest.mark.parametrize(
    "source",
    [
        TEXT.format(0),
        f"{SLOW} && {TEXT.format(0)}",
        " || ".join(TEXT.format(n) for n in (0, *range(100, 120))),
        'device.attributes["d.io"].missing == 1',
        "device.attributes[",
    ],
    ids=["short", "slow", "long", "an error", "not compiled"],
)
def test_an_evaluator_learns_what_another_one_computed(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[CompiledText | ProjectionOutcome] = []
    evaluator, other = ExpressionEvaluator(DEFAULTS), ExpressionEvaluator(DEFAULTS)
    other.tell = told.append
    expected = [other.selects(source, "d.io", each) for each in DEVICES]
    for each in told:
        evaluator.learn(pickle.loads(pickle.dumps(each)))  # noqa: S301  # as a copy tells it
    monkeypatch.setattr(Programs, "compile", pytest.fail)
    assert [evaluator.selects(source, "d.io", each) for each in DEVICES] == expected


def test_the_texts_of_all_kept_expressions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_SOURCE", 64 << 10)
    evaluator = ExpressionEvaluator(DEFAULTS)
    for number in range(40):
        long = " || ".join(TEXT.format(number * 50 + n) for n in range(50))
        evaluator.selects(long, "d.io", DEVICES[0])
        assert 0 < evaluator._selectors.cost <= expressions.MAX_SOURCE  # noqa: SLF001  # its bound is tested


def test_a_cut_in_the_last_lines_of_an_evaluation_changes_no_result() -> None:
    items = ", ".join(map(str, range(40)))
    text = f"[{items}].all(n, [{items}].all(m, n + m >= 0)) && {TEXT.format(0)}"

    def ask(evaluator: ExpressionEvaluator) -> object:
        return evaluator.selects(text, "d.io", DEVICES[0])

    cuts = 0
    ask(ExpressionEvaluator(DEFAULTS))  # what is compiled is kept
    lines = CutAt(1 << 30, lines=True)
    lines.run(partial(ask, ExpressionEvaluator(DEFAULTS)))
    for last in range(60):
        evaluator = ExpressionEvaluator(DEFAULTS)
        cut = CutAt(lines.seen - last, lines=True)
        with contextlib.suppress(CutShort):
            cut.run(partial(ask, evaluator))
        assert ask(evaluator) is True
        cuts += cut.cuts
    assert cuts > 40
