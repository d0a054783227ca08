"""`make check` names each file that lacks a part of a dialect or driver family."""

import importlib
import re

from drawbridge.dra.families import BY_SHORT_NAME, Family
from e2e.scenarios.admission_dialects import Told
from e2e.scenarios.translated import REFUSED, ManifestCase
from tests.docs.test_architecture import PAGE
from tests.tables import every_row
from tools.parts import (
    Part,
    dialect_parts,
    dialects,
    family_parts,
    main,
    scenario_mistakes,
    unknown_vendors,
)

UNHEARD = Family("gpu", "gpu.unheard.com", ("gpu.unheard.com",))


def missing(parts: object) -> list[str]:
    assert hasattr(parts, "__iter__")
    return [part.file for part in parts if isinstance(part, Part) and not part.present]


def test_nothing_is_missing() -> None:
    assert main() == 0


def test_a_dialect_that_is_only_a_module_lacks_everything_else() -> None:
    assert missing(dialect_parts("unheard")) == [
        "drawbridge/translate/legacy/read.py",
        "drawbridge/translate/decisions/rows.py",
        "tests/translate/cases/dialects/",
        "examples/legacy/",
        "e2e/scenarios/translated.yaml",
        *["tools/dialects.md"] * len(("before", "after", "rows")),
    ]


def test_a_driver_family_that_is_only_a_table_entry_lacks_everything_else() -> None:
    assert missing(family_parts(UNHEARD)) == [
        "drawbridge/dra/families.py",
        "drawbridge/dra/families.py",
        "drawbridge/translate/targets/.py",
        "drawbridge/translate/targets/available.py",
        "tests/translate/cases/targets.yaml",
        "examples/inventory/",
        "e2e/scenarios/translated.yaml",
        "tools/dialects.md",
        "e2e/nodes/family.py",
    ]


@every_row(
    "wrong",
    [
        {"vendor": "amd"},
        {"classes": ("gpu.intel.com", "gpu-other.intel.com"), "driver": "gpu.amd.com"},
        {"type": "kind"},
        {"name": "product"},
        {"architecture": "series"},
    ],
    ids=str,
)
def test_a_family_that_differs_from_the_simulated_driver_is_named(wrong: dict[str, str]) -> None:
    intel = BY_SHORT_NAME["intel"]
    fields = {name: getattr(intel, name) for name in Family.__struct_fields__}
    assert "e2e/nodes/family.py" in " ".join(missing(family_parts(Family(**fields | wrong))))


CASE = ManifestCase(name="a", shows="", suite="full", nodes={}, codes=["NameOld"])


@every_row(
    ("case", "told", "words"),
    [
        (CASE, {}, ["a: add the warnings"]),
        (CASE, {"a": Told()}, ["a: add the warning NameOld"]),
        (CASE, {"a": Told(["NameOld: x"]), "b": Told()}, ["b: no case"]),
        (CASE, {"a": Told(refused="NameOld")}, ["a: `refused` is for cases that exit"]),
        (CASE, {"a": Told(["NameOld: x"])}, []),
    ],
)
def test_a_case_without_the_warnings_of_kubectl_is_named(
    case: ManifestCase, told: dict[str, Told], words: list[str]
) -> None:
    lines = list(scenario_mistakes([case], told))
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True)), lines


def test_a_refused_case_needs_what_the_refusal_says() -> None:
    refused = ManifestCase(name="a", shows="", suite="full", nodes={}, exit=REFUSED)
    (line,) = scenario_mistakes([refused], {"a": Told(["x"])})
    assert "`refused`" in line


def test_every_vendor_of_a_gpu_can_be_configured() -> None:
    assert list(unknown_vendors()) == []


def test_the_architecture_page_names_what_a_dialect_module_contains() -> None:
    row = next(line for line in PAGE.splitlines() if "legacy/dialects/nos.py" in line)
    names = set(re.findall(r"`(\w+)`", row))
    assert {"NAME", "read"} <= names
    for module in dialects().values():
        assert names <= vars(importlib.import_module(module)).keys(), module


def test_the_architecture_page_lists_every_file_that_is_checked_here() -> None:
    for place in {*missing(dialect_parts("unheard")), *missing(family_parts(UNHEARD))}:
        assert f"`{place.removesuffix('.py').removesuffix('/')}" in PAGE, place
