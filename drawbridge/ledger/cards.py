"""The devices of a node as strategies see them: cards of one driver, in thousandths.

A card is a device, or the devices that draw from one counter set: a GPU and its partitions. A part
of a device is as large as its largest part of a capacity, and a partition as large as the mean part
of the counters that it draws. The API server accepts capacities and counters below zero, which
count as nothing. What is asked for is read from an allocation that a search found.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.choice.amounts import WHOLE, AskedOthers, Task
from drawbridge.dra.allocation import Allocation, AllocationResult
from drawbridge.dra.attributes import split_name
from drawbridge.dra.counters import CounterKey
from drawbridge.dra.inventory import Pool, PoolID
from drawbridge.ledger.node_resources import CPU, MEMORY, Amounts
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.world import PoolUse

# Names the product of a device.
PRODUCT: Final = "productName"


class Card(NamedTuple):
    """Devices that share counters, or one device; with the totals of the counters."""

    pool: PoolID
    devices: tuple[Candidate, ...]
    counters: Mapping[CounterKey, int]

    @property
    def kind(self) -> str:
        """What tells nodes apart: the product of the first device, and about how much it has.

        What a task takes of a card is the same on all cards of a kind. A driver can publish no
        product, or one name for several sizes, and a node that is taken over any size.
        """
        attribute = self.devices[0].find_attribute(f"{self.pool.driver}/{PRODUCT}")
        product = (attribute.string or "") if attribute is not None else ""
        amounts = {name: each.value for name, each in self.devices[0].device.capacity.items()}
        sizes = {name: _about(value.nanos()) for name, value in amounts.items()}
        sizes |= {counter: _about(total) for (_, counter), total in self.counters.items()}
        return f"{product} {sorted(sizes.items())}"

    def free(self, use: PoolUse, left: Mapping[CounterKey, int]) -> int:
        """Return the thousandths that claims can still get, rounded down."""
        if self.counters:
            held = [each for each in self.devices if each.name in use.shares and each.shared]
            if len(held) != 1:
                return _mean_part({key: left.get(key, 0) for key in self.counters}, self.counters)
            return _free_of_device(held[0], use)
        return _free_of_device(self.devices[0], use)

    def used(self, capacities: Sequence[str], use: PoolUse, free: int) -> tuple[int, ...]:
        """Return the thousandths in use of each capacity; 0 of one that is not published.

        Of partitions, and of a device that is not shared, these are what is not `free` of it.
        """
        if free == WHOLE:
            return (0,) * len(capacities)
        device = self.devices[0]
        consumed = None if self.counters else use.shares.get(device.name)
        published = {split_name(name, self.pool.driver): name for name in device.device.capacity}
        parts: list[int] = []
        for capacity in capacities:
            name = published.get(split_name(capacity, self.pool.driver))
            if name is None:
                parts.append(0)
            elif consumed is None:
                parts.append(WHOLE - free)
            else:
                amount = {name: consumed[name].nanos()} if name in consumed else {}
                parts.append(min(WHOLE, _largest_part(amount, device)))
        return tuple(parts)

    def part(self, asked: "AskedPart") -> int:
        """Return the thousandths of such a card that an ask takes, rounded up."""
        if asked.drawn:
            return asked.drawn
        if asked.consumed is None:
            return WHOLE
        return min(WHOLE, _largest_part(asked.consumed, self.devices[0]))


class AskedPart(NamedTuple):
    """What an ask takes of one card: amounts of capacities, or thousandths that a partition draws.

    With neither, it takes the card as a whole.
    """

    consumed: Mapping[str, int] | None = None
    drawn: int = 0


class AskedCards(NamedTuple):
    """What the claims of a pod ask of the cards of one driver, and of others by kind."""

    driver: str
    parts: tuple[AskedPart, ...]
    others: Mapping[str, tuple[AskedPart, ...]] = {}


def find_cards(pools: Iterable[tuple[Pool, Sequence[Candidate]]], driver: str) -> tuple[Card, ...]:
    """Return the cards of a driver among the pools of a node, in the order of their devices."""
    cards: list[Card] = []
    for pool, candidates in pools:
        if pool.id.driver != driver:
            continue
        grouped: dict[tuple[bool, str], list[Candidate]] = {}
        for candidate in candidates:
            drawn = next(iter(candidate.draw), None)
            key = (True, drawn[0]) if drawn else (False, candidate.name)
            grouped.setdefault(key, []).append(candidate)
        for (draws, name), devices in grouped.items():
            published = pool.counter_sets.get(name) if draws else None
            totals = {
                (name, counter): each.value.nanos()
                for counter, each in (published.counters if published else {}).items()
            }
            cards.append(Card(pool.id, tuple(devices), totals))
    return tuple(cards)


def kind_of(driver: str, near: Mapping[str, str]) -> str:
    """Return the kind of a driver's devices beside others; `near` has attributes by driver."""
    return f"{driver} {near.get(driver, '')}".rstrip()


