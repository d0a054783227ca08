"""Finds the smallest part of a claim or pod that no node can ever satisfy, and asks why.

First each request alone, then the requests of each claim without and with its constraints, then all
claims of a pod. The modules `never_...` say why a part is impossible.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices import never_aligned, never_together
from drawbridge.judge.devices.device_room import check_room
from drawbridge.judge.devices.impossible_requests import explain_request
from drawbridge.judge.devices.proof import Proof, ProofOutcome, UnreadableClaimError, part_of, prove
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Subject

# Each explanation costs as much as a proof, and more of them do not help a reader.
MAX_EXPLAINED: Final = 16


def check_devices(subject: Subject, context: JudgeContext) -> Iterator[Finding | DeviceFinding]:
    """Yield why the published devices never satisfy a subject, or do not satisfy it now."""
    judged = [each for each in subject.claims if each.claim.status.allocation is None]
    claims = [each.claim for each in judged]
    # Without any slice, the cluster is unknown or has no driver yet.
    is_known = context.world.inventory.slices or context.unowned
    if not is_known or not any(c.spec.devices.requests for c in claims):
        return
    try:
        proof = prove(claims, context)
        if proof.outcome is ProofOutcome.POSSIBLE:
            yield from check_room(subject, claims, context)
        else:
            yield from _explain(subject, judged, proof, context)
    except UnreadableClaimError:
        return  # other questions report it


def _explain(
    subject: Subject, judged: Sequence[JudgedClaim], proof: Proof, context: JudgeContext
) -> Iterator[DeviceFinding | Finding]:
    is_explained = False
    alone = chain.from_iterable(_explain_requests(each, context) for each in judged)
    for finding in islice(alone, MAX_EXPLAINED):
        is_explained = True
        yield finding
    for claim in () if is_explained else judged:
        for finding in _explain_claim(claim, context):
            is_explained = True
            yield finding
    if is_explained:
        return
    if proof.outcome is ProofOutcome.UNDECIDED:
        message = f"cannot be decided: {proof.why}"
        yield codes.JUDGEMENT_INCOMPLETE.at(subject.claims_path, message, object=subject.object)
    elif len(judged) > 1:
        yield never_together.explain_claims(subject, judged, proof, context)


def _explain_requests(judged: JudgedClaim, context: JudgeContext) -> Iterator[DeviceFinding]:
    """Yield why single requests are impossible, each without the others and the constraints."""
    for number, request in enumerate(judged.claim.spec.devices.requests):
        alone = part_of(judged.claim, (request,))
        proof = prove((alone,), context)
        if proof.outcome is not ProofOutcome.POSSIBLE:
            yield from explain_request(judged, number, alone, proof, context)


def _explain_claim(judged: JudgedClaim, context: JudgeContext) -> Iterator[DeviceFinding]:
    devices = judged.claim.spec.devices
    unconstrained = prove((part_of(judged.claim, devices.requests),), context)
    if unconstrained.outcome is ProofOutcome.IMPOSSIBLE:
        yield never_together.explain_requests(judged, context)
    elif unconstrained.outcome is ProofOutcome.POSSIBLE and devices.constraints:
        proof = prove((judged.claim,), context)
        if proof.outcome is ProofOutcome.IMPOSSIBLE:
            yield never_aligned.explain_constraints(judged, context)
