"""Whether pods fit beside what is held: the exhaustive search that the world compares with."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.world.asks import Ask, Choice
from tests.world.nodes import Device
from tests.world.objects import NODES, give
from tests.world.team_quota import EVERYTHING, Amounts

# What a pod asks for, and the node of the devices that it has already.
Need = tuple[Sequence[Ask], str]


class _Given(NamedTuple):
    """What is held after a pod has got devices, and those devices with the asks.

    A quota limits the pod if it `is_limited`. It counts what is `charged`, with amounts.
    """

    held: Mapping[Device, int]
    is_limited: bool
    chosen: tuple[tuple[Ask, str], ...] = ()
    charged: tuple[tuple[str, int], ...] = ()

    def add(self, node: str, ask: Ask, amounts: Mapping[str, int]) -> "_Given":
        """Return what is held and chosen with some devices more."""
        more = {
            (node, name): self.held.get((node, name), 0) + amount
            for name, amount in amounts.items()
            if amount
        }
        chosen = (*self.chosen, *((ask, name) for name in amounts))
        charged = ((name, n) for name, n in amounts.items() if n and name not in NODES[node].nics)
        both = *self.charged, *charged
        return _Given({**self.held, **more}, self.is_limited, chosen, both)

    def charge(self, node: str) -> Amounts:
        """Return what a quota counts of the devices."""
        return Amounts(len(self.charged), sum(itertools.starmap(NODES[node].charge, self.charged)))

    def keeps_constraints(self, node: str, ask: Ask) -> bool:
        """Whether the constraints of a claim hold for what it has until now."""
        own = [(each.request, name) for each, name in self.chosen if each.claim == ask.claim]
        return all(constraint.allows(own, NODES[node].roots) for constraint in ask.constraints)


def fit_together(
    nodes: Collection[str], held: Mapping[Device, int], needs: Sequence[Need], room: Amounts
) -> bool:
    """Whether pods that ask for this, each on one node, fit beside what is held.

    They get no more than a quota has room for; a request for all devices counts what it gets. Of
    one node, an allocator looks only at the devices that it finds first. So where memory is
    limited, a need is judged by the nodes of which all devices have room. For a gang, it finds
    places on several nodes that can have too much together, so that the gang is not judged.
    """
    if room.memory == math.inf:
        charges = _list_charges(nodes, held, needs, room)
        is_fitting = any(each.is_within(room) for each in charges)
        return is_fitting and not (_varies(needs) and room.devices < math.inf)
    narrowed = [([_narrow(ask, room) for ask in asks], only) for asks, only in needs]
    ways = ([*_list_charges([node], held, narrowed, room)] for node in nodes)
    return len(needs) < 2 and any(some and all(e.is_within(room) for e in some) for some in ways)


def _varies(needs: Sequence[Need]) -> bool:
    """Whether a quota counts other devices for a member of a gang on one node than on another."""
    choices = (choice for asks, _ in needs for ask in asks for choice in ask.choices)
    return len(needs) > 1 and any(choice.is_all for choice in choices)


def _narrow(ask: Ask, room: Amounts) -> Ask:
    """Return what is asked for without the alternatives that ask for more than there is room."""
    return ask._replace(choices=tuple(e for e in ask.choices if e.memory <= room.memory))


def _list_charges(
    nodes: Collection[str], held: Mapping[Device, int], needs: Sequence[Need], room: Amounts
) -> Iterator[Amounts]:
    """Yield what a quota counts of each way in which pods fit; EVERYTHING beyond its devices."""
    if not needs:
        yield Amounts(0, 0)
        return
    (asks, only), *others = needs
    for node in nodes if not only else {only} & {*nodes}:
        for given in _give(node, _Given(held, room.devices < math.inf), asks):
            own = given.charge(node)
            if own.devices > room.devices:
                yield EVERYTHING
                continue
            left = room._replace(devices=room.devices - own.devices)
            for more in _list_charges(nodes, given.held, others, left):
                yield Amounts(own.devices + more.devices, own.memory + more.memory)


def _give(node: str, given: _Given, asks: Sequence[Ask]) -> Iterator[_Given]:
    """Yield each way in which a node can give what is asked for, beside what is given."""
    if not asks:
        yield given
        return
    ask, *others = asks
    if not ask.choices:
        return
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
        yield from _list_ways_of_admin(node, here, ask)
        return
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


def _list_ways_of_admin(
    node: str, held: Mapping[str, int], ask: Ask
) -> Iterator[Mapping[str, int]]:
    """Yield the devices that can be given with admin access, to a pod that asks for nothing else.

    Of a device with shares, something has to be left.
    """
    (choice,), shape = ask.choices, NODES[node]
    names = sorted(choice.select(shape))
    open_ones = [
        name
        for name in names
        if name not in shape.shared or give(shape.shared[name], held.get(name, 0), 0)
    ]
    if not choice.is_all:
        yield from ({name: 0} for name in open_ones)
    elif names and names == open_ones:
        yield dict.fromkeys(names, 0)


def _take_all(node: str, held: Mapping[str, int], choice: Choice) -> Mapping[str, int]:
    """Return what a request for all devices gets; nothing if one of them is not free."""
    shape, amounts, taken = NODES[node], dict[str, int](), {**held}
    for name in sorted(choice.select(shape)):
        amounts[name] = shape.give(taken, name, choice.memory)
        if not amounts[name]:
            return {}
        taken[name] = taken.get(name, 0) + amounts[name]
    return amounts
