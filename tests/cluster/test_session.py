"""Requests: retries, timeouts, errors and streams."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.api_error import ApiError
from drawbridge.cluster.credentials import Access, Credentials
from drawbridge.cluster.errors import UnreachableError, error_from_response
from drawbridge.cluster.lines import LineSplitter
from drawbridge.cluster.session import MAX_ATTEMPTS, Session
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row

asynchronous = pytest.mark.asyncio
PATH = "/api/v1/namespaces/default/configmaps"
BODY = {"metadata": {"name": "a"}}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


@pytest_asyncio.fixture
async def session(api: FakeApi, clock: Clock, tmp_path: Path) -> AsyncIterator[Session]:
    credentials = Credentials(str(api.kubeconfig(tmp_path / "config")))
    async with Session(credentials, pause=clock.pause) as opened:
        yield opened


async def refused(session: Session, method: str, **more: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await session.call(method, PATH, **more)  # type: ignore[arg-type]
    return caught.value


@asynchronous
async def test_a_session_with_new_connections_shares_none(tmp_path: Path, api: FakeApi) -> None:
    ports, answer = list[int](), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer)
        writer.close()

    config = api.kubeconfig(tmp_path / "config")
    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config.write_text(config.read_text().replace(api.url, f"http://127.0.0.1:{port}"))
        async with Session(Credentials(str(config))) as session:
            for _ in range(3):
                await session.call("GET", PATH)
                async with session.with_new_connections() as other:
                    await other.call("GET", PATH)
                    await other.call("GET", PATH)
            assert other.reachability is session.reachability
            assert other.clock is session.clock
    assert len(ports) == 1 + 3


@asynchronous
@pytest.mark.parametrize(
    ("emulated", "version"),
    [
        ({}, "1.37"),
        ({"emulationMajor": "1", "emulationMinor": "37"}, "1.37"),
        ({"emulationMajor": "1", "emulationMinor": "35"}, "1.35"),
        ({"emulationMajor": "", "emulationMinor": ""}, "1.37"),
    ],
)
async def test_the_version_is_the_one_whose_features_a_server_has(
    api: FakeApi, session: Session, emulated: dict[str, str], version: str
) -> None:
    told = {"major": "1", "minor": "37+", "gitVersion": "v1.37.2", **emulated}
    api.fail(200, part="version", body=json.dumps(told).encode())
    assert await session.version() == version


# --- retries -----------------------------------------------------------------------------------


@asynchronous
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_throttled_request_is_retried_after_retry_after(
    api: FakeApi, session: Session, clock: Clock, method: str
) -> None:
    api.fail(429, times=2, retry_after=7)
    await session.call(method, PATH, body=BODY if method == "POST" else None)

    # The pauses differ although all replicas receive the same Retry-After.
    assert all(7 < pause <= 7 * 1.25 for pause in clock.pauses)
    assert len({*clock.pauses}) == 2
    assert len(api.requests) == 3


@asynchronous
async def test_the_last_attempt_raises_with_retry_after(api: FakeApi, session: Session) -> None:
    api.fail(429, times=100, retry_after=3)
    error = await refused(session, "GET")

    assert (error.code, error.reason, error.retry_after) == (429, "TooManyRequests", 3)
    assert len(api.requests) == MAX_ATTEMPTS


@asynchronous
async def test_a_pause_beyond_the_timeout_is_not_waited_for(
    api: FakeApi, session: Session, clock: Clock
) -> None:
    api.fail(429, times=100, retry_after=60)
    error = await refused(session, "GET", seconds=30)

    assert error.retry_after == 60
    assert (len(api.requests), clock.pauses) == (1, [])


@asynchronous
@pytest.mark.parametrize(("method", "code"), [("GET", 503), ("PUT", 500), ("DELETE", 504)])
async def test_an_idempotent_request_is_retried_if_the_server_sends_retry_after(
    api: FakeApi, session: Session, method: str, code: int
) -> None:
    made = api.put({"apiVersion": "v1", "kind": "ConfigMap", **BODY})
    api.fail(code, retry_after=1)
    await session.call(method, f"{PATH}/a", body=made if method == "PUT" else None)

    assert len(api.requests) == 2


@asynchronous
@pytest.mark.parametrize(
    ("method", "code", "after"),
    [("GET", 503, None), ("POST", 503, 1), ("POST", 500, 1), ("GET", 404, 1), ("GET", 409, 1)],
)
async def test_other_failures_are_raised_immediately(
    api: FakeApi, session: Session, method: str, code: int, after: float | None
) -> None:
    api.fail(code, retry_after=after)
    error = await refused(session, method, body=BODY if method == "POST" else None)

    assert error.code == code
    assert len(api.requests) == 1


@asynchronous
async def test_an_interrupted_read_is_retried(api: FakeApi, session: Session) -> None:
    api.cut(times=3)

    assert json.loads(await session.call("GET", PATH))["items"] == []


@asynchronous
async def test_an_interrupted_create_is_not_retried(api: FakeApi, session: Session) -> None:
    api.cut(method="POST", after=True)
    error = await refused(session, "POST", body=BODY)

    assert isinstance(error, UnreachableError)
    assert error.code == 0
    assert f"POST {PATH}: " in error.message
    assert api.get("configmaps", "a") is not None
    assert len(api.asked("POST", "configmaps")) == 1


@asynchronous
async def test_a_json_patch_is_not_retried(api: FakeApi, session: Session) -> None:
    api.put({"apiVersion": "v1", "kind": "ConfigMap", **BODY})
    api.cut(method="PATCH", after=True)
    body = [{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}]
    with pytest.raises(UnreachableError):
        await session.call(
            "PATCH", f"{PATH}/a", body=body, content_type="application/json-patch+json"
        )

    assert len(api.asked("PATCH", "configmaps")) == 1


@asynchronous
async def test_a_create_without_a_connection_is_retried(
    api: FakeApi, session: Session, clock: Clock
) -> None:
    port = urlsplit(api.url).port
    await api.stop()

    async def back(_seconds: float) -> None:
        await api.start(port or 0)

    session._pause = back  # noqa: SLF001  # the pause is when the server comes back
    await session.call("POST", PATH, body=BODY)

    assert api.get("configmaps", "a") is not None
    assert clock.pauses == []


@asynchronous
async def test_a_server_that_never_responds_times_out(api: FakeApi, session: Session) -> None:
    api.hold(part="configmaps", times=9)
    error = await refused(session, "GET", seconds=0.05)

    assert (error.code, error.message) == (0, f"GET {PATH}: no response in 0.05 s")


@asynchronous
async def test_the_check_runs_before_every_attempt(api: FakeApi, session: Session) -> None:
    asked = 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise PermissionError

    api.fail(429, times=9, retry_after=0)
    with pytest.raises(PermissionError):
        await session.call("GET", PATH, check=check)

    assert len(api.requests) == 2


@asynchronous
async def test_the_check_runs_after_credentials_were_read(
    api: FakeApi, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in takes seconds, also where the server has rejected what it returned before."""
    did: list[str] = []
    renew = Credentials.renew

    async def check() -> None:
        did.append("checked")

    async def read(self: Credentials, rejected: Access | None) -> Access:
        did.append("read")
        return await renew(self, rejected)

    monkeypatch.setattr(Credentials, "renew", read)
    api.fail(401)
    await session.call("GET", PATH, check=check)

    assert did == ["read", "checked", "read", "checked"]


