"""Checks constraints that contradict each other, whatever devices exist.

A matchAttribute needs a value that all of its devices have, a distinctAttribute no value that two
of its devices have. With one attribute, two devices that both cover can never be chosen.
"""

from collections.abc import Iterator

from drawbridge.dra.claim import (
    ALL,
    Choice,
    Constraint,
    Devices,
    Request,
    refers_to,
    request_choices,
)
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.subject import Subject

_CONTRADICTING = 2


def check_constraints(subject: Subject, _: JudgeContext) -> Iterator[Finding]:
    """Report constraints that no devices satisfy together."""
    for judged in subject.claims:
        path = f"{judged.path}.devices.constraints"
        for distinct, match, count in _find_contradictions(judged.claim.spec.devices):
            name = judged.claim.spec.devices.constraints[match].match_attribute
            message = (
                f"constraints[{match}] requires the same value of {name} on {count} of these "
                "devices"
            )
            at = f"{path}[{distinct}].distinctAttribute"
            yield codes.CONSTRAINTS_CONTRADICT.at(at, message, object=judged.object)


def _find_contradictions(devices: Devices) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers of two contradicting constraints, and of the devices in both."""
    for i, distinct in enumerate(devices.constraints):
        if distinct.match_attribute is not None or distinct.distinct_attribute is None:
            continue  # with both attributes, the scheduler ignores distinctAttribute
        for j, match in enumerate(devices.constraints):
            if match.match_attribute != distinct.distinct_attribute:
                continue
            count = sum(_count_shared(each, distinct, match) for each in devices.requests)
            if count >= _CONTRADICTING:
                yield i, j, count
                break


def _count_shared(request: Request, distinct: Constraint, match: Constraint) -> int:
    """Return the least number of devices of a request that both constraints cover."""
    return min(
        (
            _least_devices(request_choice)
            if _covers(distinct, request_choice) and _covers(match, request_choice)
            else 0
            for request_choice in request_choices(request)
        ),
        default=0,
    )


def _covers(constraint: Constraint, choice: Choice) -> bool:
    return refers_to(constraint.requests, choice.name)


def _least_devices(choice: Choice) -> int:
    # A request for all devices gets at least one, or its claim is not allocated.
    return 1 if choice.requested.allocation_mode == ALL else choice.requested.count
