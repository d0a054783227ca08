"""Whether pods fit beside what is held: the exhaustive search that the world compares with."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.world.asks import Ask, Choice
from tests.world.nodes import Device
from tests.world.objects import NODES


class _Given(NamedTuple):
    """What is held after a pod has got devices, and those devices with the asks.

    A quota limits the pod if it `is_limited`.
    """

    held: Mapping[Device, int]
    is_limited: bool
    chosen: tuple[tuple[Ask, str], ...] = ()

    def add(self, node: str, ask: Ask, amounts: Mapping[str, int]) -> "_Given":
        """Return what is held and chosen with some devices more."""
        more = {
            (node, name): self.held.get((node, name), 0) + amount
            for name, amount in amounts.items()
            if amount
        }
        chosen = (*self.chosen, *((ask, name) for name in amounts))
        return _Given({**self.held, **more}, self.is_limited, chosen)

    def count_limited(self, node: str) -> int:
        """Return how many of the devices a quota counts."""
        return sum(
            name not in NODES[node].nics and not ask.choices[0].is_admin
            for ask, name in self.chosen
        )

    def keeps_constraints(self, node: str, ask: Ask) -> bool:
        """Whether the constraints of a claim hold for what it has until now."""
        own = [(each.request, name) for each, name in self.chosen if each.claim == ask.claim]
        return all(constraint.allows(own, NODES[node].roots) for constraint in ask.constraints)


def fit_together(
    nodes: Collection[str],
    held: Mapping[Device, int],
    wanted: Sequence[tuple[list[Ask], str]],
    room: float,
) -> bool:
    """Whether pods that ask for this, each on one node, fit beside what is held.

    They get no more devices than a quota has room for; a request for all counts what it gets.
    """
    if room < 0 or not wanted:
        return room >= 0
    (asks, only), *others = wanted
    return any(
        fit_together(nodes, given.held, others, room - given.count_limited(node))
        for node in (nodes if not only else {only} & {*nodes})
        for given in _give(node, _Given(held, room < math.inf), asks)
    )


def _give(node: str, given: _Given, asks: Sequence[Ask]) -> Iterator[_Given]:
    """Yield each way in which a node can give what is asked for, beside what is given."""
    if not asks:
        yield given
        return
    ask, *others = asks
    for amounts in _list_ways(node, given, ask):
        after = given.add(node, ask, amounts)
        if after.keeps_constraints(node, ask):
            yield from _give(node, after, others)


def _list_ways(node: str, given: _Given, ask: Ask) -> Iterator[Mapping[str, int]]:
    """Yield the devices, with amounts, that can be given for one ask. It gets a device once.

    A quota keeps a pod from the alternatives behind one for all devices, as docs/quotas.md says.
    """
    shape = NODES[node]
    here = {name: amount for (pool, name), amount in given.held.items() if pool == node}
    own = {name for other, name in given.chosen if other == ask}
    if ask.choices[0].is_admin:
        yield from _list_ways_of_admin(node, given, ask)
        return
    own |= {name for other, name in given.chosen if other.choices[0].is_admin}
    ways = dict[tuple[str, int], None]()
    for choice in ask.choices:
        if choice.is_all:
            if amounts := _take_all(node, here, choice):
                yield amounts
            if amounts and given.is_limited:
                return
            continue
        for name in sorted(shape.devices, key=lambda name: shape.devices[name]):
            if name in own or not choice.selects(shape, name):
                continue
            if amount := shape.give(here, name, choice.memory):
                ways[name, amount] = None
    for name, amount in ways:
        yield {name: amount}


def _list_ways_of_admin(node: str, given: _Given, ask: Ask) -> Iterator[Mapping[str, int]]:
    """Yield the devices that can be given with admin access: all but those of the same claim.

    Those that have been given so are given to no later request of the pod.
    """
    (choice,), of_claim = ask.choices, {n for each, n in given.chosen if each.claim == ask.claim}
    names = choice.select(NODES[node])
    if choice.is_all:
        if names and names.isdisjoint(of_claim):
            yield dict.fromkeys(sorted(names), 0)
        return
    yield from ({name: 0} for name in sorted(names - of_claim))


def _take_all(node: str, held: Mapping[str, int], choice: Choice) -> Mapping[str, int]:
    """Return what a request for all devices gets; nothing if one of them is not free."""
    shape, amounts, taken = NODES[node], dict[str, int](), {**held}
    for name in sorted(choice.select(shape)):
        amounts[name] = shape.give(taken, name, choice.memory)
        if not amounts[name]:
            return {}
        taken[name] = taken.get(name, 0) + amounts[name]
    return amounts
