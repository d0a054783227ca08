"""What a copy of this process computes ahead, so that this process need not compute it.

A decision about a node is made in a short time, or is cut. A copy of the process then makes the
same decision without being cut, and tells what it computes: answers about nodes, and results of
expressions. This process learns them, and makes the decision again with them.

An answer is found by what it depends on. The use of pools is described by its content, because a
decision also asks about uses that exist only while it is made.
"""

import hashlib
import pickle
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from weakref import ReferenceType, ref

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.inventory import Pool, PoolCache
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.solver.answers import Failure, FailureKind, SolverResult
from drawbridge.solver.expressions import CompiledText, ProjectionOutcome
from drawbridge.solver.memo import MAX_PART_AHEAD, Memo
from drawbridge.solver.node_pools import NodePools, are_same
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.world import PoolUse, World

_DIGEST_BYTES: Final = 16
# What a question and its entry in a cache take.
_BYTES_OF_QUESTION: Final = 640


class Question(NamedTuple):
    """What is asked about a node: by which claims, in which use of its pools."""

    demand: bytes
    node: str
    uses: bytes


class Answer(NamedTuple):
    """The answer to a question; a solution with shares needs new share IDs."""

    question: Question
    result: SolverResult
    has_shares: bool = False


# A question is told before its answer, so that one without an answer is known.
Learnt: TypeAlias = Question | Answer | CompiledText | ProjectionOutcome
Tell: TypeAlias = Callable[[Learnt], None]


class KnownAnswer(NamedTuple):
    """An answer, and the state of the node for which it holds.

    It is packed: as objects, which share nothing with others, it takes ten times the memory.
    """

    state: ReferenceType[NodePools]
    packed: bytes

    def unpack(self) -> tuple[SolverResult, bool]:
        """Return the result, and whether it needs new share IDs."""
        pickled = zlib.decompress(self.packed)
        unpacked: tuple[SolverResult, bool] = pickle.loads(pickled)  # noqa: S301  # our own
        return unpacked


class LentState:
    """What a copy of this process knows that begins now."""

    def __init__(self, world: World, nodes: Iterable[Node]) -> None:
        self._settings = world.settings
        self._inventory = world.inventory
        self._nodes = {each.name: each for each in nodes}
        self._pools = PoolCache()

    def has_settings_of(self, world: World) -> bool:
        """Whether the copy decides with the settings of a world."""
        return self._settings == world.settings

    def is_same(self, node: Node, pools: tuple[Pool, ...]) -> bool:
        """Whether the copy knows a node and its pools as they are now.

        The demand of an answer says which claims and classes the copy knows.
        """
        before = self._nodes.get(node.name)
        if before is None:
            return False
        return are_same(before, self._inventory.pools_for(before, self._pools), node, pools)


def learn(
    memo: Memo, world: World, nodes: Mapping[str, Node], learnt: Learnt, lent: LentState
) -> None:
    """Keep what a copy told, unless what it depends on has changed since."""
    memo.bind(world)
    if isinstance(learnt, CompiledText | ProjectionOutcome):
        memo.expressions.learn(learnt)
    elif isinstance(learnt, Answer):
        node = nodes.get(learnt.question.node)
        if node is not None:
            _keep(memo, node, learnt, lent)
        demand = memo.demands.get(learnt.question.demand)
        if demand is not None and _has_given_up(learnt.result):
            demand.given_up += 1


def _has_given_up(result: SolverResult) -> bool:
    return isinstance(result, Failure) and result.outcome is FailureKind.GAVE_UP


def _keep(memo: Memo, node: Node, answer: Answer, lent: LentState) -> None:
    try:
        state = memo.state_of(node)
        is_same = lent.is_same(node, state.pools)
    except NodeSelectorError:
        return
    if is_same:
        demand, pickled = answer.question.demand, pickle.dumps((answer.result, answer.has_shares))
        packed = zlib.compress(pickled, 1)
        kept, cost = KnownAnswer(ref(state), packed), len(packed) + _BYTES_OF_QUESTION
        answers = memo.ahead.get(demand) or _no_answers(memo.ahead.max_cost // MAX_PART_AHEAD - 1)
        answers.put(answer.question, kept, cost=cost)
        memo.ahead.put(demand, answers, cost=answers.cost)


def _no_answers(most: int) -> BoundedCache[Question, KnownAnswer]:
    """Return a cache for the answers about a demand, which costs so much at most."""
    return BoundedCache(most // _BYTES_OF_QUESTION, most, 1)


def digest_uses(uses: Sequence[PoolUse], first: Collection[PooledDevice] = ()) -> bytes:
    """Return a digest of the content of uses, and of the devices that are tried first."""
    digest = hashlib.sha256(repr(list(first)).encode())
    for use in uses:
        shares = sorted(
            (name, sorted((key, str(amount)) for key, amount in amounts.items()))
            for name, amounts in use.shares.items()
        )
        snapshots = sorted((name, repr(uses)) for name, uses in use.snapshots.items())
        digest.update(repr((sorted(use.dedicated), shares, snapshots)).encode())
    return digest.digest()[:_DIGEST_BYTES]
