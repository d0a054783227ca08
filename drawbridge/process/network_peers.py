"""Shares something limited among network peers, before anybody is known.

Only what is scarce is taken from a peer, and only then: no peer has a limit of its own, because the
API server can have one address and send everything from it.
"""

import functools
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


@functools.lru_cache(maxsize=1024)  # each request asks
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


class PeerShares:
    """How much peers hold of something limited.

    A part is for all of them. When it is in use, another part is divided among those that hold
    some, so a peer with little has room although others hold much. Peers that come one after the
    other hold more in total than both parts, by the logarithm of their number.
    """

    def __init__(self, for_all: int, divided: int) -> None:
        self._for_all, self._divided = for_all, divided
        self._held: Counter[str] = Counter()
        self.total = 0

    def has_room(self, peer: str, amount: int = 1) -> bool:
        """Return whether a peer may hold so much more."""
        if self.total + amount <= self._for_all:
            return True
        held = self._held.get(peer, 0)
        return (held + amount) * (len(self._held) + (not held)) <= self._divided

    def add(self, peer: str, amount: int = 1) -> None:
        """Count what a peer holds from now on."""
        self._held[peer] += amount
        self.total += amount

    def remove(self, peer: str, amount: int = 1) -> None:
        """Count it no more."""
        self._held[peer] -= amount
        self.total -= amount
        if not self._held[peer]:
            del self._held[peer]


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
