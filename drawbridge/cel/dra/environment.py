"""The CEL environment of device selectors: the variable `device`, its types, sizes and rules.

An attribute or capacity without a domain is in the domain of the driver name. A domain that a
device does not have reads as an empty map, though `in` returns false for it.
"""

from collections.abc import Mapping
from functools import lru_cache, partial

from drawbridge.cel import semver
from drawbridge.cel.declare import Range
from drawbridge.cel.environment import Environment
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.estimate import FieldPath
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.semver import Semver
from drawbridge.cel.types import (
    ANY,
    BOOL,
    DYN,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    Type,
    describe,
    map_of,
)
from drawbridge.cel.validate import KUBERNETES
from drawbridge.cel.values import CelValue
from drawbridge.dra.attributes import group_by_domain
from drawbridge.dra.device import Attribute, Device

LENGTH_LIMIT = 10 * 1024
DEVICE = Type("object", "kubernetes.DRADevice")
LISTS_SINCE = 36

# API limits: characters of a domain, an identifier, a driver, a value; entries of a map.
DOMAIN, ID, DRIVER, VALUE, ENTRIES = 63, 32, 63, 64, 32
QUANTITY_SIZE = 0


class Domains(dict[str, Mapping[str, CelValue]]):
    """Attributes or capacities by domain; a missing domain reads as an empty map."""

    __slots__ = ()

    def __missing__(self, domain: object) -> Mapping[str, CelValue]:
        return EMPTY


EMPTY: dict[str, CelValue] = {}


def device_variables(
    driver: str, device: Device, *, list_attributes: bool = False
) -> Mapping[str, CelValue]:
    """Return the CEL variables of a device; an invalid device fails every program."""
    attributes: Domains = Domains()
    capacity: Domains = Domains()
    try:
        for domain, published in group_by_domain(device.attributes, driver).items():
            attributes[domain] = {
                name: _native(name, attribute, lists=list_attributes)
                for name, attribute in published.items()
            }
    except EvaluationError as error:
        return {"device": error}
    for domain, amounts in group_by_domain(device.capacity, driver).items():
        capacity[domain] = {name: amount.value for name, amount in amounts.items()}
    return {
        "device": {
            "driver": driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": device.allow_multiple_allocations,
        }
    }


def _native(name: str, attribute: Attribute, *, lists: bool) -> CelValue:
    if lists:
        for values in (attribute.integers, attribute.booleans, attribute.strings):
            if values is not None:
                return list(values)
        if attribute.versions is not None:
            return [_version(name, text) for text in attribute.versions]
    for value in (attribute.integer, attribute.boolean, attribute.string):
        if value is not None:
            return value
    if attribute.version is not None:
        return _version(name, attribute.version)
    raise EvaluationError("unsupported_attribute", f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> CelValue:
    try:
        return _parse_version(text)
    except EvaluationError as error:
        raise EvaluationError(
            error.kind, f"attribute {name}: parse semantic version: {error.message}"
        ) from None


@lru_cache(maxsize=1024)
def _parse_version(text: str) -> Semver:
    """Parse a version; the devices of a cluster have few different ones."""
    return semver.parse(text)


def sizes(path: FieldPath) -> Range | None:
    """Return the size limits of a path below `device`, or None if it has none."""
    if path[0] != "device":
        return None
    match path[1:]:
        case ():
            return Range(0, 0)
        case ("driver",):
            return Range(0, DRIVER)
        case ("allowMultipleAllocations",):
            return Range(0, 1)
        case ("attributes" | "capacity" as field, *rest):
            return _map_sizes(field, tuple(rest))
    return None


def _map_sizes(field: str, rest: FieldPath) -> Range | None:
    """Return the size limits in the two maps; any name but `@values` is an attribute."""
    match rest:
        case () | ("@values" | "@items",):
            return Range(0, ENTRIES)
        case ("@keys",):
            return Range(0, DOMAIN)
        case ("@values" | "@items", "@keys"):
            return Range(0, ID)
        case ("@values" | "@items", "@values" | "@items"):
            return Range(0, VALUE if field == "attributes" else QUANTITY_SIZE)
        case ("@values" | "@items", name) if not name.startswith("@") and field == "attributes":
            return Range(0, VALUE)
    return None


@lru_cache(maxsize=64)
def device_environment(
    version: str = "1.36",
    *,
    list_attributes: bool = False,
    stored: bool = True,
    derived: bool = False,
) -> Environment:
    """Return the environment of device selectors, or of derived attributes.

    If `stored`, it is the scheduler's environment, with all libraries of this version. Otherwise it
    is the API server's for new objects, which has the libraries of the previous version.
    """
    minor = int(version.partition(".")[2])
    lists = _lists(minor, list_attributes=list_attributes, stored=stored)
    attribute = DYN if lists else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        "allowMultipleAllocations": BOOL,
    }
    allowed = {"bool", attribute.kind} | ({"any"} if minor <= LISTS_SINCE else set())

    def output(type_: Type) -> str | None:
        if type_.kind in allowed:
            return None
        return f"must evaluate to bool or the unknown type, not {describe(type_)}"

    return Environment(
        {"device": DEVICE},
        libraries(version, stored=stored, list_attributes=lists),
        version,
        objects={DEVICE.name: fields},
        sizes=sizes,
        output=partial(_derived_type_error, lists=lists) if derived else output,
        boolean=not derived,
        validators=KUBERNETES,
    )


def _derived_type_error(type_: Type, *, lists: bool) -> str | None:
    """Return the error for an invalid type of a derived attribute, or None."""
    element = type_.params[0] if lists and type_.kind == "list" and type_.params else type_
    if element in (BOOL, INT, STRING, ANY, DYN, SEMVER):
        return None
    scalar = "a primitive scalar (string, integer, boolean, semver)"
    several = " or a list of these scalars" if lists else ""
    return f"must evaluate to {scalar}{several}, not {describe(type_)}"


def lists_readable(version: str, *, list_attributes: bool) -> bool:
    """Tell whether the scheduler of this version reads list attributes."""
    minor = int(version.partition(".")[2])
    return _lists(minor, list_attributes=list_attributes, stored=True)


def _lists(minor: int, *, list_attributes: bool, stored: bool) -> bool:
    """Tell whether attributes may be lists; 1.37 evaluates stored expressions with all gates on."""
    if minor > LISTS_SINCE:
        return list_attributes or stored
    return list_attributes and minor == LISTS_SINCE
