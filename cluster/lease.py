"""One leads: an election by a Lease, and the fence that keeps writes behind it.

The rules are client-go's, so that a Lease may change hands between programs. Clocks of other
machines are never compared: whoever wants the Lease watches the record, and takes it only after
having seen it unchanged for its whole duration by the own clock. The holder knows in turn that
nobody can have taken it until that long after the last renewal *began*, and stops writing a third
earlier, so that what is still on its way arrives in time.
"""

import asyncio
import contextlib
import datetime as dt
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from cluster.errors import ApiError, NotLeadingError
from cluster.resources import LEASES
from cluster.session import Session

JSON = dict[str, Any]
_LOG = logging.getLogger("cluster.lease")


def clock() -> float:
    """Tell the time that also passes while the machine sleeps; another may have taken the Lease."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def stamp(now: dt.datetime | None = None) -> str:
    """Write a time as the API's MicroTime."""
    return f"{now or dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


class Election:
    """Stands for election under one name; is the fence of what may only be written while leading.

    `identity` should say which process this is; it is made unique, because two that call themselves
    the same would both believe that they lead.
    """

    def __init__(  # noqa: PLR0913  # all but four by name
        self,
        session: Session,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease: float = 15,
        renew: float = 10,
        retry: float = 2,
        now: Callable[[], float] = clock,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.identity = f"{identity}_{secrets.token_hex(4)}"
        self.holder = ""
        self._session = session
        self._collection = LEASES.path(namespace)
        self._name = name
        self._lease, self._renew, self._retry = lease, renew, retry
        self._now, self._pause = now, pause
        self._renewed = float("-inf")  # when the last renewal that succeeded was begun
        self._object: JSON = {}  # the Lease as last seen
        self._known = False  # whether it is still so, as far as we can know
        self._observed = float("-inf")  # when its record was first seen so

    @property
    def leading(self) -> bool:
        """Whether the Lease is certainly ours."""
        return self._now() < self._renewed + self._renew

    async def check(self) -> None:
        """Raise NotLeadingError unless the Lease is certainly ours; asks nobody."""
        if not self.leading:
            raise NotLeadingError(
                f"{self.identity} does not hold the Lease {self._name}"
                + (f"; {self.holder} does" if self.holder not in ("", self.identity) else "")
            )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stand for election until cancelled, and run `lead` while leading.

        `lead` is cancelled when the Lease is lost, and started again when it is won again. When
        it returns or raises, the Lease is given back and so does this.
        """
        while True:
            while not await self._try():
                await self._pause(self._retry * (1 + 0.2 * random.random()))  # noqa: S311  # jitter
            _LOG.info("%s leads", self.identity)
            task = asyncio.ensure_future(lead())
            try:
                await self._keep(task)
                if task.done() and not _was_fenced(task):
                    return await task
            finally:
                await _ended(task)
                await self._release()
            _LOG.warning("%s has lost the Lease %s", self.identity, self._name)

    async def _keep(self, task: "asyncio.Future[None]") -> None:
        """Renew until the Lease is lost or the task ends."""
        while self.leading and not task.done():
            pause = asyncio.ensure_future(self._pause(self._retry))
            try:
                await asyncio.wait((pause, task), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _ended(pause)
            if not task.done():
                # Ends at the latest when the Lease is no longer certain.
                await self._try(self._renewed + self._renew - self._now())

    async def _try(self, left: float | None = None) -> bool:
        """Take or renew the Lease; False where it is another's, or nothing is known."""
        began = self._now()
        seconds = max(min(self._renew / 2, self._renew if left is None else left), 0.01)
        try:
            async with asyncio.timeout(seconds):
                won = await self._take(seconds)
        except (ApiError, TimeoutError) as error:
            # Somebody wrote it, or we did without being told: what we know of it may be old.
            self._known = False
            forbidden = isinstance(error, ApiError) and error.forbidden
            # Where nobody may lead nothing is done at all, and nothing else says why.
            level = logging.WARNING if forbidden else logging.INFO
            _LOG.log(level, "the Lease %s: %s", self._name, str(error) or "no answer in time")
            return False
        if won:
            self._renewed = began
        return won

    async def _take(self, seconds: float) -> bool:
        if not (self.leading and self._known):
            # Whoever leads knows the object, and a wrong guess is a conflict; others must look.
            try:
                path = f"{self._collection}/{self._name}"
                self._see(await self._session.call("GET", path, seconds=seconds))
            except ApiError as error:
                if not error.missing:
                    raise
                await self._write("POST", self._record({}), {}, seconds)
                return True
        spec = self._object.get("spec") or {}
        if not self._is_free(spec):
            self._renewed = float("-inf")  # whoever took it need not have waited for our time
            return False
        await self._write("PUT", self._record(spec), self._object["metadata"], seconds)
        return True

    def _see(self, raw: bytes) -> None:
        """Note a record; its time begins when it is first seen to be different."""
        seen = msgspec.json.decode(raw)
        if self._observed == float("-inf") or seen.get("spec") != self._object.get("spec"):
            self._observed = self._now()
        self._object, self._known = seen, True
        self.holder = (seen.get("spec") or {}).get("holderIdentity") or ""

    def _is_free(self, spec: JSON) -> bool:
        if self.holder in ("", self.identity):
            return True
        duration = spec.get("leaseDurationSeconds") or self._lease
        return self._now() >= self._observed + duration

    def _record(self, spec: JSON) -> JSON:
        now = stamp()
        mine = spec.get("holderIdentity") == self.identity
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._lease)),
            "acquireTime": spec.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (bool(spec) and not mine),
        }

    async def _write(self, method: str, spec: JSON, metadata: JSON, seconds: float) -> None:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata, "name": self._name},
            "spec": spec,
        }
        path = self._collection if method == "POST" else f"{self._collection}/{self._name}"
        self._see(await self._session.call(method, path, body=body, seconds=seconds))

    async def _release(self) -> None:
        """Give the Lease back, so that the next need not wait; only what is certainly ours."""
        if not (self.leading and self._known):
            return
        self._renewed = float("-inf")
        now = stamp()
        spec = {**self._object["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        spec |= {"renewTime": now, "acquireTime": now}
        with contextlib.suppress(ApiError):
            await self._write("PUT", spec, self._object["metadata"], self._retry)


def _was_fenced(task: "asyncio.Future[None]") -> bool:
    """Tell whether a task found at the fence, before we did, that it no longer leads."""
    return not task.cancelled() and isinstance(task.exception(), NotLeadingError)


async def _ended(task: "asyncio.Future[None]") -> None:
    """Cancel a task and wait for its end; says what it raises on the way out."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("what was cancelled failed: %s", error, exc_info=error)
