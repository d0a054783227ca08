"""Tells who holds devices: claims with their pods, and pods with units of device plugins.

A device plugin tells nobody which device a pod got. Some schedulers write it on the pod: HAMi and
Koordinator. Without that, a pod can have any device of the plugin. Takes plain objects, and ignores
malformed parts of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import format_amount
from drawbridge.ledger.pods import FINISHED
from drawbridge.pod_groups import WORKLOADS_API
from drawbridge.report.claim_requests import read_amounts
from drawbridge.report.plugin_units import count_plugin_units

UNKNOWN: Final = "device unknown"
_KOORDINATOR: Final = "scheduling.koordinator.sh/device-allocated"
_HAMI: Final = re.compile(r"hami\.io/(?:[\w-]+-)?devices-allocated")
_HAMI_NODE: Final = re.compile(r"hami\.io/node-(?:[\w-]+-)?register")
# Tenants write annotations: what is longer is not read, and names are cut.
_MAX_ANNOTATION: Final = 65_536
_MAX_DEVICES: Final = 64
_MAX_NAME: Final = 253
_ADMIN: Final = "admin access"


@dataclass(frozen=True)
class HeldObjects:
    """The claims, pods, slices and nodes that were read.

    Of the kinds `unread` others may exist, so that their absence tells nothing.
    """

    claims: tuple[Value, ...] = ()
    pods: tuple[Value, ...] = ()
    slices: tuple[Value, ...] = ()
    nodes: tuple[Value, ...] = ()
    unread: frozenset[str] = frozenset()


class DeviceUse(msgspec.Struct, frozen=True):
    """A device, or a share of it, and who holds it.

    Of a device plugin, `driver` and `pool` are empty, and `device` is what an annotation of the pod
    says, or `device unknown`. `id` is the identity that the annotation names. The pods of a claim
    that is reserved for one of `groups` are not known.
    """

    node: str
    driver: str
    pool: str
    device: str
    claim: str | None
    pods: tuple[str, ...]
    amounts: Mapping[str, str] = {}
    id: str = ""
    since: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether it is known which device this is."""
        return self.device != UNKNOWN

    @property
    def takes(self) -> bool:
        """Whether nobody else can have it: access of administrators takes nothing."""
        return _ADMIN not in self.amounts

    def matches(self, wanted: str) -> bool:
        """Whether a person means this device: by its name, its identity, or its number."""
        if wanted in (self.device, self.id, f"{self.driver}/{self.pool}/{self.device}"):
            return True
        return is_numbered(self.device, wanted)


def is_numbered(device: str, wanted: str) -> bool:
    """Whether the name of a device ends with this number."""
    return wanted.isdecimal() and re.search(rf"(?<!\d)0*{int(wanted)}$", device) is not None


def find_holders(objects: HeldObjects) -> list[DeviceUse]:
    """Return all devices that are held, by node and device; units of device plugins come last."""
    pods = {(_namespace(pod), _text(pod, ("metadata", "name"))): pod for pod in objects.pods}
    nodes = dict(_nodes_of_pools(objects.slices))
    held = [each for claim in objects.claims for each in _held_by(claim, pods, nodes)]
    registered = {_text(each, ("metadata", "name")): _registered(each) for each in objects.nodes}
    held += [each for pod in objects.pods for each in _units(pod, registered)]
    return sorted(held, key=_sort_key)


def list_devices(slices: Iterable[Value], node: str) -> Iterator[tuple[str, str, str]]:
    """Yield driver, pool and name of the devices that slices of a node publish."""
    for slice_ in slices:
        if _text(slice_, ("spec", "nodeName")) != node:
            continue
        driver, pool = _text(slice_, ("spec", "driver")), _text(slice_, ("spec", "pool", "name"))
        for device in as_list(get_value(slice_, ("spec", "devices"))):
            yield driver, pool, _text(device, ("name",))


def _sort_key(held: DeviceUse) -> tuple[object, ...]:
    number = re.search(r"\d+$", held.device)
    stem = held.device[: number.start()] if number else held.device
    counted = int(number[0][-18:]) if number else -1
    where = (held.node, not held.is_known, held.driver, held.pool, stem, counted)
    return (*where, held.claim or "", held.pods)


# --- claims --------------------------------------------------------------------------------------


def _nodes_of_pools(slices: Iterable[Value]) -> Iterator[tuple[tuple[str, str], str]]:
    for slice_ in slices:
        if node := _text(slice_, ("spec", "nodeName")):
            yield (_text(slice_, ("spec", "driver")), _text(slice_, ("spec", "pool", "name"))), node


