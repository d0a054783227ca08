"""Replies to reviews: the body for the API server, and the values for metrics and logs."""

from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from drawbridge.agreement.scope import Mode
from drawbridge.process import review
from drawbridge.process.review import Denial, Malformed, RequestEnvelope, compose_denied
from webhook.admission.responses import PartialResponse, PodVerdict, sanitize

_MAX_NAME: Final = 253  # of an object
_MAX_WHY: Final = 1024
_REASONS: Final = {
    400: "BadRequest",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class AuditRecord(msgspec.Struct, frozen=True):
    """The decision about a created pod, for the audit log: what it asked for, and what it became.

    Texts of tenants are cut: admission runs before the API server validates the pod.
    """

    verdict: PodVerdict
    mode: Mode
    owner: str
    changes: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True):
    """The HTTP response for the API server, and the values for metrics and logs.

    `outcome` is one of allowed, translated, reported, denied, error.
    """

    status: int
    body: bytes
    uid: str = ""
    operation: str = ""
    outcome: str = "allowed"
    codes: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    audit: AuditRecord | None = None


PendingReply = Coroutine[Any, Any, Reply]


async def await_reply(reply: Reply | PendingReply) -> Reply:
    """Wait for a reply, if it is not given at once."""
    return reply if isinstance(reply, Reply) else await reply


def compose_reply(
    request: RequestEnvelope,
    response: PartialResponse,
    name: str = "",
    audit: AuditRecord | None = None,
) -> Reply:
    """Compose the reply for a request. `name` replaces the name in the request."""
    return Reply(
        200,
        review.compose_review(request.uid, response.tail),
        request.uid,
        request.operation,
        response.outcome,
        response.codes,
        request.namespace,
        sanitize(name or request.name, _MAX_NAME),
        bool(request.dry_run),
        audit,
    )


def reply_error(asked: RequestEnvelope | str, status: int, why: str) -> Reply:
    """Deny a review that cannot be answered. Of a request that is not decoded, the uid is known."""
    denial = Denial(status, _REASONS[status], sanitize(why, _MAX_WHY))
    return _compose(asked, PartialResponse(compose_denied(denial), "error"))


def reply_malformed(malformed: Malformed) -> Reply:
    """Respond to a malformed review: a denial if it has a uid, otherwise HTTP status 400."""
    if malformed.uid:
        return reply_error(malformed.uid, 400, malformed.why)
    return Reply(400, sanitize(malformed.why, _MAX_WHY).encode(), outcome="error")


def reply_unreviewed(asked: RequestEnvelope | str, why: str) -> Reply:
    """Allow an object without a review, and say why nothing is known about it."""
    return _compose(asked, PartialResponse(review.compose_allowed((), [why]), "error"))


def _compose(asked: RequestEnvelope | str, response: PartialResponse) -> Reply:
    if isinstance(asked, RequestEnvelope):
        return compose_reply(asked, response)
    return Reply(200, review.compose_review(asked, response.tail), asked, outcome="error")
