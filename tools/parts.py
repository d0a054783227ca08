"""Names what a dialect or a driver family lacks: the file, and what to add there.

A dialect is complete with its place in the order, its rows, tables of cases, scenarios and page. A
driver family is complete with its module, cases and page, and with a simulated driver. That one is
written from the documentation of the vendor and shares nothing with the product, so here the two
are compared: a difference is an error in one of them.
"""

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

import drawbridge.translate.legacy.dialects
from drawbridge.dra.families import (
    BY_SHORT_NAME,
    BY_VENDOR_WITHOUT_DRIVER,
    FAMILIES,
    GPU,
    VENDORS,
    Family,
)
from drawbridge.translate.decisions.rows import ROWS
from drawbridge.translate.legacy.read import DIALECTS, read_pod
from drawbridge.translate.targets.available import MODULES
from e2e.nodes import family as simulated
from e2e.nodes.machine import machine
from e2e.scenarios import admission_dialects, node_translated, translated

ROOT: Final = Path(__file__).parent.parent
CASES: Final = ROOT / "tests" / "translate" / "cases"
EXAMPLES: Final = ROOT / "examples" / "legacy"
PAGE: Final = "tools/dialects.md"
# Dialects that only recognise devices have no row and no example. The value heads their section.
RECOGNISED_ONLY: Final = {"vendors": "## Other vendors"}
# Admission knows the labels of the namespace, the command of the scenarios does not.
COMMAND_ONLY: Final = frozenset({"AdminAccessUnknown"})
# Attributes that only some versions of a driver publish, and not the simulated one.
NOT_SIMULATED: Final = {("gpu.amd.com", "numaNode")}
_ASK: Final = re.compile(r"([\w-]+)/[\w-]+: \S+ (\S+) gpu\b")


class Part(NamedTuple):
    """A file, what belongs into it, and whether it is there."""

    file: str
    add: str
    present: bool


def main() -> int:
    """Print what is missing; 1 if anything is."""
    missing = [
        *(line for name in dialects() for line in lacks("dialect", name, dialect_parts(name))),
        *(
            line
            for family in FAMILIES
            for line in lacks("driver family", family.driver, family_parts(family))
        ),
        *scenario_mistakes(translated.cases(), admission_dialects.told()),
        *unknown_vendors(),
        *(
            f"e2e/scenarios/node_translated.py: {name}: no case of translated.yaml has this name"
            for name in node_translated.CASES
            if name not in {case.name for case in translated.cases()}
        ),
    ]
    for line in missing:
        print(line)
    return 1 if missing else 0


def lacks(kind: str, name: str, parts: Iterable[Part]) -> Iterator[str]:
    """Yield a line for each part that is missing."""
    for part in parts:
        if not part.present:
            yield f"{part.file}: {kind} {name}: {part.add}"


def dialects() -> dict[str, str]:
    """Return the name of every dialect, and its module."""
    package = drawbridge.translate.legacy.dialects
    modules = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        if hasattr(module, "NAME"):
            modules[module.NAME] = module.__name__
    return modules


def dialect_parts(name: str) -> Iterator[Part]:
    """Yield the parts of a dialect."""
    rows = {row for row in ROWS if row.startswith(f"{name}/")}
    recognised = name in RECOGNISED_ONLY
    page = _text(PAGE)
    yield Part(
        "drawbridge/translate/legacy/read.py",
        "import the module, and add it to DIALECTS where it reads",
        name in {dialect.NAME for dialect in DIALECTS},
    )
    yield Part(
        "drawbridge/translate/decisions/rows.py",
        f"add a Row {name}/... for each kind of request",
        recognised or bool(rows),
    )
    if not recognised:
        for row in sorted(_read_rows(name) - rows):
            yield Part("drawbridge/translate/decisions/rows.py", f"add Row {row}", present=False)
    yield Part(
        "tests/translate/cases/dialects/",
        f"add cases of pods with asks {name}/..., in any table",
        bool(_read_rows(name)),
    )
    for row in sorted(rows - _translated_rows()):
        yield Part("tests/translate/cases/rows.yaml", f"add a case of row {row}", present=False)
    yield Part(
        "examples/legacy/",
        f"add {_file(name)} with a pod that requests devices in the dialect",
        recognised or _has_no_driver(name) or name in dialects_of(EXAMPLES / _file(name)),
    )
    played = {case.name for case in translated.cases() if name in _dialects_of_case(case)}
    yield Part(
        "e2e/scenarios/translated.yaml",
        f"add a case, for example with `example: {_file(name)}`",
        bool(played),
    )
    yield Part(
        "e2e/scenarios/node_translated.py",
        f"add one case of the dialect to CASES{_one_of(played)}",
        not played or not played.isdisjoint(node_translated.CASES),
    )
    shown = ("rows",) if _has_no_driver(name) else ("before", "after", "rows")
    section = [f"{{{{{what} {name}}}}}" for what in shown]
    for wanted in [RECOGNISED_ONLY[name]] if recognised else section:
        add = f"add a section with {wanted}; `make docs` writes the page"
        yield Part(PAGE, add, wanted in page)


