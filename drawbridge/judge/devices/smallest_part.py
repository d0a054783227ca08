"""Finds the smallest part of a claim or pod that no node can ever satisfy, and asks why.

First each request alone, then the other requests of each claim without and with its constraints,
then the other claims of a pod: a warning about one part hides nothing about the rest.
The modules `never_...` say why a part is impossible.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices import never_aligned, never_together
from drawbridge.judge.devices.device_room import check_room
from drawbridge.judge.devices.impossible_requests import explain_request
from drawbridge.judge.devices.proof import Proof, ProofOutcome, is_readable, part_of, prove
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Subject

# Each explanation costs as much as a proof, and more of them do not help a reader.
MAX_EXPLAINED: Final = 16


def check_devices(subject: Subject, context: JudgeContext) -> Iterator[Finding | DeviceFinding]:
    """Yield why the published devices never satisfy a subject, or do not satisfy it now."""
    # Without any slice, the cluster is unknown or has no driver yet.
    if not context.world.inventory.slices and not context.unowned:
        return
    pending = (each for each in subject.claims if each.claim.status.allocation is None)
    # Other questions report what is wrong with an unreadable claim.
    judged = [each for each in pending if is_readable(each.claim, context)]
    if not any(each.claim.spec.devices.requests for each in judged):
        return
    claims = [each.claim for each in judged]
    proof = prove(claims, context)
    if proof.outcome is ProofOutcome.POSSIBLE:
        yield from check_room(subject, claims, context)
    else:
        yield from _explain(subject, judged, proof, context)


def _explain(
    subject: Subject, judged: Sequence[JudgedClaim], proof: Proof, context: JudgeContext
) -> Iterator[DeviceFinding | Finding]:
    """Yield why single claims are impossible, and why the others are impossible together."""
    left: list[JudgedClaim] = []
    explained = (each for claim in judged for each in _explain_claim(claim, left, context))
    yield from islice(explained, MAX_EXPLAINED)
    if not left or next(explained, None) is not None:
        return
    if left != [*judged]:
        proof = prove([each.claim for each in left], context)
    if proof.outcome is ProofOutcome.UNDECIDED:
        message = f"cannot be decided: {proof.why}"
        yield codes.JUDGEMENT_INCOMPLETE.at(subject.claims_path, message, object=subject.object)
    elif proof.outcome is ProofOutcome.IMPOSSIBLE and len(left) > 1:
        yield never_together.explain_claims(subject, left, proof, context)


def _explain_claim(
    judged: JudgedClaim, left: list[JudgedClaim], context: JudgeContext
) -> Iterator[DeviceFinding]:
    """Yield why single requests are impossible, and why the others are impossible together.

    Others that are not impossible so far are added to what is left.
    """
    devices = judged.claim.spec.devices
    others = []
    for number, request in enumerate(devices.requests):
        alone = part_of(judged.claim, (request,))
        proof = prove((alone,), context)
        if proof.outcome is ProofOutcome.POSSIBLE:
            others.append(request)
        else:
            yield from explain_request(judged, number, alone, proof, context)
    if not others:
        return
    rest = judged
    if len(others) < len(devices.requests):
        rest = replace(judged, claim=part_of(judged.claim, others, devices.constraints))
    findings = tuple(_explain_together(rest, context))
    yield from findings
    if not findings:
        left.append(rest)


def _explain_together(judged: JudgedClaim, context: JudgeContext) -> Iterator[DeviceFinding]:
    """Yield why requests that are possible alone are impossible together, or with constraints."""
    devices = judged.claim.spec.devices
    unconstrained = prove((part_of(judged.claim, devices.requests),), context)
    if unconstrained.outcome is ProofOutcome.IMPOSSIBLE:
        yield never_together.explain_requests(judged, context)
    elif unconstrained.outcome is ProofOutcome.POSSIBLE and devices.constraints:
        proof = prove((judged.claim,), context)
        if proof.outcome is ProofOutcome.IMPOSSIBLE:
            yield never_aligned.explain_constraints(judged, context)
