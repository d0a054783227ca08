"""Interprets the node labels that GPU feature discovery of NVIDIA, AMD and Intel sets.

Each term on such a label becomes conditions on devices. A term that describes the node and not its
devices stays in the pod. Labels of cloud providers stay unchanged; those that say how GPUs are
divided change what a request for a GPU means.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drawbridge.finding import Finding
from drawbridge.translate.legacy.codes import (
    LABEL_IMPLIED,
    LABEL_IMPOSSIBLE,
    LABEL_KEPT,
    LABEL_LOOSE,
)
from drawbridge.translate.legacy.label_publishers import find_publisher
from drawbridge.translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    AskSelector,
    ComputeCapability,
    DriverVersion,
    Memory,
    Not,
    PartitionProfile,
    ProductContains,
    ProductIs,
    Software,
)

_MI: Final = 1 << 20
_GI: Final = 1 << 30
# A label is written without leading zeros, and `In` compares texts; `Gt` and `Lt` read a number.
_INTEGER: Final = re.compile(r"0|-?[1-9]\d{0,8}")
_BOUND: Final = re.compile(r"[+-]?\d{1,9}")
_VRAM: Final = re.compile(r"(\d{1,6})G(?:i?B?)")
_MIG: Final = re.compile(r"(.+?)-MIG-(.+)")
_ALL: Final = re.compile(r"all-(\d+g\.\d+gb(?:[.+-][a-z.]+)?)")
_MODE: Final = re.compile(r"[sdtqc]px_nps[0-9]")
# Families that are part of the product name.
_SERIES: Final = {"Flex_Series": "flex", "Max_Series": "max"}
_UNPARTITIONED: Final = "spx_nps1"
# What GPU feature discovery 0.19.3 and the GPU Operator publish on every node with a GPU, with the
# device plugin or without. Other labels are on some of these nodes: the memory is not published for
# GPUs that share the memory of the host, the machine only where the firmware names it, the clique
# on nodes of a fabric, MIG's labels where a strategy is set. The labellers of AMD and Intel publish
# what they are started with.
ALWAYS_PRESENT: Final = frozenset(
    {
        "nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.count",
        "nvidia.com/gpu.replicas", "nvidia.com/gpu.family", "nvidia.com/gpu.compute.major",
        "nvidia.com/gpu.compute.minor", "nvidia.com/cuda.driver.major",
        "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.runtime.major",
        "nvidia.com/cuda.runtime.minor", "nvidia.com/cuda.driver-version.major",
        "nvidia.com/cuda.driver-version.minor", "nvidia.com/cuda.driver-version.full",
        "nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime-version.minor",
        "nvidia.com/cuda.runtime-version.full",
    }
)  # fmt: skip
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

_ALWAYS: Final = "publishes it on every node with such a device, so each one satisfies it"
_NOT_A_NUMBER: Final = "the label is not a number, so only the operators In and NotIn can match"


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One comparison of a label in a node selector or node affinity."""

    key: str
    operator: str
    values: tuple[str, ...]
    where: str  # for findings

    def __str__(self) -> str:
        """Format the term for messages."""
        return f"{self.key} {self.operator} {', '.join(self.values)}".strip()


@dataclass(frozen=True, slots=True)
class LabelMeaning:
    """The conditions on devices that a term expresses. A `kept` term stays in the pod."""

    selectors: tuple[AskSelector, ...] = ()
    findings: tuple[Finding, ...] = ()
    kept: bool = False
    profile: str = ""  # requests for whole GPUs mean partitions with this profile
    replica: bool = False  # requests for whole GPUs mean replicas


def label_vendor(key: str) -> str:
    """Return the vendor whose devices a label describes. Empty if it does not describe devices."""
    if key in _CLOUD or key == _CLOUD_PARTITION:
        return "nvidia"
    publisher = find_publisher(key)
    return publisher.vendor if publisher else ""


def interpret_term(term: LabelTerm) -> LabelMeaning:
    """Interpret a term on devices that the pod requests."""
    if term.key in _CLOUD or term.key == _CLOUD_PARTITION:
        return _cloud(term)
    if term.operator not in _OPERATORS:
        return _keep(term)
    if term.operator == "Exists":
        return _exists(term)
    if term.operator == "DoesNotExist":
        if term.key in ALWAYS_PRESENT:
            return _reject(term, "the pod requests a GPU but selects nodes without GPUs")
        return _keep(term)
    reader = _READERS.get(term.key.removeprefix("beta."))
    return reader(term) if reader else _keep(term)


