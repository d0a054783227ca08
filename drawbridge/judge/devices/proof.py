"""Proves that no state of the published devices satisfies claims, or finds a node that does.

The solver decides on an empty ledger, over all nodes, in the relaxed world of the context. Alike
nodes are solved once.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from drawbridge.cel import CompileError
from drawbridge.cel.dra import Reads, find_reads
from drawbridge.dra.claim import Choice, Claim, Constraint, Request, request_choices
from drawbridge.dra.nodes import Node
from drawbridge.finding import Trait, find_names
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.device_index import TAINTS, DeviceReads
from drawbridge.judge.devices.narrowing import narrow_nodes
from drawbridge.solver import codes
from drawbridge.solver.answers import Failure, FailureKind, SolverResult
from drawbridge.solver.demand import Abort, build_demand
from drawbridge.solver.memo import Memo
from drawbridge.solver.reasons import Reason
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World

EMPTY = View()
# The search ends at the first node with a solution, so few nodes are solved at once.
BATCH = 4
# A claim that tells more kinds of nodes apart is decided only if one of so many has a solution.
MAX_KINDS = 256
# Claims can be too large for a search.
_OPEN_ERRORS = find_names((codes.CODES,), Trait.DEPENDS_ON_SLICES) | {codes.SEARCH_GAVE_UP.name}


class ProofOutcome(enum.StrEnum):
    """The result of a proof."""

    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


class Proof(NamedTuple):
    """The result of a proof; `reasons` say why each kind of node has no solution.

    `why` says why the proof is undecided. `node` has a solution.
    """

    outcome: ProofOutcome
    reasons: tuple[tuple[Node, tuple[Reason, ...]], ...] = ()
    why: str = ""
    node: Node | None = None


class UnreadableClaimError(Exception):
    """The claims cannot be judged by devices: another question reports what is wrong with them."""


def prove(claims: Sequence[Claim], context: JudgeContext, world: World | None = None) -> Proof:
    """Prove that no node ever satisfies the claims together, which must be readable.

    `world` replaces the relaxed world of the context.
    """
    world = world or context.relaxed
    kinds, memo = _find_kinds(claims, context, world)
    undecided: list[str] = list(context.index.unreadable[:1])
    if len(kinds) > MAX_KINDS:
        for node, answer in _solve_kinds(claims, kinds[:BATCH], context, world, memo):
            if not isinstance(answer, Failure):
                return Proof(ProofOutcome.POSSIBLE, node=node)
        kinds = narrow_nodes(claims, kinds, MAX_KINDS, context)
    if len(kinds) > MAX_KINDS:
        undecided.append(f"it depends on more than {MAX_KINDS} kinds of nodes")
    kinds = kinds[:MAX_KINDS]
    failed: list[tuple[Node, tuple[Reason, ...]]] = []
    for node, answer in _solve_kinds(claims, kinds, context, world, memo):
        if not isinstance(answer, Failure):
            return Proof(ProofOutcome.POSSIBLE, node=node)
        failed.append((node, answer.reasons))
        if why := _open_question(answer):
            undecided.append(why)
    if undecided:
        return Proof(ProofOutcome.UNDECIDED, tuple(failed), undecided[0])
    return Proof(ProofOutcome.IMPOSSIBLE, tuple(failed))


def is_impossible(claims: Sequence[Claim], context: JudgeContext) -> bool:
    """Return whether it is proved that no node ever satisfies the claims together."""
    return prove(claims, context).outcome is ProofOutcome.IMPOSSIBLE


def _find_kinds(
    claims: Sequence[Claim], context: JudgeContext, world: World
) -> tuple[Sequence[Node], Memo]:
    """Return one node of each kind that differs for the claims, and the memo of the world."""
    reads = reads_of_claims(claims, context)
    memo = context.caches.proofs
    if world is not context.relaxed:
        reads = DeviceReads(reads.values | {TAINTS}, reads.patterns)
        memo = context.caches.with_taints
    return context.index.representatives(reads), memo


def _solve_kinds(
    claims: Sequence[Claim],
    nodes: Sequence[Node],
    context: JudgeContext,
    world: World,
    memo: Memo,
) -> Iterator[tuple[Node, SolverResult]]:
    for start in range(0, len(nodes), BATCH):
        some = nodes[start : start + BATCH]
        answers = solve(
            world,
            EMPTY,
            claims,
            some,
            memo=memo,
            steps=context.steps,
            checks_size=True,
        )
        yield from ((node, answers[node.name]) for node in some)


def is_readable(claim: Claim, context: JudgeContext) -> bool:
    """Return whether claims can be judged by devices: the scheduler does not refuse them anyway."""
    world, memo = context.relaxed, context.caches.proofs
    memo.bind(world)
    try:
        build_demand((claim,), world.classes, world.gates, memo.request_filter)
        reads_of_claims((claim,), context)
    except (Abort, UnreadableClaimError):
        return False
    return True


def _open_question(answer: Failure) -> str:
    """Return why a failure does not prove that there is no solution; empty if it does."""
    if answer.outcome is FailureKind.GAVE_UP:
        return f"the search on node {answer.node} reached its limit"
    if answer.outcome is FailureKind.ERROR and answer.reasons[0].code in _OPEN_ERRORS:
        return answer.reasons[0].message
    if any(reason.code == codes.DEVICE_UNSUPPORTED.name for reason in answer.reasons):
        return f"node {answer.node} may support the devices after an upgrade"
    return ""


def reads_of_claims(claims: Iterable[Claim], context: JudgeContext) -> DeviceReads:
    """Return the attributes that decide about claims; raises UnreadableClaimError."""
    attributes: set[str] = set()
    patterns: set[str] = set()
    for claim in claims:
        choices = chain.from_iterable(map(request_choices, claim.spec.devices.requests))
        for choice in choices:
            for expression in _expressions(choice, context):
                attributes |= _attribute_names(expression, context)
            if choice.requested.derived_attributes:
                attributes |= context.index.attributes
        for constraint in claim.spec.devices.constraints:
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            patterns.add(name)
            if "/" not in name:
                attributes |= context.index.attributes
    if context.has_rules:
        attributes |= context.index.attributes
    return DeviceReads(frozenset(attributes), frozenset(patterns))


def _expressions(choice: Choice, context: JudgeContext) -> Iterator[str]:
    wanted = choice.requested
    offered = context.world.classes.get(wanted.device_class_name)
    if offered is None:
        raise UnreadableClaimError(f"class {wanted.device_class_name} does not exist")
    for selector in (*offered.spec.selectors, *wanted.selectors):
        if selector.cel is None:
            raise UnreadableClaimError("a selector has no expression")
        yield selector.cel.expression


def _attribute_names(expression: str, context: JudgeContext) -> frozenset[str]:
    reads = read_expression(expression, context)
    if reads.reads_whole_map():
        return context.index.attributes
    return frozenset("/".join(each) for each in reads.attributes())


def read_expression(expression: str, context: JudgeContext) -> Reads:
    """Return what an expression reads; raises UnreadableClaimError."""
    programs = context.selectors.stored
    try:
        return find_reads(programs.compile(expression))
    except CompileError as error:
        raise UnreadableClaimError(str(error)) from None


def part_of(
    claim: Claim, requests: Sequence[Request], constraints: Sequence[Constraint] = ()
) -> Claim:
    """Return a claim with only these requests and constraints."""
    devices = replace(
        claim.spec.devices, requests=tuple(requests), constraints=tuple(constraints), config=()
    )
    return replace(claim, spec=replace(claim.spec, devices=devices))
