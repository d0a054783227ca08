"""Asks the API server who a caller is and what it may do, and remembers the results for a time.

No result counts for longer than some seconds, so that a token or a right that was taken back has no
effect soon. The results for equal questions that wait at the same time are asked once.
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from allocator.api.messages import ApiFailureError, FailureCode
from allocator.api.tenants import Tenant, find_tenant
from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.errors import decode_response
from drawbridge.cluster.session import Session

ALLOWED_SECONDS: Final = 10.0
DENIED_SECONDS: Final = 5.0
MAX_RESULTS: Final = 4096
MAX_TOKEN_BYTES: Final = 16 * 1024
_SECONDS: Final = 5.0
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  # a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
T = TypeVar("T")


class ReviewSession(Protocol):
    """What sends requests to the API server."""

    async def call(
        self, method: str, path: str, *, body: object = None, seconds: float = 30
    ) -> bytes:
        """Send a request; raises ApiError."""
        ...


class Caller(msgspec.Struct, frozen=True):
    """Who calls. A `trusted` caller is on this machine, and may do everything."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    trusted: bool = False

    @property
    def tenant(self) -> Tenant:
        """Whose requests count together with these."""
        return find_tenant(self.name)


class Action(msgspec.Struct, frozen=True):
    """What a caller wants to do with objects of the API server, or with one of them."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Say what it is, for messages."""
        plural = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "at the cluster scope"
        return f"{self.verb} {plural} {where}"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: tuple[str, ...] = ()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class _Results(Generic[T]):
    """Results that count for a time, and the reviews that are on their way.

    A result that is None or false is a denial.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # Callers and rights, for 10 s.
        self._kept: BoundedCache[Hashable, T | None] = BoundedCache(MAX_RESULTS)
        self._pending: dict[Hashable, asyncio.Task[T | None]] = {}

    async def find(
        self,
        key: Hashable,
        review: Callable[[], Awaitable[T | None]],
        before_review: Callable[[], None],
    ) -> T | None:
        """Return the result for a key; without one, review, together with others that wait."""
        kept = self._kept.get(key, self._now())  # removes a result that counts no longer
        if key in self._kept:
            return kept
        before_review()
        task = self._pending.get(key)
        if task is None:
            task = asyncio.ensure_future(self._review(key, review))
            self._pending[key] = task
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)

    async def _review(self, key: Hashable, review: Callable[[], Awaitable[T | None]]) -> T | None:
        result = await review()
        seconds = ALLOWED_SECONDS if result else DENIED_SECONDS
        self._kept.put(key, result, until=self._now() + seconds)
        return result


class Reviews:
    """The results of the API server.

    `audience` is what tokens must be made for; without, they are tokens for the API server. Tokens
    themselves are neither kept nor logged. `before_review` can refuse a request that needs the API
    server.
    """

    def __init__(
        self, session: ReviewSession, audience: str = "", *, now: Callable[[], float]
    ) -> None:
        self._session = session
        self._audiences = [audience] if audience else []
        self._key = secrets.token_bytes(32)
        self._callers: _Results[Caller] = _Results(now)
        # Callers whose token was accepted, for 10 s.
        self._accepted: BoundedCache[bytes, Tenant] = BoundedCache(MAX_RESULTS)
        self._allowed: _Results[bool] = _Results(now)

    async def find_caller(
        self, token: str, before_review: Callable[[Tenant | None], None]
    ) -> Caller | None:
        """Return whose token it is; None if the API server does not accept it.

        `before_review` gets the tenant of a token that was accepted before.
        """
        raw = token.encode("utf-8", "surrogateescape")
        if not raw or len(raw) > MAX_TOKEN_BYTES:
            return None
        key = hmac.digest(self._key, raw, "sha256")
        caller = await self._callers.find(
            key,
            lambda: self._review_token(raw),
            lambda: before_review(self._accepted.get(key)),
        )
        if caller is None:
            self._accepted.pop(key)
        else:
            self._accepted.put(key, caller.tenant)
        return caller

    async def is_allowed(
        self, caller: Caller, action: Action, before_review: Callable[[], None]
    ) -> bool:
        """Whether a caller may do something."""
        return caller.trusted or bool(
            await self._allowed.find(
                (caller, action), lambda: self._review_access(caller, action), before_review
            )
        )

    async def _review_token(self, token: bytes) -> Caller | None:
        if not token.isascii():
            return None
        spec: dict[str, object] = {"token": token.decode("ascii")}
        if self._audiences:
            spec["audiences"] = self._audiences
        version = "authentication.k8s.io/v1"
        review = await self._post(_TOKEN_REVIEWS, "TokenReview", version, spec, _TokenReview)
        status = review.status
        # An authenticator that knows no audiences names none.
        is_for_us = not self._audiences or not set(self._audiences).isdisjoint(status.audiences)
        user = status.user
        if not (status.authenticated and user.username and is_for_us):
            return None
        return Caller(user.username, user.uid, user.groups, tuple(sorted(user.extra.items())))

    async def _review_access(self, caller: Caller, action: Action) -> bool:
        attributes = {name: text for name, text in msgspec.to_builtins(action).items() if text}
        spec = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": dict(caller.extra),
            "resourceAttributes": attributes,
        }
        version = "authorization.k8s.io/v1"
        kind = "SubjectAccessReview"
        review = await self._post(_ACCESS_REVIEWS, kind, version, spec, _AccessReview)
        return review.status.allowed

    async def _post(self, path: str, kind: str, version: str, spec: object, reply: type[T]) -> T:
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        try:
            response = await self._session.call("POST", path, body=body, seconds=_SECONDS)
            return decode_response(response, reply)
        except ApiError as error:
            text = f"the API server does not answer a {kind}: {error}"
            raise ApiFailureError(FailureCode.NOT_READY, text, retry_after=1) from None


_: type[ReviewSession] = Session
