"""A dialect or driver family is complete: code, cases, example, rig scenario and documentation.

docs/architecture.md lists the files under "Where things go". A missing one fails here by name.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import drawbridge.translate.legacy.dialects
import drawbridge.translate.targets
from drawbridge.facts.families import FAMILIES, Family
from drawbridge.translate.decisions.rows import ROWS
from drawbridge.translate.legacy.read import DIALECTS, read_pod
from drawbridge.translate.targets.available import PRINTERS
from tests.docs.test_architecture import PAGE
from tests.tables import every_row, read_yaml, read_yaml_documents

ROOT: Final = Path(__file__).parents[2]
CASES: Final = ROOT / "tests" / "translate" / "cases"
EXAMPLES: Final = ROOT / "examples" / "legacy"
RIG: Final = ROOT / "e2e" / "scenarios" / "translated.yaml"
PAGE_OF_DIALECTS: Final = (ROOT / "docs" / "dialects.md").read_text("utf-8")
CONFIGURATION: Final = (ROOT / "docs" / "configuration.md").read_text("utf-8")

# Dialects that only recognise devices: nothing is translated, so there are neither rows nor an
# example. The value is the heading of their section in docs/dialects.md.
RECOGNISED_ONLY: Final = {"vendors": "## Other vendors"}


def dialect_modules() -> dict[str, str]:
    """The name of every dialect and the name of its module."""
    package = drawbridge.translate.legacy.dialects
    modules = {}
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        if hasattr(module, "NAME"):
            modules[module.NAME] = module.__name__
    return modules


def pods_in(document: Any) -> Iterator[Any]:  # noqa: ANN401  # a manifest
    """Every pod and pod template in a manifest: an object whose spec has containers."""
    if isinstance(document, dict):
        spec = document.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield document
        for inner in document.values():
            yield from pods_in(inner)
    elif isinstance(document, list):
        for element in document:
            yield from pods_in(element)


def dialects_of(text: str) -> set[str]:
    """The dialects in which the pods of a stream of manifests request devices."""
    return {
        ask.row.partition("/")[0]
        for document in read_yaml_documents(text)
        for pod in pods_in(document)
        for ask in read_pod(pod).asks
    }


@cache
def dialects_with_cases() -> frozenset[str]:
    """The dialects of the asks that tests/translate/cases/dialects expects."""
    return frozenset(
        ask.partition("/")[0]
        for table in CASES.glob("dialects/*.yaml")
        for case in read_yaml(table.read_text("utf-8"))
        for ask in case.get("asks", ())
    )


@cache
def dialects_with_examples() -> frozenset[str]:
    texts = [path.read_text("utf-8") for path in EXAMPLES.glob("*.yaml")]
    return frozenset(name for text in texts for name in dialects_of(text))


@cache
def dialects_in_the_rig() -> frozenset[str]:
    """The dialects of the manifests that scenarios apply to a control plane."""
    named: set[str] = set()
    for case in read_yaml(RIG.read_text("utf-8")):
        example = case.get("example")
        named |= dialects_of(
            (EXAMPLES / example).read_text("utf-8") if example else case.get("manifest", "")
        )
    return frozenset(named)


@cache
def rows_with_cases() -> frozenset[str]:
    cases = read_yaml((CASES / "rows.yaml").read_text("utf-8"))
    return frozenset(case["row"] for case in cases)


def missing_of_dialect(name: str) -> list[str]:
    """The files that lack a dialect."""
    rows = {row for row in ROWS if row.startswith(f"{name}/")}
    recognised_only = name in RECOGNISED_ONLY
    legacy = [ROWS[row].legacy for row in rows]
    documented = (
        RECOGNISED_ONLY[name] in PAGE_OF_DIALECTS
        if recognised_only
        else bool(legacy) and all(f"| `{each}` |" in PAGE_OF_DIALECTS for each in legacy)
    )
    wired = {
        "drawbridge/translate/legacy/read.py": name in [dialect.NAME for dialect in DIALECTS],
        "drawbridge/translate/decisions/rows.py": recognised_only or bool(rows),
        "tests/translate/cases/dialects/": name in dialects_with_cases(),
        "tests/translate/cases/rows.yaml": rows <= rows_with_cases(),
        "examples/legacy/": recognised_only or name in dialects_with_examples(),
        "e2e/scenarios/translated.yaml": name in dialects_in_the_rig(),
        "docs/dialects.md": documented,
    }
    return [place for place, present in wired.items() if not present]


def missing_of_family(family: Family) -> list[str]:
    """The files that lack a driver family."""
    drivers = {
        getattr(
            importlib.import_module(f"{drawbridge.translate.targets.__name__}.{module.name}"),
            "DRIVER",
            "",
        )
        for module in pkgutil.iter_modules(drawbridge.translate.targets.__path__)
    }
    cases = read_yaml((CASES / "targets.yaml").read_text("utf-8"))
    claims = [json.dumps(case["claim"]) for case in cases if "claim" in case]
    wired = {
        "drawbridge/translate/targets/": family.driver in drivers,
        "drawbridge/translate/targets/available.py": family.driver in PRINTERS,
        "tests/translate/cases/targets.yaml": any(
            f'"deviceClassName": "{name}"' in claim for claim in claims for name in family.classes
        ),
        "docs/configuration.md": bool(family.short_name)
        and f"`{family.short_name}`" in CONFIGURATION,
        "docs/dialects.md": f"deviceClassName: {family.driver}\n" in PAGE_OF_DIALECTS,
    }
    return [place for place, present in wired.items() if not present]


@every_row("name", dialect_modules())
def test_a_dialect_has_cases_an_example_a_scenario_and_documentation(name: str) -> None:
    assert missing_of_dialect(name) == []


@every_row("family", FAMILIES, ids=lambda family: family.driver)
def test_a_driver_family_has_a_target_cases_and_documentation(family: Family) -> None:
    assert missing_of_family(family) == []


def test_a_dialect_that_is_only_a_module_lacks_everything_else() -> None:
    assert missing_of_dialect("unheard") == [
        "drawbridge/translate/legacy/read.py",
        "drawbridge/translate/decisions/rows.py",
        "tests/translate/cases/dialects/",
        "examples/legacy/",
        "e2e/scenarios/translated.yaml",
        "docs/dialects.md",
    ]


def test_a_driver_family_that_is_only_a_table_entry_lacks_everything_else() -> None:
    assert missing_of_family(Family("gpu", "gpu.unheard.com", ("gpu.unheard.com",))) == [
        "drawbridge/translate/targets/",
        "drawbridge/translate/targets/available.py",
        "tests/translate/cases/targets.yaml",
        "docs/configuration.md",
        "docs/dialects.md",
    ]


def test_the_architecture_page_names_what_a_dialect_module_contains() -> None:
    row = next(
        line for line in PAGE.splitlines() if "drawbridge/translate/legacy/dialects/nos.py" in line
    )
    names = set(re.findall(r"`(\w+)`", row))
    assert {"NAME", "read"} <= names
    for module in dialect_modules().values():
        assert names <= vars(importlib.import_module(module)).keys(), module


def test_the_architecture_page_lists_every_file_that_is_checked_here() -> None:
    places = [*missing_of_dialect("unheard"), *missing_of_family(Family("gpu", "x", ()))]
    for place in places:
        generated = {"docs/dialects.md": "tools/dialects.md"}
        assert f"`{generated.get(place, place)}" in PAGE, place
