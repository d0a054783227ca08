"""Keeps the devices of nodes that administrators hold for pods, where allocations are predicted.

The allocator keeps such devices with what preemption keeps. Predictions keep those that a search
finds on the node for the pod, once the pods that are to be evicted are gone.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from drawbridge.dra.claim import Claim
from drawbridge.ledger.claim_references import find_pod_claims
from drawbridge.ledger.holdings import read_holds
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_holds import NodeHold
from drawbridge.ledger.placing import HeldClaims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.solver.answers import Solution

# What is kept for a pod is under its name after this.
HELD_FOR: Final = "held for "


class PlannedHold(NamedTuple):
    """A node, what its annotation says, and the pod for which its devices are held."""

    node: str
    hold: NodeHold
    pod: Pod


def keep_planned(
    planner: Planner, held: HeldClaims, holds: Iterable[PlannedHold], asking: Collection[str]
) -> None:
    """Keep devices for pods that wait. The names in `asking` are of pods that may use theirs."""
    for planned in holds:
        key = f"{HELD_FOR}{planned.hold.pod}"
        # A pod has one hold.
        if planned.hold.pod in asking or key in held.ledger.kept:
            continue
        claims = find_pod_claims(planned.pod, held.claims, held.templates)
        needed = [each for each in claims.claims if each.status.allocation is None]
        if claims.problems or not needed:
            continue
        view = held.ledger.view_without({*_released(held.claims.values(), planned.hold.evicted)})
        answer = planner.solve_nodes(view, needed, [planned.node]).get(planned.node)
        if isinstance(answer, Solution):
            devices = (each for one in answer.allocations for each in read_holds(one))
            held.ledger.keep(key, devices)


def _released(claims: Iterable[Claim], evicted: Collection[str]) -> Iterator[str]:
    """Yield the claims that pods release when they are gone."""
    for claim in claims:
        users = [each.uid for each in claim.status.reserved_for]
        if users and all(each in evicted for each in users):
            yield uid_of(claim)
