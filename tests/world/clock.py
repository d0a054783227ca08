"""Virtual time: what reads a clock, draws or starts a thread in a run depends on the seed only.

The product takes clocks as parameters whose defaults are those of `time`. These defaults are
replaced wherever they stand, so that a new one cannot be missed.
"""

import asyncio
import collections
import contextlib
import datetime as dt
import functools
import gc
import heapq
import inspect
import itertools
import random
import secrets
import signal
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from email.utils import parsedate_to_datetime
from typing import IO, Any
from unittest import mock

from drawbridge.cluster import server_clock
from drawbridge.process.alarm import CutAlarm
from tests.virtual_time import VirtualLoop
from tests.world.copies import Copies

START = 1_767_225_600.0
# The turns of the loop without any time that passes.
_MOST_TURNS = 20_000
_PRODUCT = ("allocator", "certs", "controller", "drawbridge", "webhook")


# All processes get the dates of the same seconds.
_parse_date = functools.lru_cache(parsedate_to_datetime)


class _Call:
    """A function to call, with what the loop needs to know of it."""

    __slots__ = ("_when", "args", "function")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], when: float = 0.0
    ) -> None:
        self.function: Callable[..., object] | None = function
        self.args = args
        self._when = when

    def cancel(self) -> None:
        """Do not call it."""
        self.function, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether it is not called any more."""
        return self.function is None

    def when(self) -> float:
        """Return when it is called."""
        return self._when


def _end(done: asyncio.Future[Any], end: Callable[[Any], None], value: object) -> None:
    """Answer, unless who waits has been cancelled meanwhile."""
    if not done.cancelled():
        end(value)


class WorldLoop(VirtualLoop):
    """A loop in virtual time, which runs at once what the product gives to a thread or a copy.

    Nothing comes from outside, so a turn asks no selector; calls of one moment keep their order,
    and one that fails ends the run. No code of a run has context variables, so all have one
    context. Half of the time of a run was the turns of asyncio.
    """

    def __init__(self, copies: Copies) -> None:
        super().__init__()
        self._copies = copies
        self._calls: collections.deque[_Call] = collections.deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()

    # Each future and each task asks.
    get_debug = staticmethod(bool)

    def call_soon(  # type: ignore[override]  # it can be cancelled as well
        self,
        callback: Callable[..., object],
        *args: object,
        context: object = None,  # noqa: ARG002  # as asyncio has it
    ) -> _Call:
        """Call a function in the next turn."""
        call = _Call(callback, args)
        self._calls.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_at(  # type: ignore[override]  # it can be cancelled as well
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: object = None,  # noqa: ARG002  # as asyncio has it
    ) -> _Call:
        """Call a function at a time."""
        call = _Call(callback, args, when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(  # type: ignore[override]  # it can be cancelled as well
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: object = None,  # noqa: ARG002  # as asyncio has it
    ) -> _Call:
        """Call a function after a time."""
        return self.call_at(self._virtual + delay, callback, *args)

    def _run_once(self) -> None:
        """Run what is to be called, in turns until the loop stops.

        If nothing is, let the time pass until the next timer.
        """
        calls, timers, turns = self._calls, self._timers, 0
        while True:
            turns += 1
            assert turns < _MOST_TURNS, "a process goes round without waiting for anything"
            if not calls:
                while timers and timers[0][2].function is None:
                    heapq.heappop(timers)
                assert timers, "the simulation waits for something that never happens"
                self._virtual, turns = max(self._virtual, timers[0][0]), 0
            while timers and timers[0][0] <= self._virtual:
                calls.append(heapq.heappop(timers)[2])
            for _ in range(len(calls)):
                call = calls.popleft()
                if call.function is not None:
                    call.function(*call.args)
            if self._stopping:
                return

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002  # as asyncio has it
        func: Callable[..., Any],
        *args: object,
    ) -> asyncio.Future[Any]:
        """Run a function, and answer in a later turn of the loop."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001  # the caller gets it
            self.call_soon(_end, done, done.set_exception, error)
        else:
            self.call_soon(_end, done, done.set_result, result)
        return done

    async def connect_read_pipe(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], pipe: IO[bytes]
    ) -> tuple[asyncio.ReadTransport, asyncio.Protocol]:
        """Read what a copy tells, up to its end; some of it comes later than the rest, or all."""
        protocol, transport = protocol_factory(), _ClosedPipe()
        protocol.connection_made(transport)
        with pipe:
            told = self._copies.tell(pipe.read())
        for pause, data in told:
            await asyncio.sleep(pause)
            protocol.data_received(data)
        protocol.eof_received()
        return transport, protocol

    def add_reader(  # type: ignore[override]  # it is called once
        self,
        fd: object,  # noqa: ARG002  # of a copy that has ended
        callback: Callable[..., object],
        *args: object,
    ) -> None:
        """Call a function when a copy has ended, as all have that were read."""
        self.call_soon(callback, *args)

    def remove_reader(self, fd: object) -> bool:  # type: ignore[override]  # noqa: ARG002
        """Call nothing any more."""
        return True


