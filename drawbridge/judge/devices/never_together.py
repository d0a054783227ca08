"""Asks whether devices that are suitable one by one can be allocated at the same time.

Counters, compatibility groups and `compatibleOnlyWith` can exclude devices, and one device may be
the only one for several requests. The answer names the smallest part that is impossible.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from drawbridge.dra.claim import Claim, request_choices
from drawbridge.dra.counted import join_words
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.class_devices import RequestDevices, RequestPlace
from drawbridge.judge.devices.proof import Proof, ProofOutcome, is_impossible, part_of, prove
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.solver.reasons import Reason, drop_unsuitable_nodes, lacks_class

T = TypeVar("T")


def explain_request(
    devices: RequestDevices,
    place: RequestPlace,
    alone: Claim,
    proof: Proof,
    context: JudgeContext,
) -> Finding:
    """Return why enough devices match a request, but not so many can be allocated together."""
    most, name = max(len(each) for each in devices.fitting), devices.class_name
    reason = best_reason(proof)
    feasible = 0 if devices.option.all_mode else _largest_count(devices, alone, context)
    wanted = most if devices.option.all_mode else devices.option.wanted.count
    if feasible:
        message = (
            f"{wanted} {name} devices requested, but at most {feasible} of the "
            f"{most} that match on a node can be allocated together: {reason}"
        )
        path = f"{place.path}.count"
        return codes.DEVICES_NEVER_TOGETHER.at(path, message, object=place.object)
    if devices.option.all_mode and most > 1:
        message = f"the {most} matching {name} devices cannot be allocated together: {reason}"
        return codes.DEVICES_NEVER_TOGETHER.at(place.path, message, object=place.object)
    verb = "device matches" if most == 1 else "devices match"
    message = f"{most} {name} {verb}, but none can be allocated: {reason}"
    return codes.DEVICE_NEVER_ALLOCATED.at(place.path, message, object=place.object)


def _largest_count(devices: RequestDevices, alone: Claim, context: JudgeContext) -> int:
    """Return the largest number of the devices that one node can give, by bisection."""
    least, most = 0, devices.option.wanted.count - 1
    wanted = devices.option.wanted
    request = alone.spec.devices.requests[0]
    while least < most:
        middle = (least + most + 1) // 2
        some = replace(wanted, count=middle)
        fewer = (
            replace(request, first_available=(some,))
            if request.first_available
            else replace(request, exactly=some)
        )
        proof = prove((part_of(alone, (fewer,)),), context)
        if proof.outcome is ProofOutcome.POSSIBLE:
            least = middle
        else:
            most = middle - 1
    return least


def explain_requests(judged: JudgedClaim, context: JudgeContext) -> DeviceFinding:
    """Return which requests of a claim are impossible together, without its constraints."""
    requests = judged.claim.spec.devices.requests
    needed = smallest_part(
        requests, lambda some: is_impossible((part_of(judged.claim, some),), context)
    )
    part = part_of(judged.claim, needed)
    reason = _reason_together(prove((part,), context), classes_of(part))
    names = ", ".join(each.name for each in needed)
    message = f"no node can satisfy requests {names} together: {reason}"
    path = f"{judged.path}.devices.requests"
    finding = codes.DEVICES_NEVER_TOGETHER.at(path, message, object=judged.object)
    return DeviceFinding(finding, classes_of(part), demand=(part,))


def explain_claims(
    subject: Subject, judged: Sequence[JudgedClaim], proof: Proof, context: JudgeContext
) -> DeviceFinding:
    """Return which claims of a pod are impossible together, although each alone is possible."""
    needed = smallest_part(
        judged, lambda some: is_impossible([each.claim for each in some], context)
    )
    smaller = len(needed) < len(judged)
    classes = frozenset(name for each in needed for name in classes_of(each.claim))
    proof = prove([e.claim for e in needed], context) if smaller else proof
    reason = _reason_together(proof, classes)
    names = ", ".join(each.object for each in needed)
    message = f"no node can satisfy the claims of {names} together: {reason}"
    finding = codes.DEVICES_NEVER_TOGETHER.at(subject.claims_path, message, object=subject.object)
    return DeviceFinding(finding, classes, demand=tuple(each.claim for each in needed))


def smallest_part(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return parts that are impossible together, without those that are not needed for it."""
    kept = list(parts)
    for part in parts:
        fewer = [other for other in kept if other is not part]
        if fewer and fails(fewer):
            kept = fewer
    return kept


def classes_of(claim: Claim) -> frozenset[str]:
    """Return the classes of all alternatives of a claim."""
    return frozenset(
        choice.requested.device_class_name
        for request in claim.spec.devices.requests
        for choice in request_choices(request)
    )


def _reason_together(proof: Proof, classes: frozenset[str]) -> str:
    """Return the best reason, or that each node lacks devices of one of the classes."""
    if len(classes) > 1 and all(lacks_class(found[0]) for _, found in proof.reasons if found):
        names = (f"of class {name}" for name in sorted(classes))
        return f"no node has devices {join_words(names, 'and')}"
    return best_reason(proof)


def best_reason(proof: Proof) -> str:
    """Return the reason of the kind of node that got furthest: with the most devices left."""
    reasons = drop_unsuitable_nodes([found[0] for _, found in proof.reasons if found])
    best = max(reasons, key=lambda each: (_chosen(each), each.before), default=None)
    return best.message if best else "there is no node"


def _chosen(reason: Reason) -> bool:
    return "chosen before" in reason.message
