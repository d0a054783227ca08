"""What the metrics show of usage, within bounds."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from typing import Final

from controller.device_users import find_users
from controller.protocols import ObjectCache
from controller.usage_books import OTHERS, Group
from controller.usage_observer import UsageObserver, name_owner
from drawbridge.dra.device import Attribute
from drawbridge.process.named_series import OTHER
from drawbridge.process.usage_metrics import AccountUse, Usage, UsageStatistics
from drawbridge.report.stuck.objects import HangingPod
from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.claims import ClaimHolding, HeldPart, measure_part

# Series of drawbridge_held_devices: the accounts that hold most.
MAX_ACCOUNTS: Final = 500
_UUID: Final = "uuid"
_CLAIMS_PER_STEP: Final = 200


class UsageSeries:
    """The series of the leader; none in other replicas, where `totals` has none."""

    def __init__(
        self,
        observer: UsageObserver,
        totals: Callable[[], Mapping[Group, UsedAmount] | None],
        pods: ObjectCache[HangingPod],
        *,
        max_devices: int,
    ) -> None:
        self._observer = observer
        self._totals = totals
        self._pods = pods
        self._max_devices = max_devices

    async def read(self) -> Usage:
        """Return the series. Other tasks run meanwhile, so claims can change between two devices.

        What is summed up is a copy, which a thread reads.
        """
        books = self._totals()
        shows = books is not None and self._observer.is_observing
        rates = self._observer.meter.held_now() if shows else {}
        totals, names = dict(books or {}), self._observer.names()
        held, used = await asyncio.to_thread(
            lambda: (self._sum_held(rates, names), _list_used(totals))
        )
        described, left_out = await self._describe_devices() if shows else ([], 0)
        return Usage(held, used, described, left_out)

    def _sum_held(
        self, rates: Mapping[Account, UsedAmount], names: Mapping[str, str]
    ) -> list[AccountUse]:
        """Return the accounts that hold most now, and the sums of the others."""
        held: dict[Account, float] = {}
        for account, amount in rates.items():
            owned = account._replace(owner=name_owner(account.owner, names))
            held[owned] = held.get(owned, 0.0) + float(amount.devices)
        largest = set(heapq.nlargest(MAX_ACCOUNTS, held, key=lambda each: (held[each], each)))
        groups = {account[:2] for account in largest}
        sums: dict[Account, float] = {}
        for account, devices in held.items():
            group = account[:2] if account[:2] in groups else OTHERS
            named = account if account in largest else Account(*group, OTHER)
            sums[named] = sums.get(named, 0.0) + devices
        return [AccountUse(*account, devices) for account, devices in sums.items()]

    async def _describe_devices(self) -> tuple[list[tuple[tuple[str, ...], float]], int]:
        """Return the first devices that claims hold, whole or in part, and how many others."""
        described: list[tuple[tuple[str, ...], float]] = []
        held = 0
        for number, holding in enumerate(self._observer.holdings(), 1):
            held += len(holding.parts)
            shown = holding.parts[: self._max_devices - len(described)]
            described += [self._describe(holding, part) for part in shown]
            if number % _CLAIMS_PER_STEP == 0:
                await asyncio.sleep(0)
        return described, held - len(described)

    def _find_container(self, holding: ClaimHolding, part: HeldPart, name: str) -> str:
        """Return the container that uses a device; empty if several can, or if it is unknown."""
        pod = self._pods.get(name, holding.namespace) if name else None
        users = find_users(pod.value, holding.name, part.request) if pod is not None else ()
        return users[0] if len(users) == 1 else ""

    def _describe(self, holding: ClaimHolding, part: HeldPart) -> tuple[tuple[str, ...], float]:
        published = self._observer.find_device(part.driver, part.pool, part.device)
        node, uuid = "", ""
        if published is not None:
            node = published[1].node_name or published[0].node_name or ""
            uuid = _find_uuid(published[1].attributes)
        owner = self._observer.find_owner(holding)
        pod = holding.pods[0] if len(holding.pods) == 1 else ""
        labels = (
            holding.namespace,
            pod,
            self._find_container(holding, part, pod),
            holding.name,
            name_owner(owner, {}),
            part.class_name,
            node,
            part.driver,
            part.pool,
            part.device,
            uuid,
            "true" if part.shared else "false",
            part.share,
            "true" if holding.extended else "false",
        )
        return labels, float(measure_part(part, self._observer.find_capacity).devices)


def _list_used(totals: Mapping[Group, UsedAmount]) -> list[AccountUse]:
    """Return what the books have since this process leads, by namespace and class."""
    return [
        AccountUse(*group, "", float(amount.devices), float(amount.unknown))
        for group, amount in totals.items()
    ]


def _find_uuid(attributes: Mapping[str, Attribute]) -> str:
    """Return the attribute `uuid`, whatever its domain: DCGM has the same."""
    for name, attribute in attributes.items():
        if name.rpartition("/")[2] == _UUID and attribute.string:
            return attribute.string
    return ""


_: type[UsageStatistics] = UsageSeries