def _exists(term: LabelTerm) -> LabelMeaning:
    """Read that a label exists: some are on every node, the memory's where it is known."""
    if term.key in ALWAYS_PRESENT:
        return LabelMeaning(findings=(_imply_always(term),))
    if term.key == _MEMORY:
        return LabelMeaning((Memory(at_least=1),))
    return _keep(term)


def _imply_always(term: LabelTerm) -> Finding:
    publisher = find_publisher(term.key)
    return imply(term, f"{publisher.name if publisher else 'its publisher'} {_ALWAYS}")


def imply(term: LabelTerm, why: str) -> Finding:
    """Return the finding that every device satisfies a term."""
    return LABEL_IMPLIED.at(term.where, f"{term}: {why}")


def _keep(term: LabelTerm) -> LabelMeaning:
    why = f"no driver publishes what {term.key} says as a device attribute"
    return LabelMeaning(findings=(report_kept(term, why),), kept=True)


def report_kept(term: LabelTerm, why: str) -> Finding:
    """Return the finding that the pod keeps a term; some hold on every node without the label."""
    loses = term.operator in {"NotIn", "DoesNotExist"}
    then = ", which every node satisfies when the label is gone" if loses else ""
    return LABEL_KEPT.at(term.where, f"{why}, so the pod keeps the condition {term}{then}")


def _reject(term: LabelTerm, why: str) -> LabelMeaning:
    return LabelMeaning(findings=(LABEL_IMPOSSIBLE.at(term.where, f"{term}: {why}"),), kept=True)


def _inexact(term: LabelTerm, why: str) -> Finding:
    return LABEL_LOOSE.at(term.where, f"{term}: {why}")


def _apply_operator(term: LabelTerm, selector: AskSelector) -> tuple[AskSelector, ...]:
    return (Not(selector),) if term.operator == "NotIn" else (selector,)


def _cloud(term: LabelTerm) -> LabelMeaning:
    """Read how GKE divides the GPUs of a node. The cloud sets the label, so the pod keeps it."""
    if term.operator not in {"In", "Exists", "Gt"}:
        return LabelMeaning(kept=True)
    if term.key in _CLOUD:
        return LabelMeaning(kept=True, replica=True)
    if term.operator == "In" and len(term.values) == 1:
        return LabelMeaning(kept=True, profile=term.values[0])
    why = "the GPUs of the nodes are partitioned, but the label does not say how"
    return LabelMeaning(findings=(_inexact(term, why),), kept=True)


def _shared(term: LabelTerm) -> LabelMeaning:
    """Read a label by which the device plugin says that it divides GPUs into replicas."""
    whole = {"none", "1", "0"}
    is_shared = term.operator == "Gt" or (term.operator == "In" and whole.isdisjoint(term.values))
    kept = _keep(term)
    return LabelMeaning(findings=kept.findings, kept=True, replica=is_shared)


def _names(make: Callable[[tuple[str, ...]], AskSelector]) -> Callable[[LabelTerm], LabelMeaning]:
    """Return a reader of a label whose values are names."""

    def read(term: LabelTerm) -> LabelMeaning:
        if term.operator not in {"In", "NotIn"}:
            return _reject(term, _NOT_A_NUMBER)
        return LabelMeaning(_apply_operator(term, make(term.values)))

    return read


def _family(term: LabelTerm) -> LabelMeaning:
    """Read a family, which NVIDIA's label has in lower case and AMD's in upper case."""
    if term.operator not in {"In", "NotIn"}:
        return _reject(term, _NOT_A_NUMBER)
    names = tuple(value.lower().replace(" ", "-") for value in term.values)
    written = names if term.key.startswith("nvidia") else tuple(each.upper() for each in names)
    why = f"the label has {', '.join(written)}, and the claim ignores the case"
    findings = (_inexact(term, why),) if written != term.values else ()
    return LabelMeaning(_apply_operator(term, Architecture(names)), findings)