def _held_by(
    claim: Value,
    pods: Mapping[tuple[str, str], Value],
    nodes: Mapping[tuple[str, str], str],
) -> Iterator[DeviceUse]:
    namespace = _namespace(claim)
    users = [*map(as_mapping, as_list(get_value(claim, ("status", "reservedFor"))))]
    names = [_cut(user.get("name")) for user in users if user.get("resource") == "pods"]
    groups = (_cut(user.get("name")) for user in users if is_pod_group(user))
    selected = find_selected_node(get_value(claim, ("status", "allocation", "nodeSelector")))
    running = (_text(pods.get((namespace, name)), ("spec", "nodeName")) for name in names)
    of_pods = next(filter(None, running), "")
    results = as_list(get_value(claim, ("status", "allocation", "devices", "results")))
    for result in map(as_mapping, results):
        driver, pool = _cut(result.get("driver")), _cut(result.get("pool"))
        yield DeviceUse(
            node=nodes.get((driver, pool)) or selected or of_pods,
            driver=driver,
            pool=pool,
            device=_cut(result.get("device")),
            claim=f"{namespace}/{_text(claim, ('metadata', 'name'))}",
            pods=tuple(f"{namespace}/{name}" for name in names),
            amounts=read_amounts(result.get("consumedCapacity"))
            | ({_ADMIN: "yes"} if result.get("adminAccess") is True else {}),
            since=_text(claim, ("status", "allocation", "allocationTimestamp")) or None,
            groups=tuple(f"{namespace}/{name}" for name in groups),
        )


def is_pod_group(consumer: Mapping[str, Value]) -> bool:
    """Whether a consumer of a claim is a PodGroup of Kubernetes."""
    group = (consumer.get("apiGroup"), consumer.get("resource"))
    return group == (WORKLOADS_API, "podgroups")


def find_selected_node(selector: Value) -> str:
    """Return the node in the selector of an allocation of node-local devices."""
    for term in as_list(get_value(selector, ("nodeSelectorTerms",))):
        for match in map(as_mapping, as_list(get_value(term, ("matchFields",)))):
            values = as_list(match.get("values"))
            if match.get("key") == "metadata.name" and len(values) == 1:
                return f"{values[0]}"
    return ""


# --- device plugins ------------------------------------------------------------------------------

# What one registration of HAMi says: the index of each device by its identity.
_Indexes = Mapping[str, int]


def _units(pod: Value, registered: Mapping[str, _Indexes]) -> Iterator[DeviceUse]:
    """Yield the devices of a running pod that device plugins gave it."""
    node = _text(pod, ("spec", "nodeName"))
    if not node or _text(pod, ("status", "phase")) in FINISHED:
        return
    name = f"{_namespace(pod)}/{_text(pod, ('metadata', 'name'))}"
    since = _text(pod, ("status", "startTime")) or None
    requested = {key: f"{units}" for key, units in count_plugin_units(pod).items()}
    named = [*_named_devices(pod, registered.get(node, {}))] if requested else []
    for device, identity, amounts in named[:_MAX_DEVICES]:
        yield DeviceUse(node, "", "", device, None, (name,), amounts, identity, since)
    if requested and not named:
        yield DeviceUse(node, "", "", UNKNOWN, None, (name,), requested, since=since)


_NamedDevice = tuple[str, str, Mapping[str, str]]


def _named_devices(pod: Value, indexes: _Indexes) -> Iterator[_NamedDevice]:
    """Yield name, identity and amounts of the devices that annotations of the pod name."""
    for key, text in as_mapping(get_value(pod, ("metadata", "annotations"))).items():
        if not isinstance(text, str) or len(text) > _MAX_ANNOTATION:
            continue
        if key == _KOORDINATOR:
            yield from _koordinator_devices(text)
        elif _HAMI.fullmatch(key):
            yield from _hami_devices(text, indexes)


def _koordinator_devices(text: str) -> Iterator[_NamedDevice]:
    """Read `{"gpu": [{"minor": 0, "id": "GPU-...", "resources": {...}}]}`."""
    for kind, devices in as_mapping(_decode(text)).items():
        for device in map(as_mapping, as_list(devices)):
            resources = as_mapping(device.get("resources"))
            amounts = {key: format_amount(value) for key, value in resources.items()}
            yield f"{kind}-{device.get('minor')}"[:_MAX_NAME], _cut(device.get("id")), amounts


def _hami_devices(text: str, indexes: _Indexes) -> Iterator[_NamedDevice]:
    """Read `GPU-...,NVIDIA,3000,30:;`: devices end with a colon, containers with a semicolon."""
    for entry in re.split("[:;]", text):
        fields = [each.strip() for each in entry.split(",")]
        if len(fields) >= 4 and fields[0]:
            identity, _, memory, cores = fields[:4]
            amounts = {"memory": f"{memory}Mi", "cores": cores}
            index = indexes.get(identity)
            name = identity if index is None else f"gpu-{index}"
            yield name[:_MAX_NAME], identity[:_MAX_NAME], amounts


def _registered(node: Value) -> _Indexes:
    """Return the indexes of the devices that HAMi's plugin lists on a node, in JSON or as text."""
    indexes: dict[str, int] = {}
    for key, text in as_mapping(get_value(node, ("metadata", "annotations"))).items():
        if not isinstance(text, str) or not _HAMI_NODE.fullmatch(key):
            continue
        entries = as_list(_decode(text)) if text.startswith("[") else text.split(":")
        for position, entry in enumerate(entries):
            if isinstance(entry, str):
                indexes[entry.partition(",")[0]] = position
            else:
                index = as_mapping(entry).get("index", position)
                identity = _text(entry, ("id",))
                indexes[identity] = index if isinstance(index, int) else position
    return indexes


def _decode(text: str) -> Value:
    try:
        value: Value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value


def _namespace(value: Value) -> str:
    return _text(value, ("metadata", "namespace")) or "default"


def _text(value: Value, path: Path) -> str:
    return _cut(get_value(value, path))


def _cut(value: Value) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""
