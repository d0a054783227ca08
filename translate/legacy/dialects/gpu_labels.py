"""Node labels about GPUs, as feature discovery writes them: what each says of a device.

NVIDIA's, AMD's and Intel's. A label describes a node and a selector a device; a term that only a
node can meet is kept. Labels of clouds are facts about machines and are not touched.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dra.finding import Finding
from translate.legacy.codes import LABEL_IMPOSSIBLE, LABEL_KEPT, LABEL_LOOSE
from translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    Compute,
    DriverVersion,
    Memory,
    Not,
    ProductContains,
    ProductIs,
    Profile,
    Selector,
    Software,
)

_MI: Final = 1 << 20
_GI: Final = 1 << 30
_INTEGER: Final = re.compile(r"-?\d{1,9}")
_VRAM: Final = re.compile(r"(\d{1,6})G(?:i?B?)")
_MIG: Final = re.compile(r"(.+?)-MIG-(.+)")
_ALL: Final = re.compile(r"all-(\d+g\.\d+gb(?:[.+-][a-z.]+)?)")
_MODE: Final = re.compile(r"[sdtqc]px_nps[0-9]")
# Families that say something of the names of their products.
_SERIES: Final = {"Flex_Series": "flex", "Max_Series": "max"}
_UNDIVIDED: Final = "spx_nps1"
_PRESENT: Final = ("nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.memory",
                   "nvidia.com/gpu.family", "nvidia.com/gpu.count")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison of a label, as a node selector or an affinity has it."""

    key: str
    operator: str
    values: tuple[str, ...]
    where: str  # for findings

    def __str__(self) -> str:
        """Write the term as in a message."""
        return f"{self.key} {self.operator} {', '.join(self.values)}".strip()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a term says of devices; `kept` ones stay with the pod."""

    selectors: tuple[Selector, ...] = ()
    findings: tuple[Finding, ...] = ()
    kept: bool = False
    profile: str = ""  # whole GPUs by name are partitions of this profile
    replica: bool = False  # whole GPUs by name are replicas


def vendor(key: str) -> str:
    """Tell whose devices a label is about; empty if it is not about devices."""
    if key.startswith(("nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig.",
                       "nvidia.com/mps.", "nvidia.com/vgpu.")):  # fmt: skip
        return "nvidia"
    if key.startswith(("amd.com/gpu.", "beta.amd.com/gpu.")):
        return "amd"
    return "intel" if key.startswith("gpu.intel.com/") else ""


def meaning(term: Term) -> Meaning:
    """Read a term about devices that the pod asks for."""
    if term.operator == "Exists":
        return Meaning()
    if term.operator == "DoesNotExist":
        if term.key in _PRESENT:
            return _impossible(term, "the pod asks for a GPU and for nodes that have none")
        return _kept(term)
    reader = _READERS.get(term.key.removeprefix("beta."))
    return reader(term) if reader else _kept(term)


def _kept(term: Term) -> Meaning:
    return Meaning(
        findings=(LABEL_KEPT.at(term.where, f"{term} is no fact about a device"),), kept=True
    )


def _impossible(term: Term, why: str) -> Meaning:
    return Meaning(findings=(LABEL_IMPOSSIBLE.at(term.where, f"{term}: {why}"),), kept=True)


def _loose(term: Term, why: str) -> Finding:
    return LABEL_LOOSE.at(term.where, f"{term}: {why}")


def _sided(term: Term, selector: Selector) -> tuple[Selector, ...]:
    return (Not(selector),) if term.operator == "NotIn" else (selector,)


def _words(make: Callable[[tuple[str, ...]], Selector]) -> Callable[[Term], Meaning]:
    """Read a label whose values are words."""

    def read(term: Term) -> Meaning:
        if term.operator not in {"In", "NotIn"}:
            return _impossible(term, "the label is no number")
        return Meaning(_sided(term, make(term.values)))

    return read


def _family(values: tuple[str, ...]) -> Selector:
    return Architecture(tuple(value.lower().replace(" ", "-") for value in values))


def _product(term: Term) -> Meaning:
    """Read a product: blanks became dashes, partitions and replicas are written behind it."""
    if term.operator not in {"In", "NotIn"}:
        return _impossible(term, "the label is no number")
    names, profiles, replicas, findings = [], [], [], []
    for value in term.values:
        name = value.removesuffix("-SHARED")
        match = _MIG.fullmatch(name)
        if term.operator == "NotIn" and (name != value or match):
            findings.append(_loose(term, f"{value} says how GPUs are divided, and is left out"))
            continue
        replicas.append(name != value)
        profiles.append(match[2] if match else "")
        names.append(match[1] if match else name)
    if not names:
        return Meaning(findings=tuple(findings))
    if len(set(profiles)) > 1 or len(set(replicas)) > 1:
        return _kept(term)
    forms = tuple(dict.fromkeys(form for name in names for form in _forms(name)))
    if len(forms) > len(set(names)):
        findings.append(_loose(term, "the name is also looked for with NVIDIA- in front"))
    # The plugin writes `+` as a dot here as in names of resources.
    return Meaning(
        _sided(term, ProductIs(forms)),
        tuple(findings),
        profile=profiles[0],
        replica=replicas[0],
    )


def _forms(name: str) -> tuple[str, ...]:
    return (name,) if name.startswith("NVIDIA-") else (name, f"NVIDIA-{name}")


def _numbers(make: Callable[[int | None, int | None], Selector]) -> Callable[[Term], Meaning]:
    """Read a label whose values are whole numbers, into `at least` and `below`."""

    def read(term: Term) -> Meaning:
        wrong = [value for value in term.values if not _INTEGER.fullmatch(value)]
        if (wrong or not term.values) and term.operator != "NotIn":
            return _impossible(term, "the label is a whole number, so the term never holds")
        numbers = [int(value) for value in term.values if value not in wrong]
        if term.operator == "Gt":
            return Meaning((make(numbers[0] + 1, None),))
        if term.operator == "Lt":
            return Meaning((make(None, numbers[0]),))
        if term.operator not in {"In", "NotIn"} or not numbers:
            return Meaning()
        one = tuple(make(number, number + 1) for number in numbers)
        return Meaning(_sided(term, one[0] if len(one) == 1 else AnyOf(one)))

    return read


def _memory(at_least: int | None, below: int | None) -> Selector:
    return Memory(
        None if at_least is None else at_least * _MI, None if below is None else below * _MI
    )


def _major(at_least: int | None, below: int | None) -> Selector:
    return Compute(
        None if at_least is None else (at_least, 0), None if below is None else (below, 0)
    )


def _driver(at_least: int | None, below: int | None) -> Selector:
    return DriverVersion(Software.DRIVER, at_least, below)


def _cuda(at_least: int | None, below: int | None) -> Selector:
    return DriverVersion(Software.CUDA, at_least, below)


def _present(term: Term) -> Meaning:
    if (term.operator == "In" and "true" in term.values) or (
        term.operator == "NotIn" and "true" not in term.values
    ):
        return Meaning()
    return _impossible(term, "the pod asks for a GPU and for nodes that have none")


def _mig_config(term: Term) -> Meaning:
    kept = _kept(term)
    found = _ALL.fullmatch(term.values[0]) if len(term.values) == 1 else None
    if term.operator != "In" or found is None:
        return kept
    return Meaning((), kept.findings, kept=True, profile=found[1])


def _in_name(words: Callable[[str], str]) -> Callable[[Term], Meaning]:
    """Read a label by words that the product's name has: Intel's labels and names differ."""

    def read(term: Term) -> Meaning:
        parts = [words(value).lower().split() for value in term.values]
        if term.operator not in {"In", "NotIn"} or not all(parts) or not parts:
            return _kept(term)
        ways = tuple(both(tuple(ProductContains((one,)) for one in each)) for each in parts)
        selector = ways[0] if len(ways) == 1 else AnyOf(ways)
        return Meaning(
            _sided(term, selector), (_loose(term, "it is looked for in the names of products"),)
        )

    return read


def _mode(term: Term) -> Meaning:
    """Read in which mode AMD's GPUs of a node are divided: its plugin counts what comes of it."""
    value = term.values[0] if len(term.values) == 1 else ""
    if term.operator != "In" or not _MODE.fullmatch(value):
        return _kept(term)
    return Meaning(profile="" if value == _UNDIVIDED else value)


