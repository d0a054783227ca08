"""The work of an evaluation is bounded, depends on nothing else, and is charged in advance."""

import pytest

from drawbridge.cel.dra import device_environment
from drawbridge.cel.environment import Program, Result
from drawbridge.cel.errors import CompileError, EvaluationError
from drawbridge.cel.library.prices import PRICES
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.meter import EXCEEDED, MESSAGE, MOST_WORK
from drawbridge.cel.scopes import declare
from tests.tables import every_row

TEXT = "x" * 64
DEVICE = {
    "device": {
        "driver": "d",
        "attributes": {"d": {"s": TEXT, "i": 5}},
        "capacity": {"d": {}},
        "allowMultipleAllocations": None,
    }
}
S = 'device.attributes["d"].s'
ENVIRONMENT = device_environment()


def compiled(source: str) -> Program:
    """Compile a selector."""
    return ENVIRONMENT.compile(source)


def evaluated(source: str) -> Result:
    """Evaluate a selector on a device."""
    return compiled(source).evaluate(DEVICE)


def doubled(times: int, result: str) -> str:
    """Return an expression in which `long` is an attribute, doubled some times."""
    before = S
    for i in range(times):
        result = result if i else result.replace("long", f"t{times - 1}")
    for i in reversed(range(times)):
        before = f"t{i - 1}" if i else S
        result = f"cel.bind(t{i}, {before} + {before}, {result})"
    return result


def shared(levels: int, result: str) -> str:
    """Return an expression in which `big` is a list of twice the list of a level below."""
    result = result.replace("big", f"l{levels - 1}")
    for i in reversed(range(levels)):
        below = f"l{i - 1}" if i else "1"
        result = f"cel.bind(l{i}, [{below}, {below}], {result})"
    return result


def branched(levels: int) -> str:
    """Return a conditional with `2 ** levels` branches."""
    return f"(true ? {branched(levels - 1)} : {branched(levels - 1)})" if levels else "{}"


EXPENSIVE = {
    "all matches of a long text": doubled(6, 'long.findAll("x?").size() > 0'),
    "many copies of a long list": (
        "cel.bind(l, lists.range(90000), lists.range(1000).all(i, (l + l).size() > 0))"
    ),
    "a pattern with a large program": rf"{S}.matches(r'\pL{{1000}}')",
    "a pattern with a large program that is not reached": rf"true || {S}.matches(r'\pL{{1000}}')",
    "a search in a constant text for a pattern with a large program": (
        '"x".matches("(a|b){1000}") == device.allowMultipleAllocations'
    ),
    "many patterns that are not constant": (
        rf'lists.range(3000).all(i, !{S}.matches(r"\pL{{1," + string(i % 5 + 2) + "}}y"))'
    ),
    "errors that a loop absorbs": (
        'lists.range(40000).all(i, device.attributes["d"].no == i || true)'
    ),
    "errors from many levels": (
        f'lists.range(9000).all(i, {"-(" * 40}device.attributes["d"].no{")" * 40} > i || true)'
    ),
    "loops with new stacks": f"lists.range(9000).all(i, {'-(' * 85}i{')' * 85} < 9)",
    "a comparison of shared values": shared(40, "big == big"),
    "a format of shared values": shared(40, '"%s".format([big]).size() > 0'),
    "a format of large doubles": (
        "cel.bind(l, lists.range(30).map(i, 1.0e308 / double(i + 1)), "
        'lists.range(500).all(i, "%s".format([l]) != ""))'
    ),
    "maps with too many entries": (
        "lists.range(300).all(k, lists.range(200).transformMap(i, j, j).size() > 0)"
    ),
    "many copies of a text of wide characters": doubled(
        6, f'lists.range(12).map(i, long.replace("x", "{chr(0x1F600) * 900}")).size() > 0'
    ),
    "a text with a large replacement": doubled(8, 'long.replace("x", long).size() > 0'),
    "a search from the end": doubled(8, 'long.lastIndexOf(long.substring(9) + "y") > 0'),
    "a long URL": doubled(8, 'url("/" + long).getEscapedPath() == ""'),
    "a loop with too many rounds": "lists.range(90000).all(i, lists.range(90).all(j, i + j >= 0))",
    "many overloads": "lists.range(40000).all(i, dyn(i) + dyn(i) >= 0)",
}


