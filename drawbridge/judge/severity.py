"""Settles the severity of findings: decides what makes an error a warning.

A finding about devices is an error only if it is proved, no doubt is left, and the fleet of every
class that it depends on is closed. In all other cases it is a warning that says why.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from drawbridge.config.policy import apply_policies, apply_to_proved, settle_error
from drawbridge.dra.claim import Claim
from drawbridge.finding import Finding, Severity
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.expected_shapes import ShapeReader, may_satisfy
from drawbridge.judge.subject import Origin, Subject

BY_CONTROL_PLANE = "the control plane made the object"


class DeviceFinding(msgspec.Struct, frozen=True):
    """A finding that holds for the published devices of `classes`.

    `unproved` says why the proof is missing, for example an exhausted search. It is empty for a
    finding that no state of the devices can disprove. `demand` is the part of the claims that is
    impossible; expected nodes are compared with it.
    """

    finding: Finding
    classes: frozenset[str] = frozenset()
    unproved: str = ""
    demand: tuple[Claim, ...] = ()


def settle_all(
    findings: Iterable[Finding | DeviceFinding], subject: Subject, context: JudgeContext
) -> Iterator[Finding]:
    """Yield the findings with their final severity, without those that are switched off."""
    for finding in findings:
        if isinstance(finding, DeviceFinding):
            settled = _settle_device_finding(finding, context)
        else:
            settled = apply_policies((finding,), context.policies)
        # Also of what a policy makes an error.
        yield from (_spare_control_plane(each, subject) for each in settled)


def _settle_device_finding(
    device_finding: DeviceFinding, context: JudgeContext
) -> Iterator[Finding]:
    finding = device_finding.finding
    if finding.severity is not Severity.ERROR:
        return apply_policies((finding,), context.policies)
    doubt = _find_doubt(device_finding, context)
    finding = settle_error(finding, doubt, device_finding.classes)
    return apply_to_proved(finding, context.policies)


def _find_doubt(device_finding: DeviceFinding, context: JudgeContext) -> str:
    """Return the first reason why a finding is not certain; empty if it is."""
    if device_finding.unproved:
        return device_finding.unproved
    if context.doubts:
        return context.doubts[0]
    for name in sorted(device_finding.classes):
        verdict = context.fleet.get(name)
        if verdict is None:
            return f"nothing is known about the fleet of class {name}"
        if not verdict.closed:
            return verdict.reason
        for shape in verdict.expected:
            reader = ShapeReader(context.selectors, context.caches.proofs.expressions)
            if may_satisfy(shape, name, device_finding.demand, reader):
                return f"the configuration expects nodes with {shape} for class {name}"
    return ""


def _spare_control_plane(finding: Finding, subject: Subject) -> Finding:
    if subject.origin is not Origin.CONTROL_PLANE or finding.severity is not Severity.ERROR:
        return finding
    message = f"{finding.message} (not refused, because {BY_CONTROL_PLANE})"
    return replace(finding, severity=Severity.WARNING, message=message)
