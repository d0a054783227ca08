"""Asks the API server who a caller is and what it may do, and remembers the results for a time.

No result counts for longer than some seconds, so that a token or a right that was taken back has no
effect soon. The results for equal questions that wait at the same time are asked once.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from allocator.api.messages import ApiFailureError, FailureCode
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.errors import ApiError

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
    """Results with an end, and the reviews that are on their way."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: BoundedCache[Hashable, T] = BoundedCache(MAX_RESULTS)
        self._pending: dict[Hashable, asyncio.Task[T]] = {}

    def find(self, key: Hashable) -> T | None:
        return self._known.get(key, self._now())

    async def review(
        self, key: Hashable, ask: Callable[[], Awaitable[T]], is_allowed: Callable[[T], bool]
    ) -> T:
        """Ask, together with others that wait for the same."""
        task = self._pending.get(key)
        if task is None:
            task = asyncio.ensure_future(self._ask(key, ask, is_allowed))
            self._pending[key] = task
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(
        self, key: Hashable, ask: Callable[[], Awaitable[T]], is_allowed: Callable[[T], bool]
    ) -> T:
        result = await ask()
        seconds = ALLOWED_SECONDS if is_allowed(result) else DENIED_SECONDS
        self._known.put(key, result, until=self._now() + seconds)
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
        self._callers: _Results[tuple[Caller | None]] = _Results(now)
        self._allowed: _Results[bool] = _Results(now)

    async def find_caller(self, token: str, before_review: Callable[[], None]) -> Caller | None:
        """Return whose token it is; None if the API server does not accept it."""
        raw = token.encode("utf-8", "surrogateescape")
        if not raw or len(raw) > MAX_TOKEN_BYTES:
            return None
        key = hashlib.blake2b(raw, key=self._key).digest()
        known = self._callers.find(key)
        if known is None:
            before_review()
            known = await self._callers.review(
                key, lambda: self._review_token(raw), lambda found: found[0] is not None
            )
        return known[0]

    async def is_allowed(
        self, caller: Caller, action: Action, before_review: Callable[[], None]
    ) -> bool:
        """Whether a caller may do something."""
        if caller.trusted:
            return True
        key = (caller, action)
        known = self._allowed.find(key)
        if known is None:
            before_review()
            known = await self._allowed.review(
                key, lambda: self._review_access(caller, action), bool
            )
        return known

    async def _review_token(self, token: bytes) -> tuple[Caller | None]:
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            return (None,)
        spec = {"token": text, **({"audiences": self._audiences} if self._audiences else {})}
        reply = await self._post(_TOKEN_REVIEWS, "TokenReview", "authentication.k8s.io/v1", spec)
        status = msgspec.json.decode(reply, type=_TokenReview).status
        if not status.authenticated or not status.user.username:
            return (None,)
        # An authenticator that knows no audiences names none.
        if self._audiences and not set(self._audiences) & set(status.audiences):
            return (None,)
        user = status.user
        extra = tuple(sorted(user.extra.items()))
        return (Caller(user.username, user.uid, user.groups, extra),)

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
        reply = await self._post(_ACCESS_REVIEWS, "SubjectAccessReview", version, spec)
        return msgspec.json.decode(reply, type=_AccessReview).status.allowed

    async def _post(self, path: str, kind: str, version: str, spec: object) -> bytes:
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        try:
            return await self._session.call("POST", path, body=body, seconds=_SECONDS)
        except ApiError as error:
            text = f"the API server does not answer a {kind}: {error}"
            raise ApiFailureError(FailureCode.NOT_READY, text, retry_after=1) from None
