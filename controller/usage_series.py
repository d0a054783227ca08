"""What the metrics show of usage, within bounds."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from typing import Final

from controller.device_users import NO_DEVICES, DeviceUsers
from controller.protocols import ObjectCache
from controller.steps import iterate_in_steps
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
_NO_USERS: Final = DeviceUsers(NO_DEVICES)


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
        shown: list[tuple[ClaimHolding, tuple[HeldPart, ...]]] = []
        left, held = self._max_devices, 0
        async for holding in iterate_in_steps(self._observer.holdings()):
            held += len(holding.parts)
            if parts := holding.parts[:left]:
                shown.append((holding, parts))
                left -= len(parts)
        # The users of one pod at a time are kept, because a tenant decides how many these are.
        described: list[tuple[tuple[str, ...], float]] = []
        shown.sort(key=lambda each: (each[0].namespace, each[0].pods))
        of_pod, users = ("", ""), _NO_USERS
        for holding, parts in shown:
            pod = holding.namespace, holding.pods[0] if len(holding.pods) == 1 else ""
            if pod != of_pod:
                of_pod, users = pod, self._read_users(*pod)
            described += [self._describe(holding, part, pod[1], users) for part in parts]
            await asyncio.sleep(0)
        return described, held - len(described)

    def _read_users(self, namespace: str, name: str) -> DeviceUsers:
        pod = self._pods.get(name, namespace) if name else None
        return _NO_USERS if pod is None else DeviceUsers(pod.value)

    def _describe(
        self, holding: ClaimHolding, part: HeldPart, pod: str, users: DeviceUsers
    ) -> tuple[tuple[str, ...], float]:
        published = self._observer.find_device(part.driver, part.pool, part.device)
        node, uuid = "", ""
        if published is not None:
            node = published[1].node_name or published[0].node_name or ""
            uuid = _find_uuid(published[1].attributes)
        owner = self._observer.find_owner(holding)
        labels = (
            holding.namespace,
            pod,
            users.find(holding.name, part.request),
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