@every_row("source", EXPENSIVE.values(), ids=EXPENSIVE)
def test_an_expensive_selector_is_refused_in_our_name(source: str) -> None:
    program = compiled(source)
    with pytest.raises(EvaluationError) as refused:
        program.evaluate(DEVICE)
    assert (refused.value.kind, refused.value.message) == (EXCEEDED, MESSAGE)
    assert "Drawbridge" in MESSAGE


USUAL = (
    'device.driver == "d" && device.attributes["d"].i >= 5',
    f'{S}.matches("^x+$") && {S}.find("x+") == {S} && {S}.findAll("x").size() == 64',
    f'{S}.lowerAscii().contains("xx") && "a,b".split(",").exists(t, t == "b")',
    'semver("1.2.3").isLessThan(semver("2.0.0")) && quantity("1Gi").isGreaterThan(quantity("1Mi"))',
    "lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))",
    '["a", "b"].map(t, t + "c").join(".") == "ac.bc"',
    'url("https://a.b:80/c?d=e").getHost() == "a.b:80" && ip("10.0.0.1").family() == 4',
)


@every_row("source", USUAL)
def test_a_usual_selector_is_evaluated(source: str) -> None:
    assert evaluated(source).value is True


@every_row("source", USUAL)
def test_the_work_is_the_same_in_each_evaluation_and_compilation(source: str) -> None:
    program = compiled(source)
    works = {program.evaluate(DEVICE).work, program.evaluate(DEVICE).work, evaluated(source).work}
    assert len(works) == 1
    assert 0 < works.pop() <= MOST_WORK


def test_a_loop_that_ends_early_pays_only_for_its_rounds() -> None:
    early = evaluated("lists.range(1000).exists(x, x == 1)").work
    whole = evaluated("lists.range(1000).all(x, x != 1000)").work
    assert early < whole / 5


def test_a_loop_searches_the_same_text_once() -> None:
    once = evaluated(f'lists.range(1).all(i, {S}.matches("^x+$"))').work
    often = evaluated(f'lists.range(1000).all(i, {S}.matches("^x+$"))').work
    other = evaluated('lists.range(1000).all(i, (string(i) + "-").matches("^[0-9]+-$"))').work
    assert often - once < other / 2


def test_a_large_constant_call_is_not_folded() -> None:
    source = f'"x".replace("", "{"x" * 900}").replace("x", "{"y" * 900}") != ""'
    assert evaluated(source).work > compiled(source).work


@pytest.mark.parametrize(
    "source",
    [
        'device.attributes["d"][?"s"]' + ".optMap(x, x)" * 14 + ".hasValue()",
        branched(8) + ".a" * 100 + " == 1",
    ],
    ids=["macros that double", "fields of many branches"],
)
def test_an_expression_with_too_many_parts_is_refused_at_compile_time(source: str) -> None:
    with pytest.raises(CompileError, match="Drawbridge"):
        compiled(source)


def test_every_price_belongs_to_a_function() -> None:
    priced = {
        overload.id
        for version in ("1.34", "1.35", "1.36", "1.37")
        for function in declare(libraries(version, stored=True), {}, {}).functions.values()
        for overload in function.overloads
    }
    assert priced >= PRICES.keys()


def test_a_refused_evaluation_has_the_work_that_was_done() -> None:
    step = "lists.range(1000).all(i, i >= 0)"
    beyond = "lists.range(140000).all(i, -(-(-(-(-(-i))))) >= 0)"
    with pytest.raises(EvaluationError) as refused:
        evaluated(f"{step} && {beyond}")
    assert refused.value.kind == EXCEEDED
    assert refused.value.work < MOST_WORK / 4


def test_an_evaluation_that_fails_has_the_work_that_was_done() -> None:
    step = "lists.range(1000).all(i, i >= 0)"
    with pytest.raises(EvaluationError) as failed:
        evaluated(f'{step} && device.attributes["d"].no == 1')
    assert failed.value.kind != EXCEEDED
    assert failed.value.work >= evaluated(step).work
