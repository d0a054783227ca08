"""ResourceSlices: their type, and readers for all API versions.

The readers do not validate the content. See `drawbridge.judge.slices.validation`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from drawbridge.dra.decode import (
    Metadata,
    Object,
    QuantityDecoder,
    Reader,
)
from drawbridge.dra.device import CounterSet, Device, Int64, NodeSelector
from drawbridge.dra.shared_values import SharedValues
from drawbridge.finding import Finding
from drawbridge.foreign_json import UNDECODABLE

KIND = "ResourceSlice"
_WHOLE_VERSIONS = frozenset({"resource.k8s.io/v1", "resource.k8s.io/v1beta2"})


class Slice(msgspec.Struct, frozen=True, gc=False):
    """One ResourceSlice. The structs inside it are wire types."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}


class _Pool(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_slice_count: Int64
    generation: Int64 = 0


class _Spec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    driver: str
    pool: _Pool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class _Slice(Object, frozen=True, rename="camel", kw_only=True):
    spec: _Spec


class WholeSlice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A slice of v1 with all of its metadata. Its JSON has all fields of a valid slice."""

    metadata: dict[str, Any]
    spec: _Spec
    api_version: str = ""
    kind: str = ""

    def reduce(self) -> Slice | None:
        """Return the slice, if its metadata is valid."""
        try:
            metadata = msgspec.convert(self.metadata, Metadata)
        except msgspec.ValidationError:
            return None
        return _convert(_Slice(metadata=metadata, spec=self.spec))


class _Basic(Device, frozen=True, rename="camel"):
    """A device of v1beta1, whose name is outside of this object."""

    name: str = ""


class _WrappedDevice(msgspec.Struct, frozen=True):
    name: str
    basic: _Basic = _Basic()


class _WrappedSpec(_Spec, frozen=True, rename="camel"):
    devices: tuple[_WrappedDevice, ...] = ()  # type: ignore[assignment]  # the wire type of v1beta1


class _WrappedSlice(Object, frozen=True, rename="camel", kw_only=True):
    spec: _WrappedSpec


def find_slice_writer(published: object) -> str:
    """Return who writes a slice: the driver of a node, or of a pool that is not of one node."""
    if not isinstance(published, Slice):
        return "unreadable slices"
    node = published.node_name
    return f"node {node}" if node else f"pool {published.driver}/{published.pool}"


def slice_reader() -> Reader[Slice]:
    """Return a reader of slices. It caches parsed quantities, and shares equal attributes."""
    values = SharedValues()

    def convert(wire: object) -> Slice:
        converted = _convert(wire)
        values.share_attributes(converted.devices)
        return converted

    shapes: dict[str, type[Object]] = {
        "resource.k8s.io/v1": _Slice,
        "resource.k8s.io/v1beta2": _Slice,
        "resource.k8s.io/v1beta1": _WrappedSlice,
    }
    return Reader(KIND, shapes, convert)


class WholeSliceReader:
    """Reads slices in JSON of the versions that have the form of v1. Caches parsed quantities."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(WholeSlice, dec_hook=QuantityDecoder())

    def read(self, raw: bytes, *, version: str, kind: str) -> WholeSlice | None:
        """Read a slice of a list with this version and kind of items; None for what is not one."""
        try:
            whole = self._decoder.decode(raw)
        except UNDECODABLE:
            return None
        is_slice = (whole.kind or kind) == KIND
        return whole if is_slice and (whole.api_version or version) in _WHOLE_VERSIONS else None


def read_slice(raw: object) -> Slice | tuple[Finding, ...]:
    """Read one slice of any API version from JSON bytes or a dict."""
    return slice_reader().read(raw)


def _convert(wire: Any) -> Slice:  # noqa: ANN401  # one of the wire types above
    spec = wire.spec
    devices = spec.devices
    if isinstance(spec, _WrappedSpec):
        devices = tuple(_unwrap(device) for device in spec.devices)
    return Slice(
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        node_name=spec.node_name,
        node_selector=spec.node_selector,
        all_nodes=spec.all_nodes,
        per_device_node_selection=spec.per_device_node_selection,
        devices=devices,
        shared_counters=spec.shared_counters,
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=spec.skip_node_operations,
        annotations=wire.metadata.annotations,
    )


def _unwrap(device: _WrappedDevice) -> Device:
    fields = {name: getattr(device.basic, name) for name in Device.__struct_fields__}
    return Device(**(fields | {"name": device.name}))
