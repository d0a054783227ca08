"""Finds out which network peer keeps something limited from others, before anybody is known.

Only what is scarce is taken from a peer, and only then: no peer has a limit of its own, because the
API server can have one address and send everything from it.
"""

import ipaddress
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

# What the API server sends arrives within milliseconds. A client that is refused can send as much
# again, so a shorter time costs more work.
OVERDUE_SECONDS: Final = 3.0
# The addresses of one node or machine usually share this prefix.
_IPV6_PREFIX: Final = 64

Holder = TypeVar("Holder")


class Holding(NamedTuple):
    """What a connection or request holds, and since when, in seconds."""

    peer: str
    since: float
    amount: int = 1


def find_peer(host: str) -> str:
    """Return the peer with an address: one IPv4 address, or one IPv6 network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    network = ipaddress.ip_network((int(address), _IPV6_PREFIX), strict=False)
    return str(address.ipv4_mapped or network)


def find_greediest(holdings: Mapping[Holder, Holding], now: float) -> Holder | None:
    """Return who has to give up: the product of its time and of what its peer holds is highest.

    A client that waits loses even if it has many addresses, because its time grows. One that starts
    again and again loses because of its amount. What arrives at once has hardly any time.
    """
    amounts = Counter[str]()
    for holding in holdings.values():
        amounts[holding.peer] += holding.amount

    def measure(holder: Holder) -> float:
        holding = holdings[holder]
        return (now - holding.since) * amounts[holding.peer]

    return max(holdings, key=measure, default=None)
