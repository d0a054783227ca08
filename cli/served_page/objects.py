"""Decodes objects for the page, as far as the page shows them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from drawbridge.agreement.scope import decide_namespace_scope
from drawbridge.config.model import Scope
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.report.page.model import Extent, PageObjects
from drawbridge.report.page.waiting import asks_for_devices, namespace_of
from drawbridge.report.stuck.objects import READY, find_latest_time

T = TypeVar("T")
_NOT_SHOWN: Final = "managedFields"
# The kinds that the page shows, with the plural by which they are watched.
_OF_KIND: Final = {
    "Node": "nodes",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "Namespace": "namespaces",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "Pod": "pods",
}
KINDS: Final = tuple(_OF_KIND.values())
_NAMESPACED: Final = ("resourceclaims", "resourceclaimtemplates", "pods")
# Takes JSON or a plain object; raises ValueError if it cannot be read.
Decode = Callable[[Any], Any]


class ShownNode(NamedTuple):
    """A node, and its annotations as a plain object."""

    node: Node
    registered: Value


class ShownNamespace(NamedTuple):
    """A namespace, its mode and its labels."""

    name: str
    mode: str
    labels: Mapping[str, str]
    leaving: Value = None  # the namespace itself, if it is under deletion


def make_decoders(scope: Scope) -> Mapping[str, Decode]:
    """Return the decoder of each kind. What the page does not show is decoded to None."""
    nodes, slices, classes = node_reader(), slice_reader(), class_reader()

    def decode_node(raw: object) -> ShownNode:
        metadata = _as_value(raw).get("metadata")
        kept: Value = {
            key: each
            for key, each in as_mapping(metadata).items()
            if key in ("name", "annotations")
        }
        status = as_mapping(_as_value(raw).get("status"))
        conditions = as_list(status.get("conditions"))
        ready = [each for each in conditions if as_mapping(each).get("type") == READY]
        shown: Value = {"conditions": ready, "allocatable": status.get("allocatable")}
        return ShownNode(_decode(nodes, raw), {"metadata": kept, "status": shown})

    def decode_namespace(raw: object) -> ShownNamespace:
        metadata = as_mapping(_as_value(raw).get("metadata"))
        labels = as_mapping(metadata.get("labels"))
        texts = {key: each for key, each in labels.items() if isinstance(each, str)}
        name = f"{metadata.get('name')}"
        leaving = _decode_plain(raw) if metadata.get("deletionTimestamp") else None
        mode = decide_namespace_scope(name, texts, scope).mode
        return ShownNamespace(name, mode, texts, leaving)

    return {
        "nodes": decode_node,
        "resourceslices": lambda raw: _decode(slices, raw),
        "deviceclasses": lambda raw: _decode(classes, raw),
        "namespaces": decode_namespace,
        "resourceclaims": _decode_plain,
        "resourceclaimtemplates": _decode_plain,
        "pods": _decode_pod,
    }


def _decode(reader: Reader[T], raw: object) -> T:
    read = reader.read(raw)
    if isinstance(read, tuple):
        raise ValueError("; ".join(each.message for each in read))  # noqa: TRY004  # of its content
    return read


def _as_value(raw: object) -> Mapping[str, Value]:
    value: Value = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw  # type: ignore[assignment]
    return as_mapping(value)


def _decode_plain(raw: object) -> Value:
    value = dict(_as_value(raw))
    metadata = as_mapping(value.get("metadata"))
    value["metadata"] = {key: each for key, each in metadata.items() if key != _NOT_SHOWN}
    return value


def _decode_pod(raw: object) -> Value:
    pod = _decode_plain(raw)
    return pod if asks_for_devices(pod) else None


class ReadObjects:
    """Objects of files, by kind; with a namespace, only its pods, claims and templates."""

    def __init__(self, scope: Scope, namespace: str = "") -> None:
        self._namespace = namespace
        self._decoders = make_decoders(scope)
        self._objects: dict[str, list[Any]] = {}
        self.unread = 0
        self.latest = 0.0  # the latest time in any object

    def add(self, value: Value) -> None:
        """Add an object of any kind; those that the page does not show are ignored."""
        self.latest = max(self.latest, find_latest_time({"": (value,)}))
        kind = _OF_KIND.get(f"{get_value(value, ('kind',))}")
        if kind is None or (
            kind in _NAMESPACED and self._namespace not in ("", namespace_of(value))
        ):
            return
        try:
            self._objects.setdefault(kind, []).append(self._decoders[kind](value))
        except ValueError:
            self.unread += 1

    def as_page_objects(self) -> PageObjects:
        """Return the objects of the page."""
        extent = Extent.NAMESPACE if self._namespace else Extent.CLUSTER
        return gather(self._objects, dict.fromkeys(_NAMESPACED, extent))


def gather(decoded: Mapping[str, Iterable[Any]], extents: Mapping[str, Extent]) -> PageObjects:
    """Return the objects of the page from what was decoded of each kind."""

    def shown(kind: str) -> tuple[Any, ...]:
        return tuple(each for each in decoded.get(kind, ()) if each is not None)

    nodes: tuple[ShownNode, ...] = shown("nodes")
    namespaces: tuple[ShownNamespace, ...] = shown("namespaces")
    slices: tuple[Slice, ...] = shown("resourceslices")
    classes: tuple[DeviceClass, ...] = shown("deviceclasses")
    return PageObjects(
        nodes=tuple(each.node for each in nodes),
        registered=tuple(each.registered for each in nodes),
        slices=slices,
        classes=classes,
        claims=shown("resourceclaims"),
        pods=shown("pods"),
        templates=shown("resourceclaimtemplates"),
        modes={each.name: each.mode for each in namespaces},
        labels={each.name: each.labels for each in namespaces},
        leaving=tuple(each.leaving for each in namespaces if each.leaving is not None),
        claims_known=extents.get("resourceclaims", Extent.CLUSTER),
        pods_known=extents.get("pods", Extent.CLUSTER),
        templates_known=extents.get("resourceclaimtemplates", Extent.CLUSTER),
        slices_known=extents.get("resourceslices", Extent.CLUSTER),
    )
