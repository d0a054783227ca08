"""The check of names finds those that say nothing, and leaves loops of one line alone."""

from pathlib import Path

from tests.tables import every_row
from tools.house import fillers, parse_module


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