def _product(term: LabelTerm) -> LabelMeaning:
    """Read a product name with dashes for spaces and suffixes for partitions and replicas."""
    if term.operator not in {"In", "NotIn"}:
        return _reject(term, _NOT_A_NUMBER)
    names, profiles, replicas, findings = [], [], [], []
    for value in term.values:
        name = value.removesuffix("-SHARED")
        match = _MIG.fullmatch(name)
        if term.operator == "NotIn" and (name != value or match):
            findings.append(
                _inexact(term, f"{value} describes how GPUs are divided, so this value is ignored")
            )
            continue
        replicas.append(name != value)
        profiles.append(match[2] if match else "")
        names.append(match[1] if match else name)
    if not names:
        return LabelMeaning(findings=tuple(findings))
    if len(set(profiles)) > 1 or len(set(replicas)) > 1:
        return _keep(term)
    spellings = tuple(dict.fromkeys(spelling for name in names for spelling in _spellings(name)))
    if len(spellings) > len(set(names)):
        findings.append(_inexact(term, "the product name also matches with the prefix NVIDIA-"))
    # The plugin writes `+` as a dot, as in resource names.
    return LabelMeaning(
        _apply_operator(term, ProductIs(spellings)),
        tuple(findings),
        profile=profiles[0],
        replica=replicas[0],
    )


def _spellings(name: str) -> tuple[str, ...]:
    return (name,) if name.startswith("NVIDIA-") else (name, f"NVIDIA-{name}")


def _numbers(
    make: Callable[[int | None, int | None], AskSelector],
) -> Callable[[LabelTerm], LabelMeaning]:
    """Return a reader of a label whose values are integers, as ranges [at_least, below)."""

    def read(term: LabelTerm) -> LabelMeaning:
        written = _BOUND if term.operator in {"Gt", "Lt"} else _INTEGER
        wrong = [value for value in term.values if not written.fullmatch(value)]
        if (wrong or not term.values) and term.operator != "NotIn":
            return _reject(term, "the label is an integer, so the term never matches")
        numbers = [int(value) for value in term.values if value not in wrong]
        if term.operator == "Gt":
            return LabelMeaning((make(numbers[0] + 1, None),))
        if term.operator == "Lt":
            return LabelMeaning((make(None, numbers[0]),))
        if not numbers:
            return LabelMeaning(findings=(imply(term, "the label is an integer"),))
        exact = tuple(make(number, number + 1) for number in numbers)
        return LabelMeaning(_apply_operator(term, exact[0] if len(exact) == 1 else AnyOf(exact)))

    return read


def _memory(at_least: int | None, below: int | None) -> AskSelector:
    return Memory(
        None if at_least is None else at_least * _MI, None if below is None else below * _MI
    )


def _major(at_least: int | None, below: int | None) -> AskSelector:
    return ComputeCapability(
        None if at_least is None else (at_least, 0), None if below is None else (below, 0)
    )


def _driver(at_least: int | None, below: int | None) -> AskSelector:
    return DriverVersion(Software.DRIVER, at_least, below)


def _cuda(at_least: int | None, below: int | None) -> AskSelector:
    return DriverVersion(Software.CUDA, at_least, below)


def _present(term: LabelTerm) -> LabelMeaning:
    if (term.operator == "In" and "true" in term.values) or (
        term.operator == "NotIn" and "true" not in term.values
    ):
        return LabelMeaning(findings=(_imply_always(term),))
    return _reject(term, "the pod requests a GPU but selects nodes without GPUs")


def _mig_config(term: LabelTerm) -> LabelMeaning:
    kept = _keep(term)
    profile = _ALL.fullmatch(term.values[0]) if len(term.values) == 1 else None
    if term.operator != "In" or profile is None:
        return kept
    return LabelMeaning((), kept.findings, kept=True, profile=profile[1])


def _in_name(to_words: Callable[[str], str]) -> Callable[[LabelTerm], LabelMeaning]:
    """Return a reader of a label by words of the product name. Intel's labels differ from it."""

    def read(term: LabelTerm) -> LabelMeaning:
        parts = [to_words(value).lower().split() for value in term.values]
        if term.operator not in {"In", "NotIn"} or not all(parts) or not parts:
            return _keep(term)
        choices = tuple(all_of(tuple(ProductContains((one,)) for one in each)) for each in parts)
        selector = choices[0] if len(choices) == 1 else AnyOf(choices)
        return LabelMeaning(
            _apply_operator(term, selector),
            (
                _inexact(
                    term, "a device matches if its product name contains all words of the value"
                ),
            ),
        )

    return read


