"""The server on a real unix socket: the conformance cases, limits, and the event stream."""

import asyncio
import contextlib
import json
import logging
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from allocator.scheduler.protocol import HEADER, MAX_BODY_BYTES, VERSION_TEXT
from allocator.scheduler.server import ActivationStreams, serve_calls
from tests.allocator.clusters import Cluster, claim
from tests.allocator.conformance import CASES, CLUSTER, Case
from tests.allocator.served import cluster_of, serving

pytestmark = pytest.mark.asyncio
STATUS = {"method": "GET", "path": "/v1/status", "version": VERSION_TEXT}
OURS = [case for case in CASES if "allocator" in case.plays]


def without_texts(body: Any) -> Any:  # noqa: ANN401  # JSON
    """Return a reply without the texts of messages, which are examples, and without defaults."""
    if isinstance(body, dict):
        kept = {key: without_texts(value) for key, value in body.items() if key != "message"}
        return {key: value for key, value in kept.items() if value not in ("", [], None)}
    return [without_texts(each) for each in body] if isinstance(body, list) else body


def is_part_of(expected: Any, actual: Any) -> bool:  # noqa: ANN401  # JSON
    """Whether a reply has at least the expected fields."""
    if isinstance(expected, dict):
        return all(
            key in actual and is_part_of(value, actual[key]) for key, value in expected.items()
        )
    return bool(expected == actual)


@pytest.mark.parametrize("case", OURS, ids=str)
async def test_the_allocator_answers_as_the_case_says(case: Case, tmp_path: Path) -> None:
    cluster = cluster_of([*CLUSTER, *case.objects])
    async with serving(cluster, tmp_path) as served:
        served.status, served.binder = case.status, case.binder
        for request in case.before:
            assert (await served.send(request))[0] == 200
        status, version, body = await served.send(case.request)
    assert (status, version) == (case.reply["status"], case.reply["version"])
    expected = case.reply["body"] if "body" in case.reply else case.reply["lines"][0]
    assert is_part_of(without_texts(expected), without_texts(body)), body
    if "message" in expected:
        assert bool(expected["message"]) == bool(body["message"])


async def test_only_the_user_and_the_group_can_open_the_socket(tmp_path: Path) -> None:
    async with serving(Cluster(), tmp_path) as served:
        assert stat.S_IMODE(served.socket.stat().st_mode) == 0o660
        assert stat.S_IMODE(served.socket.parent.stat().st_mode) == 0o750
    assert not served.socket.exists()


async def test_the_socket_of_a_killed_process_is_replaced_and_no_other_file(tmp_path: Path) -> None:
    async with serving(Cluster(), tmp_path) as first, serving(Cluster(), tmp_path) as second:
        assert (await second.send(STATUS))[0]
        assert first.socket == second.socket
    file = tmp_path / "run" / "allocator.sock"
    file.write_text("important")
    with pytest.raises(OSError, match=r"cannot listen on .*allocator\.sock"):
        async with serve_calls(str(file), first.calls, first.streams):
            pass
    assert file.read_text() == "important"
    long = tmp_path / ("folder" * 20) / "allocator.sock"
    with pytest.raises(OSError, match=r"cannot listen on .*allocator\.sock: .*too long"):
        async with serve_calls(str(long), first.calls, first.streams):
            pass


async def test_a_large_request_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with serving(Cluster(n1=1), tmp_path) as served:
        body = {"podUID": "p", "node": "n1", "x": "y" * MAX_BODY_BYTES}
        request = {"method": "POST", "path": "/v1/reserve", "version": VERSION_TEXT, "body": body}
        status, _, reply = await served.send(request)
        assert (status, reply["error"]["code"]) == (413, "TooLarge")
        request["body"] = {"podUID": "p", "node": "n1"}
        assert (await served.send(request))[0] == 200