@asynchronous
@pytest.mark.parametrize(("method", "attempts"), [("GET", MAX_ATTEMPTS), ("POST", 1)])
async def test_a_redirect_is_no_success(
    api: FakeApi, session: Session, method: str, attempts: int
) -> None:
    api.fail(302, times=100, body=b"<html>")
    error = await refused(session, method, body=BODY if method == "POST" else None)

    assert isinstance(error, UnreachableError)
    assert error.unknown
    assert error.message == f"{method} {PATH}: the response has status 302 Found"
    assert len(api.requests) == attempts
    assert not session.reachability.reachable


# --- responses ---------------------------------------------------------------------------------


def test_an_error_without_a_status_is_shortened() -> None:
    error = error_from_response(502, {}, b"<html>Bad gateway" + b"." * 5000)

    assert (error.code, error.reason) == (502, "")
    assert error.message.startswith("<html>Bad gateway")
    assert len(error.message) == 500


@every_row(
    ("header", "details", "seconds"),
    [
        ("5", {}, 5),
        ("", {"retryAfterSeconds": 2}, 2),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
        ("-1", {}, None),
        ("nan", {}, None),
        ("1e9", {}, 60),
        ("", {"retryAfterSeconds": 7200}, 60),
    ],
)
def test_retry_after_comes_from_the_header_or_the_details(
    header: str, details: dict[str, int], seconds: float | None
) -> None:
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": details}
    error = error_from_response(429, {"Retry-After": header}, json.dumps(status).encode())

    assert error.retry_after == seconds


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_do_not_depend_on_chunk_boundaries(lines: list[bytes], data: st.DataObject) -> None:
    wanted = [line for line in (each.replace(b"\n", b"") for each in lines) if line.strip()]
    text = b"".join(line + b"\n" for line in wanted) + b"unfinished"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    reader = LineSplitter()
    ends = zip([0, *cuts], [*cuts, len(text)], strict=True)
    received = [line for begin, end in ends for line in reader.feed(text[begin:end])]

    assert received == wanted


