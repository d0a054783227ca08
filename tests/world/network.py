"""Two API servers over one storage, and the network between them and everybody else.

A request that was sent arrives, also late and also if its sender was killed. Watches lag, each
server by its own time, and clocks of servers differ.
"""

import asyncio
import contextlib
import functools
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import NamedTuple

from drawbridge.cluster.errors import UnreachableError, error_from_response
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.server import Server
from tests.cluster.fake.session import ServerSession
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import ObjectWatcher, Store, encoded
from tests.cluster.fake.trouble import Seen
from tests.world import clock

SYSTEM = "drawbridge-system"
LEASE_SECONDS = 15
# After this time, an API server ends a request, which is shorter here than in a cluster.
LATEST_SECONDS = 20.0
# Clients whose roles can lack something for a moment.
OURS = ("allocator", "controller", "webhook")


@dataclass
class Faults:
    """How often requests fail: parts of one."""

    refused: float = 0.0
    overloaded: float = 0.0
    broken: float = 0.0
    lost: float = 0.0
    slow: float = 0.0


@dataclass(eq=False)
class Front:
    """One API server; its clock can be wrong, and its watches lag by a mean time.

    `until` is when it is up again after a stop. What was sent to it before does not arrive then.
    """

    server: Server
    skew: float = 0.0
    lag: float = 0.02
    until: float = 0.0
    stops: int = 0
    streams: dict["Lagging", None] = field(default_factory=dict)

    def stop(self, until: float) -> None:
        """Answer nothing before a time; what watches were still to tell is lost."""
        self.until, self.stops = max(self.until, until), self.stops + 1
        for lines in tuple(self.streams):
            lines.break_off()


@dataclass
class Trouble:
    """What happens to one host: until when it is cut off, and until when it stands still.

    A host that stands still sends later what it had decided to send.
    """

    cut: float = 0.0
    still: float = 0.0


class Trap(NamedTuple):
    """What happens to the allocator that sends the next write with this end of its path.

    It happens when the write arrives, or `before` it is sent. One that is `late` arrives only some
    time after that, and who sent it is told nothing.
    """

    end: str
    act: Callable[[str, str], None]  # with the host and the path
    late: float = 0.0
    before: bool = False

    def meets(self, who: str, seen: Seen) -> bool:
        """Whether this is the write."""
        if seen.method == "GET" or not who.startswith("allocator"):
            return False
        is_mark = self.end == "mark" and _is_mark(seen.path)
        return is_mark or self.end == seen.path.rpartition("/")[2]


@dataclass
class Network:
    """The servers, and what happens to requests."""

    random: random.Random
    store: Store
    fronts: list[Front] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    written: list[tuple[str, str, str]] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    # Resources that the role of our processes does not allow for a moment, and until when.
    forbidden: dict[str, float] = field(default_factory=dict)
    trap: "Trap | None" = None
    followers: "list[Follower]" = field(default_factory=list)
    # Until when no server opens a watch for our processes, as a server with many watches does.
    no_watch: float = 0.0

    def open(self) -> None:
        """Start two servers."""
        self.fronts = [Front(Server(store=self.store)) for _ in range(2)]
        for front in self.fronts:
            front.server.graceful = True

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

    def heal(self) -> None:
        """End all faults."""
        self.faults = Faults()
        self.troubles.clear()
        self.forbidden.clear()
        self.trap, self.no_watch = None, 0.0
        for front in self.fronts:
            front.until, front.lag = 0.0, 0.02
        watches = [lines for front in self.fronts for lines in front.streams]
        for each in (*watches, *self.followers):
            each.lag.catch_up()

    async def _stand_still(self, who: str) -> None:
        trouble, now = self.trouble_of(who), asyncio.get_running_loop().time()
        if trouble.still > now:
            await asyncio.sleep(trouble.still - now)

    def check_reach(self, who: str, front: Front, seen: Seen) -> None:
        """Raise ApiError if a client does not reach a server, or may not do this now."""
        now = asyncio.get_running_loop().time()
        if max(self.trouble_of(who).cut, front.until) > now:
            raise UnreachableError(f"{seen.method} {seen.path}: connection refused")
        if who.startswith(OURS) and any(
            until > now and f"/{plural}" in seen.path for plural, until in self.forbidden.items()
        ):
            self.count("forbidden request")
            raise error_from_response(403, {}, encoded(RefusedError(403, "no role").body))

    async def send(self, who: str, front: Front, seen: Seen) -> bytes:
        """Send a request, which arrives and is answered some time later, if at all."""
        if self.trap is not None and self.trap.before and self.trap.meets(who, seen):
            self._spring(who, seen)
        await self._stand_still(who)
        self.check_reach(who, front, seen)
        answer = await self._send(who, front, seen)
        await self._stand_still(who)
        return answer

    async def _send(self, who: str, front: Front, seen: Seen) -> bytes:
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
        if self.trap is not None and self.trap.late and self.trap.meets(who, seen):
            is_lost, pause = True, self.trap.late
            self._spring(who, seen)
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
            answer: bytes | RefusedError = front.server.answer(seen).body
        except RefusedError as refused:
            answer = refused

        is_now = self.trap is not None and not self.trap.late and not self.trap.before
        if is_now and self.trap is not None and self.trap.meets(who, seen):
            self._spring(who, seen)

        def send_back() -> None:
            if answered.done():
                return
            if isinstance(answer, RefusedError):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        asyncio.get_running_loop().call_later(self.random.expovariate(200), send_back)

    def _spring(self, who: str, seen: Seen) -> None:
        assert self.trap is not None
        act, self.trap = self.trap.act, None
        self.count("write that an allocator stops at")
        act(_host_of(who), seen.path)

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


