"""Compares an object with the device quotas of the configuration that select its namespace.

An object that alone has more than a limit never gets devices. One that needs more than is left
waits with bridge placement; with native placement, nothing enforces what is left.
"""

from collections.abc import Iterator

from drawbridge.dra.claim import TEMPLATE
from drawbridge.dra.quota_codes import DEVICE_QUOTA_TOO_SMALL, DEVICE_QUOTA_USED_UP
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.ledger.ledger import uid_of


def check_device_quotas(subject: Subject, context: JudgeContext) -> Iterator[Finding]:
    """Report a quota that has no room for the claims of an object."""
    quotas = context.lookups.device_quotas
    if quotas is None or not quotas or not subject.claims:
        return
    # A claim that exists may have devices, which it is charged already.
    charges = {
        _find_uid(number, judged, context): quotas.least_charge(judged.claim.spec)
        for number, judged in enumerate(subject.claims)
    }
    excess = quotas.find_excess(subject.namespace, charges)
    if excess is not None:
        code = DEVICE_QUOTA_TOO_SMALL if excess.never_fits else DEVICE_QUOTA_USED_UP
        path = f"{subject.claims_path}.requests" if subject.pod is None else subject.claims_path
        yield code.at(path, excess.message, object=subject.object)


def _find_uid(number: int, judged: JudgedClaim, context: JudgeContext) -> str:
    if judged.object.startswith(TEMPLATE):
        return f"claim {number}"  # each pod gets one of its own
    if judged.claim.metadata.uid:
        return judged.claim.metadata.uid
    # A manifest has none, and can be of a claim that exists.
    key = judged.claim.metadata.namespace or "default", judged.claim.metadata.name
    return uid_of(context.lookups.find_claim(*key) or judged.claim)
