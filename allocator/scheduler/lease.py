"""Tells whether the kube-scheduler beside this process certainly leads, from its Lease.

The allocator elects nothing: it may write while the kube-scheduler on its own host holds the Lease.
Another kube-scheduler takes the Lease when it has not changed for its whole duration. So the Lease
is safe until that duration has passed since its last renewal. The renewal happened after the
request before the one that shows it was sent. This time, on the clock of this machine, is what
counts here: a response that arrives late, or a process that was stopped, never extends the time.

A kube-scheduler that ends releases its Lease before that time, so devices are given away only after
another read: whoever leads by then sees the marks that were written before it.

The Lease also says what a process has to know before it writes, because this is the one object of
which every process that writes has a recent copy (drawbridge.agreement.required_versions).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from allocator.scheduler.known_versions import KnownVersions
from drawbridge.agreement.required_versions import read_required
from drawbridge.api_error import ApiError
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.client import Fence
from drawbridge.cluster.errors import NotLeadingError, decode_response
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import LEASES
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session

_LOG: Final = logging.getLogger("allocator.lease")
READ_SECONDS: Final = 1.0
# Requests in flight reach the API server, and clocks of two machines run apart, within this time.
MARGIN_SECONDS: Final = 3.0
# Pods share a read that begins within this time of the one before; none waits longer for it.
CONFIRM_SECONDS: Final = 0.03


class LeaseName(NamedTuple):
    """The namespace and the name of a Lease."""

    namespace: str
    name: str


class Term(NamedTuple):
    """A time in which one kube-scheduler holds the Lease without interruption."""

    holder: str
    transitions: int


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class _LeaseMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Lease(msgspec.Struct):
    metadata: _LeaseMetadata = msgspec.field(default_factory=_LeaseMetadata)
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class SchedulerLease:
    """The Lease of the kube-scheduler on `host`.

    A kube-scheduler names itself `<host name>_<UUID>`.
    """

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        session: Session,
        name: LeaseName,
        host: str,
        *,
        versions: KnownVersions | None = None,
        now: Callable[[], float] = boot_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._name = name
        self._host = host
        self._versions = versions or KnownVersions({})
        self._now, self._pause = now, pause
        self._backoff = Backoff(maximum=READ_SECONDS)
        end = f"the Lease {name.name} can be read again after %.0f s"
        self._log = FailureLog(_LOG, end, now)
        self._spec: _LeaseSpec | None = None
        self._previous_read = float("-inf")  # when the last successful read was sent
        self._until = float("-inf")  # until when nobody else can take the Lease
        self.problem = "the Lease was not read yet"
        # Reads follow each other, so that none shows an older Lease than the one before it.
        self._reading = asyncio.Lock()
        self._sent = self._answered = 0  # the numbers of the last read, and of the last answer
        self._sent_at = float("-inf")
        self._failed: ApiError | None = None  # why the last answer told nothing

    @property
    def leading(self) -> bool:
        """Whether the kube-scheduler of this host certainly holds the Lease.

        A process that does not know what the Lease requires does not lead either.
        """
        return self._now() < self._until and not self._versions.find_behind()

    @property
    def term(self) -> Term | None:
        """The current term; None while another kube-scheduler may lead."""
        if self._spec is None or not self.leading:
            return None
        return Term(self._spec.holder_identity or "", self._spec.lease_transitions or 0)

    def has_ended(self, term: Term) -> bool:
        """Whether the last read shows that the kube-scheduler of a term does not lead any more."""
        spec = self._spec
        if spec is None:
            return False
        return (spec.holder_identity or "", spec.lease_transitions or 0) != term

    async def check(self) -> None:
        """Raise NotLeadingError unless the kube-scheduler of this host certainly leads."""
        if not self.leading:
            raise NotLeadingError(self.describe())

    async def confirm(self) -> None:
        """Raise NotLeadingError or ApiError unless a read that is sent from now on shows a leader.

        All that ask before it is sent share it. It is sent some time after the one before.
        """
        before = self._sent
        async with self._reading:
            if self._answered <= before:
                early = self._sent_at + CONFIRM_SECONDS - self._now()
                if early > 0:
                    await self._pause(early)
                await self._read()
            elif self._failed is not None:
                raise self._failed
        await self.check()

    def describe(self) -> str:
        """Say who holds the Lease, as far as it is known."""
        name = f"{self._name.namespace}/{self._name.name}"
        if self.problem:
            return f"the Lease {name}: {self.problem}"
        if behind := self._versions.find_behind():
            return f"the Lease {name} requires newer {behind} than this process has read"
        holder = self._spec.holder_identity if self._spec else ""
        if holder and self._is_ours(holder):
            return f"{holder} did not renew the Lease {name} in time"
        if not holder:
            return f"the Lease {name} has no holder"
        return f"{holder} holds the Lease {name}, not a kube-scheduler on {self._host}"

    async def run(self) -> None:
        """Read the Lease again and again, until cancelled."""
        while True:
            try:
                await self.read()
            except ApiError as error:
                self._log.fail(error, "cannot read the Lease %s: %s", self._name.name, error)
                self.problem = f"{error}"
                await self._pause(self._backoff.pause(error.retry_after))
            else:
                self._backoff.reset()
                self._log.succeed()
                await self._pause(READ_SECONDS)

    async def read(self) -> None:
        """Read the Lease once; raises ApiError."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        self._sent += 1
        self._sent_at = sent = self._now()
        path = LEASES.path(self._name.namespace, self._name.name)
        try:
            response = await self._session.call("GET", path, seconds=5)
            lease = decode_response(response, _Lease)
        except ApiError as error:
            self._answered, self._failed = self._sent, error
            raise
        self._versions.require(read_required(lease.metadata.annotations))
        self._observe(lease.spec, sent)
        self._answered, self._failed = self._sent, None

    def _observe(self, spec: _LeaseSpec, sent: float) -> None:
        """Take over what a read that was sent at a time shows."""
        before, previous_read = self._spec, self._previous_read
        self._spec, self._previous_read = spec, sent
        self.problem = ""
        if not self._is_ours(spec.holder_identity or ""):
            self._until = float("-inf")
        elif before is not None and spec.renew_time != before.renew_time:
            # The renewal happened after the previous read was sent.
            duration = float(spec.lease_duration_seconds or 0)
            self._until = previous_read + duration - MARGIN_SECONDS

    def _is_ours(self, holder: str) -> bool:
        return holder.rpartition("_")[0] == self._host


_: type[Fence] = SchedulerLease
