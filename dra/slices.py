"""ResourceSlices: the domain's form, and reading it from the wire in every served version.

Whether what a slice says makes sense, alone or beside others, is not asked here.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from dra.decode import Object, Reader, ReadResult
from dra.device import CounterSet, Device, Int64, NodeSelector
from dra.finding import Finding

KIND = "ResourceSlice"


class Slice(msgspec.Struct, frozen=True):
    """One ResourceSlice; the structs inside it are those of the wire."""

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
    generation: Int64
    resource_slice_count: Int64


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
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


class _Basic(Device, frozen=True, rename="camel"):
    """A device of v1beta1 without its name, which stands outside."""

    name: str = ""


class _WrappedDevice(msgspec.Struct, frozen=True):
    name: str
    basic: _Basic = _Basic()


class _WrappedSpec(_Spec, frozen=True, rename="camel"):
    devices: tuple[_WrappedDevice, ...] = ()  # type: ignore[assignment]  # the older wire form


class _WrappedSlice(Object, frozen=True, rename="camel", kw_only=True):
    spec: _WrappedSpec


def slice_reader() -> Reader[Slice]:
    """Make a reader of slices; keep it for as long as quantities are worth remembering."""
    shapes: dict[str, type[Object]] = {
        "resource.k8s.io/v1": _Slice,
        "resource.k8s.io/v1beta2": _Slice,
        "resource.k8s.io/v1beta1": _WrappedSlice,
    }
    return Reader(KIND, shapes, _turn)


def read_slice(raw: object, reader: Reader[Slice] | None = None) -> Slice | tuple[Finding, ...]:
    """Read one slice of any served version from JSON bytes or a plain dict."""
    return (reader or slice_reader()).read(raw)


def read_slices(raw: object, reader: Reader[Slice] | None = None) -> ReadResult[Slice]:
    """Read a slice, a ResourceSliceList, or the slices of a List, item by item."""
    return (reader or slice_reader()).read_many(raw)


def _turn(wire: Any) -> Slice:  # noqa: ANN401  # one of the wire forms above
    spec = wire.spec
    devices = spec.devices
    if isinstance(spec, _WrappedSpec):
        devices = tuple(_unwrapped(device) for device in spec.devices)
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


def _unwrapped(device: _WrappedDevice) -> Device:
    fields = {name: getattr(device.basic, name) for name in Device.__struct_fields__}
    return Device(**(fields | {"name": device.name}))