def family_parts(family: Family) -> Iterator[Part]:
    """Yield the parts of a driver family."""
    name = family.short_name
    yield Part(
        "drawbridge/dra/families.py",
        "set short_name, the value of `targets[].family`, which no other family has",
        BY_SHORT_NAME.get(name) is family and bool(name),
    )
    yield Part(
        "drawbridge/dra/families.py",
        "set the vendor of the GPUs",
        family.kind != GPU or bool(family.vendor),
    )
    yield Part(
        f"drawbridge/translate/targets/{name}.py",
        "add a module with `vocabulary` and `plan_device`",
        (ROOT / "drawbridge" / "translate" / "targets" / f"{name}.py").exists(),
    )
    yield Part(
        "drawbridge/translate/targets/available.py", "add the module to MODULES", name in MODULES
    )
    yield Part(
        "tests/translate/cases/targets.yaml",
        f"add cases of asks that become claims of {family.classes[0]}",
        any(f'"deviceClassName": "{each}"' in _claims() for each in family.classes),
    )
    yield Part(
        "examples/inventory/",
        f"add DeviceClass {family.classes[0]} to classes.yaml, and a node with a ResourceSlice",
        {("DeviceClass", family.classes[0]), ("ResourceSlice", family.driver)} <= _samples(),
    )
    yield Part(
        "e2e/scenarios/translated.yaml",
        f"add a case with a node that has the driver {family.driver}",
        any(
            family.driver in node.drivers
            for case in translated.cases()
            for node in case.nodes.values()
        ),
    )
    yield Part(
        PAGE,
        "translate an example to the driver, or say in the text what becomes a claim for it",
        f"deviceClassName: {family.driver}\n" in _text("docs/dialects.md"),
    )
    yield from _simulated_parts(family)


def _simulated_parts(family: Family) -> Iterator[Part]:
    """Compare a family with the simulated driver, which is written apart from it."""
    driver = simulated.FAMILIES.get(family.driver)
    file = "e2e/nodes/family.py"
    yield Part(
        file,
        f"add the simulated driver {family.driver}, with a module in families/ and the classes "
        "that its chart installs",
        driver is not None and bool(driver.classes),
    )
    if driver is None:
        return
    yield Part(
        file,
        f"the vendor of shape {driver.shape} is {driver.vendor}, not {family.vendor}",
        not family.vendor or driver.vendor == family.vendor,
    )
    for name in sorted({*driver.classes} - {*family.classes}):
        yield Part("drawbridge/dra/families.py", f"the chart installs class {name}", present=False)
    yield Part(
        file,
        f"its chart installs no class {family.classes[0]}",
        family.classes[0] in driver.classes,
    )
    published = _published(family.driver)
    for field in ("type", "name", "architecture", "required_attribute", "numa"):
        attribute = getattr(family, field)
        yield Part(
            f"{file} or drawbridge/dra/families.py",
            f"no simulated device has the attribute {attribute} ({field})",
            not attribute or attribute in published or (family.driver, attribute) in NOT_SIMULATED,
        )


