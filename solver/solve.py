"""The one decision: claims of one pod, one node or many, and for each node a solution or reasons.

Nothing is reserved here and nothing remembered but in the memo that is handed in.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from dra.claim import Claim
from dra.nodes import Node, NodeSelectorError
from solver.abort import Abort, Cause
from solver.all_devices import everything
from solver.answer_cache import MOST_QUESTIONS, Known, Question, question, question_key
from solver.answers import Answer, Failure, Outcome, Solution
from solver.demand import demand
from solver.memo import Memo
from solver.node_view import Site
from solver.reasons import error, gave_up, reasons
from solver.results import allocations
from solver.search import STEPS
from solver.state import State, Taken
from solver.world import UNUSED, View, World

FIRST_FIT = "first-fit"


def solve(  # noqa: PLR0913  # the contract's arguments
    world: World,
    view: View,
    claims: Sequence[Claim],
    nodes: Iterable[Node],
    *,
    ids: Callable[[], str],
    strategy: str = FIRST_FIT,
    memo: Memo | None = None,
    steps: int = STEPS,
) -> dict[str, Answer]:
    """Answer for each node, by name, whether the claims can be had there and how.

    `claims` are those of one pod that are not allocated yet, in the pod's order. `ids` gives a new
    share id at each call. `steps` bounds the search on each node: beyond it the answer is that
    there is none.
    """
    if strategy != FIRST_FIT:
        raise ValueError(f"{strategy} is no strategy; there is {FIRST_FIT}")
    memo = memo or Memo()
    memo.bind(world)
    try:
        asked = _question(world, claims, memo)
    except Abort as abort:
        return {node.name: _failed(node.name, abort) for node in nodes}
    call = _Call(world, view, asked, memo, ids, steps)
    return {node.name: call.answer(node) for node in nodes}


def _question(world: World, claims: Sequence[Claim], memo: Memo) -> Question:
    """Give the question as it was asked before, with its answers, or as a new one."""
    key = question_key(claims)
    asked = memo.questions.get(key)
    if asked is None or not asked.stands(world):
        asked = question(demand(claims, world.classes, world.gates, memo.screen))
        if len(memo.questions) >= MOST_QUESTIONS:
            memo.questions.clear()
        memo.questions[key] = asked
    return asked


class _Call(msgspec.Struct, frozen=True, eq=False):
    """One call: what it was handed and what it remembers."""

    world: World
    view: View
    asked: Question
    memo: Memo
    ids: Callable[[], str]
    steps: int

    def answer(self, node: Node) -> Answer:
        """Answer for one node, from memory where nothing changed."""
        try:
            pools = self.memo.pools(node)
        except NodeSelectorError as wrong:
            return _failed(node.name, Abort(Cause.NODE_SELECTOR, str(wrong)))
        held = self.view.pools
        uses = tuple([held.get(pool.id, UNUSED) for pool in pools])
        known = self.asked.known.get(node.name)
        if known is not None and known.holds(node, pools, uses):
            if known.taken:
                return self._written(Site(self.world, self.memo, node, pools, uses), known.taken)
            return known.answer
        site = Site(self.world, self.memo, node, pools, uses)
        try:
            answer, taken = self._searched(site)
        except Abort as abort:
            # Not remembered: its words name the claim, and the next one has another name.
            return _failed(node.name, abort)
        kept = taken if any(each.candidate.shared for each in taken) else ()
        self.asked.known[node.name] = Known(node, pools, uses, answer, kept)
        return answer

    def _searched(self, site: Site) -> tuple[Answer, tuple[Taken, ...]]:
        node, wanted = site.node.name, self.asked.demand
        state = State(wanted, site)
        every = everything(state)
        found = self.asked.alike.search(state, every, self.steps)
        if found.gave_up:
            return Failure(node, Outcome.GAVE_UP, (gave_up(node, self.steps),)), ()
        if found.solution is not None:
            return self._written(site, found.solution), found.solution
        return Failure(node, Outcome.NO, reasons(wanted, site, every, found.deepest)), ()

    def _written(self, site: Site, taken: tuple[Taken, ...]) -> Solution:
        return Solution(site.node.name, allocations(self.asked.demand, site, taken, self.ids))


def _failed(node: str, abort: Abort) -> Failure:
    return Failure(node, Outcome.ERROR, (error(node, abort),))