@functools.cache
def _host_of(who: str) -> str:
    return who.rpartition(" ")[2]


def _is_mark(path: str) -> bool:
    """Whether a path is that of a claim itself, to which the allocator writes its mark."""
    return path.split("/")[-2] == "resourceclaims"


class WorldSession(ServerSession):
    """The session of a process, with its retries, over the network of the world."""

    def __init__(self, network: Network, who: str) -> None:
        super().__init__(network.fronts[0].server)
        self._network, self._who = network, who

    async def answer(self, seen: Seen) -> bytes:
        """Send a request to one of the servers."""
        front = self._network.choose()
        answer = await self._network.send(self._who, front, seen)
        self.clock.observe(formatdate(clock.wall() + front.skew, usegmt=True))
        return answer

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
        lines = Lagging(self._network, front, self._who)
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


class Lag:
    """Lets what a client watches reach it in order, each some time after its write."""

    def __init__(self, network: Network, front: Front, who: str) -> None:
        self._network, self._front, self._who = network, front, who
        self._at = 0.0
        self._coming: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()

    def later(self, function: Callable[..., None], *args: object) -> None:
        """Call a function when what is sent now arrives."""
        lag = self._network.random.expovariate(1 / self._front.lag)
        self._at = max(self._at, self.reach(lag))
        self._coming.append((function, args))
        asyncio.get_running_loop().call_at(self._at, self._arrive)

    def _arrive(self) -> None:
        if self._coming:
            function, args = self._coming.popleft()
            function(*args)

    def catch_up(self) -> None:
        """Let everything arrive that was sent until now."""
        self._at = 0.0
        for _ in range(len(self._coming)):
            self._arrive()

    def reach(self, lag: float = 0.0) -> float:
        """Return when the client can hear something that is so late."""
        trouble = self._network.trouble_of(self._who)
        now = asyncio.get_running_loop().time()
        return max(now + lag, trouble.cut, trouble.still)


class Lagging:
    """The lines of a watch; those of one moment come together."""

    def __init__(self, network: Network, front: Front, who: str) -> None:
        self.who = who
        self.lag = Lag(network, front, who)
        self._lines: deque[bytes | None] = deque()
        self._has_lines = asyncio.Event()
        self._is_broken = False

    def deliver(self, line: bytes | None) -> None:
        """Send a line later, and None for the end."""
        self.lag.later(self._arrive, line)

    def break_off(self) -> None:
        """End at once, as the connection does."""
        self._is_broken = True
        asyncio.get_running_loop().call_at(self.lag.reach(), self._arrive, None)

    def _arrive(self, line: bytes | None) -> None:
        if line is None or not self._is_broken:
            self._lines.append(line)
            self._has_lines.set()

    async def read(self) -> AsyncGenerator[list[bytes], None]:
        """Yield lines until the watch ends."""
        while True:
            await self._has_lines.wait()
            self._has_lines.clear()
            lines = [*self._lines]
            self._lines.clear()
            if events := [line.removesuffix(b"\n") for line in lines if line is not None]:
                yield events
            if None in lines:
                return


OnChange = Callable[[JSON | None, JSON | None], None]


class Follower:
    """What a model sees of a kind: the current objects, behind by a lag.

    A kubelet sees the pods of its node only. A watch of the store tells the objects themselves.
    It lags by a time of its own, or as the server does that it watches.
    """

    def __init__(  # all but three by name
        self,
        network: Network,
        who: str,
        plural: str,
        *,
        lag: float = 0.05,
        node: str = "",
        front: Front | None = None,
    ) -> None:
        self._network, self._kind, self._node = network, named(plural), node
        self._pause = lag
        self.lag = Lag(network, front or Front(network.fronts[0].server, lag=lag), who)
        network.followers.append(self)
        self._on_change: OnChange | None = None
        self._ended = asyncio.Event()
        self._runs = True
        self.objects: dict[str, JSON] = {}  # by UID

    async def run(self, on_change: OnChange | None = None) -> None:
        """Follow until cancelled; a watch that ends begins again with a list."""
        self._on_change = on_change
        store = self._network.store
        while True:
            self._ended.clear()
            listed = [*filter(self._sees, store.among(self._kind, "", "", ""))]
            self.lag.later(self._replace, {value["metadata"]["uid"]: value for value in listed})
            watcher = ObjectWatcher(self._kind, self._sees, self._tell)
            store.watchers.append(watcher)
            try:
                await self._ended.wait()
            except asyncio.CancelledError:
                self._runs = False
                raise
            finally:
                store.watchers.remove(watcher)
            await asyncio.sleep(self._pause)

    def _sees(self, value: JSON) -> bool:
        return not self._node or value["spec"].get("nodeName") == self._node

    def _tell(self, event: str, value: JSON | None) -> None:
        if value is None:
            self.lag.later(self._ended.set)
        elif event != "ERROR":
            self.lag.later(
                self._set, value["metadata"]["uid"], None if event == "DELETED" else value
            )

    def _replace(self, listed: Mapping[str, JSON]) -> None:
        for uid in sorted(self.objects.keys() - listed.keys()):
            self._set(uid, None)
        for uid, value in listed.items():
            self._set(uid, value)

    def _set(self, uid: str, value: JSON | None) -> None:
        if not self._runs:
            return
        before = self.objects.pop(uid, None)
        if value is not None:
            self.objects[uid] = value
        if self._on_change is not None:
            self._on_change(before, value)