class _ClosedPipe(asyncio.ReadTransport):
    """A pipe from which all was read."""

    def close(self) -> None:
        """Close nothing."""


def wall() -> float:
    """Return the true Unix time in the world."""
    return START + asyncio.get_running_loop().time()


def now() -> dt.datetime:
    """Return the true time in the world."""
    return dt.datetime.fromtimestamp(wall(), dt.UTC)


def run(main: Callable[[], Coroutine[Any, Any, None]], seed: int, copies: Copies) -> None:
    """Run to the end in virtual time; every draw of the product comes from the seed.

    Time passes between computations only, so no timer of the system rings in one.
    """
    drawn = random.Random(seed)
    state = random.getstate()
    random.seed(seed)
    # A run is too short for collections to help.
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        with (
            asyncio.Runner(loop_factory=lambda: WorldLoop(copies)) as runner,
            _virtual((loop := runner.get_loop()).time),
            # The function in C asks the system each time in which process it is.
            _patched(asyncio, "get_running_loop", lambda: loop),
            _patched(asyncio.events, "get_running_loop", lambda: loop),
            _patched(uuid, "uuid4", lambda: uuid.UUID(int=drawn.getrandbits(128), version=4)),
            _patched(gc, "collect", lambda *_: 0),
            _patched(gc, "freeze", lambda: None),
            _patched(server_clock, "parsedate_to_datetime", _parse_date),
            _patched(signal, "setitimer", lambda *_: (0.0, 0.0)),
            # A function, which becomes a method.
            _patched(CutAlarm, "run", lambda alarm, compute: copies.run(alarm, compute)),  # noqa: PLW0108
            _patched(secrets, "token_hex", lambda size: drawn.randbytes(size).hex()),
        ):
            runner.run(main())
    finally:
        random.setstate(state)
        if was_collecting:
            gc.enable()


def _patched(module: Any, name: str, value: object) -> AbstractContextManager[Any]:  # noqa: ANN401  # a module
    return mock.patch.object(module, name, value)


class _Clocks:
    """Replaces the clocks of `time`; one for all runs, so that what it finds stays known."""

    def __init__(self) -> None:
        self.elapsed: Callable[[], float] = float
        self._replaced: dict[Any, Callable[..., float]] = {
            time.monotonic: self.monotonic,
            time.time: lambda: START + self.elapsed(),
            time.thread_time: self.monotonic,
        }
        self._modules = 0
        self._defaults: list[tuple[Any, str, Any, Any]] = []

    def monotonic(self) -> float:
        """Return the time of the run."""
        return self.elapsed()

    def find_defaults(self) -> list[tuple[Any, str, Any, Any]]:
        """Return the functions whose defaults are clocks, with both values of the defaults."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            self._defaults = [
                (function, name, before, self._replace(before))
                for function in _product_functions()
                for name in ("__defaults__", "__kwdefaults__")
                if self._has_clock(before := getattr(function, name))
            ]
        return self._defaults

    def _has_clock(self, before: Any) -> bool:  # noqa: ANN401  # defaults of either kind
        values = before.values() if isinstance(before, dict) else before or ()
        return any(inspect.isbuiltin(each) and each in self._replaced for each in values)

    def _replace(self, before: Any) -> Any:  # noqa: ANN401  # defaults of either kind
        def virtual(value: Any) -> Any:  # noqa: ANN401  # any default
            return self._replaced.get(value, value) if inspect.isbuiltin(value) else value

        if isinstance(before, dict):
            return {key: virtual(each) for key, each in before.items()}
        return tuple(map(virtual, before))

    def patches(self) -> Iterator[AbstractContextManager[Any]]:
        """Return what replaces the functions of `time` themselves."""
        for original, virtual in self._replaced.items():
            yield _patched(time, original.__name__, virtual)
        yield _patched(time, "clock_gettime", lambda _: self.elapsed())


_CLOCKS = _Clocks()


@contextlib.contextmanager
def _virtual(elapsed: Callable[[], float]) -> Iterator[None]:
    defaults = _CLOCKS.find_defaults()
    _CLOCKS.elapsed = elapsed
    with contextlib.ExitStack() as stack:
        for function, name, before, after in defaults:
            setattr(function, name, after)
            stack.callback(setattr, function, name, before)
        for each in _CLOCKS.patches():
            stack.enter_context(each)
        yield


def _product_functions() -> Iterator[Any]:
    functions = {}
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in _PRODUCT]
    for module in modules:
        for value in vars(module).values():
            if inspect.isfunction(value):
                functions[id(value)] = value
            elif inspect.isclass(value) and value.__module__.partition(".")[0] in _PRODUCT:
                methods = filter(inspect.isfunction, vars(value).values())
                functions |= {id(method): method for method in methods}
    yield from functions.values()