def _mode(term: LabelTerm) -> LabelMeaning:
    """Read the partition mode of AMD GPUs. The plugin of the node counts the partitions."""
    value = term.values[0] if len(term.values) == 1 else ""
    if term.operator != "In" or not _MODE.fullmatch(value):
        return _keep(term)
    if value == _UNPARTITIONED:
        why = "the pod requests whole GPUs, also those that cannot be partitioned"
        return LabelMeaning(findings=(_inexact(term, why),))
    return LabelMeaning(profile=value)


def _vram(term: LabelTerm) -> LabelMeaning:
    sizes = [_VRAM.fullmatch(value) for value in term.values]
    if term.operator not in {"In", "NotIn"} or not sizes:
        return _keep(term)
    near: list[AskSelector] = []
    for size in sizes:
        if size is None:
            return _keep(term)
        near.append(Memory((int(size[1]) - 1) * _GI, (int(size[1]) + 1) * _GI))
    findings = (_inexact(term, "the label is rounded, so the memory may differ by 1 GiB"),)
    return LabelMeaning(
        _apply_operator(term, near[0] if len(near) == 1 else AnyOf(tuple(near))), findings
    )


def interpret_compute_capability(major: LabelTerm, minor: LabelTerm) -> LabelMeaning | None:
    """Interpret the major and minor number of a compute capability together."""
    if (major.operator, minor.operator) != ("In", "In") or len(major.values) != 1:
        return None
    if not all(map(_INTEGER.fullmatch, (*major.values, *minor.values))) or not minor.values:
        return None
    number = int(major.values[0])
    choices = tuple(ComputeCapability((number, int(m)), (number, int(m) + 1)) for m in minor.values)
    return LabelMeaning((choices[0] if len(choices) == 1 else AnyOf(choices),))


def partition_profile(profile: str) -> AskSelector:
    """Return the condition on a profile. A label writes `+` as a dot or as itself."""
    names = dict.fromkeys((profile, profile.replace(".me", "+me")))
    return PartitionProfile(tuple(names))


MAJOR: Final = "nvidia.com/gpu.compute.major"
MINOR: Final = "nvidia.com/gpu.compute.minor"
_MEMORY: Final = "nvidia.com/gpu.memory"
# Labels of GKE's nodes, as of November 2026: GPUs that containers share, and partitions of them.
_CLOUD: Final = frozenset(
    {
        "cloud.google.com/gke-gpu-sharing-strategy",
        "cloud.google.com/gke-max-shared-clients-per-gpu",
    }
)
_CLOUD_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
_READERS: Final[dict[str, Callable[[LabelTerm], LabelMeaning]]] = {
    "nvidia.com/gpu.product": _product,
    _MEMORY: _numbers(_memory),
    "nvidia.com/gpu.family": _family,
    MAJOR: _numbers(_major),
    "nvidia.com/cuda.driver-version.major": _numbers(_driver),
    "nvidia.com/cuda.driver.major": _numbers(_driver),
    "nvidia.com/cuda.runtime-version.major": _numbers(_cuda),
    "nvidia.com/cuda.runtime.major": _numbers(_cuda),
    "nvidia.com/gpu.present": _present,
    "nvidia.com/gpu.replicas": _shared,
    "nvidia.com/gpu.sharing-strategy": _shared,
    "nvidia.com/mig.config": _mig_config,
    "amd.com/gpu.product-name": _names(ProductIs),
    "amd.com/gpu.family": _family,
    "amd.com/gpu.vram": _vram,
    "amd.com/gpu.compute-memory-partition": _mode,
    "gpu.intel.com/product": _in_name(lambda value: value.replace("_", " ").replace("-", " ")),
    "gpu.intel.com/family": _in_name(lambda value: _SERIES.get(value, "")),
}


def all_of(selectors: tuple[AskSelector, ...]) -> AskSelector:
    """Combine selectors that a device must all match."""
    return selectors[0] if len(selectors) == 1 else AllOf(selectors)
