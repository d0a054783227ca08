"""Why a node has no solution, in words and numbers; made only where there is none.

First what no request can get even alone, stage by stage with the nearest miss; else where the
search got furthest. Which node was asked, and what the others say, is put together by `summary`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from dra.finding import Code
from solver import codes
from solver.abort import Abort, Cause
from solver.candidates import Candidate
from solver.constraints import Distinct, values
from solver.demand import Demand, Option
from solver.filter_stages import Funnel, funnel
from solver.messages import apart, words
from solver.node_view import Site
from solver.search import Deepest
from solver.state import State


class Reason(msgspec.Struct, frozen=True):
    """One reason: so many devices came to a stage and so few were left, on so many nodes.

    `example` names a node, and a device where one is meant.
    """

    code: str
    stage: str
    before: int
    after: int
    nodes: int
    example: str
    message: str


_OF_CAUSE = {
    Cause.REFUSED: codes.CLAIM_REFUSED,
    Cause.SELECTOR: codes.SELECTOR_FAILS,
    Cause.DERIVED: codes.SELECTOR_FAILS,
    Cause.CAPACITY: codes.CAPACITY_UNCOUNTABLE,
    Cause.POOL: codes.POOL_UNUSABLE,
    Cause.NODE_SELECTOR: codes.SELECTOR_OF_NODES_FAILS,
}


def error(node: str, abort: Abort) -> Reason:
    """Give the reason of an error."""
    return _plain(_OF_CAUSE[abort.cause], abort.cause.value, node, abort.message)


def gave_up(node: str, steps: int) -> Reason:
    """Give the reason of a search that took too long."""
    return _plain(codes.SEARCH_GAVE_UP, "search", node, f"no answer after {steps} steps")


def reasons(
    demand: Demand,
    site: Site,
    every: Mapping[Option, Sequence[Candidate]],
    deepest: Deepest | None,
) -> tuple[Reason, ...]:
    """Say why there is no solution on a site."""
    found = list(_alone(demand, site, every)) or [_together(demand, site, every, deepest)]
    unusable = [pool for pool in site.pools if not pool.usable]
    if unusable:
        first = unusable[0]
        what = f"is invalid: {first.invalid}" if first.invalid else "is incomplete"
        message = f"pool {first.id.driver}/{first.id.name} {what}"
        pools = len(site.pools)
        example = f"{site.node.name}: {first.id.driver}/{first.id.name}"
        found.append(
            Reason(
                codes.POOL_UNUSABLE.name, "pool", pools, pools - len(unusable), 1, example, message
            )
        )
    return tuple(found)


def _alone(
    demand: Demand, site: Site, every: Mapping[Option, Sequence[Candidate]]
) -> Iterable[Reason]:
    """Say what the first wish lacks of which no option can be had even without the others."""
    state = State(demand, site)
    known: dict[Hashable, Funnel] = {}
    for wish in demand.wishes:
        found: list[Reason] = []
        for option in wish.options:
            question = option.question()
            seen = known.get(question) or funnel(state, option, site.candidates)
            known[question] = seen
            wanted = max(len(every[option]), 1) if option.every else option.wanted.count
            reason = _short(option, seen, wanted, site) or _apart(state, option, seen, wanted)
            if reason is None:
                found = []
                break
            found.append(reason)
        if found:
            return found
    return ()


def _short(option: Option, seen: Funnel, wanted: int, site: Site) -> Reason | None:
    loss = seen.decisive(wanted)
    if loss is None:
        if len(seen.left) >= wanted:
            return None
        name = option.device_class.metadata.name
        have = len(seen.left)
        text = f"{have} devices, {wanted} of class {name} wanted" if have else "no devices at all"
        return Reason(
            codes.NO_DEVICE_OF_CLASS.name, "class selector", have, have, 1, site.node.name, text
        )
    first = loss.lost[0][0]
    return Reason(
        codes.OF_STAGE[loss.stage].name,
        loss.stage.value,
        loss.before,
        loss.after,
        1,
        f"{site.node.name}: {first}",
        words(option, loss, wanted, site),
    )


def _apart(state: State, option: Option, seen: Funnel, wanted: int) -> Reason | None:
    """Say how many of the devices for one option a constraint lets join, if that is too few."""
    # One device has nobody to be apart from.
    for index in option.covered if wanted > 1 else ():
        constraint = state.demand.constraints[option.claim][index]
        having: Counter[Hashable] = Counter()
        for candidate in seen.left:
            try:
                attribute = state.attribute(option, candidate, constraint.name)
            except Abort:
                # The search never came so far as to meet it.
                return None
            # What is of no known type is like nothing else.
            having.update((values(attribute) if attribute else ()) or (candidate,))
        distinct = isinstance(constraint, Distinct)
        most = len(having) if distinct else max(having.values(), default=0)
        if most < wanted:
            before = len(seen.left)
            message = apart(option, constraint, most, before, wanted)
            return Reason(
                codes.CONSTRAINT_UNMET.name,
                "constraint",
                before,
                most,
                1,
                f"{state.site.node.name}: {seen.left[0]}",
                message,
            )
    return None


def _together(
    demand: Demand,
    site: Site,
    every: Mapping[Option, Sequence[Candidate]],
    deepest: Deepest | None,
) -> Reason:
    """Say what was lacking where the search got furthest."""
    if deepest is None:
        text = "every choice of alternatives gives a claim more than 32 devices"
        return _plain(codes.TOO_MANY_RESULTS, "results", site.node.name, text)
    state = State(demand, site)
    for each in deepest.taken:
        state.take(each.option, each.candidate)
    option = deepest.option
    seen = funnel(state, option, site.candidates)
    count = len(every[option]) if option.every else option.wanted.count
    reason = _short(option, seen, 1, site)
    if reason is None:
        text = "the requests together want more than there is"
        return _plain(codes.TOO_FEW_TOGETHER, "search", site.node.name, text)
    where = f"request {option.name}, device {deepest.number + 1} of {count}"
    beside = f", beside {len(deepest.taken)} chosen before" if deepest.taken else ""
    return msgspec.structs.replace(reason, message=f"{where}{beside}: {reason.message}")


def _plain(code: Code, stage: str, node: str, message: str) -> Reason:
    return Reason(code.name, stage, 0, 0, 1, node, message)


def merged(found: Iterable[Reason]) -> tuple[Reason, ...]:
    """Add up what many nodes say in the same words; what most of them say comes first."""
    same: dict[tuple[str, str, str], Reason] = {}
    for each in found:
        key = (each.code, each.stage, each.message)
        known = same.get(key)
        if known is None:
            same[key] = each
        else:
            same[key] = msgspec.structs.replace(
                known,
                nodes=known.nodes + each.nodes,
                before=known.before + each.before,
                after=known.after + each.after,
            )
    return tuple(sorted(same.values(), key=lambda each: -each.nodes))


def summary(found: Iterable[Reason]) -> str:
    """Say it in one line: `412 nodes: no free gpu (8 of 8 held); 88 nodes: ...`."""
    parts = []
    for each in merged(found):
        nodes = "1 node" if each.nodes == 1 else f"{each.nodes} nodes"
        parts.append(f"{nodes}: {each.message}")
    return "; ".join(parts)
