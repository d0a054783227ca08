"""The server of the page: who gets nothing, and what is bounded."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from aiohttp import ClientResponse, ClientSession, ClientTimeout

from cli.served_page import audited
from cli.served_page import serving as serving_module
from cli.served_page.server import PageServer, WriteAudit
from cli.served_page.snapshots import Snapshots
from drawbridge.report.page.model import ClusterOnPage, NamespaceProgress, PageState
from drawbridge.report.page.written import WrittenPage, write_page
from tests.cli.running import command

PAGE = "/{secret}/"
AUDITED = Path("examples/audit")
asynchronous = pytest.mark.asyncio


def page_of(*namespaces: str, nodes: int = 0) -> WrittenPage:
    progress = tuple(NamespaceProgress(each, "enforce", translated=1) for each in namespaces)
    cluster = ClusterOnPage(namespaces=progress, more_nodes=nodes)
    return write_page(cluster, PageState("files", "now", is_live=True))


@contextlib.asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[tuple[PageServer, Snapshots]]:
    """Serve the page of a namespace `tenant`."""

    async def write_audit() -> str:
        return "<p>the audit</p>"

    snapshots = Snapshots()
    snapshots.publish(page_of("tenant"))
    server = PageServer(snapshots, write_audit, **limits)  # type: ignore[arg-type]
    await server.open()
    try:
        yield server, snapshots
    finally:
        await server.close()


async def ask(
    server: PageServer, method: str, path: str, headers: Mapping[str, str]
) -> tuple[int, str, Mapping[str, str]]:
    """Send a request as it is written, and return status, body and headers."""
    secret = server.url.rsplit("/", 2)[1]
    filled = {key: each.format(port=server.port, secret=secret) for key, each in headers.items()}
    target = path.format(secret=secret, wrong=f"{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}")
    lines = [f"{method} {target} HTTP/1.1", *(f"{key}: {each}" for key, each in filled.items())]
    if "Host" not in headers:
        lines.append(f"Host: 127.0.0.1:{server.port}")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    first, *named = head.split("\r\n")
    return int(first.split()[1]), body, dict(each.split(": ", 1) for each in named)


# Method, path, headers, and the status. `{wrong}` differs from the secret in its last character.
EVIL = "https://evil.example"
REQUESTS: tuple[tuple[str, str, str, dict[str, str], int], ...] = (
    ("the page", "GET", PAGE, {}, 200),
    ("by the name localhost", "GET", PAGE, {"Host": "localhost:{port}"}, 200),
    ("its user typed it", "GET", PAGE, {"Sec-Fetch-Site": "none"}, 200),
    ("the page itself", "GET", PAGE, {"Sec-Fetch-Site": "same-origin"}, 200),
    ("a script of the page", "GET", PAGE, {"Origin": "http://127.0.0.1:{port}"}, 200),
    ("only the headers", "HEAD", PAGE, {}, 200),
    ("the audit", "GET", "/{secret}/audit", {}, 200),
    ("a query", "GET", "/{secret}/?x=1", {}, 200),
    ("no secret", "GET", "/", {}, 404),
    ("no path", "GET", "/{secret}", {}, 404),
    ("a wrong secret", "GET", "/{wrong}/", {}, 404),
    ("a part of the secret", "GET", "/a/", {}, 404),
    ("a secret that is not ASCII", "GET", "/%C3%A9%ff/", {}, 404),
    ("the audit without the secret", "GET", "/audit", {}, 404),
    ("the events without the secret", "GET", "/events", {}, 404),
    ("another path", "GET", "/{secret}/etc/passwd", {}, 404),
    ("a parent folder", "GET", "/{secret}/../../etc/passwd", {}, 404),
    ("an encoded parent folder", "GET", "/{secret}/%2e%2e/%2e%2e/etc/passwd", {}, 404),
    ("a folder before the secret", "GET", "/x/../{secret}/", {}, 404),
    ("a foreign name (DNS rebinding)", "GET", PAGE, {"Host": "evil.example:{port}"}, 421),
    ("a foreign name without a port", "GET", PAGE, {"Host": "127.0.0.1"}, 421),
    ("another port", "GET", PAGE, {"Host": "127.0.0.1:1"}, 421),
    ("a name that begins like ours", "GET", PAGE, {"Host": "127.0.0.1:{port}.evil"}, 421),
    ("no name", "GET", PAGE, {"Host": ""}, 421),
    ("a whole URL of another name", "GET", "http://evil/{secret}/", {"Host": "evil"}, 421),
    ("a foreign origin", "GET", PAGE, {"Origin": EVIL}, 403),
    ("an unknown origin", "GET", PAGE, {"Origin": "null"}, 403),
    ("another port of this machine", "GET", PAGE, {"Origin": "http://127.0.0.1:1"}, 403),
    ("a foreign site", "GET", PAGE, {"Sec-Fetch-Site": "cross-site"}, 403),
    ("another server of this machine", "GET", PAGE, {"Sec-Fetch-Site": "same-site"}, 403),
    ("the events for a foreign site", "GET", "/{secret}/events", {"Origin": EVIL}, 403),
    ("a form", "POST", PAGE, {"Content-Length": "0"}, 405),
    ("a foreign form", "POST", PAGE, {"Origin": EVIL, "Content-Length": "0"}, 403),
    ("a question before a request", "OPTIONS", PAGE, {}, 405),
    ("another method", "DELETE", PAGE, {}, 405),
    ("another method without the secret", "DELETE", "/", {}, 404),
    ("a header that is too long", "GET", PAGE, {"X-Long": "x" * 40_000}, 400),
)  # fmt: skip


@asynchronous
async def test_each_request_gets_the_page_or_nothing() -> None:
    async with serving() as (server, _):
        wrong = []
        for name, method, path, headers, expected in REQUESTS:
            status, body, _ = await ask(server, method, path, headers)
            if (status, "tenant" in body) != (
                expected,
                expected == 200 and body and path[-5:] != "audit",
            ):
                wrong.append((name, status, body[:200]))
        assert [each for each in wrong if each[0] != "only the headers"] == []


@asynchronous
async def test_every_answer_forbids_scripts_frames_storing_and_referrers() -> None:
    async with serving() as (server, _):
        for _, method, path, headers, status in REQUESTS:
            if status == 400:
                continue  # aiohttp composes it
            _, _, answered = await ask(server, method, path, headers)
            policy = answered["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'sha256-")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answered["Cache-Control"] == "no-store"
            assert answered["Referrer-Policy"] == "no-referrer"
            assert answered["X-Frame-Options"] == "DENY"
            assert "Access-Control-Allow-Origin" not in answered
            assert "Set-Cookie" not in answered
            assert answered["Server"] == "drawbridge"


@asynchronous
async def test_each_server_has_its_own_secret() -> None:
    async with serving() as (first, _), serving() as (second, _):
        secrets = {each.url.rsplit("/", 2)[1] for each in (first, second)}
        assert len(secrets) == 2
        assert all(len(each) >= 43 for each in secrets)


@asynchronous
async def test_only_loopback_is_served() -> None:
    async with serving() as (server, _):
        assert server.url.startswith("http://127.0.0.1:")
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.2", server.port)


# --- changes -------------------------------------------------------------------------------------


async def read_event(response: ClientResponse) -> tuple[str, str]:
    """Return the next event that says something, and its data."""
    while True:
        fields = {}
        while line := (await response.content.readline()).decode().strip():
            name, _, value = line.partition(": ")
            fields[name] = value
        if fields.get("event") != "alive":
            return fields["event"], fields.get("data", "")


@contextlib.asynccontextmanager
async def streaming(server: PageServer, since: object) -> AsyncIterator[ClientResponse]:
    timeout = ClientTimeout(total=30)
    async with (
        ClientSession(timeout=timeout) as session,
        session.get(f"{server.url}events?since={since}") as response,
    ):
        yield response


@asynchronous
async def test_a_page_gets_the_parts_that_changed_since_its_version() -> None:
    async with serving() as (server, snapshots), streaming(server, 1) as response:
        snapshots.publish(page_of("tenant", "other"))
        event, data = await read_event(response)
        assert event == "parts"
        parts = json.loads(data)
        assert set(parts) == {"progress"}
        assert "other" in parts["progress"]
        snapshots.publish(page_of("tenant", "other"))  # no change
        snapshots.publish(page_of("tenant", nodes=5))
        assert (await read_event(response))[0] == "frame"


@asynchronous
@pytest.mark.parametrize("since", [0, 99, -1, "x", "", "9" * 50])
async def test_a_page_of_an_unknown_version_is_loaded_again(since: object) -> None:
    async with serving() as (server, _), streaming(server, since) as response:
        assert (await read_event(response))[0] == "frame"


@asynchronous
async def test_a_page_that_connects_again_names_the_last_event() -> None:
    async with serving() as (server, snapshots):
        snapshots.publish(page_of("tenant", "other"))
        snapshots.publish(page_of("tenant", "third"))
        headers = {"Last-Event-ID": "2"}
        async with (
            ClientSession() as session,
            session.get(f"{server.url}events?since=1", headers=headers) as response,
        ):
            event, data = await read_event(response)
            assert (event, "third" in data, "other" in data) == ("parts", True, False)


@asynchronous
async def test_a_page_without_changes_hears_that_the_server_lives() -> None:
    async with serving(alive_seconds=0.01) as (server, _), streaming(server, 1) as response:
        lines = [await response.content.readline() for _ in range(8)]
        assert lines.count(b"event: alive\n") == 2


@asynchronous
async def test_the_number_of_open_pages_is_bounded_and_a_closed_one_makes_room() -> None:
    async with serving(max_streams=1, alive_seconds=0.01) as (server, _):
        async with streaming(server, 1) as first:
            await first.content.readline()
            async with streaming(server, 1) as second:
                assert second.status == 503
        status = 503
        while status == 503:
            async with streaming(server, 1) as third:
                status = third.status
        assert status == 200


@asynchronous
async def test_connections_that_send_nothing_or_slowly_do_not_keep_others_out() -> None:
    async with serving(max_connections=8) as (server, _):
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(40)]
        for number, (_, writer) in enumerate(slow):
            if number % 2:
                with contextlib.suppress(ConnectionError):
                    writer.write(b"GET / HTTP/1.1\r\nHost: ")
        async with ClientSession() as session, session.get(server.url) as response:
            assert response.status == 200
            assert "tenant" in await response.text()
        for _, writer in slow:
            writer.close()


@asynchronous
async def test_a_request_with_a_body_that_never_ends_is_answered_without_it() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = ("POST / HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Content-Length: 1000000000")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 404 ")
        writer.close()


@asynchronous
async def test_closing_ends_open_pages() -> None:
    async with serving() as (server, _), streaming(server, 1) as response:
        await response.content.readline()
        await server.close()
        assert b"frame" not in await response.content.read()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_changes_since_a_version_make_the_page_of_now(version: int) -> None:
    snapshots = Snapshots()
    pages = [page_of("a"), page_of("b"), page_of("c")]
    for each in pages:
        snapshots.publish(each)
    changes = snapshots.find_changes(version)
    if version == 3:
        assert changes is None
        return
    assert changes is not None
    assert changes.version == 3
    if version in (1, 2):
        assert {**pages[version - 1].parts, **changes.parts} == pages[2].parts
    else:
        assert changes.is_frame


def test_a_port_that_is_taken_is_an_error_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = str(Path(__file__).parents[2] / "examples" / "inventory")
        code, out, err = command("page", "--cluster", cluster, "--port", str(port))
    assert (code, out) == (2, "")
    assert f"127.0.0.1:{port}: Address already in use" in err
    assert "Choose another port with --port" in err


def test_the_audit_of_the_standard_input_reads_it_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audits: list[str] = []

    async def serve(_: Snapshots, write_audit: WriteAudit, *__: object) -> int:
        audits.extend([await write_audit(), await write_audit()])
        return 0

    monkeypatch.setattr(serving_module, "serve", serve)
    monkeypatch.setattr(audited, "KEPT_SECONDS", -1.0)
    objects = "".join(f"---\n{each.read_text()}" for each in sorted(AUDITED.glob("*.yaml")))
    assert command("page", "--cluster", "-", stdin=objects)[0] == 0
    assert audits[0] == audits[1]
    assert "research" in audits[0]