async def test_a_plugin_that_goes_in_the_middle_of_a_request_is_no_bug(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /v1/prefilter HTTP/1.1\r\nHost: allocator\r\n{HEADER}: {VERSION_TEXT}\r\n"
    async with serving(Cluster(n1=1), tmp_path) as served:
        _, writer = await asyncio.open_unix_connection(served.socket)
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        # The answer to another connection shows that the first one is being read.
        assert (await served.send(STATUS))[0] == 200
        writer.transport.abort()
        assert (await served.send(STATUS))[0] == 200
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_deeply_nested_bodies_are_refused(tmp_path: Path) -> None:
    async with serving(Cluster(n1=1), tmp_path) as served:
        for text in ("[" * 100_000, '{"pod":' * 50_000):
            request = {"method": "POST", "path": "/v1/bind", "version": VERSION_TEXT, "text": text}
            status, _, reply = await served.send(request)
            assert (status, reply["error"]["code"]) == (400, "BadRequest")


def prefilter(uid: str, gpu: dict[str, Any]) -> dict[str, Any]:
    pod = {"namespace": "default", "name": uid, "uid": uid}
    body = {"pod": pod, "claims": [gpu], "maxNodes": 20}
    return {"method": "POST", "path": "/v1/prefilter", "version": VERSION_TEXT, "body": body}


async def test_a_waiting_pod_is_activated_when_a_device_is_free(tmp_path: Path) -> None:
    cluster = Cluster(n1=1)
    async with serving(cluster, tmp_path) as served, served.events() as events:
        assert json.loads(await events.readline()) == {"activateAll": True}
        waking = asyncio.create_task(served.calls.wake_pods())
        cluster.schedule("first", claim("a"))
        assert not (await served.send(prefilter("second", claim("b"))))[2]["fit"]
        cluster.decisions.unreserve("first")
        served.changed.set()
        while not (event := json.loads(await events.readline())):
            pass
        assert event == {"activate": ["second"]}
        assert (await served.send(prefilter("second", claim("b"))))[2]["fit"]
        waking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waking


async def test_a_pair_is_ready_while_its_plugin_keeps_the_stream_open(tmp_path: Path) -> None:
    async with serving(Cluster(), tmp_path) as served:
        (nobody,) = served.streams.find_problems()
        assert f"accepts protocol {VERSION_TEXT}" in nobody
        async with served.events() as events:
            await events.readline()
            # A plugin that refuses the version of the allocator has read no more than this.
            assert served.streams.find_problems() == [nobody]
            while served.streams.find_problems():
                assert await events.readline()
        while not served.streams.find_problems():
            assert (await served.send(STATUS))[0] == 200
        assert served.streams.find_problems() == [nobody]


async def test_a_plugin_that_closes_its_streams_is_not_connected(tmp_path: Path) -> None:
    async with serving(Cluster(), tmp_path) as served:
        later = 0.0
        served.streams = ActivationStreams(now=lambda: later)
        async with serve_calls(str(served.socket), served.calls, served.streams):
            for _ in range(3):
                async with served.events() as events:
                    await events.readline()
                    served.streams.publish(("early",))
                    assert b"early" in await events.readline()
                    assert served.streams.find_problems()
                later += 3600
                # The server sees the end of the connection when it writes.
                served.streams.publish(("pod",))
                assert (await served.send(STATUS))[0] == 200
                assert served.streams.find_problems()


@pytest.mark.parametrize("version", ["1.1", "2.0", "", "x"])
async def test_a_refused_plugin_is_named_until_another_one_is_connected(
    version: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Cluster(), tmp_path) as served:
        for path in ("/v1/events", "/v1/status", "/v1/events"):
            request = {"method": "GET", "path": path, "version": version}
            assert (await served.send(request))[0] == 426
        (problem,) = served.streams.find_problems()
        assert f"the allocator speaks {VERSION_TEXT}" in problem
        assert repr(version) in problem or "no version" in problem
        assert [each.message for each in caplog.records].count("plugin refused") == 1
        async with served.events() as events:
            while served.streams.find_problems():
                assert await events.readline()
        while not served.streams.find_problems():
            assert (await served.send(STATUS))[0] == 200
        assert served.streams.find_problems() != [problem]


async def test_nobody_is_woken_without_the_lease(tmp_path: Path) -> None:
    cluster = Cluster(n1=1)
    async with serving(cluster, tmp_path) as served, served.events() as events:
        await events.readline()
        cluster.schedule("first", claim("a"))
        await served.send(prefilter("second", claim("b")))
        served.status = {"ready": True, "leading": False, "reasons": ["another leads"]}
        waking = asyncio.create_task(served.calls.wake_pods())
        cluster.decisions.unreserve("first")
        served.changed.set()
        # The next line is the heartbeat.
        assert json.loads(await events.readline()) == {}
        waking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waking


async def test_a_stream_that_nobody_reads_is_closed_and_the_next_one_starts_with_all_pods(
    tmp_path: Path,
) -> None:
    async with serving(Cluster(), tmp_path) as served:
        events = served.streams.events()
        assert (await anext(events)).activate_all
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for number in range(2000):
            served.streams.publish((f"pod-{number}",))
        with pytest.raises(StopAsyncIteration):
            await reading
        async with served.events() as following:
            assert json.loads(await following.readline()) == {"activateAll": True}


async def test_all_members_of_a_gang_can_connect_at_once(tmp_path: Path) -> None:
    async with serving(Cluster(), tmp_path) as served:
        with contextlib.ExitStack() as waiting:
            # The loop accepts none of them meanwhile, as during a part of a search.
            for _ in range(200):
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)  # noqa: FBT003  # the signature of the socket module
                client.connect(str(served.socket))