def test_the_length_of_a_line_is_limited() -> None:
    reader = LineSplitter(max_line_bytes=100)
    assert reader.feed(b"x" * 99) == []
    with pytest.raises(UnreachableError, match="longer than 100 bytes"):
        reader.feed(b"x" * 2)


# --- streams -----------------------------------------------------------------------------------


@asynchronous
async def test_an_idle_stream_is_closed(
    api: FakeApi, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    async with session.stream(PATH, query={"watch": "true"}, idle_seconds=3600) as chunks:
        later = loop.time() + 3601
        monkeypatch.setattr(loop, "time", lambda: later)
        with pytest.raises(UnreachableError, match="no data arrived in time"):
            await anext(chunks)
        monkeypatch.undo()

    await api.until(lambda: not api.store.watchers)


@asynchronous
async def test_a_stream_ends_when_the_server_closes_it(api: FakeApi, session: Session) -> None:
    async with session.stream(PATH, query={"watch": "true"}) as chunks:
        await api.until(lambda: api.store.watchers)
        api.end_watches()
        assert [lines async for lines in chunks] == []


class Gate:
    """Pauses that end when a test says so."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.begun, self.opened = asyncio.Event(), asyncio.Event()

    async def pause(self, seconds: float) -> None:
        """Pause until the gate is open."""
        self.seconds.append(seconds)
        self.begun.set()
        await self.opened.wait()


@pytest_asyncio.fixture
async def gate() -> Gate:
    return Gate()


@pytest_asyncio.fixture
async def gathering(api: FakeApi, gate: Gate, tmp_path: Path) -> AsyncIterator[Session]:
    credentials = Credentials(str(api.kubeconfig(tmp_path / "config")))
    async with Session(credentials, pause=gate.pause) as opened:
        yield opened


def config_map(name: str, size: int = 0) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"a": "x" * size},
    }


async def follow(
    api: FakeApi, chunks: AsyncGenerator[list[bytes], None], gate: Gate
) -> "asyncio.Future[list[bytes]]":
    """Read one event, and then until events add up; return what comes next."""
    await api.until(lambda: api.store.watchers)
    api.put(config_map("a"))
    assert len(await anext(chunks)) == 1
    following = asyncio.ensure_future(anext(chunks))
    await gate.begun.wait()
    assert gate.seconds == [7]
    return following


@asynchronous
async def test_what_arrives_soon_after_a_short_list_adds_up(
    api: FakeApi, gathering: Session, gate: Gate
) -> None:
    async with gathering.stream(PATH, query={"watch": "true"}, gather_seconds=7) as chunks:
        following = await follow(api, chunks, gate)
        for name in "bc":
            api.put(config_map(name))
        await asyncio.sleep(0.05)
        assert not following.done()
        gate.opened.set()
        lines = await following
        while len(lines) < 2:
            lines += await anext(chunks)
        assert [b'"b"' in lines[0], b'"c"' in lines[1]] == [True, True]


@asynchronous
async def test_a_long_list_is_followed_without_a_pause(
    api: FakeApi, gathering: Session, gate: Gate
) -> None:
    async with gathering.stream(PATH, query={"watch": "true"}, gather_seconds=7) as chunks:
        await api.until(lambda: api.store.watchers)
        api.put(config_map("a", size=200_000))
        gate.opened.set()
        assert len(await anext(chunks)) == 1
        api.put(config_map("b"))
        assert len(await anext(chunks)) == 1
        assert not gate.seconds


@asynchronous
async def test_a_stream_can_end_while_events_add_up(
    api: FakeApi, gathering: Session, gate: Gate
) -> None:
    async with gathering.stream(PATH, query={"watch": "true"}, gather_seconds=7) as chunks:
        following = await follow(api, chunks, gate)
        api.put(config_map("b"))
        api.end_watches()
        gate.opened.set()
        assert len(await following) == 1
        assert [lines async for lines in chunks] == []


@asynchronous
async def test_a_rejected_stream_raises_the_error(api: FakeApi, session: Session) -> None:
    api.fail(403, message="configmaps is forbidden")
    with pytest.raises(ApiError, match="403 Forbidden: configmaps is forbidden"):
        async with session.stream(PATH, query={"watch": "true"}):
            pass


@asynchronous
async def test_a_stream_does_not_begin_with_a_redirect(api: FakeApi, session: Session) -> None:
    api.fail(302, body=b"<html>")
    with pytest.raises(UnreachableError, match="the response has status 302 Found"):
        async with session.stream(PATH, query={"watch": "true"}):
            pass


@asynchronous
async def test_concurrent_calls_do_not_block_each_other(api: FakeApi, session: Session) -> None:
    gate = api.hold(part="configmaps", times=110)
    calls = [asyncio.create_task(session.call("GET", PATH)) for _ in range(110)]
    await api.until(lambda: len(api.requests) == 110)
    gate.set()

    assert len(await asyncio.gather(*calls)) == 110
