"""Leader election by a Lease, and the fence that only lets the leader write.

The rules are those of client-go, so the Lease is compatible with other implementations. The elector
never compares the clocks of two machines: a candidate takes the Lease only after its record did not
change for the whole lease duration on the candidate's own clock. Therefore no other process can
take the Lease until that duration has passed since the leader's last renewal *started*. The leader
stops writing after two thirds of the duration, so that requests in flight arrive in time.
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

from drawbridge.api_error import ApiError
from drawbridge.cluster.client import Fence
from drawbridge.cluster.errors import NotLeadingError, decode_response
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import LEASES, ApiObject
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session

_LOG = logging.getLogger("drawbridge.cluster.lease")


def micro_time_now() -> str:
    """Return the time as a MicroTime of the Kubernetes API."""
    return f"{dt.datetime.fromtimestamp(time.time(), dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


class LeaderElector:
    """Takes part in the election for one Lease.

    `identity` names this process. A random suffix makes it unique, because two processes with the
    same identity would both consider themselves the leader.
    """

    def __init__(  # noqa: PLR0913  # all but four by name
        self,
        session: Session,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration: float = 15,
        renew_deadline: float = 10,
        retry_period: float = 2,
        now: Callable[[], float] = boot_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.identity = f"{identity}_{secrets.token_hex(4)}"
        self.holder = ""
        self._session = session
        self._collection = LEASES.path(namespace)
        self._name = name
        self._lease_duration, self._renew_deadline = lease_duration, renew_deadline
        self._retry_period = retry_period
        self._now, self._pause = now, pause
        self._renewed = float("-inf")  # when the last successful renewal started
        self._object: ApiObject = {}  # the Lease as last seen
        self._is_uncertain = False  # whether the effect of a write is unknown
        self._observed = float("-inf")  # when its spec was first seen in this state
        self._log = FailureLog(_LOG, f"the Lease {name} can be used again after %.0f s", now)

    @property
    def leading(self) -> bool:
        """Whether this process certainly holds the Lease."""
        return self._now() < self._renewed + self._renew_deadline

    async def check(self) -> None:
        """Raise NotLeadingError unless this process certainly leads; sends no request."""
        if not self.leading:
            raise NotLeadingError(
                f"{self.identity} does not hold the Lease {self._name}"
                + (f"; {self.holder} holds it" if self.holder not in ("", self.identity) else "")
            )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Take part in the election until cancelled, and run `lead` while leading.

        `lead` is cancelled when the Lease is lost, and started again when it is acquired again.
        When `lead` returns or raises, this method releases the Lease and does the same.
        """
        while True:
            try:
                while not await self._try_acquire():
                    await self._pause(self._retry_period * (1 + 0.2 * random.random()))  # noqa: S311  # jitter
                _LOG.debug("%s acquired the Lease", self.identity)  # `lead` tells it
                task = asyncio.ensure_future(lead())
                try:
                    await self._renew_while_running(task)
                    if task.done() and not _was_fenced(task):
                        return await task
                finally:
                    await _cancel(task)
            finally:
                await self._release()
            _LOG.warning("%s lost the Lease %s", self.identity, self._name)

    async def _renew_while_running(self, task: "asyncio.Future[None]") -> None:
        """Renew until the Lease is lost or the task ends."""
        while self.leading and not task.done():
            pause = asyncio.ensure_future(self._pause(self._retry_period))
            try:
                await asyncio.wait((pause, task), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _cancel(pause)
            if not task.done():
                # The attempt ends at the latest when this process has to stop leading.
                await self._try_acquire(self._renewed + self._renew_deadline - self._now())

    async def _try_acquire(self, remaining: float | None = None) -> bool:
        """Acquire or renew the Lease; False if another process holds it or the attempt failed."""
        started = self._now()
        limit = self._renew_deadline if remaining is None else remaining
        seconds = max(min(self._renew_deadline / 2, limit), 0.01)
        try:
            async with asyncio.timeout(seconds):
                acquired = await self._acquire(seconds)
        except (ApiError, TimeoutError) as error:
            # Without this permission no replica ever leads, and no other log line tells why.
            reason = str(error) or "no response in time"
            self._log.fail(error, "cannot acquire or renew the Lease %s: %s", self._name, reason)
            return False
        self._log.succeed()
        if acquired:
            self._renewed = started
        return acquired

    async def _acquire(self, seconds: float) -> bool:
        if not self.leading or self._is_uncertain:
            # The leader has the current object, and a stale one causes a conflict. Others read it.
            try:
                await self._read(seconds)
            except ApiError as error:
                if not error.not_found:
                    raise
                await self._write("POST", self._record({}), {}, seconds)
                return True
        spec = self._object.get("spec") or {}
        if not self._is_free(spec):
            self._renewed = float("-inf")  # the new holder may not have waited for the deadline
            return False
        await self._write("PUT", self._record(spec), self._object["metadata"], seconds)
        return True

    async def _read(self, seconds: float) -> None:
        path = f"{self._collection}/{self._name}"
        self._observe(await self._session.call("GET", path, seconds=seconds))

    def _observe(self, raw: bytes) -> None:
        """Store the Lease; its observation time starts when its spec changes."""
        seen = decode_response(raw, dict[str, Any])
        if self._observed == float("-inf") or seen.get("spec") != self._object.get("spec"):
            self._observed = self._now()
        self._object, self._is_uncertain = seen, False
        self.holder = (seen.get("spec") or {}).get("holderIdentity") or ""

    def _is_free(self, spec: ApiObject) -> bool:
        if self.holder in ("", self.identity):
            return True
        duration = spec.get("leaseDurationSeconds") or self._lease_duration
        return self._now() >= self._observed + duration

    def _record(self, spec: ApiObject) -> ApiObject:
        now = micro_time_now()
        is_holder = spec.get("holderIdentity") == self.identity
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._lease_duration)),
            "acquireTime": spec.get("acquireTime", now) if is_holder else now,
            "renewTime": now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0)
            + (bool(spec) and not is_holder),
        }

    async def _write(
        self, method: str, spec: ApiObject, metadata: ApiObject, seconds: float
    ) -> None:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata, "name": self._name},
            "spec": spec,
        }
        path = self._collection if method == "POST" else f"{self._collection}/{self._name}"
        self._is_uncertain = True  # also if the request is cancelled
        self._observe(await self._session.call(method, path, body=body, seconds=seconds))

    async def _release(self) -> None:
        """Release the Lease if this process holds it, so that another one can lead.

        After the deadline it has to expire: requests of this process can still be on their way.
        """
        if not self.leading and self._renewed > float("-inf"):
            return
        self._renewed = float("-inf")
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._retry_period):
                while not await self._try_release():
                    pass

    async def _try_release(self) -> bool:
        """Release the Lease; False if it changes meanwhile, as by a renewal that was cancelled."""
        if self._is_uncertain:
            await self._read(self._retry_period)
        if self.holder != self.identity:
            return True
        now = micro_time_now()
        spec = {**self._object["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        spec |= {"renewTime": now, "acquireTime": now}
        try:
            await self._write("PUT", spec, self._object["metadata"], self._retry_period)
        except ApiError as error:
            if not error.conflict:
                raise
            return False
        return True


_: type[Fence] = LeaderElector


def _was_fenced(task: "asyncio.Future[None]") -> bool:
    """Whether the fence stopped the task before the elector detected the loss of the Lease."""
    return not task.cancelled() and isinstance(task.exception(), NotLeadingError)


async def _cancel(task: "asyncio.Future[None]") -> None:
    """Cancel a task and wait for it; logs an exception that it raises."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("a cancelled task failed: %s", error, exc_info=error)
