"""IP addresses and CIDR networks in the forms that Kubernetes admits.

Zones and IPv4-mapped IPv6 addresses are not admitted.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from drawbridge.cel.errors import EvaluationError

_BITS: Final = {4: 32, 6: 128}


@dataclass(frozen=True, slots=True)
class Ip:
    """An address: its family, 4 or 6, and its bits as a number."""

    family: int
    number: int

    @property
    def size(self) -> int:
        """Return the number of bytes of the address."""
        return _BITS[self.family] // 8

    def __str__(self) -> str:
        if self.family == 4:
            return str(ipaddress.IPv4Address(self.number))
        return str(ipaddress.IPv6Address(self.number))


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network: an address, which may have bits beyond the prefix, and the prefix length."""

    ip: Ip
    length: int

    @property
    def size(self) -> int:
        """Return the number of bytes that the prefix covers."""
        return -(-self.length // 8)

    def __str__(self) -> str:
        return f"{self.ip}/{self.length}"


def parse_ip(text: str) -> Ip:
    """Parse an address, or raise an error of kind `net`."""
    return _ip(text, f'IP address "{text}" cannot be read')


def parse_cidr(text: str) -> Cidr:
    """Parse `address/length`, or raise an error of kind `net`."""
    address, slash, length = text.rpartition("/")
    problem = f'network address "{text}" cannot be read'
    digits = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not slash or not digits or len(length) > 3:
        raise EvaluationError("net", problem)
    ip = _ip(address, problem)
    if int(length) > _BITS[ip.family]:
        raise EvaluationError("net", f"{problem}: prefix length out of range")
    return Cidr(ip, int(length))


def is_ipv6(text: str) -> bool:
    """Tell whether it is an IPv6 address without a zone; IPv4-mapped addresses count."""
    try:
        return "%" not in text and ipaddress.IPv6Address(text) is not None
    except ValueError:
        return False


def mask(network: Cidr) -> Cidr:
    """Clear the bits beyond the prefix."""
    shift = _BITS[network.ip.family] - network.length
    return Cidr(Ip(network.ip.family, network.ip.number >> shift << shift), network.length)


def contains_ip(network: Cidr, ip: Ip) -> bool:
    """Tell whether an address of the same family is in the network."""
    if network.ip.family != ip.family:
        return False
    shift = _BITS[ip.family] - network.length
    return network.ip.number >> shift == ip.number >> shift


def contains_cidr(network: Cidr, other: Cidr) -> bool:
    """Tell whether this network contains all of another one."""
    return network.length <= other.length and contains_ip(network, other.ip)


def is_unspecified(ip: Ip) -> bool:
    """Tell whether it is 0.0.0.0 or ::."""
    return ip.number == 0


def is_loopback(ip: Ip) -> bool:
    """Tell whether it is in 127.0.0.0/8, or ::1."""
    return ip.number >> 24 == 127 if ip.family == 4 else ip.number == 1


def is_link_local_multicast(ip: Ip) -> bool:
    """Tell whether it is in 224.0.0.0/24, or in ffx2::/16 with any flags."""
    if ip.family == 4:
        return ip.number >> 8 == 0xE00000
    return ip.number >> 112 & 0xFF0F == 0xFF02


def is_link_local_unicast(ip: Ip) -> bool:
    """Tell whether it is in 169.254.0.0/16 or fe80::/10."""
    return ip.number >> 16 == 0xA9FE if ip.family == 4 else ip.number >> 118 == 0xFE80 >> 6


def is_global_unicast(ip: Ip) -> bool:
    """Return whether it is not a special address; private networks count as global."""
    if is_unspecified(ip) or is_loopback(ip) or is_link_local_unicast(ip):
        return False
    if ip.family == 4:
        return ip.number >> 28 != 0xE and ip.number != 0xFFFFFFFF
    return ip.number >> 120 != 0xFF


def _ip(text: str, problem: str) -> Ip:
    address = _address(text, problem)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError("net", f"{problem}: IPv4 mapped to IPv6 is not allowed")
    return Ip(address.version, int(address))


def _address(text: str, problem: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if "%" in text:
        raise EvaluationError("net", f"{problem}: zones are not allowed")
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError("net", problem) from None
