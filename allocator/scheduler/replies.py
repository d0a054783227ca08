"""Composes the replies to PreFilter: nodes, or the reasons why none fits."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from allocator.decisions.group_questions import GroupAnswer
from allocator.decisions.scores import MAX_SCORE
from allocator.decisions.shortlist import Shortlist
from allocator.scheduler.protocol import NodeReason, NodeScore, PreFilterReply, shorten_message
from drawbridge.agreement import allocator_codes as codes
from drawbridge.ledger.node_fit import make_reason
from drawbridge.solver.reasons import Reason, say_with_subject, summarize_reasons

MAX_REASONS: Final = 32


def fit_on(node: str, *, preemptible: bool = False) -> PreFilterReply:
    """Return the reply with the only node that the pod can use."""
    fit = (NodeScore(node=node, score=MAX_SCORE),)
    return PreFilterReply(fit=fit, complete=True, preemptible=preemptible)


def refuse_nodes(shortlist: Shortlist) -> PreFilterReply:
    """Return the reply of a search that found no node."""
    reasons = list_reasons(shortlist)
    return PreFilterReply(
        complete=shortlist.has_ended,
        message=shorten_message(summarize_reasons(reasons, say_with_subject)),
        reasons=tuple(map(node_reason, reasons[:MAX_REASONS])),
    )


def list_reasons(shortlist: Shortlist) -> tuple[Reason, ...]:
    """Return why nodes do not fit."""
    reasons = shortlist.list_reasons()
    if shortlist.has_ended:
        return reasons
    text = f"examined {shortlist.examined} of {shortlist.candidates} nodes; the search continues"
    more = make_reason(codes.SEARCH_CONTINUES, "nodes", text, nodes=shortlist.examined)
    return (more, *reasons)


def summarize(shortlist: Shortlist) -> str:
    """Return in one line why nodes do not fit."""
    return summarize_reasons(list_reasons(shortlist), say_with_subject)


def node_reason(reason: Reason) -> NodeReason:
    """Return a reason as the protocol has it."""
    return NodeReason(
        code=reason.code, message=shorten_message(say_with_subject(reason)), nodes=reason.nodes
    )


def fit_some(scored: Sequence[NodeScore], limit: int, *, complete: bool) -> PreFilterReply:
    """Return the reply with the first nodes, of which 0 allows all; `complete` if no other fits."""
    kept = scored[:limit] if limit else scored
    complete = complete and len(kept) == len(scored)
    return PreFilterReply(fit=tuple(kept), complete=complete, preemptible=True)


def refuse_group(answer: GroupAnswer) -> PreFilterReply:
    """Return the reply for a member of a group that gets no devices together."""
    reasons = (answer.reason,) if answer.reason else ()
    return replace(
        refuse_pod(reasons), complete=answer.complete, group_preemptible=answer.preemptible
    )


def refuse_pod(reasons: tuple[Reason, ...]) -> PreFilterReply:
    """Return the reply for a pod that cannot use its claims."""
    message = shorten_message("; ".join(each.message for each in reasons))
    return PreFilterReply(message=message, reasons=tuple(map(node_reason, reasons)))
