"""Checks the number of devices that a claim needs in any case."""

from collections.abc import Iterator

from drawbridge.dra.allocation import MAX_RESULTS
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.subject import Subject
from drawbridge.solver.demand import minimum_devices


def check_claim_size(subject: Subject, _: JudgeContext) -> Iterator[Finding]:
    """Report claims that need more devices than an allocation can have.

    Requests for all devices count as none, because the published devices decide their number.
    """
    for judged in subject.claims:
        least = minimum_devices(judged.claim, {})
        if least > MAX_RESULTS:
            message = f"the claim needs at least {least} devices, but at most {MAX_RESULTS} are"
            path = f"{judged.path}.devices.requests"
            yield codes.TOO_MANY_DEVICES.at(path, f"{message} allowed", object=judged.object)
