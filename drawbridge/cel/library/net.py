"""Kubernetes' functions of IP addresses and CIDR networks."""

import math
from collections.abc import Callable
from typing import Final

from drawbridge.cel import net
from drawbridge.cel.declare import (
    CallEstimate,
    Cost,
    Estimate,
    Function,
    Library,
    Operand,
    Overload,
    members,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, CIDR, INT, IP, STRING, Type
from drawbridge.cel.values import CelValue, Cidr, actual_size, no_such_overload

# An address has at most 16 bytes; each estimate assumes one pass over them.
_BYTES: Final = 16


def _is_ip(text: str) -> bool:
    return _readable(net.parse_ip, text)


def _is_cidr(text: str) -> bool:
    return _readable(net.parse_cidr, text)


def _readable(parse: Callable[[str], CelValue], text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(net.parse_ip(text)) == text


def _contains_text(network: Cidr, text: str) -> bool:
    try:
        ip = net.parse_ip(text)
    except EvaluationError:
        # Only here does Kubernetes report an invalid text as an argument of a wrong type.
        raise no_such_overload() from None
    return net.contains_ip(network, ip)


def _contains_network_text(network: Cidr, text: str) -> bool:
    return net.contains_cidr(network, net.parse_cidr(text))


def _containing(*, networks: bool, parsed: bool) -> tuple[Cost, Estimate]:
    """Return the costs of a lookup of an address or network, which may be a text."""

    def cost(args: tuple[CelValue, ...], _: CelValue) -> int:
        size = actual_size(args[0])
        total = math.ceil((size + size) * costs.TRAVERSAL)
        if networks:
            total += math.ceil(size * costs.TRAVERSAL) + 1
        return total + (costs.traversal(args[1]) if parsed else 0)

    def estimate(operands: tuple[Operand, ...]) -> CallEstimate:
        total = costs.scale(_BYTES + _BYTES, costs.TRAVERSAL)
        if networks:
            total += costs.scale(_BYTES, costs.TRAVERSAL) + 1
        if parsed:
            total += costs.scale(operands[1].size.max, costs.TRAVERSAL)
        return CallEstimate(total)

    return cost, estimate


def _search(
    name: str, *rows: tuple[str, Type, Callable[..., CelValue]], networks: bool
) -> Function:
    overloads = []
    for id_, of, implementation in rows:
        cost, estimate = _containing(networks=networks, parsed=of is STRING)
        overloads.append(Overload(id_, (CIDR, of), BOOL, implementation, True, cost, estimate))  # noqa: FBT003  # member
    # If the overload is found only at run time, the parsing of a text is not counted.
    cost, _ = _containing(networks=networks, parsed=False)
    return Function(name, tuple(overloads), cost)


_PARSE: Final = costs.of_argument(0)
_PARSE_ESTIMATE: Final = costs.estimate_argument(0)

_TEXT: Final = (STRING,)
_IP: Final = (IP,)
_CIDR: Final = (CIDR,)
ADDRESSES: Final = Library(
    "kubernetes.net.ip",
    (
        Function(
            "ip",
            (
                Overload(
                    "string_to_ip", (STRING,), IP, net.parse_ip,
                    cost=_PARSE, estimate=_PARSE_ESTIMATE,
                ),
            ),
        ),
        members("family", ("ip_family", _IP, INT, lambda ip: ip.family)),
        costs.parsing(
            "ip.isCanonical", Overload("ip_is_canonical", _TEXT, BOOL, _is_canonical),
            factor=2 * costs.TRAVERSAL,
        ),
        members("isUnspecified", ("ip_is_unspecified", _IP, BOOL, net.is_unspecified)),
        members("isLoopback", ("ip_is_loopback", _IP, BOOL, net.is_loopback)),
        members(
            "isLinkLocalMulticast",
            ("ip_is_link_local_multicast", _IP, BOOL, net.is_link_local_multicast),
        ),
        members(
            "isLinkLocalUnicast", ("ip_is_link_local_unicast", _IP, BOOL, net.is_link_local_unicast)
        ),
        members("isGlobalUnicast", ("ip_is_global_unicast", _IP, BOOL, net.is_global_unicast)),
        costs.parsing("isIP", Overload("is_ip", _TEXT, BOOL, _is_ip)),
        Function("string", (Overload("ip_to_string", (IP,), STRING, str),)),
    ),
    {"net.IP": IP},
)  # fmt: skip
NETWORKS: Final = Library(
    "kubernetes.net.cidr",
    (
        costs.parsing("cidr", Overload("string_to_cidr", _TEXT, CIDR, net.parse_cidr)),
        _search(
            "containsIP",
            ("cidr_contains_ip_string", STRING, _contains_text),
            ("cidr_contains_ip_ip", IP, net.contains_ip),
            networks=False,
        ),
        _search(
            "containsCIDR",
            ("cidr_contains_cidr_string", STRING, _contains_network_text),
            ("cidr_contains_cidr", CIDR, net.contains_cidr),
            networks=True,
        ),
        members("ip", ("cidr_ip", _CIDR, IP, lambda network: network.ip)),
        members("prefixLength", ("cidr_prefix_length", _CIDR, INT, lambda network: network.length)),
        members("masked", ("cidr_masked", _CIDR, CIDR, net.mask)),
        costs.parsing("isCIDR", Overload("is_cidr", _TEXT, BOOL, _is_cidr)),
        Function("string", (Overload("cidr_to_string", (CIDR,), STRING, str),)),
    ),
    {"net.CIDR": CIDR},
)  # fmt: skip
