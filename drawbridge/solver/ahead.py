"""What a copy of this process computes ahead, so that this process need not compute it.

A decision about a node is made in a short time, or is cut. A copy of the process then makes the
same decision without being cut, and tells what it computes: answers about nodes, and results of
expressions. This process learns them, and makes the decision again with them.

An answer is found by what it depends on. The use of pools is described by its content, because a
decision also asks about uses that exist only while it is made.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.inventory import Pool
from drawbridge.dra.nodes import Node
from drawbridge.solver.answers import SolverResult
from drawbridge.solver.expressions import CompiledText, ProjectionOutcome
from drawbridge.solver.memo import Memo
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.world import PoolUse

# For each demand.
MAX_ANSWERS: Final = 16_384
_DIGEST_BYTES: Final = 16


class Question(NamedTuple):
    """What is asked about a node: by which claims, in which use of its pools."""

    demand: bytes
    node: str
    uses: bytes


class Answer(NamedTuple):
    """The answer to a question; a solution with shares needs new share IDs."""

    question: Question
    result: SolverResult
    has_shares: bool


# A question is told before its answer, so that one without an answer is known.
Learnt: TypeAlias = Question | Answer | CompiledText | ProjectionOutcome
Tell: TypeAlias = Callable[[Learnt], None]


class KnownAnswer(NamedTuple):
    """An answer, and the objects for which it holds."""

    node: Node
    pools: tuple[Pool, ...]
    result: SolverResult
    has_shares: bool


def keep_answer(memo: Memo, question: Question, answer: KnownAnswer) -> None:
    """Keep an answer for the next calls."""
    answers = memo.ahead.get(question.demand)
    if answers is None:
        answers = BoundedCache[Question, KnownAnswer](MAX_ANSWERS)
        memo.ahead.put(question.demand, answers)
    answers.put(question, answer)


def digest_uses(uses: Sequence[PoolUse], first: Collection[PooledDevice] = ()) -> bytes:
    """Return a digest of the content of uses, and of the devices that are tried first."""
    digest = hashlib.blake2b(repr(list(first)).encode(), digest_size=_DIGEST_BYTES)
    for use in uses:
        shares = sorted(
            (name, sorted((key, str(amount)) for key, amount in amounts.items()))
            for name, amounts in use.shares.items()
        )
        snapshots = sorted((name, repr(uses)) for name, uses in use.snapshots.items())
        digest.update(repr((sorted(use.dedicated), shares, snapshots)).encode())
    return digest.digest()
