"""Generates small clusters and gangs; the same seed gives the same situation."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple, TypeAlias

# A share of a device gets so much of its memory by default, which is all of it.
MEMORY: Final = 4
_MEMBERS: Final = ("m0", "m1", "m2", "m3", "m4")


class Device(NamedTuple):
    """A device of a node; with shares, its memory is shared. It can draw on a counter."""

    name: str
    is_large: bool = False
    is_shared: bool = False
    units: int = 0


class Request(NamedTuple):
    """So many devices, of all or of the large ones, or a share of one with so much memory."""

    count: int = 1
    is_large: bool = False
    memory: int = 0


# The requests of a claim.
Requests: TypeAlias = Sequence[Request]


class NodeOf(NamedTuple):
    """A node: its devices, the amount of its counter, and its labels."""

    name: str
    devices: Sequence[Device]
    units: int
    labels: frozenset[str]


class Member(NamedTuple):
    """A pod of the gang: the names of its claims, the label of its nodes, and where it is bound."""

    uid: str
    claims: tuple[str, ...]
    label: str = ""
    bound: str = ""


class Running(NamedTuple):
    """A pod that holds devices of a node, which are not shared."""

    uid: str
    node: str
    devices: tuple[str, ...]
    priority: int = 0
    violates: bool = False


class Situation(NamedTuple):
    """A cluster with a gang, of which at least so many members must run.

    `allocated` has the nodes and devices of claims that bound members use, `quota` limits the
    devices of the namespace of the gang.
    """

    nodes: Sequence[NodeOf]
    claims: Mapping[str, Requests]
    members: Sequence[Member]
    least: int
    running: Sequence[Running]
    allocated: Mapping[str, tuple[str, tuple[str, ...]]]
    quota: int | None = None

    @property
    def asking(self) -> list[Member]:
        """The members that are not bound."""
        return [each for each in self.members if not each.bound]

    @property
    def needed(self) -> int:
        """How many of these must get devices."""
        return max(self.least - len(self.members) + len(self.asking), 1)

    def free_devices(self, node: NodeOf) -> list[Device]:
        """The devices of a node that neither bound members nor important pods hold."""
        held = {name for at, names in self.allocated.values() if at == node.name for name in names}
        return [each for each in node.devices if each.name not in held]


def draw_situation(seed: int) -> Situation:
    """Draw a cluster and a gang."""
    random = Random(seed)  # not a secret
    nodes = [
        _draw_node(random, f"n{number}") for number in range(random.choice((1, 1, 2, 2, 3, 4)))
    ]
    uids = _MEMBERS[: random.choice((2, 3, 3, 4, 4, 5))]
    claims: dict[str, Requests] = {}
    of_member: dict[str, list[str]] = {}
    kinds = [_draw_requests(random) for _ in range(random.randint(1, 4))]
    for uid in uids:
        of_member[uid] = []
        if random.random() < 0.7:
            claims[f"c-{uid}"] = random.choice(kinds)
            of_member[uid].append(f"c-{uid}")
    for number, users in enumerate(_draw_shared(random, uids)):
        claims[f"shared-{number}"] = random.choice(kinds) if random.random() < 0.5 else [Request()]
        for uid in users:
            of_member[uid].append(f"shared-{number}")
    # Who has no claim is decided about alone, as is its node.
    labels = ("", "", "a", "b") if random.random() < 0.3 else ("",)
    members = [
        Member(uid, tuple(of_member[uid]), random.choice(labels) if of_member[uid] else "")
        for uid in uids
    ]
    drawn = Situation(nodes, claims, members, random.randint(1, len(uids)), (), {})
    if random.random() < 0.2:
        drawn = _bind_first(drawn)
    quota = random.randint(1, 6) if random.random() < 0.25 else None
    return drawn._replace(running=[*_draw_running(random, drawn)], quota=quota)


def _draw_node(random: Random, name: str) -> NodeOf:
    is_varied = random.random() < 0.3
    devices = []
    for number in range(random.randint(0, 4)):
        kind = random.choice(("whole", "large", "shared", "part")) if is_varied else "whole"
        units = random.choice((1, 2)) if kind == "part" else 0
        devices.append(Device(f"gpu-{number}", kind == "large", kind == "shared", units))
    labels = frozenset(each for each in "ab" if random.random() < 0.6)
    return NodeOf(name, devices, random.randint(1, 4), labels)


def _draw_requests(random: Random) -> Requests:
    return [
        Request(memory=random.choice((1, 2, 3)))
        if random.random() < 0.1
        else Request(random.choice((1, 1, 1, 2, 3)), random.random() < 0.15)
        for _ in range(random.choice((1, 1, 1, 2)))
    ]


def _draw_shared(random: Random, uids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the members that share each claim of several."""
    match random.choice(("none", "all", "pairs", "chain", "sets", "any", "star")):
        case "all":
            yield uids
        case "pairs":
            yield from (pair for pair in (uids[:2], uids[2:4]) if len(pair) > 1)
        case "chain":
            yield from pairwise(uids)
        case "sets":
            middle = len(uids) // 2
            yield from (uids[:middle], uids[middle:])
        case "any":
            yield from (random.sample(uids, random.randint(2, len(uids))) for _ in range(2))
        case "star":
            yield from ((uids[0], other) for other in uids[1:])


def _bind_first(given: Situation) -> Situation:
    """Bind the first member to a node that has devices for it, if there is one."""
    first, *others = given.members
    for node in given.nodes:
        free = [each for each in node.devices if not each.is_shared and not each.units]
        allocated = {}
        for name in first.claims:
            taken = []
            for count, is_large, memory in given.claims[name]:
                able = [each for each in free if each.is_large or not is_large]
                if memory or len(able) < count:
                    break
                taken += able[:count]
                free = [each for each in free if each not in taken]
            else:
                allocated[name] = (node.name, tuple(each.name for each in taken))
        if len(allocated) == len(first.claims) and others:
            members = [
                each._replace(label=each.label if {*each.claims} - allocated.keys() else "")
                for each in others
            ]
            bound = first._replace(bound=node.name, label="")
            return given._replace(members=[bound, *members], allocated=allocated)
    return given


def _draw_running(random: Random, given: Situation) -> Iterator[Running]:
    """Yield pods that hold devices, of a lower or a higher priority."""
    if random.random() < 0.4:
        return
    number = 0
    for node in given.nodes:
        free = [
            each.name for each in given.free_devices(node) if not each.is_shared and not each.units
        ]
        while free and number < 6 and random.random() < 0.75:
            size = min(len(free), random.choice((1, 1, 2)))
            devices, free = tuple(free[:size]), free[size:]
            priority = random.choice((0, 0, 0, 1, 2, 100))
            yield Running(f"low-{number}", node.name, devices, priority, random.random() < 0.3)
            number += 1
