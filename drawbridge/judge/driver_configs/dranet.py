"""DRANET: how a network interface is configured in the pod.

Its configurations have neither version nor kind.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Annotated, Final

from msgspec import Meta, field

from drawbridge.dra.decode_errors import describe_value
from drawbridge.judge.driver_configs.model import (
    ConfigDriver,
    ConfigFields,
    ConfigKind,
    ConfigProblem,
)

_Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Byte = Annotated[int, Meta(ge=0, le=255)]
_RELEASE: Final = "dranet 1.4.0"
_MAX_NAME: Final = 15
_MIN_MTU: Final = 68
_UNIVERSE, _LINK = 0, 253
_RESERVED_TABLES: Final = (253, 254, 255)
_MAX_PRIORITY: Final = 32767
_HEX: Final = "[0-9A-Fa-f]"
# 6, 8 or 20 octets, separated by colons or hyphens, or by dots after every second one.
_HARDWARE_ADDRESS: Final = re.compile(
    "|".join(
        f"{_HEX}{{2}}(?:{separator}{_HEX}{{2}}){{{octets - 1}}}"
        for separator in (":", "-")
        for octets in (6, 8, 20)
    )
    + "|"
    + "|".join(rf"{_HEX}{{4}}(?:\.{_HEX}{{4}}){{{octets // 2 - 1}}}" for octets in (6, 8, 20))
)


class _Vrf(ConfigFields, frozen=True):
    name: str = ""
    table: _Int64 | None = None


class _Addressing(ConfigFields, frozen=True):
    type: str = ""


class _IpVlan(ConfigFields, frozen=True):
    mode: str = ""
    flag: str = ""
    addressing: _Addressing | None = None
    copy_routes_from_parent: bool | None = None
    copy_neighbors_from_parent: bool | None = None


class _Interface(ConfigFields, frozen=True):
    name: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool | None = None
    mtu: _Int32 | None = None
    hardware_addr: str | None = None
    gso_max_size: _Int32 | None = None
    gro_max_size: _Int32 | None = None
    gso_ipv4_max_size: _Int32 | None = field(default=None, name="gsoIPv4MaxSize")
    gro_ipv4_max_size: _Int32 | None = field(default=None, name="groIPv4MaxSize")
    disable_ebpf_programs: bool | None = None
    forwarding: bool | None = None
    vrf: _Vrf | None = None
    ipvlan: _IpVlan | None = None


class _IpRange(ConfigFields, frozen=True):
    cidr: str = ""
    start_ip: str = field(default="", name="startIP")
    end_ip: str = field(default="", name="endIP")


class _SubInterface(ConfigFields, frozen=True):
    type: str = ""
    name: str = ""
    addresses: tuple[str, ...] = ()
    ip_range: str = ""
    ip_ranges: tuple[_IpRange, ...] = ()
    ipvlan: _IpVlan | None = None


class _Route(ConfigFields, frozen=True):
    destination: str = ""
    gateway: str = ""
    source: str = ""
    scope: _Byte = 0
    table: _Int64 = 0


class _Rule(ConfigFields, frozen=True):
    priority: _Int64 = 0
    source: str = ""
    destination: str = ""
    table: _Int64 = 0


class _Neighbor(ConfigFields, frozen=True):
    destination: str = ""
    hardware_addr: str = ""


class _Ethtool(ConfigFields, frozen=True):
    features: Mapping[str, bool] = {}
    private_flags: Mapping[str, bool] = {}


class _NetworkConfig(ConfigFields, frozen=True):
    profile: str = ""
    interface: _Interface = _Interface()
    sub_interface: _SubInterface | None = None
    routes: tuple[_Route, ...] = ()
    rules: tuple[_Rule, ...] = ()
    neighbors: tuple[_Neighbor, ...] = ()
    ethtool: _Ethtool | None = None


def _find_refusals(config: _NetworkConfig) -> Iterator[ConfigProblem]:
    yield from _refused_interface(config.interface)
    for i, route in enumerate(config.routes):
        yield from _refused_route(route, f"routes[{i}]")
    if config.rules and config.interface.vrf is not None:
        yield ConfigProblem("rules", "rules must not be set with interface.vrf")
    else:
        for i, rule in enumerate(config.rules):
            yield from _refused_rule(rule, f"rules[{i}]")
    for i, neighbor in enumerate(config.neighbors):
        yield from _refused_neighbor(neighbor, f"neighbors[{i}]")


def _find_gates(config: _NetworkConfig) -> Iterator[ConfigProblem]:
    """Find what release 1.4.0 refuses, and other builds decode."""
    interface = config.interface
    if config.sub_interface is not None:
        yield ConfigProblem("subInterface", f"subInterface is unknown to {_RELEASE}")
    if interface.ipvlan is not None:
        yield ConfigProblem("interface.ipvlan", f"ipvlan is unknown to {_RELEASE}")
    if interface.vrf is not None and not interface.vrf.name:
        yield ConfigProblem("interface.vrf.name", f"vrf needs a name for {_RELEASE}")
    for i, route in enumerate(config.routes):
        if _parse_prefix(route.destination) is None and _parse_address(route.destination):
            value = describe_value(route.destination)
            message = f"destination {value} needs a prefix length for {_RELEASE}"
            yield ConfigProblem(f"routes[{i}].destination", message)


def _refused_interface(interface: _Interface) -> Iterator[ConfigProblem]:
    at = "interface"
    if problem := _name_problem(interface.name):
        yield ConfigProblem(f"{at}.name", f"name is {describe_value(interface.name)}: it {problem}")
    yield from _refused_prefixes(interface.addresses, f"{at}.addresses")
    if interface.dhcp and interface.addresses:
        yield ConfigProblem(f"{at}.dhcp", "dhcp must not be true with addresses")
    if interface.mtu is not None and interface.mtu < _MIN_MTU:
        yield ConfigProblem(f"{at}.mtu", f"mtu is {interface.mtu}, must be at least {_MIN_MTU}")
    if interface.hardware_addr is not None:
        yield from _refused_hardware(interface.hardware_addr, at)
    for name, size in (
        ("gsoMaxSize", interface.gso_max_size),
        ("groMaxSize", interface.gro_max_size),
        ("gsoIPv4MaxSize", interface.gso_ipv4_max_size),
        ("groIPv4MaxSize", interface.gro_ipv4_max_size),
    ):
        if size is not None and size <= 0:
            yield ConfigProblem(f"{at}.{name}", f"{name} is {size}, must be greater than 0")
    table = interface.vrf.table if interface.vrf else None
    if table is not None and (table <= 0 or table in _RESERVED_TABLES):
        message = f"table is {table}, must be greater than 0 and none of 253, 254, 255"
        yield ConfigProblem(f"{at}.vrf.table", message)


def _name_problem(name: str) -> str:
    if len(name.encode(errors="replace")) > _MAX_NAME:
        return f"has more than {_MAX_NAME} characters"
    if name in (".", ".."):
        return "must not be . or .."
    allowed = all(each.isalpha() or each.isdecimal() or each in "-_." for each in name)
    return "" if allowed else "must have only letters, digits, -, _ and ."


def _refused_prefixes(addresses: Sequence[str], path: str) -> Iterator[ConfigProblem]:
    for i, address in enumerate(addresses):
        if _parse_prefix(address) is None:
            value = describe_value(address)
            message = f"{value} is not an address with a prefix length, such as 192.168.1.10/24"
            yield ConfigProblem(f"{path}[{i}]", message)


def _refused_route(route: _Route, path: str) -> Iterator[ConfigProblem]:
    # Old versions accept an address without a prefix length.
    destination = _parse_prefix(route.destination) or _parse_address(route.destination)
    if destination is None:
        value = describe_value(route.destination)
        message = f"destination is {value}, must be a network such as 10.0.0.0/8"
        yield ConfigProblem(f"{path}.destination", message)
    if route.scope not in (_UNIVERSE, _LINK):
        message = f"scope is {route.scope}, must be {_UNIVERSE} (universe) or {_LINK} (link)"
        yield ConfigProblem(f"{path}.scope", message)
    if not route.gateway and route.scope != _LINK:
        yield ConfigProblem(
            f"{path}.gateway", f"gateway is required unless scope is {_LINK} (link)"
        )
    for name, text in (("gateway", route.gateway), ("source", route.source)):
        address = _parse_address(text)
        if text and address is None:
            yield ConfigProblem(
                f"{path}.{name}", f"{name} is {describe_value(text)}, not an IP address"
            )
        elif address and destination and _family(address) != _family(destination):
            message = f"{name} and destination differ in IP version"
            yield ConfigProblem(f"{path}.{name}", message)
    if route.table < 0:
        yield ConfigProblem(f"{path}.table", f"table is {route.table}, must be 0 or more")


def _refused_rule(rule: _Rule, path: str) -> Iterator[ConfigProblem]:
    if not 0 <= rule.priority <= _MAX_PRIORITY:
        message = f"priority is {rule.priority}, must be 0 to {_MAX_PRIORITY}"
        yield ConfigProblem(f"{path}.priority", message)
    if rule.table < 0:
        yield ConfigProblem(f"{path}.table", f"table is {rule.table}, must be 0 or more")
    for name, text in (("source", rule.source), ("destination", rule.destination)):
        if text and _parse_prefix(text) is None:
            message = f"{name} is {describe_value(text)}, must be a network such as 10.0.0.0/8"
            yield ConfigProblem(f"{path}.{name}", message)

    source, destination = _parse_prefix(rule.source), _parse_prefix(rule.destination)
    if source and destination and _family(source) != _family(destination):
        yield ConfigProblem(f"{path}.source", "source and destination differ in IP version")


def _refused_neighbor(neighbor: _Neighbor, path: str) -> Iterator[ConfigProblem]:
    if _parse_address(neighbor.destination) is None:
        value = describe_value(neighbor.destination)
        yield ConfigProblem(f"{path}.destination", f"destination is {value}, must be an IP address")
    yield from _refused_hardware(neighbor.hardware_addr, path)


def _refused_hardware(address: str, path: str) -> Iterator[ConfigProblem]:
    if not _HARDWARE_ADDRESS.fullmatch(address):
        message = f"hardwareAddr is {describe_value(address)}, not a hardware address"
        yield ConfigProblem(f"{path}.hardwareAddr", message)


def _family(address: IPv4Address | IPv6Address) -> int:
    """Return the version of IP; an IPv4 address in the form of IPv6 is one of IPv4."""
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return 4 if is_mapped else address.version


def _parse_prefix(text: str) -> IPv4Address | IPv6Address | None:
    _, slash, length = text.rpartition("/")
    if not slash or not (length.isascii() and length.isdigit()) or "%" in text:
        return None
    try:
        return ip_interface(text).ip
    except ValueError:
        return None


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    if "%" in text:  # the driver knows no zones
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


DRIVER: Final = ConfigDriver(
    name="dra.net",
    project="dranet",
    commits=("v1.4.0", "07cded12", "04a23c38"),
    kinds=(
        ConfigKind(
            name="NetworkConfig",
            shape=_NetworkConfig,
            find_refusals=_find_refusals,
            find_gates=_find_gates,
        ),
    ),
    classes={"dra.net": (), "dranet": (), "dranet.net": ()},
)
