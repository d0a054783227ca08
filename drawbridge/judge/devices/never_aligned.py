"""Asks whether any node has devices that satisfy the constraints of a claim."""

from collections.abc import Sequence

from drawbridge.dra.claim import Claim, Constraint, Request, refers_to, request_choices
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.never_together import best_reason, classes_of, smallest_part
from drawbridge.judge.devices.proof import is_impossible, part_of, prove
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim


def explain_constraints(judged: JudgedClaim, context: JudgeContext) -> DeviceFinding:
    """Return which constraints of a claim no node satisfies; without them, its requests are."""
    devices = judged.claim.spec.devices

    def part_with(some: Sequence[Constraint]) -> Claim:
        return part_of(judged.claim, devices.requests, some)

    needed = smallest_part(
        devices.constraints, lambda some: is_impossible((part_with(some),), context)
    )
    part = part_with(needed)
    reason = best_reason(prove((part,), context))
    return DeviceFinding(_describe(judged, needed, reason), classes_of(part), demand=(part,))


def _describe(judged: JudgedClaim, needed: Sequence[Constraint], reason: str) -> Finding:
    devices = judged.claim.spec.devices
    asked = " and ".join(_describe_constraint(each, devices.requests) for each in needed)
    path = f"{judged.path}.devices.constraints"
    if len(needed) == 1:
        path = f"{path}[{_position(needed[0], devices.constraints)}]"
    message = f"no node has devices {asked}: {reason}"
    return codes.CONSTRAINT_NEVER_MET.at(path, message, object=judged.object)


def _position(wanted: Constraint, constraints: Sequence[Constraint]) -> int:
    return next(i for i, each in enumerate(constraints) if each is wanted)


def _describe_constraint(constraint: Constraint, requests: Sequence[Request]) -> str:
    names = constraint.requests or [
        request.name
        for request in requests
        if any(refers_to(constraint.requests, choice.name) for choice in request_choices(request))
    ]
    how = "the same" if constraint.match_attribute is not None else "different"
    name = constraint.match_attribute or constraint.distinct_attribute
    noun = "request" if len(names) == 1 else "requests"
    return f"for {noun} {', '.join(names)} with {how} {name}"
