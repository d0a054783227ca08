"""The check of names finds those that say nothing, and those that nothing but tests uses."""

from pathlib import Path

from tests.tables import every_row
from tools.house import count_words, definitions, fillers, parse_module, unused


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
