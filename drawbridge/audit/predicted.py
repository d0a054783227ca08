"""Predicts what nodes publish after the migration: the slices and classes of their drivers.

A node that has a device plugin is expected to get the driver of the same family, if one can run
there. Its devices are read from the labels of feature discovery, from the list that HAMi's plugin
writes, and from the units of the names that the driver replaces; `expected_devices` writes them.
Where a driver publishes already, nothing is predicted.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from drawbridge.audit.expected_devices import (
    Words,
    read_labels,
    read_name,
    share_device,
    write_device,
)
from drawbridge.audit.interrupted import read_mark
from drawbridge.audit.objects import AuditedObjects
from drawbridge.audit.unable import find_without_driver
from drawbridge.config.model import Configuration
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.families import BY_SHORT_NAME, NIC, Family, serves_name
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import advertised_resources
from drawbridge.names import DEVICES_LABEL, DUAL_LABEL
from drawbridge.translate.targets.available import find_vocabulary

_NVIDIA, _HAMI = BY_SHORT_NAME["nvidia"], BY_SHORT_NAME["hami"]
_REGISTER: Final = re.compile(r"(?:hami\.io/node-nvidia|volcano\.sh/node-vgpu)-register")
# The start of names that stand for shares of a GPU, which HAMi's driver has.
_SHARES: Final = ("koordinator.sh/gpu", "aliyun.com/gpu-mem", "volcano.sh/vgpu")
# NVIDIA's chart gives the class this name, where the API server serves names by classes.
_EXTENDED: Final = {"gpu.nvidia.com": "nvidia.com/gpu"}
# What the classes of charts select by beside the driver.
_TYPES: Final = {"gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig", "gpu.intel.com": "gpu"}
_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9a-z.]+)")
_PART: Final = re.compile(rf"{_MIG.pattern}|amd\.com/[sdtqc]px_nps[0-9]")
# Units of a name that one GPU has.
_UNITS: Final = {"koordinator.sh/gpu": 100, "koordinator.sh/gpu-core": 100}
_PROFILE: Final = re.compile(r"[0-9a-z.+]{1,40}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
# More than any machine has: labels and annotations are text.
_MOST: Final = 128


class Prediction(NamedTuple):
    """The nodes, slices and classes after the migration.

    `drivers` has the driver that each node with a plugin is expected to get, `replaced` the names
    that its plugin then no longer serves, `kept` the names of NICs that their plugin serves on, and
    `unknown` the names for which no driver is known.
    """

    nodes: tuple[Node, ...]
    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    drivers: Mapping[str, str]
    replaced: Mapping[str, frozenset[str]]
    kept: frozenset[str]
    unknown: frozenset[str]
    new_classes: tuple[str, ...]


def predict(
    objects: AuditedObjects, configuration: Configuration, *, class_names: bool
) -> Prediction:
    """Predict the cluster without device plugins. `class_names`: classes serve resource names."""
    families = known_families(configuration)
    publishing: dict[str, set[str]] = {}
    for each in objects.slices:
        publishing.setdefault(each.node_name or "", set()).add(each.driver)
    slices, drivers = list(objects.slices), dict[str, str]()
    replaced, nodes = dict[str, frozenset[str]](), list[Node]()
    kept, unknown = set[str](), set[str]()
    unable = find_without_driver(objects.nodes)
    there = {each.name: _find_there(each, objects, publishing, families) for each in objects.nodes}
    shared = _find_shared(there)
    for node in objects.nodes:
        names = advertised_resources(node)
        if node.name in unable:
            nodes.append(node)
            continue
        annotations = objects.annotations.get(node.name, {})
        begun = families.get(read_mark(annotations)[0])
        alone = there[node.name] - shared
        family = _choose(names, node, families, configuration, alone) or begun
        gone = frozenset(name for name in names if family and _replaces(family, name))
        kept |= {name for name in names.keys() - gone if _counts_nics(name, families)}
        unknown |= {name for name in names if not _is_known(name, families)}
        if family and (gone or family is begun):
            drivers[node.name], replaced[node.name] = family.driver, gone
            if family.driver not in publishing.get(node.name, ()):
                units = {name: names[name] for name in gone}
                slices += _slices(node, family, units, annotations, configuration)
        nodes.append(_without(node, gone))
    classes = {each.metadata.name for each in objects.classes}
    needed = dict.fromkeys(families[driver].classes[0] for driver in drivers.values())
    plugged = (each for each in objects.nodes if each.name in replaced)
    gpus = [each for each in plugged if families[drivers[each.name]].kind != NIC]
    if any(single_profile(e) or any(map(_MIG.fullmatch, replaced[e.name])) for e in gpus):
        needed["mig.nvidia.com"] = None
    missing = tuple(name for name in needed if name not in classes)
    added = (_new_class(name, families, class_names=class_names) for name in missing)
    return Prediction(
        tuple(nodes),
        tuple(slices),
        (*objects.classes, *added),
        drivers,
        replaced,
        frozenset(kept),
        frozenset(unknown),
        missing,
    )


def _find_there(
    node: Node,
    objects: AuditedObjects,
    publishing: Mapping[str, Collection[str]],
    families: Mapping[str, Family],
) -> frozenset[str]:
    """Return the drivers that a node has, by its slices, label and mark, or that its names need."""
    names = advertised_resources(node)
    needed = (e.driver for e in families.values() if any(serves_name(e, name) for name in names))
    mark = read_mark(objects.annotations.get(node.name, {}))[0]
    had = {*publishing.get(node.name, ()), node.labels.get(DEVICES_LABEL, ""), mark}
    return frozenset({*needed, *had & families.keys()})


def _find_shared(there: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the drivers that a node has or needs which has or needs another one, too.

    Where a driver of the plan runs, the label of the node decides, which names one driver. The
    plugin of a driver that such a node needs stays there, and one DaemonSet runs it on all nodes.
    """
    return frozenset(each for drivers in there.values() if len(drivers) > 1 for each in drivers)


