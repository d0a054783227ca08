"""Simulates the placement of a gang: at least its minimum of members, or none.

The members are placed one after the other first, as a scheduler places them. If too few fit, the
devices of all members are searched together, where the allocator of Drawbridge does so.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim
from drawbridge.dra.nodes import Node
from drawbridge.ledger import codes
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.placing import PlacedPod, Placer, PodPlacement
from drawbridge.ledger.pods import Pod
from drawbridge.pod_groups import PodGroup
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import MemberKind, place_gang
from drawbridge.solver.reasons import Reason


class Gang(NamedTuple):
    """The members of a gang that wait, and how many of them must be placed together."""

    group: PodGroup
    members: tuple[Pod, ...]
    least: int


def place_members(gang: Gang, placer: Placer, *, together: bool) -> tuple[PodPlacement, ...]:
    """Place the members, in their order; all stay without a node if fewer than the minimum fit."""
    before = placer.claims
    placements = [placer.place_pod(pod) for pod in gang.members]
    if (fits := _count(placements)) >= gang.least:
        return tuple(placements)
    _withdraw(gang, placements, placer, before)
    if together:
        joint = _place_together(gang.members, placer)
        if _count(joint) >= gang.least:
            return tuple(joint)
        fits = max(fits, _count(joint))
        _withdraw(gang, joint, placer, before)
    return tuple(_refuse(each, gang, fits) for each in placements)


def _count(placements: Sequence[PodPlacement]) -> int:
    return sum(each.node is not None for each in placements)


def _withdraw(
    gang: Gang, placements: Sequence[PodPlacement], placer: Placer, before: dict[str, Claim]
) -> None:
    placed = zip(gang.members, placements, strict=True)
    placer.withdraw([PlacedPod(pod, each.node) for pod, each in placed if each.node], before)


def _refuse(placement: PodPlacement, gang: Gang, fits: int) -> PodPlacement:
    """Return a member without a node, and why its gang has none."""
    text = f"{gang.group} needs {gang.least} members together, and {fits} of "
    text += f"{len(gang.members)} that wait fit"
    why: tuple[Reason, ...] = (make_reason(codes.GANG_NOT_PLACED, "gang", text),)
    claims = tuple((name, None) for name, _ in placement.claims)
    return PodPlacement(placement.pod, None, claims, (*why, *placement.reasons))


# --- all members together ---


class _Question(NamedTuple):
    """What a member asks: the claims that need devices, and the nodes that it can use."""

    claims: tuple[Claim, ...]
    nodes: tuple[Node, ...]

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [each.name for each in self.nodes]


def _place_together(members: Sequence[Pod], placer: Placer) -> list[PodPlacement]:
    """Place members on the nodes and with the devices of one search for all of them."""
    planned = dict(_plan(members, placer))
    placements = []
    for number, pod in enumerate(members):
        if number in planned:
            node, allocations = planned[number]
            placements.append(placer.place_at(pod, node, allocations))
        else:
            placements.append(placer.place_pod(pod))
    return placements


def _plan(
    members: Sequence[Pod], placer: Placer
) -> Iterator[tuple[int, tuple[Node, tuple[Allocation, ...]]]]:
    """Yield the node and the devices of each member that has a place."""
    kinds: dict[bytes, tuple[_Question, list[int]]] = {}
    for number, pod in enumerate(members):
        claims, nodes = placer.find_shared_question(pod)
        if not claims:
            continue
        question = _Question(tuple(claims), tuple(nodes))
        key = msgspec.json.encode(([each.spec for each in claims], question.names), enc_hook=str)
        kinds.setdefault(key, (question, []))[1].append(number)
    if not kinds:
        return
    asked = [
        MemberKind(question.claims, len(numbers), question.names)
        for question, numbers in kinds.values()
    ]
    nodes_by_name = {node.name: node for question, _ in kinds.values() for node in question.nodes}

    def ask(node: str, claims: Sequence[Claim]) -> Solution | None:
        answer = placer.solve(claims, (node,)).get(node)
        return answer if isinstance(answer, Solution) else None

    left = [numbers for _, numbers in kinds.values()]
    for on_node in place_gang(asked, ask).nodes:
        for waiting, allocations in zip(left, on_node.allocations(asked), strict=True):
            for of_member in allocations:
                yield waiting.pop(0), (nodes_by_name[on_node.node], of_member)


def without_node(gang: Gang, reason: Reason) -> tuple[PodPlacement, ...]:
    """Return the members of a gang that is not tried."""
    names = (pod.full_name for pod in gang.members)
    return tuple(PodPlacement(name, None, (), (reason,)) for name in names)