def scenario_mistakes(
    cases: Iterable[translated.ManifestCase], told: Mapping[str, admission_dialects.Told]
) -> Iterator[str]:
    """Yield what admission_dialects.yaml lacks of the cases, and what it has beyond them."""
    file = "e2e/scenarios/admission_dialects.yaml"
    named = {case.name: case for case in cases}
    for name in told.keys() - named.keys():
        yield f"{file}: {name}: no case of translated.yaml has this name"
    for name, case in named.items():
        if name not in told:
            yield f"{file}: {name}: add the warnings that kubectl prints for this case"
            continue
        lines = (*told[name].warnings, told[name].refused)
        if bool(told[name].refused) != (case.exit == translated.REFUSED):
            yield f"{file}: {name}: `refused` is for cases that exit with {translated.REFUSED}"
        for code in sorted({*case.codes} - COMMAND_ONLY):
            if not any(code in line for line in lines):
                yield f"{file}: {name}: add the warning {code}, which the command gives"


def _has_no_driver(name: str) -> bool:
    """Tell whether no driver is known for the devices of a dialect; examples have known ones."""
    vendors = {match[2] for ask in _asks() if (match := _ASK.match(ask)) and match[1] == name}
    return (vendors or {name}) <= BY_VENDOR_WITHOUT_DRIVER.keys()


def unknown_vendors() -> Iterator[str]:
    """Yield the vendors of GPUs that a dialect reads and no configuration can name."""
    vendors = {match[2]: match[1] for ask in _asks() if (match := _ASK.match(ask))}
    for vendor, dialect in vendors.items():
        if vendor not in VENDORS:
            yield (
                f"drawbridge/dra/families.py: vendor {vendor} of dialect {dialect}: add a family "
                "with it to FAMILIES, or to WITHOUT_DRIVER if no DRA driver is known"
            )


def dialects_of(file: Path) -> set[str]:
    """Return the dialects in which the pods of a file of manifests request devices."""
    return _dialects_of_text(file.read_text("utf-8")) if file.exists() else set()


def _dialects_of_case(case: translated.ManifestCase) -> set[str]:
    return (
        dialects_of(EXAMPLES / case.example) if case.example else _dialects_of_text(case.manifest)
    )


@cache
def _dialects_of_text(text: str) -> set[str]:
    return {
        ask.row.partition("/")[0]
        for document in yaml.load_all(text, yaml.CSafeLoader)
        for pod in _pods_in(document)
        for ask in read_pod(pod).asks
    }


def _pods_in(document: Any) -> Iterator[Any]:  # noqa: ANN401  # a manifest
    """Yield every pod and pod template in a manifest: an object whose spec has containers."""
    if isinstance(document, dict):
        spec = document.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield document
        for inner in document.values():
            yield from _pods_in(inner)
    elif isinstance(document, list):
        for element in document:
            yield from _pods_in(element)


@cache
def _asks() -> frozenset[str]:
    """Return the asks that tests/translate/cases/dialects expects."""
    tables = CASES.glob("dialects/*.yaml")
    return frozenset(
        f"{ask}" for table in tables for case in _yaml(table) for ask in case.get("asks", ())
    )


def _read_rows(name: str) -> set[str]:
    """Return the rows of the asks that the cases of a dialect expect."""
    return {ask.partition(":")[0] for ask in _asks() if ask.startswith(f"{name}/")}


@cache
def _translated_rows() -> frozenset[str]:
    return frozenset(case["row"] for case in _yaml(CASES / "rows.yaml"))


@cache
def _claims() -> str:
    return json.dumps([case.get("claim") for case in _yaml(CASES / "targets.yaml")])


@cache
def _samples() -> frozenset[tuple[str, str]]:
    """Return the classes by name and the slices by driver of the sample cluster."""
    objects = [
        document
        for file in (ROOT / "examples" / "inventory").glob("*.yaml")
        for document in yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader)
        if document
    ]
    return frozenset(
        (each["kind"], each["spec"].get("driver") or each["metadata"]["name"])
        for each in objects
        if each["kind"] in {"DeviceClass", "ResourceSlice"}
    )


@cache
def _published(driver: str) -> frozenset[str]:
    """Return the attributes that a simulated driver publishes of its machine."""
    family = simulated.FAMILIES[driver]
    layout = family.publish(machine("n", family.shape))
    return frozenset(
        attribute for device in layout.devices.values() for attribute in device.wire["attributes"]
    )


@cache
def _yaml(path: Path) -> list[Any]:
    cases: list[Any] = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    return cases


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def _file(name: str) -> str:
    return f"{name.replace('-', '_')}.yaml"


def _one_of(names: Iterable[str]) -> str:
    return f": {' or '.join(sorted(names))}" if names else ""


if __name__ == "__main__":
    sys.exit(main())