def _choose(
    names: Iterable[str],
    node: Node,
    families: Mapping[str, Family],
    configuration: Configuration,
    alone: Collection[str],
) -> Family | None:
    """Return the family whose driver replaces the plugin of a node.

    A driver of NICs must be `alone`: no node that has or needs it has or needs another driver.
    """
    names = [*names]
    if any(map(_REGISTER.fullmatch, node.registrations)) or any(
        name.startswith(_SHARES) for name in names
    ):
        return _HAMI
    configured = [f"{each.driver}" for each in configuration.targets]
    order = dict.fromkeys((*configured, *families))
    candidates = (families[driver] for driver in order if driver in families)
    able = (each for each in candidates if each.kind != NIC or each.driver in alone)
    return next((e for e in able if any(serves_name(e, name) for name in names)), None)


def _is_known(name: str, families: Mapping[str, Family]) -> bool:
    return name.startswith(_SHARES) or any(serves_name(each, name) for each in families.values())


def _counts_nics(name: str, families: Mapping[str, Family]) -> bool:
    return any(serves_name(each, name) for each in families.values() if each.kind == NIC)


def _replaces(family: Family, name: str) -> bool:
    """Whether a plugin no longer serves a name where the driver has the same hardware."""
    if name.startswith(_SHARES):
        return family is _HAMI
    if family.driver in (_NVIDIA.driver, _HAMI.driver):
        return any(serves_name(each, name) for each in (_NVIDIA, _HAMI))
    return serves_name(family, name)


def _without(node: Node, names: frozenset[str]) -> Node:
    """Return the node without its plugin: without the names, registrations and the dual label."""
    if not names:
        return node
    return msgspec.structs.replace(
        node,
        allocatable={key: each for key, each in node.allocatable.items() if key not in names},
        registrations=(),
        stopped=(),
        labels={key: each for key, each in node.labels.items() if key != DUAL_LABEL},
    )


# --- devices -------------------------------------------------------------------------------------


def _slices(
    node: Node,
    family: Family,
    names: Mapping[str, int],
    annotations: Mapping[str, Value],
    configuration: Configuration,
) -> Iterator[Slice]:
    """Yield the slice that a driver is expected to publish for a node."""
    is_nic = family.kind == NIC
    if is_nic:  # The labels describe GPUs.
        alike = [(read_name(name, configuration), number) for name, number in names.items()]
    else:
        alike = [*_list_alike(node, names, configuration)]
    if family is _HAMI:  # which has no partitions
        listed = [(each, 1) for each in _registered(annotations)]
        alike = listed or [each for each in alike if "profile" not in each[0]]
    described = {} if is_nic else read_labels(node, family.vendor)
    vocabulary = find_vocabulary(family, configuration)
    devices: list[Value] = []
    for words, number in alike:
        profile, all_words = words.get("profile", ""), {**described, **words}
        for _ in range(min(number, _MOST - len(devices))):
            kind = f"part-{profile}" if profile else NIC if is_nic else "gpu"
            name = f"{kind}-{len(devices)}"
            device = write_device(name, all_words, family, vocabulary)
            is_shared = family is _HAMI
            devices.append(share_device(device, all_words["memory"]) if is_shared else device)
    # A slice has at most 128 devices.
    read = slice_reader().read(_slice(node, family.driver, devices))
    if isinstance(read, Slice):
        yield read


def _list_alike(
    node: Node, names: Mapping[str, int], configuration: Configuration
) -> Iterator[tuple[Words, int]]:
    """Yield what claims for alike devices of a node select by, and how many there are."""
    parts, whole = dict[str, int](), dict[tuple[tuple[str, str], ...], dict[str, int]]()
    for name, number in names.items():
        words = read_name(name, configuration)
        if "profile" in words:
            parts[name] = number
            yield words, _count_parts(node, name, number)
        else:
            whole.setdefault(tuple(words.items()), {})[name] = number
    if profile := single_profile(node):
        # Then the labels of GPUs count partitions.
        yield {"profile": profile}, _count(node, {n: names[n] for n in names if n not in parts})
        return
    for same_words, alike in whole.items() if whole or parts else [((), {})]:
        yield dict(same_words), _count(node, alike | parts)


