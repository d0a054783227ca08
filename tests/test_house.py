"""The checks find names that say nothing or that only tests use, and properties that return."""

from pathlib import Path

from tests.tables import every_row
from tools.house import count_words, definitions, early_returns, fillers, parse_module, unused


@every_row(
    ("source", "names"),
    [
        ("found = 1", ["found"]),
        ("found, x = 1, 2", ["found"]),
        ("one: int = 1", ["one"]),
        ("if known := f(): pass", ["known"]),
        ("def one(each, *, found=1): pass", ["one", "each", "found"]),
        ("for each in x:\n    a(each)\n    b(each)", ["each"]),
        ("for each in x:\n    a(each)", []),
        ("y = [each for each in x]", []),
        ("y = sorted(x, key=lambda each: each.name)", []),
        ("x.found = x[one] = 1", []),
    ],
)
def test_names_that_say_nothing_are_reported(source: str, names: list[str]) -> None:
    lines = fillers(parse_module(Path("x.py"), source))
    assert [line.split()[1] for line in lines] == names


@every_row(
    ("source", "names"),
    [
        ("def ask(): pass", ["ask"]),
        ("def _ask(): pass", ["_ask"]),
        ("def ask(): pass\nask()", []),
        ("class Pod:\n    def end(self): pass\nPod()", ["end"]),
        ("class Pod:\n    def _end(self): pass\nPod()", []),
        ("LIMIT = 1", ["LIMIT"]),
        ("LIMIT: int = 1", ["LIMIT"]),
        ("_POD: type[int] = bool", []),
        ("def f():\n    local = 1\nf()", []),
    ],
)
def test_names_that_nothing_uses_are_reported(source: str, names: list[str]) -> None:
    module = parse_module(Path("x.py"), source)
    lines = unused(definitions(module), count_words(module))
    assert [line.split()[-1] for line in lines] == names


@every_row(
    ("source", "lines"),
    [
        ("@given(x)\ndef test_a(x):\n    if x:\n        return\n    assert y", ["x.py:5"]),
        ("@settings(a)\n@given(x)\nasync def test_a(x):\n    return", ["x.py:5"]),
        ("@given(x)\ndef test_a(x):\n    def f():\n        return 1\n    f()", []),
        ("@given(x)\ndef test_a(x):\n    assume(x)", []),
        ("@every_row(x)\ndef test_a(x):\n    return", []),
        ("def test_a(x):\n    return", []),
    ],
)
def test_properties_that_leave_examples_by_return_are_reported(
    source: str, lines: list[str]
) -> None:
    module = parse_module(Path("x.py"), f"from hypothesis import given\n{source}")
    assert [line.rpartition(":")[0] for line in early_returns(module)] == lines
