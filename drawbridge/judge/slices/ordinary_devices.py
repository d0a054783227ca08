"""Recognizes ordinary devices: a name, attributes with one value each, and capacities, all valid.

Most devices are ordinary, and their parts are those of other devices. Equal parts are checked once.
"""

from operator import attrgetter
from typing import Final, TypeAlias

from msgspec.structs import astuple

from drawbridge.dra import codes, formats
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.slices import Slice
from drawbridge.dra.validation_checks import ObjectValidator

MAX_NAMES: Final = 32

# What a device may have in addition, and the API server checks.
_get_others: Final = attrgetter(
    "consumes_counters",
    "node_name",
    "node_selector",
    "all_nodes",
    "taints",
    "binding_conditions",
    "binding_failure_conditions",
    "node_allocatable_resources",
)
_NO_OTHERS: Final = _get_others(Device(""))
# The number of equal names of attributes, fields of their values, and names of capacities.
DeviceShape: TypeAlias = int
_Shape: TypeAlias = tuple[tuple[str, ...], tuple[str | None, ...], tuple[str, ...]]


class OrdinaryDevices:
    """Recognizes the ordinary devices of slices of different names, and remembers their parts."""

    def __init__(self) -> None:
        self._fields: dict[Attribute, str] = {}
        self._names: set[tuple[str, DeviceShape]] = set()  # valid ones, with that of the device
        self._distinct: dict[_Shape, DeviceShape] = {}
        self._shapes: dict[str, list[DeviceShape | None]] = {}

    def find_others(self, slice_: Slice) -> list[tuple[int, Device]]:
        """Return the devices that are not ordinary, or not valid, with their places."""
        return [
            (place, device)
            for place, (device, shape) in enumerate(
                zip(slice_.devices, self.find_shapes(slice_), strict=True)
            )
            if shape is None
            or _get_others(device) != _NO_OTHERS
            or not self._has_valid_names(device, shape)
        ]

    def find_shapes(self, slice_: Slice) -> list[DeviceShape | None]:
        """Return the shape of each device; None if an attribute lacks a value, or is not valid."""
        shapes = self._shapes.get(slice_.name)
        if shapes is None:
            shapes = self._shapes[slice_.name] = [*map(self._find_shape, slice_.devices)]
        return shapes

    def _find_shape(self, device: Device) -> DeviceShape | None:
        attributes = device.attributes
        fields = [*map(self._fields.get, attributes.values())]
        if None in fields:
            for place, attribute in enumerate(attributes.values()):
                if fields[place] is None:
                    field = _find_only_field(attribute)
                    if field is None:
                        return None
                    fields[place] = self._fields[attribute] = field
        shape = tuple(attributes), tuple(fields), tuple(device.capacity)
        return self._distinct.setdefault(shape, len(self._distinct))

    def _has_valid_names(self, device: Device, shape: DeviceShape) -> bool:
        names = device.name, shape
        if names not in self._names:
            validator = ObjectValidator("")
            check_device_names(validator, "", device)
            if validator.findings:
                return False
            self._names.add(names)
        return True


def check_device_names(validator: ObjectValidator, path: str, device: Device) -> None:
    """Check the name of a device, and the names and number of its attributes and capacities."""
    validator.check_form(f"{path}.name", device.name, formats.check_label)
    number = len(device.attributes) + len(device.capacity)
    if number > MAX_NAMES:
        message = f"has {number} attributes and capacities, at most {MAX_NAMES} are allowed"
        validator.add(codes.TOO_MANY, path, message)
    validator.check_keys(f"{path}.attributes", device.attributes, formats.check_qualified_name)
    validator.check_keys(f"{path}.capacity", device.capacity, formats.check_qualified_name)


def _find_only_field(attribute: Attribute) -> str | None:
    """Return the field of an attribute that has one valid value; None for any other."""
    values = astuple(attribute)
    if values.count(None) != len(values) - 1:
        return None
    text, integer, boolean, version, *_ = values
    if text is not None:
        return None if formats.check_length(text, formats.VALUE_LENGTH) else "string"
    if version is not None:
        return None if not version or formats.check_version(version) else "version"
    if integer is not None:
        return "integer"
    return None if boolean is None else "boolean"
