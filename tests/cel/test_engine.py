"""Tests of costs, limits, interruption and errors that the golden cases do not cover."""

import threading
from pathlib import Path

import pytest

from drawbridge.cel import COST_LIMIT, CompileError, Environment, EvaluationError, Programs
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.dra import device_environment, device_variables
from drawbridge.cel.dra.peers import make_evaluator
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.types import INT, STRING, list_of
from drawbridge.dra.compatibility import ExpressionEvaluationError, Peer
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import parse
from tests.tables import YamlValue, every_row, load_cases

TABLE = load_cases(Path(__file__).parent / "cases" / "engine.yaml")
VARIABLES = {"x": INT, "s": STRING, "l": list_of(INT)}
VALUES = {"x": 3, "s": "gpu", "l": [1, 2, 3]}
PLAIN = Environment(VARIABLES, libraries("1.36", stored=True))
DEVICE = Device(
    name="gpu-0",
    attributes={"model": Attribute(string="a"), "other.example/n": Attribute(integer=1)},
    capacity={"memory": Capacity(parse("40Gi"))},
)


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_table(case: YamlValue) -> None:
    try:
        result = PLAIN.compile(case["expression"]).evaluate(VALUES)
    except EvaluationError as error:
        answer = {"error": error.kind, "cost": error.cost}
        if "offset" in case["expected"]:
            answer["offset"] = error.offset
    else:
        answer = {"value": result.value, "cost": result.cost}

    assert case["expected"] == answer


def test_an_unexpected_exception_fails_only_its_evaluation_and_warns() -> None:
    def fails(_: object) -> object:
        raise TypeError("wrong")

    broken = Library("test", (Function("broken", (Overload("broken", (INT,), INT, fails),)),))
    environment = Environment(VARIABLES, (*libraries("1.36", stored=True), broken))

    with (
        pytest.warns(UserWarning, match="an evaluation raised TypeError"),
        pytest.raises(EvaluationError) as caught,
    ):
        environment.compile("x == 3 && broken(x) == 1").evaluate(VALUES)
    assert (caught.value.kind, caught.value.cost) == ("internal", 3)


def test_many_threads_may_evaluate_a_program_at_once() -> None:
    program = PLAIN.compile("l.map(a, a * x).filter(b, b > 3) == [6, 9] && l.exists(c, c == x)")
    answers: list[object] = []

    def work() -> None:
        answers.extend(program.evaluate(VALUES).value for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [True] * 200


def test_the_cost_limit_is_exact_and_no_operator_absorbs_it() -> None:
    source = " && ".join(["lists.range(124987).size() > 0"] * 8)

    assert PLAIN.compile(source).evaluate(VALUES).cost == COST_LIMIT
    with pytest.raises(EvaluationError) as caught:
        PLAIN.compile(f"{source} && x < 3 || true").evaluate(VALUES)
    assert (caught.value.kind, caught.value.cost) == ("cost_exceeded", COST_LIMIT + 1)


def test_a_qualified_attribute_overrides_the_same_unqualified_one() -> None:
    device = Device(name="x", attributes={"d/a": Attribute(integer=1), "a": Attribute(integer=2)})
    program = device_environment().compile('device.attributes["d"].a == 1')

    assert program.evaluate(device_variables("d", device)).value is True


def test_a_device_with_a_list_attribute_fails_with_the_gate_off() -> None:
    device = Device(name="x", attributes={"a": Attribute(strings=("x",))})
    program = device_environment().compile("true")

    with pytest.raises(EvaluationError) as caught:
        program.evaluate(device_variables("d", device))
    assert caught.value.kind == "unsupported_attribute"


def test_programs_evict_the_least_recently_used() -> None:
    programs = Programs(PLAIN, size=2)
    first = programs.compile("x == 1")
    programs.compile("x == 2")
    assert programs.compile("x == 1") is first

    programs.compile("x == 3")

    assert programs.compile("x == 1") is first
    assert len(programs) == 2


def test_programs_cache_compile_errors() -> None:
    programs = Programs(PLAIN, size=2)
    for _ in range(2):
        with pytest.raises(CompileError):
            programs.compile("nope")
    assert len(programs) == 1


def test_an_expression_on_another_device_returns_a_result_or_raises() -> None:
    evaluate = make_evaluator(Programs(device_environment()))
    peer = Peer(PoolID("d", "pool"), DEVICE)

    assert evaluate('device.attributes["d"].model == "a"', peer) is True
    assert evaluate('device.attributes["d"].model == "b"', peer) is False
    for expression in ('device.attributes["d"].nope == 1', "1 +"):
        with pytest.raises(ExpressionEvaluationError):
            evaluate(expression, peer)
