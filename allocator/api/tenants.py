"""Whose requests count together, and what each tenant gets of what is limited.

All accounts of a namespace are one tenant: whoever may create one there can create many. Any other
user is a tenant, and these have a share of their own, which no account can use up. In each share, a
quarter is kept for tenants that use nothing of it.
"""

import contextlib
import enum
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

from allocator.api.messages import ApiFailureError, FailureCode
from drawbridge.bounded_cache import BoundedCache

MAX_KEYS: Final = 4096
_ACCOUNT: Final = "system:serviceaccount:"
_KEPT: Final = 1 / 4


class Share(enum.Enum):
    """Who gets a part of everything that is limited."""

    ACCOUNTS = enum.auto()
    USERS = enum.auto()


class Tenant(NamedTuple):
    """Those whose requests count together: the accounts of a namespace, or a user."""

    share: Share
    name: str


def find_tenant(user: str) -> Tenant:
    """Return the tenant of a user name of Kubernetes."""
    if user.startswith(_ACCOUNT):
        return Tenant(Share.ACCOUNTS, user[len(_ACCOUNT) :].partition(":")[0])
    return Tenant(Share.USERS, user)


class Rate(NamedTuple):
    """How much is allowed in a second, and how much at once."""

    per_second: float
    burst: float


class KeyedRates:
    """What keys, such as tenants and addresses, have left of a rate. Reads no clock."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        # What callers and addresses have left, at which time.
        self._left: BoundedCache[Hashable, tuple[float, float]] = BoundedCache(MAX_KEYS)

    def find_left(self, key: Hashable, now: float) -> float:
        """Return what a key has left."""
        per_second, burst = self.rate
        left, at = self._left.get(key) or (burst, now)
        return min(burst, left + (now - at) * per_second)

    def take(self, key: Hashable, now: float, cost: float = 1, kept: float = 0) -> float:
        """Use some of what a key has left beyond `kept`; return 0.

        If it has too little, use nothing, and return the seconds to wait.
        """
        per_second, burst = self.rate
        left, needed = self.find_left(key, now), min(kept + cost, burst)
        self._left.put(key, (left - cost if left >= needed else left, now))
        return 0.0 if left >= needed else (needed - left) / per_second


class SharedRates:
    """The rate of each key, and the rate of all keys of a share together."""

    def __init__(self, of_key: Rate, of_share: Rate) -> None:
        self._of_key = KeyedRates(of_key)
        self._of_share = KeyedRates(of_share)

    def take(self, share: Share, key: Hashable, now: float, cost: float = 1) -> float:
        """Use some of both; return the seconds to wait, or 0."""
        is_unused = self._of_key.find_left(key, now) >= self._of_key.rate.burst
        kept = 0 if is_unused else self._of_share.rate.burst * _KEPT
        return self._of_key.take(key, now, cost) or self._of_share.take(share, now, cost, kept)

    def take_of_share(self, share: Share, now: float, cost: float) -> float:
        """Use some of what a share has, for somebody without a limit of its own."""
        return self._of_share.take(share, now, cost)


class Places:
    """How much tenants hold at a moment, such as requests or bytes."""

    def __init__(self, of_tenant: int, of_share: int, what: str) -> None:
        self._of_tenant, self._of_share, self._what = of_tenant, of_share, what
        self._held: Counter[Tenant] = Counter()
        self._held_in: Counter[Share] = Counter()

    @contextlib.contextmanager
    def hold(self, tenant: Tenant, amount: int = 1) -> Iterator[None]:
        """Hold some; raises ApiFailureError if a tenant, or a share, holds too much."""
        if not self._has_room(tenant, amount):
            raise too_many(f"too many {self._what}", 1)
        self._held[tenant] += amount
        self._held_in[tenant.share] += amount
        try:
            yield
        finally:
            self._held[tenant] -= amount
            self._held_in[tenant.share] -= amount
            if not self._held[tenant]:
                del self._held[tenant]

    def _has_room(self, tenant: Tenant, amount: int) -> bool:
        held = self._held[tenant]
        kept = self._of_share * _KEPT if held else 0
        return (
            held + amount <= self._of_tenant
            and self._held_in[tenant.share] + amount + kept <= self._of_share
        )


def too_many(text: str, seconds: float) -> ApiFailureError:
    """Return the error of a limit, and after how long to try again."""
    return ApiFailureError(FailureCode.TOO_MANY_REQUESTS, text, retry_after=seconds)
