"""Compares results with cel-expr-python and cel-python where they apply, and with cel-go.

The oracle is Kubernetes' own evaluator. Without Go, its tests are skipped with a message.
"""

import json
import random
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.cel import CompileError, Environment, EvaluationError
from drawbridge.cel.dra import Selectors
from drawbridge.cel.dra.questions import read_question
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.types import BOOL, INT, STRING, list_of, map_of
from e2e.oracle.build import NoGoError, binary
from tests.thorough import drawn
from tools.agreement import FIELDS

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cel_device.json").read_text())
VALUES: dict[str, Any] = {
    "x": 3,
    "y": -7,
    "s": "gpu",
    "b": True,
    "l": [3, 1, 2],
    "m": {"a": 1, "b": 2},
}
TYPES = {"x": INT, "y": INT, "s": STRING, "b": BOOL, "l": list_of(INT), "m": map_of(STRING, INT)}
OURS = Environment(TYPES, libraries("1.36", stored=True))

# Go iterates over maps in random order, so the cost of a macro over a map varies.
OVER_A_MAP = re.compile(
    r'((attributes|capacity)(\["[^"]*"\])?|\})\s*\.(all|exists|exists_one|existsOne|map|filter|transform\w+)\('
)

Expressions = st.SearchStrategy[str]


def _either(*forms: Callable[..., str], of: tuple[Expressions, ...]) -> Expressions:
    return st.one_of(*(st.builds(form, *of) for form in forms))


def _ints(depth: int) -> Expressions:
    leaf = st.sampled_from(["x", "y", "0", "1", "2", "9223372036854775807", 'm["a"]', "l[0]"])
    if depth == 0:
        return leaf
    inner = _ints(depth - 1)
    return st.one_of(
        leaf,
        _either(
            *(
                lambda a, b, op=op: f"({a} {op} {b})"  # type: ignore[misc]  # mypy does not infer it
                for op in ("+", "-", "*", "/", "%")
            ),
            of=(inner, inner),
        ),
        st.builds(lambda c, a, b: f"({c} ? {a} : {b})", _bools(depth - 1), inner, inner),
        st.builds(lambda t: f"size({t})", _texts(depth - 1)),
        st.builds(lambda a: f"l[{a}]", inner),
        st.builds(lambda a: f"l.map(i, i * {a}).size()", inner),
    )


def _texts(depth: int) -> Expressions:
    leaf = st.sampled_from(["s", '"gpu"', '""', '"Zü 東"'])
    if depth == 0:
        return leaf
    inner = _texts(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: f"({a} + {b})", inner, inner),
        st.builds(lambda a: f"string({a})", _ints(depth - 1)),
    )


def _bools(depth: int) -> Expressions:
    leaf = st.sampled_from(["b", "true", "false", '"a" in m', "x in l", "has(m.a)", "has(m.z)"])
    if depth == 0:
        return leaf
    inner, ints, texts = _bools(depth - 1), _ints(depth - 1), _texts(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["&&", "||"]), inner),
        st.builds(lambda a: f"!({a})", inner),
        st.builds(
            lambda a, op, b: f"({a} {op} {b})",
            ints,
            st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
            ints,
        ),
        st.builds(lambda a, op, b: f"({a} {op} {b})", texts, st.sampled_from(["==", "<"]), texts),
        st.builds(
            lambda a, name, b: f"{a}.{name}({b})",
            texts,
            st.sampled_from(["startsWith", "endsWith", "contains"]),
            texts,
        ),
        st.builds(
            lambda macro, a: f"l.{macro}(i, i < {a})",
            st.sampled_from(["all", "exists", "exists_one"]),
            ints,
        ),
    )


ANY = st.one_of(_bools(3), _ints(3), _texts(3))


def _our_answer(source: str) -> object:
    try:
        return OURS.compile(source).evaluate(VALUES).value
    except CompileError:
        return "refused"
    except EvaluationError:
        return "error"


@cache
def _google() -> Any:  # noqa: ANN401  # no types there
    from cel_expr_python import cel  # noqa: PLC0415  # only these tests need it

    kinds = cel.Type
    types = {
        "x": kinds.INT,
        "y": kinds.INT,
        "s": kinds.STRING,
        "b": kinds.BOOL,
        "l": kinds.List(kinds.INT),
        "m": kinds.Map(kinds.STRING, kinds.INT),
    }
    return cel, cel.NewEnv(variables=types)


