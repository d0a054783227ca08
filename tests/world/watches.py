"""The API servers and what is watched of them: it comes late, each watch in its own time."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.server import Server
from tests.cluster.fake.store import ObjectWatcher

if TYPE_CHECKING:
    from tests.world.network import Network


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


class Lag:
    """Lets what a client watches reach it in order, each some time after its write."""

    def __init__(self, network: "Network", front: Front, who: str, plural: str) -> None:
        self._network, self._front, self._who = network, front, who
        self._about = f"{plural} of {who}"
        self._at = 0.0
        self._coming: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()

    def later(self, function: Callable[..., None], *args: object) -> None:
        """Call a function when what is sent now arrives."""
        network, who = self._network, self._who
        lag = network.random.expovariate(1 / self._front.lag)
        deaf = network.find_deaf(who), network.find_deaf(self._about)
        self._at = max(self._at, *deaf, self.reach(lag))
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
        now = asyncio.get_running_loop().time()
        cut = self._network.trouble_of(self._who).cut
        return max(now + lag, cut, self._network.find_still(self._who))


class Lagging:
    """The lines of a watch; those of one moment come together."""

    def __init__(self, network: "Network", front: Front, who: str, plural: str) -> None:
        self.who = who
        self.lag = Lag(network, front, who, plural)
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
        network: "Network",
        who: str,
        plural: str,
        *,
        lag: float = 0.05,
        node: str = "",
        front: Front | None = None,
    ) -> None:
        self._network, self._kind, self._node = network, named(plural), node
        self._pause = lag
        self.lag = Lag(network, front or Front(network.fronts[0].server, lag=lag), who, plural)
        network.followers.append(self)
        self._on_change: OnChange | None = None
        self._ended = asyncio.Event()
        self._runs = True
        self.objects: dict[str, JSON] = {}  # by UID
        self.listed_at = -math.inf  # when the list was read that has arrived last

    async def run(self, on_change: OnChange | None = None) -> None:
        """Follow until cancelled; a watch that ends begins again with a list."""
        self._on_change = on_change
        store = self._network.store
        while True:
            self._ended.clear()
            listed = [*filter(self._sees, store.among(self._kind, "", "", ""))]
            by_uid = {value["metadata"]["uid"]: value for value in listed}
            self.lag.later(self._replace, by_uid, asyncio.get_running_loop().time())
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

    def _replace(self, listed: Mapping[str, JSON], at: float) -> None:
        for uid in sorted(self.objects.keys() - listed.keys()):
            self._set(uid, None)
        for uid, value in listed.items():
            self._set(uid, value)
        self.listed_at = at

    def _set(self, uid: str, value: JSON | None) -> None:
        if not self._runs:
            return
        before = self.objects.pop(uid, None)
        if value is not None:
            self.objects[uid] = value
        if self._on_change is not None:
            self._on_change(before, value)
