"""Virtual time: what reads a clock, draws or starts a thread in a run depends on the seed only.

The product takes clocks as parameters whose defaults are those of `time`. These defaults are
replaced wherever they stand, so that a new one cannot be missed.
"""

import asyncio
import contextlib
import datetime as dt
import inspect
import random
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from unittest import mock

from tests.allocator.simulated_api import VirtualLoop

START = 1_767_225_600.0
_PRODUCT = ("allocator", "drawbridge")


class WorldLoop(VirtualLoop):
    """A loop in virtual time, which runs at once what the product gives to a thread."""

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
            self.call_soon(done.set_exception, error)
        else:
            self.call_soon(done.set_result, result)
        return done


def wall() -> float:
    """Return the true Unix time in the world."""
    return START + asyncio.get_running_loop().time()


def now() -> dt.datetime:
    """Return the true time in the world."""
    return dt.datetime.fromtimestamp(wall(), dt.UTC)


def run(main: Callable[[], Coroutine[Any, Any, None]], seed: int) -> None:
    """Run to the end in virtual time; every draw of the product comes from the seed."""
    drawn = random.Random(seed)
    state = random.getstate()
    random.seed(seed)
    try:
        with (
            asyncio.Runner(loop_factory=WorldLoop) as runner,
            _virtual(runner.get_loop().time),
            mock.patch.object(
                uuid, "uuid4", side_effect=lambda: uuid.UUID(int=drawn.getrandbits(128), version=4)
            ),
        ):
            runner.run(main())
    finally:
        random.setstate(state)


@contextlib.contextmanager
def _virtual(elapsed: Callable[[], float]) -> Iterator[None]:
    replaced: dict[Any, Callable[..., float]] = {
        time.monotonic: elapsed,
        time.time: lambda: START + elapsed(),
        time.thread_time: elapsed,
    }
    with contextlib.ExitStack() as stack:
        for function in _product_functions():
            for name in ("__defaults__", "__kwdefaults__"):
                _replace_defaults(stack, function, name, replaced)
        for original, virtual in replaced.items():
            stack.enter_context(mock.patch.object(time, original.__name__, virtual))
        stack.enter_context(
            mock.patch.object(time, "clock_gettime", side_effect=lambda _: elapsed())
        )
        yield


def _replace_defaults(
    stack: contextlib.ExitStack,
    function: Any,  # noqa: ANN401  # of any signature
    name: str,
    replaced: dict[Any, Any],
) -> None:
    before = getattr(function, name)
    values = before.values() if isinstance(before, dict) else before or ()
    if not any(inspect.isbuiltin(each) and each in replaced for each in values):
        return

    def virtual(value: Any) -> Any:  # noqa: ANN401  # any default
        return replaced.get(value, value) if inspect.isbuiltin(value) else value

    after = (
        {key: virtual(each) for key, each in before.items()}
        if isinstance(before, dict)
        else tuple(map(virtual, before))
    )
    setattr(function, name, after)
    stack.callback(setattr, function, name, before)


def _product_functions() -> Iterator[Any]:
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in _PRODUCT]
    for module in modules:
        for value in vars(module).values():
            if inspect.isfunction(value):
                yield value
            elif inspect.isclass(value) and value.__module__.partition(".")[0] in _PRODUCT:
                yield from filter(inspect.isfunction, vars(value).values())