@settings(max_examples=drawn(80, thorough=400))
@given(ANY)
def test_cel_expr_python_has_the_same_results(source: str) -> None:
    cel, environment = _google()
    try:
        answer = environment.compile(source).eval(environment.Activation(VALUES))
    except RuntimeError:
        theirs: object = "refused"
    else:
        theirs = "error" if answer.type() == cel.Type.ERROR else answer.plain_value()

    assert theirs == _our_answer(source)


@cache
def _celpy() -> Any:  # noqa: ANN401  # no types there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import celpy  # noqa: PLC0415  # only these tests need it
        from celpy import adapter, celtypes  # noqa: PLC0415

    made = celpy.Environment(
        annotations={
            "x": celtypes.IntType,
            "y": celtypes.IntType,
            "s": celtypes.StringType,
            "b": celtypes.BoolType,
            "l": celtypes.ListType,
            "m": celtypes.MapType,
        }
    )
    return celpy, made, {name: adapter.json_to_cel(value) for name, value in VALUES.items()}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=drawn(12, thorough=60))
@given(ANY)
def test_cel_python_has_the_same_results(source: str) -> None:
    celpy, environment, values = _celpy()
    ours = _our_answer(source)
    try:
        theirs = environment.program(environment.compile(source)).evaluate(values)
    except celpy.CELEvalError as error:
        # There, the sum of two strings is a Python string, which has no `contains`.
        # There, an error inside a macro ends the whole expression: `true || error` is an error.
        in_macro = "(i, " in source and ("||" in source or "&&" in source)
        theirs_only = AttributeError in error.args or (ValueError in error.args and in_macro)
        assert theirs_only or ours in ("error", "refused")
    else:
        if ours not in ("error", "refused"):
            assert theirs == ours


def _questions() -> Iterator[dict[str, Any]]:
    """Return golden expressions, combined and changed so that none of them is golden."""
    chance = random.Random(20261120)
    cases = [case for case in GOLDEN["cases"] if len(case["expression"]) < 150]
    while True:
        first, other = chance.sample(cases, 2)
        left, right = first["expression"], other["expression"]
        source = chance.choice(
            [
                f"({left}) && ({right})",
                f"({left}) || ({right})",
                f"({left}) ? ({right}) : ({left})",
                f"!({left})",
                f"({left}) == ({right})",
                f"[{left}, {right}].exists(q, q)",
                f"cel.bind(q, {left}, q || q)",
                left.replace("1", "2", 1),
                left.replace("==", "!=", 1),
                left.replace('["d"]', '["x.example.com"]', 1),
                left[: len(left) // 2] + right[len(right) // 2 :],
            ]
        )
        yield {
            "device": GOLDEN["devices"][chance.choice([first, other])["device"]],
            "expression": source,
            "list_attributes": chance.choice(["on", "off"]),
        }


def test_kubernetes_has_the_same_results() -> None:
    try:
        oracle = binary()
    except NoGoError as error:
        pytest.skip(f"THE ORACLE IS NOT ASKED: {error}")
    questions = [
        question_
        for question_, _ in zip(_questions(), range(drawn(150, thorough=1500)), strict=False)
    ]
    lines = "\n".join(json.dumps(each) for each in questions)
    answers = subprocess.run(  # noqa: S603  # our own program
        [oracle, "cel"], input=lines, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    selectors = {gate: Selectors("1.37", list_attributes=gate == "on") for gate in ("on", "off")}

    apart = []
    for plain, line in zip(questions, answers, strict=True):
        theirs, question = json.loads(line), read_question(json.dumps(plain).encode())
        ours = selectors[plain["list_attributes"]].evaluate(
            question.expression, question.driver, question.device
        )
        # Its columns count bytes, and the order of its map selects which error it reports first.
        for field in FIELDS:
            if field in ("error_position", "error_kind"):
                continue
            if field == "cost" and OVER_A_MAP.search(question.expression):
                continue
            if theirs.get(field) != getattr(ours, field) and theirs.get("error_kind") != "internal":
                apart.append((plain["expression"], field, theirs.get(field), getattr(ours, field)))

    assert apart == []
