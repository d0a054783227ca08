"""The lists of mistakes stay true to the source; `python -m e2e.mutations` makes them."""

import pytest

from e2e.mutations import ROOT, Mutation, applies, read_lists
from tests.tables import every_row

LISTS = read_lists()
MUTATIONS = [
    pytest.param(mutation, id=f"{listed.package}: {mutation.name}")
    for listed in LISTS
    for mutation in listed.mutations
]


def test_every_package_has_a_list() -> None:
    core = {path.parent.name for path in ROOT.glob("drawbridge/*/__init__.py")}
    processes = {"webhook", "controller", "allocator", "certs", "cli"}
    assert {listed.package for listed in LISTS} == core | processes | {"world"}


def test_no_mistake_is_listed_twice() -> None:
    # The simulated world has to find again what the tests of a package find.
    listed = [each for one in LISTS if one.package != "world" for each in one.mutations]
    world = [each for one in LISTS if one.package == "world" for each in one.mutations]
    for mistakes in (listed, world):
        assert len({(each.file, each.old, each.new) for each in mistakes}) == len(mistakes)
        assert len({each.name for each in mistakes}) == len(mistakes)


def test_the_tests_that_catch_them_exist() -> None:
    assert all((ROOT / path).exists() for listed in LISTS for path in listed.suite)


@every_row("mutation", MUTATIONS)
def test_each_mistake_can_be_made(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    assert applies(mutation), f"the text to replace is not once in {mutation.file}"
