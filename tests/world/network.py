"""Two API servers over one storage, and the network between them and everybody else.

A request that was sent arrives, also late and also if its sender was killed. Watches lag, each
server by its own time, and clocks of servers differ.
"""

import asyncio
import contextlib
import functools
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import NamedTuple

from drawbridge.cluster.errors import UnreachableError, error_from_response
from drawbridge.cluster.server_clock import CONFIRMATION_SECONDS, LARGE_STEP_SECONDS
from tests.cluster.fake.server import Server
from tests.cluster.fake.session import ServerSession
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import Store, encoded
from tests.cluster.fake.trouble import Seen
from tests.world import clock
from tests.world.full_nodes import FullNodes
from tests.world.watches import Follower, Front, Lagging

SYSTEM = "drawbridge-system"
LEASE_SECONDS = 15
# After this time, an API server ends a request, which is shorter here than in a cluster.
LATEST_SECONDS = 10.0
# Clients whose roles can lack something for a moment.
OURS = ("allocator", "controller", "webhook")
_PROMPT_SECONDS = 0.5


@dataclass
class Faults:
    """How often requests fail: parts of one."""

    refused: float = 0.0
    overloaded: float = 0.0
    broken: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    # How often the controller makes a claim again of which it does not hear yet.
    second: float = 0.0


@dataclass
class Trouble:
    """What happens to a host or a process: until when it is cut off, stands still, or is deaf.

    Who stands still sends later what it had decided to send. Who is deaf hears of no change. Until
    it is `answered` again, what it sends arrives, and it gets no answer.
    """

    cut: float = 0.0
    still: float = 0.0
    deaf: float = 0.0
    answered: float = 0.0


_NONE = Trouble()


class Trap(NamedTuple):
    """What happens to the process that sends the next write of this kind.

    `end` is the end of its path, or the resource that it writes; a `mark` is written to a claim, a
    `release` removes its allocation. It happens when the write arrives, or `before` it is sent. One
    that is `late` arrives only some time after that, and who sent it is told nothing.
    """

    end: str
    act: Callable[[str, str], None]  # with the host and the path
    late: float = 0.0
    before: bool = False

    def meets(self, seen: Seen) -> bool:
        """Whether this is the write."""
        if seen.method == "GET":
            return False
        if self.end == "mark":
            return _is_mark(seen.path)
        if self.end == "release":
            return b'"allocation":null' in seen.body
        if self.end == "pod status":
            return seen.path.endswith("/status") and "/pods/" in seen.path
        return self.end in seen.path.split("/")[-2:]


