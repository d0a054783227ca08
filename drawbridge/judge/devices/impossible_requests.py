"""Says why a request alone is impossible on every node: the first stage that no node passes."""

from collections.abc import Iterator, Sequence

from drawbridge.dra.claim import Claim
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices import never_enough, never_fits, never_matches, never_together
from drawbridge.judge.devices.class_devices import (
    RequestPlace,
    VisibleDevices,
    node_devices,
    options_of,
    sort_devices,
)
from drawbridge.judge.devices.proof import Proof, ProofOutcome
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim
from drawbridge.solver.demand import Abort, Option


def explain_request(
    judged: JudgedClaim, number: int, alone: Claim, proof: Proof, context: JudgeContext
) -> Iterator[DeviceFinding]:
    """Yield a finding for each alternative of the request `number`.

    `alone` is the claim with only this request, and `proof` the proof that it is impossible.
    """
    try:
        options = options_of(alone, context)
    except Abort:
        return  # invalid in itself, which other questions report
    nodes = node_devices(alone, proof, context)
    # Another alternative may use devices that still come, so the fleets of all classes count.
    classes = frozenset(option.device_class.metadata.name for option in options)
    # No device that comes is of use without an entry for its driver.
    classes -= {name for name, each in context.unowned.items() if each.drivers}
    unproved = proof.why if proof.outcome is ProofOutcome.UNDECIDED else ""
    prioritized = bool(alone.spec.devices.requests[0].first_available)
    for index, option in enumerate(options):
        path = judged.choice_path(number, index if prioritized else None)
        place = RequestPlace(judged.object, path, option.name)
        finding = _explain(option, nodes, place, alone, proof, context)
        yield DeviceFinding(finding, classes, unproved, demand=(alone,))


def _explain(  # noqa: PLR0913, PLR0917  # an alternative, and what it is compared with
    option: Option,
    nodes: Sequence[VisibleDevices],
    place: RequestPlace,
    alone: Claim,
    proof: Proof,
    context: JudgeContext,
) -> Finding:
    devices = sort_devices(option, nodes, context)
    return (
        never_enough.explain_unowned(devices, place, context.unowned)
        or never_matches.explain_selectors(devices, place, context)
        or never_fits.explain_capacity(devices, place, context)
        or never_enough.explain_count(devices, place)
        or never_together.explain_request(devices, place, alone, proof, context)
    )
