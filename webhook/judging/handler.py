"""Handle reviews of the judge: decide the scope, have the object judged, and compose the reply.

An object that the judge cannot read, or cannot judge in time, is allowed.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from drawbridge.agreement.scope import Mode
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.process import review
from drawbridge.process.review import AdmissionRequest, Malformed
from webhook.admission.namespace_scopes import NamespaceScopes
from webhook.admission.protocols import NamespaceView
from webhook.admission.replies import (
    Reply,
    compose_reply,
    reply_malformed,
    reply_unreviewed,
)
from webhook.admission.responses import ALLOWED, Decided, ResponseOptions, compose_command, respond

_FILE_COMMAND: Final = "details: drawbridge check -f FILE --context"
_BUSY: Final = "drawbridge: too many objects are being judged; this one was not"
_LATE: Final = "drawbridge: this object was not judged in time"
_UNJUDGED: Final = "drawbridge: this object was not judged"
_WRITES: Final = frozenset({"CREATE", "UPDATE"})
_DRA: Final = "resource.k8s.io"
_CLAIMS: Final = b'"resourceClaims"'


class JudgeBusyError(Exception):
    """Too many judgements wait, so that this one is not made."""


class JudgeLimitError(Exception):
    """A judgement reached a limit, or its copy was killed; the message says which."""


class Judge(Protocol):
    """Judges the objects of reviews."""

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float, peer: str
    ) -> tuple[Finding, ...]:
        """Return the findings about an object that a peer sent, in a namespace with these labels.

        Raise TimeoutError after the given time, JudgeBusyError or JudgeLimitError.
        """


class JudgeHandler:
    """Handles reviews of the kinds that are judged.

    `configuration` returns the same object until it changes.
    """

    def __init__(
        self, namespaces: NamespaceView, configuration: Callable[[], Configuration], judge: Judge
    ) -> None:
        self._configuration = configuration
        self._judge = judge
        self._scopes = NamespaceScopes(namespaces)

    async def review_object(self, body: bytes, seconds: float, peer: str = "") -> Reply:
        """Handle the review of an object. `seconds` is the time until the API server gives up."""
        request = review.decode_review(body)
        if isinstance(request, Malformed):
            return reply_malformed(request)
        if (
            request.sub_resource
            or request.operation not in _WRITES
            or (request.kind.group != _DRA and _CLAIMS not in bytes(request.object))
        ):
            return compose_reply(request, ALLOWED)
        if not request.namespace:  # a DeviceClass has no namespace that could enforce
            return await self._review(request, Mode.REPORT, {}, seconds, peer)
        decided = await self._scopes.read(request.namespace, self._configuration(), seconds)
        if decided is None or decided.mode is Mode.OFF:
            return compose_reply(request, ALLOWED)
        return await self._review(request, decided.mode, decided.labels, seconds, peer)

    async def _review(
        self,
        request: AdmissionRequest,
        mode: Mode,
        labels: Mapping[str, str],
        seconds: float,
        peer: str,
    ) -> Reply:
        try:
            findings = await self._judge.judge(request, labels, seconds, peer)
        except TimeoutError:
            return reply_unreviewed(request, _LATE)
        except JudgeBusyError:
            return reply_unreviewed(request, _BUSY)
        except JudgeLimitError as error:
            return reply_unreviewed(request, f"{_UNJUDGED}: {error}")
        command = compose_command(request, "drawbridge check", _FILE_COMMAND)
        options = ResponseOptions(command, mode, _FILE_COMMAND)
        return compose_reply(request, respond(Decided(findings=findings), options))
