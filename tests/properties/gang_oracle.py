"""Says by trying everything whether enough members of a gang have a place."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import combinations

from tests.properties.generated_gangs import (
    MEMORY,
    Device,
    Member,
    NodeOf,
    Request,
    Situation,
)


class Oracle:
    """All placements of a gang when some pods are gone."""

    def __init__(self, given: Situation, gone: Collection[str] = ()) -> None:
        self._given = given
        self._held = {
            (each.node, name)
            for each in given.running
            if each.uid not in gone
            for name in each.devices
        }
        self._known: dict[tuple[str, frozenset[str]], bool] = {}

    @cached_property
    def most(self) -> int:
        """How many members have a place together."""
        return max(map(len, self._placements(self._given.asking, {})))

    @property
    def is_enough(self) -> bool:
        """Whether enough members have a place together."""
        return self.most >= self._given.needed

    def _placements(
        self, left: Sequence[Member], placed: dict[str, str]
    ) -> Iterator[dict[str, str]]:
        """Yield who can be where."""
        if not left:
            yield placed
            return
        first, *others = left
        for node in self._given.nodes:
            chosen = {**placed, first.uid: node.name}
            if self._is_possible(first, node, chosen):
                yield from self._placements(others, chosen)
        yield from self._placements(others, placed)

    def _is_possible(self, member: Member, node: NodeOf, placed: dict[str, str]) -> bool:
        if member.label and member.label not in node.labels:
            return False
        allocated = self._given.allocated
        if any(name in allocated and allocated[name][0] != node.name for name in member.claims):
            return False
        users = [each for each in self._given.asking if each.uid in placed]
        if any(placed[each.uid] != node.name for each in users if self._share(each, member)):
            return False
        names = frozenset(
            name
            for each in users
            if placed[each.uid] == node.name
            for name in each.claims
            if name not in allocated
        )
        return self._has_room(users) and self._fits_on(node, names)

    def _share(self, first: Member, other: Member) -> bool:
        return any(
            name in other.claims and name not in self._given.allocated for name in first.claims
        )

    def _has_room(self, users: Sequence[Member]) -> bool:
        """Whether the quota has room for all new claims of these members, beside the others."""
        new = {name for each in users for name in each.claims} - self._given.allocated.keys()
        added = sum(map(self._charge_of, new))
        used = sum(map(self._charge_of, self._given.allocated))
        return not added or self._given.quota is None or used + added <= self._given.quota

    def _charge_of(self, name: str) -> int:
        return sum(each.count for each in self._given.claims[name] if not each.is_large)

    def _fits_on(self, node: NodeOf, names: frozenset[str]) -> bool:
        key = node.name, names
        if key not in self._known:
            requests = [each for name in sorted(names) for each in self._given.claims[name]]
            devices = [
                (each, MEMORY)
                for each in self._given.free_devices(node)
                if (node.name, each.name) not in self._held
            ]
            self._known[key] = fits(requests, devices, node.units)
        return self._known[key]


def fits(requests: Sequence[Request], devices: Sequence[tuple[Device, int]], units: int) -> bool:
    """Whether devices with so much memory left have what is requested."""
    if not requests:
        return True
    first, *others = requests
    able = [
        (device, left)
        for device, left in devices
        if device.units <= units
        and (device.is_large or not first.is_large)
        and (device.is_shared or not first.memory)
        and (not device.is_shared or left >= (first.memory or MEMORY))
    ]
    for chosen in combinations(able, first.count):
        spent = sum(device.units for device, _ in chosen)
        after = [
            (device, left - (first.memory or MEMORY) if (device, left) in chosen else left)
            for device, left in devices
            if device.is_shared or (device, left) not in chosen
        ]
        if spent <= units and fits(others, after, units - spent):
            return True
    return False
