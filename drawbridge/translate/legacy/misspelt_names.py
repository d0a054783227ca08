"""Finds the known resource name that a misspelt one is similar to.

Names are compared without separators and with common abbreviations. Short names have to have the
same letters, because many short names of one domain exist.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from drawbridge.finding import Finding
from drawbridge.translate.legacy.codes import DEVICE_UNKNOWN, NAME_MISSPELT
from drawbridge.translate.legacy.dialects import nvidia
from drawbridge.translate.legacy.pod_view import DeviceResource

# The names by domain. Names with a pattern, such as those of pools, are not in the table.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia.com": (
        "gpu", "gpu.shared", "gpumem", "gpumem-percentage", "gpucores", "priority", "pgpu",
        "rdma-vf",
    ),
    "volcano.sh": (
        "vgpu-number", "vgpu-memory", "vgpu-memory-percentage", "vgpu-cores", "gpu-memory",
        "gpu-number",
    ),
    "koordinator.sh": (
        "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared", "rdma", "fpga",
    ),
    "aliyun.com": ("gpu-mem", "gpu-core.percentage"),
    "amd.com": ("gpu", "gpumem", "gpumem-percentage", "gpucores"),
    "gpu.intel.com": ("i915", "xe", "monitoring", "millicores", "memory.max", "tiles"),
    "intel.com": ("gpu", "gaudi", "qat"),
    "habana.ai": ("gaudi",),
    "vpc.amazonaws.com": ("efa",),
    "aws.amazon.com": ("neuron", "neuroncore", "neurondevice"),
    "google.com": ("tpu",),
    "huawei.com": (
        "Ascend310P", "Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910",
        "npu-core", "npu-cpu", "npu-dvpp",
    ),
    "hygon.com": ("dcunum", "dcumem", "dcucores"),
    "cambricon.com": ("vmlu", "mlu370.smlu.vmemory", "mlu370.smlu.vcore"),
    "metax-tech.com": ("gpu", "sgpu", "vcore", "vmemory"),
    "mthreads.com": ("vgpu", "sgpu-memory", "sgpu-core"),
    "kunlunxin.com": ("xpu", "vxpu", "vxpu-memory"),
    "enflame.com": ("gcu", "vgcu", "vgcu-percentage", "drs-gcu", "gcu-memory", "gcu-core"),
    "tencent.com": ("vcuda-core", "vcuda-memory"),
    "vastaitech.com": ("va",),
}  # fmt: skip
DOMAINS: Final = frozenset(NAMES)
_ABBREVIATIONS: Final = (("memory", "mem"), ("number", "num"), ("percentage", "percent"))
_MIG_SIZE: Final = re.compile(r"mig-?(\d+)g[-_.]?(\d+)gb")
_SHORT: Final = 5  # characters
_SIMILARITY: Final = 0.8
_DOMAIN_SIMILARITY: Final = 0.85
_MAX_LENGTH: Final = 64  # a longer name is not misspelt, and comparing it takes long
_MAX_COMPARED: Final = 8  # names of one pod, because comparing takes long


def find_resource_name(name: str) -> str:
    """Return the known name that a name is similar to; empty if there is none."""
    domain, _, bare = name.partition("/")
    if len(name) > _MAX_LENGTH or not bare or bare in NAMES.get(domain, ()):
        return ""
    near = [domain] if domain in NAMES else _close(domain, NAMES, _DOMAIN_SIMILARITY)
    for candidate in near:
        written = bare
        if candidate == "nvidia.com":
            written = _MIG_SIZE.sub(r"mig-\1g.\2gb", bare)
            if nvidia.mig_profiles(f"{candidate}/{written}"):
                return f"{candidate}/{written}"
        if similar := _find_in(written, _FOLDED[candidate]):
            return f"{candidate}/{similar}"
    return ""


def _find_in(bare: str, names: Mapping[str, str]) -> str:
    folded = names
    short = _fold(bare)
    if short in folded:
        return folded[short]
    if len(short) < _SHORT:
        return next((name for key, name in folded.items() if sorted(key) == sorted(short)), "")
    near = _close(short, (key for key in folded if len(key) >= _SHORT), _SIMILARITY)
    return folded[near[0]] if near else ""


def _close(word: str, words: Iterable[str], cutoff: float) -> list[str]:
    return difflib.get_close_matches(word, list(words), n=1, cutoff=cutoff)


def _fold(name: str) -> str:
    text = re.sub(r"[-_.]", "", name.lower())
    for long, short in _ABBREVIATIONS:
        text = text.replace(long, short)
    return text.removesuffix("s")


_FOLDED: Final = {domain: {_fold(name): name for name in names} for domain, names in NAMES.items()}


def report_unknown(resources: Iterable[DeviceResource]) -> Iterator[Finding]:
    """Yield the findings about resources that no dialect reads; compares the first ones."""
    for number, resource in enumerate(resources):
        name = resource.original_name
        similar = find_resource_name(name) if number < _MAX_COMPARED else ""
        if similar:
            yield NAME_MISSPELT.at(resource.where, f"{name} does not exist; use {similar}")
        else:
            message = f"{name}: {resource.amount_text} is not a known device resource"
            yield DEVICE_UNKNOWN.at(resource.where, message)


def accept_served(
    findings: Iterable[Finding], is_served: Callable[[str], bool]
) -> Iterator[Finding]:
    """Yield the findings; a name that a node serves is not misspelt, but only unknown."""
    for finding in findings:
        if finding.code == NAME_MISSPELT.name:
            name = finding.path.rpartition("[")[2].removesuffix("]")
            if is_served(name):
                yield DEVICE_UNKNOWN.at(finding.path, f"{name} is not a known device resource")
                continue
        yield finding
