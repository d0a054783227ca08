"""A process waits for its configuration until it is stopped."""

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.session import Session
from drawbridge.process import logs, metrics
from drawbridge.process.addresses import Address
from drawbridge.process.run import (
    BUG,
    RESTORED,
    ProcessOptions,
    StartedProcess,
    StopSignal,
    run_configured,
    run_process,
    wait_unless_stopped,
)
from tests.cluster.fake.api import FakeApi


async def ends_slowly() -> None:
    """Wait for ever; the end takes a few steps."""
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(3):
            await asyncio.sleep(0)


async def nothing() -> None:
    """Return at once."""


async def fails() -> None:
    raise ConnectionError


def make_options(api: FakeApi, folder: Path) -> ProcessOptions:
    local = Address("127.0.0.1", 0)
    kubeconfig = f"{api.kubeconfig(folder / 'kubeconfig')}"
    return ProcessOptions(health=local, metrics=local, kubeconfig=kubeconfig)


def running() -> set[asyncio.Task[None]]:
    """Return the other tasks of the loop."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def test_a_stop_ends_the_wait_and_what_it_started() -> None:
    async def play() -> None:
        stop = StopSignal()
        stop.request()
        assert not await wait_unless_stopped(ends_slowly(), stop)
        assert running() == set()

    asyncio.run(play())


def test_a_process_stops_while_a_plug_in_does_not_return_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, prefers_pod: bool) -> Session:
        assert prefers_pod, "somebody can mount a kubeconfig in its home"
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()
        raise AssertionError

    async def serve(_stop: StopSignal, _session: Session) -> None:
        raise AssertionError

    async def play() -> int:
        async with FakeApi() as api, asyncio.timeout(10):
            return await run_process(make_options(api, tmp_path), logging.getLogger("test"), serve)

    monkeypatch.setattr(Session, "open", hang)
    assert asyncio.run(play()) == 0


def test_the_wait_for_a_stop_does_not_outlive_the_wait() -> None:
    async def play() -> None:
        assert await wait_unless_stopped(nothing(), StopSignal())
        assert running() == set()
        with pytest.raises(ConnectionError):
            await wait_unless_stopped(fails(), StopSignal())
        assert running() == set()

    asyncio.run(play())


def test_a_cancelled_wait_leaves_nothing_running() -> None:
    async def play() -> None:
        wait = asyncio.create_task(wait_unless_stopped(ends_slowly(), StopSignal()))
        await asyncio.sleep(0)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
        assert running() == set()

    asyncio.run(play())


def test_a_stop_is_heard_after_more_signals_than_the_loop_could_read() -> None:
    """An alarm rings each millisecond, while a computation keeps the loop from reading."""

    async def play() -> None:
        stop = StopSignal()
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        stop.install()
        try:
            for _ in range(5000):
                signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGTERM)
            assert await wait_unless_stopped(ends_slowly(), stop) is False
        finally:
            stop.remove()
            signal.signal(signal.SIGALRM, before)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    asyncio.run(asyncio.wait_for(play(), 5))


def test_a_process_with_a_configuration_is_not_ready_before_it_has_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The handlers of the tests stay.
    monkeypatch.setattr(logs, "configure", lambda _level: None)
    reasons: list[str] = []
    ready: list[float | None] = []

    async def serve(process: StartedProcess) -> None:
        reasons.extend(process.readiness.check())
        ready.append(metrics.REGISTRY.get_sample_value("drawbridge_ready"))
        process.readiness.find_missing = tuple
        ready.append(metrics.REGISTRY.get_sample_value("drawbridge_ready"))

    async def play() -> int:
        async with FakeApi() as api:
            options = make_options(api, tmp_path)
            return await run_configured(options, logging.getLogger("test"), serve)

    assert asyncio.run(play()) == 0
    assert reasons == ["the process starts"]
    assert ready == [0, 1]


BUG_ALONE, RESTORE = ValueError("a bug"), HistoryChangedError("older than before")


@pytest.mark.parametrize(
    ("raised", "code", "level"),
    [
        (BUG_ALONE, BUG, logging.CRITICAL),
        (ExceptionGroup("background", [BUG_ALONE]), BUG, logging.CRITICAL),
        (RESTORE, RESTORED, logging.ERROR),
        (ExceptionGroup("background", [BUG_ALONE, RESTORE]), RESTORED, logging.ERROR),
        (ExceptionGroup("outer", [ExceptionGroup("inner", [RESTORE])]), RESTORED, logging.ERROR),
    ],
    ids=["bug alone", "bug in a group", "restore alone", "restore beside a bug", "restore within"],
)
def test_an_exception_has_its_exit_code_alone_and_in_a_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, raised: Exception, code: int, level: int
) -> None:
    async def serve(_stop: StopSignal, _session: Session) -> None:
        raise raised

    async def play() -> int:
        async with FakeApi() as api:
            return await run_process(make_options(api, tmp_path), logging.getLogger("test"), serve)

    assert asyncio.run(play()) == code
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert (record.name, record.levelno) == ("test", level)
