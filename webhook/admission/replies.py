"""Compose the replies of the webhooks: the body for the API server, and values for metrics."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from drawbridge.process import review
from drawbridge.process.review import Denial, Malformed, RequestEnvelope
from webhook.admission import messages
from webhook.admission.pods import PartialResponse


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


PendingReply = Coroutine[Any, Any, Reply]


async def await_reply(reply: Reply | PendingReply) -> Reply:
    """Wait for a reply, if it is not given at once."""
    return reply if isinstance(reply, Reply) else await reply


def compose_reply(request: RequestEnvelope, response: PartialResponse, name: str = "") -> Reply:
    """Compose the reply for a request. `name` replaces the name in the request."""
    return Reply(
        200,
        review.compose_review(request.uid, response.tail),
        request.uid,
        request.operation,
        response.outcome,
        response.codes,
        request.namespace,
        name or request.name,
    )


def reply_invalid(request: RequestEnvelope, why: str) -> Reply:
    """Deny a valid review whose object is invalid."""
    denial = Denial(400, "BadRequest", messages.sanitize(why, 1024))
    return compose_reply(request, PartialResponse(review.compose_denied(denial), "error"))


def reply_unready(request: RequestEnvelope, why: str) -> Reply:
    """Deny a review that cannot be handled yet."""
    denial = Denial(503, "ServiceUnavailable", f"{why}; try again")
    return compose_reply(request, PartialResponse(review.compose_denied(denial), "error"))


def reply_malformed(malformed: Malformed) -> Reply:
    """Respond to a malformed review: a denial if it has a uid, otherwise HTTP status 400."""
    why = messages.sanitize(malformed.why, 1024)
    if not malformed.uid:
        return Reply(400, why.encode(), outcome="error")
    denied = review.compose_denied(Denial(400, "BadRequest", why))
    return Reply(200, review.compose_review(malformed.uid, denied), malformed.uid, outcome="error")


def reply_busy(uid: str) -> Reply:
    """Deny a review because too many large ones are in progress."""
    message = "too many large objects are in review; try again"
    denied = review.compose_denied(Denial(429, "TooManyRequests", message))
    return Reply(200, review.compose_review(uid, denied), uid, outcome="error")


def reply_unreviewed(uid: str) -> Reply:
    """Allow an object without a review because too many large ones are in progress."""
    warnings = ["too many large objects are in review; the pods of this one were not checked"]
    allowed = review.compose_allowed((), warnings)
    return Reply(200, review.compose_review(uid, allowed), uid, outcome="error")
