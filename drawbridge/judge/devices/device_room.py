"""Asks whether satisfiable claims are satisfiable now: untainted, unused devices."""

from collections.abc import Iterator, Sequence

from drawbridge.dra.claim import Claim
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.never_together import best_reason
from drawbridge.judge.devices.proof import ProofOutcome, prove
from drawbridge.judge.subject import Subject
from drawbridge.solver.answers import Failure, FailureKind
from drawbridge.solver.reasons import Reason, drop_unsuitable_nodes, summarize_reasons
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View

# A cluster without room on so many nodes is not described further.
MAX_NODES = 1000
BATCH = 32


def check_room(
    subject: Subject, claims: Sequence[Claim], context: JudgeContext
) -> Iterator[Finding]:
    """Yield why claims that can be satisfied are not satisfied now."""
    path, about = subject.claims_path, subject.object
    if context.gates.device_taints:
        proof = prove(claims, context, context.with_taints)
        if proof.outcome is ProofOutcome.IMPOSSIBLE:
            message = f"no node has suitable devices without a taint: {best_reason(proof)}"
            yield codes.EVERY_DEVICE_TAINTED.at(path, message, object=about)
            return
    if context.view is None or len(context.nodes) > MAX_NODES:
        return
    reasons = _find_shortage(claims, context.view, context)
    if reasons:
        message = f"no room now: {summarize_reasons(drop_unsuitable_nodes(reasons))}"
        yield codes.NO_ROOM_NOW.at(path, message, object=about)


def _find_shortage(claims: Sequence[Claim], view: View, context: JudgeContext) -> list[Reason]:
    """Return why no node has room; empty if one has, or if it cannot be decided."""
    reasons: list[Reason] = []
    for start in range(0, len(context.nodes), BATCH):
        some = context.nodes[start : start + BATCH]
        answers = solve(
            context.world,
            view,
            claims,
            some,
            memo=context.caches.current,
            steps=context.steps,
            checks_size=True,
        )
        for answer in answers.values():
            if not isinstance(answer, Failure) or answer.outcome is not FailureKind.NO:
                return []
            reasons += answer.reasons[:1]
    return reasons