@dataclass
class Network:
    """The servers, and what happens to requests."""

    random: random.Random
    store: Store
    fronts: list[Front] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    full: FullNodes = field(default_factory=FullNodes)
    written: list[tuple[str, str, str]] = field(default_factory=list)
    writer: str = ""  # whose request is being answered
    # Processes that took the time of one server, although another one had just told the right one.
    misled: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    # Who may not use a resource for a moment, and until when; all of ours if nobody is named.
    forbidden: dict[tuple[str, str], float] = field(default_factory=dict)
    # Whose requests about a resource hang, and until when.
    hanging: dict[tuple[str, str], float] = field(default_factory=dict)
    # By the kind of process, and of the write.
    traps: dict[tuple[str, str], Trap] = field(default_factory=dict)
    # Which objects a policy lets nobody change, by path, and until when; their status can change.
    unchanging: dict[str, float] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)  # until when clients wait for an answer
    followers: list[Follower] = field(default_factory=list)
    # Until when no server opens a watch for our processes, as a server with many watches does.
    no_watch: float = 0.0
    # What raises RefusedError for a request that a policy of a server refuses.
    admit: Callable[[str, Front, Seen], None] = lambda *_: None

    def open(self) -> None:
        """Start two servers."""
        self.fronts = [Front(Server(store=self.store)) for _ in range(2)]
        for front in self.fronts:
            front.server.graceful = True
            # Each server continues a list that another one has begun.
            front.server.pages = self.fronts[0].server.pages

    def choose(self) -> Front:
        """Return the server that a load balancer chooses: one that is up, if it can."""
        now = asyncio.get_running_loop().time()
        ready = [front for front in self.fronts if front.until <= now]
        return self.random.choice(ready or self.fronts)

    def trouble_of(self, who: str) -> Trouble:
        """Return the trouble of the host of a client."""
        host = _host_of(who)
        trouble = self.troubles.get(host)
        if trouble is None:
            trouble = self.troubles[host] = Trouble()
        return trouble

    def find_still(self, who: str) -> float:
        """Return until when a client stands still, alone or with its host."""
        return max(self.trouble_of(who).still, self.troubles.get(who, _NONE).still)

    def find_deaf(self, who: str) -> float:
        """Return until when a client hears of no change, but of the end of its connections.

        Of all changes, or of those of one resource: `pods of scheduler host-a`.
        """
        return self.troubles.get(who, _NONE).deaf

    def cut_off(self, host: str, seconds: float, *, breaks: bool = False) -> None:
        """Cut a host off for a while; its connections last, or break and history goes meanwhile."""
        loop = asyncio.get_running_loop()
        self.trouble_of(f"host {host}").cut = loop.time() + seconds
        if breaks:
            self.break_off(host)
            loop.call_later(seconds / 2, self.fronts[0].server.expire)

    def stand_still(self, who: str, seconds: float) -> None:
        """Let a host or a process stand still; what it had decided is sent later."""
        until = asyncio.get_running_loop().time() + seconds
        self.troubles.setdefault(who, Trouble()).still = until

    def make_deaf(self, who: str, until: float) -> None:
        """Let a process hear of no change until a time, or of none of one resource."""
        self.troubles.setdefault(who, Trouble()).deaf = until

    def answer_late(self, who: str, seconds: float) -> None:
        """Let a process get no answer for a while to what it sends, and hear of no change."""
        until = asyncio.get_running_loop().time() + seconds
        self.troubles.setdefault(who, Trouble()).answered = until
        self.make_deaf(who, until + 1)

    def heal(self) -> None:
        """End all faults."""
        self.faults = Faults()
        self.troubles.clear()
        self.forbidden.clear()
        self.hanging.clear()
        self.traps.clear()
        self.unchanging.clear()
        self.no_watch = 0.0
        for front in self.fronts:
            front.until, front.lag, front.skew = 0.0, 0.02, 0.0
        watches = [lines for front in self.fronts for lines in front.streams]
        for each in (*watches, *self.followers):
            each.lag.catch_up()

    def _is_still(self, who: str) -> bool:
        return self.find_still(who) > asyncio.get_running_loop().time()

    async def _wait_while_still(self, who: str) -> None:
        if self._is_still(who):
            await asyncio.sleep(self.find_still(who) - asyncio.get_running_loop().time())

    def check_reach(self, who: str, front: Front, seen: Seen) -> None:
        """Raise ApiError if a client does not reach a server, or may not do this now."""
        now = asyncio.get_running_loop().time()
        if max(self.trouble_of(who).cut, front.until) > now:
            raise UnreachableError(f"{seen.method} {seen.path}: connection refused")
        if _find_until(self.forbidden, who, seen) > now:
            self.count("forbidden request")
            verb = "create" if seen.method == "POST" else "use"
            message = f'User "{who}" cannot {verb} resource "{seen.path}"'  # as RBAC says it
            raise error_from_response(403, {}, encoded(RefusedError(403, message).body))
        if seen.method in {"PATCH", "PUT"} and self.unchanging.get(seen.path, 0.0) > now:
            self.count("change that a policy refuses")
            raise error_from_response(403, {}, encoded(RefusedError(403, "a policy").body))

    async def send(
        self, who: str, front: Front, seen: Seen, runs: Callable[[], bool] = lambda: True
    ) -> bytes:
        """Send a request, which arrives and is answered some time later, if at all.

        `runs` tells whether its sender still does.
        """
        if (trap := self._find_trap(who, seen)) and trap.before:
            self._spring(who, seen)
        if self._is_still(who):
            return await self._send_later(who, front, seen, runs)
        answer = await self._send(who, front, seen)
        await self._wait_while_still(who)
        now = asyncio.get_running_loop().time()
        if (answered := self.troubles.get(who, _NONE).answered) > now:
            await asyncio.sleep(answered - now)
        return answer

    async def _send_later(
        self, who: str, front: Front, seen: Seen, runs: Callable[[], bool]
    ) -> bytes:
        """Send what a process was about to send when its host stopped, as soon as it goes on.

        Its own limit of time may be over by then, which it learns after it has sent this.
        """

        async def send() -> bytes:
            await self._wait_while_still(who)
            if not runs():
                raise UnreachableError(f"{seen.method} {seen.path}: the process has ended")
            return await self._send(who, front, seen)

        sending = asyncio.ensure_future(send())
        sending.add_done_callback(_end_quietly)
        return await asyncio.shield(sending)

    async def _send(self, who: str, front: Front, seen: Seen) -> bytes:
        self.check_reach(who, front, seen)
        self._meet_fault()
        loop = asyncio.get_running_loop()
        # What others do not know of their own requests is no finding about ours.
        is_stock = who.startswith("stock")
        is_lost = self.random.random() < self.faults.lost and not is_stock
        is_late = self.random.random() < self.faults.slow and not is_stock
        if is_late:
            self.count("late request")
        answered: asyncio.Future[bytes] = loop.create_future()
        pause = self.random.uniform(0, 4) if is_late else self.random.expovariate(200)
        pause = max(pause, _find_until(self.hanging, who, seen) - loop.time())
        if (trap := self._find_trap(who, seen)) and trap.late:
            is_lost, pause = True, trap.late
            self._spring(who, seen)
        if pause > _PROMPT_SECONDS:
            self.late[who] = max(self.late.get(who, 0.0), loop.time() + pause)
        # It arrives also if nobody waits for it any more.
        arrive = functools.partial(self._arrive, who, front, seen, answered)
        loop.call_later(pause, arrive, front.stops)
        if is_lost:
            self.count("lost response")
            await asyncio.sleep(self.random.uniform(0, 0.2))
            answered.cancel()
            raise UnreachableError(f"{seen.method} {seen.path}: no response", unknown=True)
        try:
            return await answered
        except RefusedError as refused:
            raise error_from_response(refused.code, {}, encoded(refused.body)) from None

    def _arrive(
        self, who: str, front: Front, seen: Seen, answered: "asyncio.Future[bytes]", stops: int
    ) -> None:
        """Answer a request; its sender gets the answer a moment later."""
        if front.stops != stops:
            if not answered.done():
                answered.set_exception(UnreachableError("connection reset", unknown=True))
            return
        if seen.method != "GET":
            self.written.append((who, seen.method, seen.path))
        try:
            self.admit(who, front, seen)
            self.writer = who
            answer: bytes | RefusedError = front.server.answer(seen).body
        except RefusedError as refused:
            answer = refused
        finally:
            self.writer = ""

        trap = self._find_trap(who, seen)
        if trap and not trap.late and not trap.before:
            self._spring(who, seen)

        def send_back() -> None:
            if answered.done():
                return
            if isinstance(answer, RefusedError):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        asyncio.get_running_loop().call_later(self.random.expovariate(200), send_back)

    def _find_trap(self, who: str, seen: Seen) -> Trap | None:
        if not self.traps:
            return None
        own = (trap for (role, _), trap in self.traps.items() if role == _role_of(who))
        return next((trap for trap in own if trap.meets(seen)), None)

    def _spring(self, who: str, seen: Seen) -> None:
        role, trap = _role_of(who), self._find_trap(who, seen)
        assert trap is not None, "it was found before"
        self.count(f"write that a process stops at: {role}")
        del self.traps[role, trap.end]
        trap.act(_host_of(who), seen.path)

    def set_trap(self, role: str, trap: Trap) -> None:
        """Let something happen at the next write of a kind by a process of a kind."""
        self.traps[role, trap.end] = trap

    def break_off(self, host: str = "") -> None:
        """Break the connections of a host, or of all: what their watches were to tell is lost."""
        for front in self.fronts:
            for lines in tuple(front.streams):
                if host in ("", _host_of(lines.who)):
                    lines.break_off()

    def _meet_fault(self) -> None:
        kinds = (
            (self.faults.refused, 403),
            (self.faults.overloaded, 429),
            (self.faults.broken, 503),
        )
        for chance, code in kinds:
            if self.random.random() < chance:
                self.count(f"answer {code}")
                retry = {"Retry-After": "1"} if code == 429 else {}
                raise error_from_response(code, retry, encoded(RefusedError(code, "fault").body))

    def count(self, what: str, times: int = 1) -> None:
        """Count something that happened."""
        self.counted[what] = self.counted.get(what, 0) + times