def _vram(term: Term) -> Meaning:
    sizes = [_VRAM.fullmatch(value) for value in term.values]
    if term.operator not in {"In", "NotIn"} or not sizes:
        return _kept(term)
    near: list[Selector] = []
    for size in sizes:
        if size is None:
            return _kept(term)
        near.append(Memory((int(size[1]) - 1) * _GI, (int(size[1]) + 1) * _GI))
    found = (_loose(term, "the label is rounded, so a gigabyte more or less is accepted"),)
    return Meaning(_sided(term, near[0] if len(near) == 1 else AnyOf(tuple(near))), found)


def compute(major: Term, minor: Term) -> Meaning | None:
    """Read a major and a minor number that belong together."""
    if (major.operator, minor.operator) != ("In", "In") or len(major.values) != 1:
        return None
    if not all(map(_INTEGER.fullmatch, (*major.values, *minor.values))) or not minor.values:
        return None
    number = int(major.values[0])
    ways = tuple(Compute((number, int(m)), (number, int(m) + 1)) for m in minor.values)
    return Meaning((ways[0] if len(ways) == 1 else AnyOf(ways),))


def partition(profile: str) -> Selector:
    """Return the profile that a label names; there `+` is written as a dot or as itself."""
    names = dict.fromkeys((profile, profile.replace(".me", "+me")))
    return Profile(tuple(names))


MAJOR: Final = "nvidia.com/gpu.compute.major"
MINOR: Final = "nvidia.com/gpu.compute.minor"
_READERS: Final[dict[str, Callable[[Term], Meaning]]] = {
    "nvidia.com/gpu.product": _product,
    "nvidia.com/gpu.memory": _numbers(_memory),
    "nvidia.com/gpu.family": _words(_family),
    MAJOR: _numbers(_major),
    "nvidia.com/cuda.driver-version.major": _numbers(_driver),
    "nvidia.com/cuda.driver.major": _numbers(_driver),
    "nvidia.com/cuda.runtime-version.major": _numbers(_cuda),
    "nvidia.com/cuda.runtime.major": _numbers(_cuda),
    "nvidia.com/gpu.present": _present,
    "nvidia.com/mig.config": _mig_config,
    "amd.com/gpu.product-name": _words(ProductIs),
    "amd.com/gpu.family": _words(_family),
    "amd.com/gpu.vram": _vram,
    "amd.com/gpu.compute-memory-partition": _mode,
    "gpu.intel.com/product": _in_name(lambda value: value.replace("_", " ").replace("-", " ")),
    "gpu.intel.com/family": _in_name(lambda value: _SERIES.get(value, "")),
}


def both(selectors: tuple[Selector, ...]) -> Selector:
    """Join selectors that all hold."""
    return selectors[0] if len(selectors) == 1 else AllOf(selectors)