def driver_of(kind: str) -> str:
    """Return the driver of a kind."""
    return kind.partition(" ")[0]


def near_attribute(kind: str) -> str:
    """Return the attribute in which devices of a kind equal those of the first driver, or none."""
    return kind.partition(" ")[2]


def asked_cards(
    allocations: Iterable[Allocation],
    cards: Mapping[str, Sequence[Card]],
    near: Mapping[str, str],
) -> AskedCards | None:
    """Return what an allocation takes, by the driver of its first device; None without devices.

    `cards` are those of the node, by driver, and `near` says which are near the first driver's.
    Devices with admin access take nothing.
    """
    results = [each for one in allocations for each in one.devices.results if not each.admin_access]
    if not results:
        return None
    parts: dict[str, list[AskedPart]] = {results[0].driver: []}
    names = {each.device for each in results}
    by_name = {
        (card.pool, device.name): (card, device)
        for of_driver in cards.values()
        for card in of_driver
        for device in card.devices
        if device.name in names
    }
    for result in results:
        device = by_name.get((PoolID(result.driver, result.pool), result.device))
        if device is not None:
            parts.setdefault(result.driver, []).append(_asked_part(result, *device))
    first, *others = ((driver, tuple(of_driver)) for driver, of_driver in parts.items())
    by_kind = {kind_of(driver, near): of_driver for driver, of_driver in others}
    return AskedCards(*first, by_kind) if first[1] else None


def task_of(
    asked: AskedCards,
    requested: Amounts,
    cards: Sequence[Card],
    others: Iterable[tuple[str, Sequence[Card]]],
) -> Task:
    """Return the task of a pod on nodes with such cards; the largest part counts for all.

    `others` are the kinds that count, with their cards.
    """
    beside: list[AskedOthers] = []
    for kind, of_kind in others:
        parts = asked.others.get(kind)
        if parts:
            share = max(map(of_kind[0].part, parts)) if of_kind else WHOLE
            beside.append(AskedOthers(kind, len(parts), share, near=bool(near_attribute(kind))))
    share = max(map(cards[0].part, asked.parts))
    cpu, memory = requested.get(CPU, 0), requested.get(MEMORY, 0)
    return Task(len(asked.parts), share, cpu, memory, others=tuple(beside))


def _asked_part(result: AllocationResult, card: Card, device: Candidate) -> AskedPart:
    if result.share_id is not None:
        consumed = {name: each.nanos() for name, each in result.consumed_capacity.items()}
        return AskedPart(consumed=consumed)
    if card.counters:
        left = {key: all_ - device.draw.get(key, 0) for key, all_ in card.counters.items()}
        return AskedPart(drawn=WHOLE - _mean_part(left, card.counters))
    return AskedPart()


def _about(amount: int) -> int:
    """Return an amount with four binary digits: what differs by less is equal."""
    rest = max(0, amount.bit_length() - 4)
    return amount >> rest << rest


def _free_of_device(device: Candidate, use: PoolUse) -> int:
    consumed = use.shares.get(device.name)
    if device.name in use.dedicated or (consumed is not None and not device.shared):
        return 0
    if consumed is None:
        return WHOLE
    return max(0, WHOLE - _largest_part({n: each.nanos() for n, each in consumed.items()}, device))


def _largest_part(consumed: Mapping[str, int], device: Candidate) -> int:
    """Return the thousandths that are consumed, rounded up; more than all of it is possible."""
    capacity = device.device.capacity
    parts = (
        -(-amount * WHOLE // total)
        for name, amount in consumed.items()
        if name in capacity and (total := capacity[name].value.nanos()) > 0
    )
    return max((0, *parts))


def _mean_part(left: Mapping[CounterKey, int], totals: Mapping[CounterKey, int]) -> int:
    """Return the thousandths that are left, rounded down; all of it at most."""
    parts = [
        min(WHOLE, max(0, left[key]) * WHOLE // total) for key, total in totals.items() if total > 0
    ]
    return sum(parts) // len(parts) if parts else WHOLE
