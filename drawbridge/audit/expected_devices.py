"""Writes devices as their driver is expected to publish them: with all that claims select by.

The labels of the node say what its GPUs are. What else a claim selects by, because of the resource
name that it replaces, the devices behind this name have.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.config.model import Configuration
from drawbridge.documents.values import Value
from drawbridge.dra.families import GPU, Family
from drawbridge.dra.nodes import Node
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.legacy.selectors import (
    DriverKind,
    PartitionProfile,
    PluginPool,
    ProductContains,
)
from drawbridge.translate.targets.vocabulary import DriverVocabulary

# Of a device, by the fields of a DriverVocabulary; `memory` is a quantity.
Words = Mapping[str, str]

_MAX_TEXT: Final = 64  # of an attribute
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_VRAM: Final = re.compile(r"([0-9]{1,6})G(?:i?B?)")
_NO_NAME: Final = re.compile(r"[^a-z0-9-]")
# What claims for NICs select by, beside the pool.
_OF_NICS: Final[Mapping[str, Mapping[str, Value]]] = {
    "dranet": {"rdma": {"bool": True}, "virtual": {"bool": False}},
    "sriov": {"rdmaCapable": {"bool": True}, "vfID": {"int": 0}},
}
_PARTITIONS: Final = {"nvidia": "mig", "amd": "amdgpu-partition"}
# The labels of product, architecture and memory.
_LABELS: Final = {
    "nvidia": ("nvidia.com/gpu.product", "nvidia.com/gpu.family", "nvidia.com/gpu.memory"),
    "amd": ("amd.com/gpu.product-name", "amd.com/gpu.family", "amd.com/gpu.vram"),
    "intel": ("gpu.intel.com/product", "gpu.intel.com/family", ""),
}
# The labels with a number before `.major` and `.minor`.
_VERSIONS: Final = {
    "compute": ("nvidia.com/gpu.compute",),
    "driver_version": ("nvidia.com/cuda.driver-version", "nvidia.com/cuda.driver"),
    "cuda_version": ("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime"),
}


def read_name(name: str, configuration: Configuration) -> Words:
    """Return what claims select by that replace a resource name."""
    container: Value = {"name": "main", "resources": {"limits": {name: "1"}}}
    words: dict[str, str] = {}
    for ask in read_pod({"spec": {"containers": [container]}}, configuration).asks:
        for selector in ask.selectors:
            match selector:
                case PartitionProfile(names=(profile, *_)):
                    words["profile"] = profile
                case DriverKind(names=(kernel, *_)):
                    words["kernel"] = kernel
                case ProductContains(parts=(part, *_)):
                    words["product"] = part
                case PluginPool(names=(pool, *_)):
                    words |= {"resource_full": pool, "resource": pool.rpartition("/")[2]}
                case _:
                    pass
    return words


def read_labels(node: Node, vendor: str) -> Words:
    """Return what labels of a node say of its devices."""
    labels = (node.labels.get(each, "") for each in _LABELS.get(vendor, _LABELS["nvidia"]))
    product, architecture, memory = labels
    vram = _VRAM.fullmatch(memory)
    size = f"{vram[1]}Gi" if vram else f"{memory}Mi" if _NUMBER.fullmatch(memory) else ""
    return {
        "product": product.removesuffix("-SHARED").partition("-MIG-")[0],
        "architecture": architecture.replace("-", " ").title(),
        "memory": size,
        **dict(_read_versions(node)),
    }


def _read_versions(node: Node) -> Iterator[tuple[str, str]]:
    for word, labels in _VERSIONS.items():
        for label in labels:
            parts = [node.labels.get(f"{label}.{part}", "") for part in ("major", "minor")]
            if all(map(_NUMBER.fullmatch, parts)):
                yield word, f"{int(parts[0])}.{int(parts[1])}.0"
                break


def write_device(
    name: str, words: Words, family: Family, vocabulary: DriverVocabulary
) -> dict[str, Value]:
    """Return a device. One with a profile is a partition, whose memory is not known."""
    whole = next(iter(family.whole_types), GPU if family.kind == GPU else "")
    is_part = bool(words.get("profile"))
    kind = _PARTITIONS.get(family.vendor, "") if is_part else whole
    attributes: dict[str, Value] = {**_OF_NICS.get(family.short_name, {})}
    if family.type and kind:
        attributes[family.type] = {"string": kind}
    # No label says which device is which, so what is different of each is made up.
    for word, text in {"uuid": name, **words}.items():
        if text and word != "memory" and (key := _name(word, family, vocabulary)):
            attributes[key] = {"version" if word in _VERSIONS else "string": text[:_MAX_TEXT]}
    capacity: dict[str, Value] = {}
    if (size := words.get("memory")) and not is_part:
        capacity[_name("memory", family, vocabulary) or "memory"] = {"value": size}
    return {"name": _NO_NAME.sub("-", name), "attributes": attributes, "capacity": capacity}


def _name(word: str, family: Family, vocabulary: DriverVocabulary) -> str:
    name: str = getattr(vocabulary, word)
    return name.removeprefix(f"{family.driver}/")


def share_device(device: Mapping[str, Value], memory: str) -> Value:
    """Return a device as HAMi's driver shares it, by cores and memory."""
    amounts = {"cores": "100"} | ({"memory": memory} if memory else {})
    least = {"cores": ("0", "1"), "memory": ("1Mi", "1Mi")}
    capacity: dict[str, Value] = {}
    for key, value in amounts.items():
        low, step = least[key]
        allowed: Value = {"min": low, "max": value, "step": step}
        capacity[key] = {
            "value": value,
            "requestPolicy": {"default": value, "validRange": allowed},
        }
    return {**device, "capacity": capacity, "allowMultipleAllocations": True}
