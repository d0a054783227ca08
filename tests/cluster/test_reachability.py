"""An outage of the API server is one warning, then counted, and said in words."""

import asyncio
import logging
import ssl
from pathlib import Path

import aiohttp
import pytest

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.failure_log import LASTING_SECONDS
from drawbridge.cluster.reachability import Reachability, describe_failure
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.session import Session
from tests.cluster.certificates import Authority
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row

asynchronous = pytest.mark.asyncio
PATH = "/api/v1/namespaces/default/configmaps"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@asynchronous
async def test_an_outage_is_one_warning_whatever_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, pauses = Clock(), 30

    async def pause(seconds: float) -> None:
        await clock.pause(seconds)
        if len(clock.pauses) >= pauses:
            raise asyncio.CancelledError

    async with FakeApi() as api:
        kubeconfig = str(api.kubeconfig(tmp_path / "config"))
        address = api.url.partition("//")[2]
    async with Session(Credentials(kubeconfig), pause=clock.pause) as session:
        cache = Cache(session, CONFIG_MAPS, dict, now=clock.now, pause=pause)
        with pytest.raises(asyncio.CancelledError):
            await cache.run()
        assert session.reachability.failures >= pauses
        assert not session.reachability.reachable
    reason = f"cannot connect to {address}: connection refused"
    assert [each.getMessage() for each in caplog.records] == [
        f"the API server is unreachable: {reason}; requests are retried and counted"
    ]
    assert reason in cache.problem


@asynchronous
async def test_an_error_response_is_not_an_outage(tmp_path: Path) -> None:
    async with FakeApi() as api:
        credentials = Credentials(str(api.kubeconfig(tmp_path / "config")))
        async with Session(credentials, pause=Clock().pause) as session:
            api.fail(403, times=1)
            with pytest.raises(Exception, match="403"):
                await session.call("GET", PATH)
            assert session.reachability.reachable
            assert session.reachability.failures == 0


def test_the_end_of_an_outage_is_logged_and_the_next_one_that_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    state = Reachability(clock.now)
    state.record_failure(clock.now(), "refused")
    state.record_failure(clock.now(), "refused")
    clock.time += LASTING_SECONDS
    state.record_response()
    assert state.reachable
    for _ in range(2):
        clock.time += LASTING_SECONDS
        state.record_failure(clock.now(), "refused")
        assert not state.reachable
    assert state.failures == 4
    said = [each.getMessage().partition(":")[0] for each in caplog.records]
    begin, end = "the API server is unreachable", "the API server responds again after 60.0 s"
    assert said == [begin, end, begin]


def test_connections_that_fail_and_succeed_in_turn_warn_once_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    state = Reachability(clock.now)
    for _ in range(1000):
        clock.time += 1
        state.record_failure(clock.now(), "refused")
        clock.time += 1
        state.record_response()
    assert len(warnings(caplog)) == 1
    assert state.failures == 1000


def test_a_request_that_fails_while_others_succeed_is_only_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    state = Reachability(clock.now)
    started = clock.now()
    clock.time += 1
    state.record_response()
    clock.time += 30
    state.record_failure(started, "no response in 30 s")
    assert state.reachable
    assert (state.failures, warnings(caplog)) == (1, [])


@asynchronous
async def test_a_certificate_that_is_not_trusted_is_said_in_words(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    authority, other = map(Authority, folders)
    async with FakeApi(tls=authority.server()) as api, aiohttp.ClientSession() as http:
        trusting = ssl.create_default_context(cafile=str(other.file))
        with pytest.raises(aiohttp.ClientConnectorCertificateError) as caught:
            await http.get(f"{api.url}/", ssl=trusting)
        said = describe_failure(caught.value)
        address = api.url.partition("//")[2]
        assert said.startswith(f"the certificate of {address} is not trusted: ")
        assert "ssl" not in said.lower()


FAILURES = [
    (aiohttp.ServerDisconnectedError(), "the server closed the connection without a response"),
    (aiohttp.ClientPayloadError("x"), "the connection ended within the response"),
    (aiohttp.SocketTimeoutError("x"), "no data arrived in time"),
    (aiohttp.ConnectionTimeoutError("x"), "the connection was not accepted in time"),
    (ConnectionResetError(104, "Connect call failed ('::1', 1, 0, 0)"), "connection reset by peer"),
    (TimeoutError(), "no data arrived in time"),
]


@every_row(("error", "words"), FAILURES)
def test_a_failure_is_described_without_python_objects(error: Exception, words: str) -> None:
    assert describe_failure(error) == words


@asynchronous
async def test_an_unknown_name_and_plain_http_are_said_in_words() -> None:
    async with FakeApi() as api, aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.ClientConnectorError) as plain:
            await http.get(api.url.replace("http:", "https:"))
        assert "TLS failed: " in describe_failure(plain.value)
        with pytest.raises(aiohttp.ClientConnectorError) as unknown:
            await http.get("https://drawbridge.invalid/")
        assert describe_failure(unknown.value).startswith("cannot resolve drawbridge.invalid: ")