def _find_until(times: Mapping[tuple[str, str], float], who: str, seen: Seen) -> float:
    """Return until when something happens to a request, by clients and resources."""
    if not times:
        return 0.0
    untils = (
        until
        for (role, plural), until in times.items()
        if who.startswith(role or OURS) and f"/{plural}" in seen.path
    )
    return max(untils, default=0.0)


def _end_quietly(sending: "asyncio.Future[bytes]") -> None:
    """Take the error of a request that nobody waits for."""
    if not sending.cancelled():
        sending.exception()


@functools.cache
def _host_of(who: str) -> str:
    return who.rpartition(" ")[2]


def _role_of(who: str) -> str:
    return who.partition(" ")[0]


def _is_mark(path: str) -> bool:
    """Whether a path is that of a claim itself, to which the allocator writes its mark."""
    return path.split("/")[-2] == "resourceclaims"


@functools.lru_cache
def _show_date(second: float) -> str:
    """Return the header of all responses of a second."""
    return formatdate(second, usegmt=True)


class WorldSession(ServerSession):
    """The session of a process, with its retries, over the network of the world."""

    def __init__(self, network: Network, who: str) -> None:
        super().__init__(network.fronts[0].server)
        self._network, self._who = network, who
        self._runs = True
        self._right_at = -math.inf  # when a server last told the right time

    def end(self) -> None:
        """Send nothing more: the process has ended."""
        self._runs = False

    async def answer(self, seen: Seen) -> bytes:
        """Send a request to one of the servers."""
        front = self._network.choose()
        answer = await self._network.send(self._who, front, seen, lambda: self._runs)
        self.clock.observe(_show_date(round(clock.wall() + front.skew, 6) // 1))
        self._note_time(front.skew)
        return answer

    def _note_time(self, skew: float) -> None:
        """Note that this process follows a wrong clock, unless all servers have it."""
        now = asyncio.get_running_loop().time()
        if abs(skew) < LARGE_STEP_SECONDS:
            self._right_at = now
        elif now - self._right_at < CONFIRMATION_SECONDS:
            ahead = self.clock.now() - clock.wall()
            if abs(ahead) > LARGE_STEP_SECONDS / 2:
                self._network.misled.append(f"{self._who} is ahead by {ahead:.0f} s")

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = {},
        idle_seconds: float = 150,  # noqa: ARG002  # not changed
        gather_seconds: float = 0,  # noqa: ARG002  # a watch lags here, too
    ) -> AsyncIterator[AsyncGenerator[list[bytes], None]]:
        """Open a watch."""
        front, seen = self._network.choose(), Seen("GET", path, dict(query))
        await asyncio.sleep(self._network.random.expovariate(200))
        self._network.check_reach(self._who, front, seen)
        if self._network.no_watch > asyncio.get_running_loop().time():
            body = encoded(RefusedError(429, "too many watches").body)
            raise error_from_response(429, {"Retry-After": "1"}, body)
        lines = Lagging(self._network, front, self._who, path.rpartition("/")[2])
        try:
            watcher = front.server.watch(seen, lines.deliver)
        except RefusedError as refused:
            raise error_from_response(refused.code, {}, encoded(refused.body)) from None
        loop = asyncio.get_running_loop()
        end = loop.call_later(float(query.get("timeoutSeconds", 300)), lines.deliver, None)
        front.streams[lines] = None
        try:
            yield lines.read()
        finally:
            end.cancel()
            del front.streams[lines]
            front.server.end(watcher)
