"""Compose the response about a pod from its decision, and the record for the audit log."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from drawbridge.agreement.scope import Mode
from drawbridge.documents.patch import Edit
from drawbridge.finding import Finding
from drawbridge.translate.changes.patch import to_operations
from webhook.admission.pods import PodDecision
from webhook.admission.replies import AuditRecord
from webhook.admission.responses import (
    Decided,
    PartialResponse,
    PodVerdict,
    ResponseOptions,
    respond,
    sanitize,
    shorten,
)

_MAX_OWNER: Final = 400
_MAX_CHANGES: Final = 16


class PodResponse(msgspec.Struct, frozen=True):
    """A cached decision, and the response if the namespace has no objections."""

    decision: PodDecision
    response: PartialResponse
    depends_on_namespace: bool = False  # whether limits and quotas can change the response


def compose_response(
    decision: PodDecision,
    options: ResponseOptions,
    digest: str = "",
    more_findings: Iterable[Finding] = (),
    more_edits: Iterable[Edit] = (),
) -> PartialResponse:
    """Compose the response to a decision, with findings and edits that the namespace adds.

    These findings are told first: the command that the last line names does not print them.
    `digest` is the hash of the facts.
    """
    becomes = "would be translated" if options.mode is Mode.REPORT else "translated"
    audit = {}
    if decision.templates:
        audit["templates"] = ",".join(each.name for each in decision.templates)
    if digest:
        audit["facts"] = digest
    is_asked = PodVerdict.LEFT if decision.asked else None
    decided = Decided(
        findings=(*more_findings, *decision.findings),
        lines=[f"{becomes}: {each}" for each in decision.lines],
        patch=[*decision.operations, *to_operations(more_edits)] if decision.edits else (),
        audit=audit,
        verdict=PodVerdict.TRANSLATED if decision.edits else is_asked,
    )
    return respond(decided, options)


def compose_audit(
    decision: PodDecision, verdict: PodVerdict | None, mode: Mode, owner: str
) -> AuditRecord | None:
    """Compose the audit record of a decision; None if the pod asks for nothing."""
    if verdict is None:
        return None
    unchanged = (f"{asked} -> {verdict}" for asked in decision.asked)
    changes = (verdict is PodVerdict.TRANSLATED and decision.lines) or unchanged
    shown = tuple(shorten(each) for each in islice(changes, _MAX_CHANGES))
    return AuditRecord(verdict, mode, sanitize(owner, _MAX_OWNER), shown)


class AuditedPod(NamedTuple):
    """The pod of a request, as the audit log names it."""

    name: str
    owner: str