def _slice(node: Node, driver: str, devices: list[Value]) -> dict[str, Value]:
    pool: dict[str, Value] = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node.name}-{driver}-expected"},
        "spec": {"driver": driver, "nodeName": node.name, "pool": pool, "devices": devices},
    }


def count_gpus(node: Node, annotations: Mapping[str, Value]) -> int:
    """Return the number of GPUs that labels, HAMi's list or the plugin's names say; else 0."""
    listed = sum(1 for _ in _registered(annotations))
    return listed or _count(node, advertised_resources(node))


def find_most(
    nodes: Iterable[Node], annotations: Mapping[str, Mapping[str, Value]]
) -> dict[str, int]:
    """Return the units of each name that a plugin can give one pod, on the best node.

    HAMi and Volcano give a pod at most one share of each GPU, of any part of its memory and cores.
    """
    most: dict[str, int] = {}
    for node in nodes:
        listed = sum(1 for _ in _registered(annotations.get(node.name, {})))
        for name, units in advertised_resources(node).items():
            shares = min(units, listed) if listed and serves_name(_HAMI, name) else units
            most[name] = max(most.get(name, 0), shares)
    return most


def _count(node: Node, names: Mapping[str, int]) -> int:
    number = _read_number(node, "nvidia.com/gpu.count")
    # Beside partitions, the units are those of GPUs that are not partitioned.
    if number is not None and not any(map(_PART.fullmatch, names)):
        return min(number, _MOST)
    if "aliyun.com/gpu-count" in names:
        return min(names["aliyun.com/gpu-count"], _MOST)
    shared = _read_number(node, "nvidia.com/gpu.replicas") or 1
    whole = [
        count // _UNITS.get(name, shared)
        for name, count in names.items()
        if not _PART.fullmatch(name)
    ]
    return min(max(whole, default=0), _MOST)


def _count_parts(node: Node, name: str, units: int) -> int:
    """Return the number of partitions behind the units of a name, which a plugin may share.

    The labels have the name of the partitions, also where the plugin renames what it shares.
    """
    label = name.removesuffix(".shared")
    number = _read_number(node, f"{label}.count")
    return units // (_read_number(node, f"{label}.replicas") or 1) if number is None else number


def _read_number(node: Node, label: str) -> int | None:
    text = node.labels.get(label, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def single_profile(node: Node) -> str:
    """Return the profile of the partitions that `nvidia.com/gpu` counts on a node; empty if none.

    With MIG strategy `single`, feature discovery writes it into the product, and behind it whether
    they are shared.
    """
    if node.labels.get("nvidia.com/mig.strategy") != "single":
        return ""
    product = node.labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED")
    profile = product.rpartition("-MIG-")[2]
    return profile if _PROFILE.fullmatch(profile) else ""


def _registered(annotations: Mapping[str, Value]) -> Iterator[Words]:
    """Yield what a plugin lists of each GPU of its node, in JSON or as text."""
    for key, text in annotations.items():
        if not isinstance(text, str) or not _REGISTER.fullmatch(key):
            continue
        if text.startswith("["):
            try:
                entries = as_list(msgspec.json.decode(text))
            except (msgspec.DecodeError, RecursionError):
                continue
            for entry in map(as_mapping, entries):
                yield _listed(*(f"{entry.get(each, '')}" for each in ("id", "type", "devmem")))
        else:
            for fields in (entry.split(",") for entry in text.split(":")):
                if len(fields) >= 5:
                    yield _listed(fields[0], fields[4], fields[2])


def _listed(uuid: str, kind: str, memory: str) -> Words:
    """Return one GPU of a list: HAMi writes `NVIDIA-NVIDIA A100-PCIE-40GB`, and MiB."""
    size = f"{memory}Mi" if _NUMBER.fullmatch(memory) else ""
    words = {"uuid": uuid, "product": kind.removeprefix("NVIDIA-"), "memory": size}
    return {word: text for word, text in words.items() if text}


# --- classes -------------------------------------------------------------------------------------


def _new_class(name: str, families: Mapping[str, Family], *, class_names: bool) -> DeviceClass:
    """Return a class as the chart of its driver is expected to install it."""
    family = next(each for each in families.values() if name in each.classes)
    expression = f'device.driver == "{family.driver}"'
    if kind := _TYPES.get(name, ""):
        expression += f' && device.attributes["{family.driver}"].{family.type} == "{kind}"'
    spec: dict[str, Value] = {"selectors": [{"cel": {"expression": expression}}]}
    if class_names and name in _EXTENDED:
        spec["extendedResourceName"] = _EXTENDED[name]
    value: Value = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }
    read = class_reader().read(value)
    if not isinstance(read, DeviceClass):
        raise TypeError(read)
    return read
