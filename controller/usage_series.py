"""What the metrics show of usage, within bounds."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from controller.usage_observer import UsageObserver, is_waiting
from drawbridge.dra.device import Attribute
from drawbridge.process.usage_metrics import AccountUse, UsageStatistics
from drawbridge.usage.accounts import UNKNOWN, Account, UsedAmount
from drawbridge.usage.claims import ClaimHolding, HeldPart, measure_part

# Series of drawbridge_held_devices: the accounts that hold most.
MAX_ACCOUNTS: Final = 500
# Namespaces and classes with a series of their own.
MAX_GROUPS: Final = 500
OTHER: Final = "other"
_UUID: Final = "uuid"


class UsageSeries:
    """The series of the leader; none in other replicas."""

    def __init__(
        self,
        observer: UsageObserver,
        totals: Callable[[], Mapping[tuple[str, str], UsedAmount]],
        *,
        max_devices: int,
        is_leading: Callable[[], bool],
    ) -> None:
        self._observer = observer
        self._totals = totals
        self._max_devices = max_devices
        self._is_leading = is_leading
        self._names: dict[tuple[str, str], tuple[str, str]] = {}

    @property
    def _shows(self) -> bool:
        return self._is_leading() and self._observer.is_observing

    def held(self) -> Iterable[AccountUse]:
        """Return the accounts that hold most now, and the sums of the others."""
        rates = self._observer.meter.held_now() if self._shows else {}
        held = {account: float(amount.devices) for account, amount in rates.items()}
        largest = set(heapq.nlargest(MAX_ACCOUNTS, held, key=lambda each: (held[each], each)))
        sums: dict[Account, float] = {}
        for account, devices in held.items():
            owner = _owner(account) if account in largest else OTHER
            named = Account(*self._name(account[:2]), owner)
            sums[named] = sums.get(named, 0.0) + devices
        return [AccountUse(*account, devices) for account, devices in sums.items()]

    def used(self) -> Iterable[AccountUse]:
        """Return what the books have since this process leads, by namespace and class."""
        sums: dict[tuple[str, str], UsedAmount] = {}
        for group, amount in self._totals().items():
            named = self._name(group)
            sums[named] = sums[named].plus(amount) if named in sums else amount
        return [
            AccountUse(*group, "", float(amount.devices), float(amount.unknown))
            for group, amount in sums.items()
        ]

    def _name(self, group: tuple[str, str]) -> tuple[str, str]:
        """Return a namespace and class, or other after the first ones; always the same."""
        named = self._names.get(group)
        if named is None and len(self._names) < MAX_GROUPS:
            named = self._names[group] = group
        return named or (OTHER, OTHER)

    def devices(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """Return the first devices that claims hold, whole or in part."""
        if not self._shows:
            return
        left = self._max_devices
        for holding in self._observer.holdings():
            for part in holding.parts[:left]:
                left -= 1
                yield self._describe(holding, part)
            if not left:
                return

    def left_out(self) -> int:
        """Return how many devices have no series."""
        if not self._shows:
            return 0
        held = sum(len(holding.parts) for holding in self._observer.holdings())
        return max(0, held - self._max_devices)

    def _describe(self, holding: ClaimHolding, part: HeldPart) -> tuple[tuple[str, ...], float]:
        found = self._observer.find_device(part.driver, part.pool, part.device)
        node, uuid = "", ""
        if found is not None:
            node = found[1].node_name or found[0].node_name or ""
            uuid = _find_uuid(found[1].attributes)
        owner = self._observer.find_owner(holding)
        labels = (
            holding.namespace,
            holding.pods[0] if len(holding.pods) == 1 else "",
            holding.name,
            UNKNOWN if is_waiting(owner) else owner,
            part.class_name,
            node,
            part.driver,
            part.pool,
            part.device,
            uuid,
            "true" if part.shared else "false",
            "true" if holding.extended else "false",
        )
        return labels, float(measure_part(part, self._observer.find_capacity).devices)


def _owner(account: Account) -> str:
    return UNKNOWN if is_waiting(account.owner) else account.owner


def _find_uuid(attributes: Mapping[str, Attribute]) -> str:
    """Return the attribute `uuid`, whatever its domain: DCGM has the same."""
    for name, attribute in attributes.items():
        if name.rpartition("/")[2] == _UUID and attribute.string:
            return attribute.string
    return ""


_: type[UsageStatistics] = UsageSeries
