"""The HTTP handler gives each request the right status."""

import asyncio
import contextlib
import json
import logging
from pathlib import Path

import msgspec
import pytest

from drawbridge.agreement.scope import Mode
from drawbridge.process import metrics
from tests.process.http_client import Connection, Response, request, review
from tests.tables import YamlValue, load_cases
from tests.webhook.server.served import WebhookServer, serve
from webhook.admission.replies import AuditRecord, Reply
from webhook.admission.responses import PodVerdict
from webhook.server.http_handler import RequestLimits

CASES = load_cases(Path(__file__).parent / "cases" / "requests.yaml")
SMALL = RequestLimits(body=1000, in_flight=2, total_bytes=1500, body_seconds=0.05)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_request_cases(case: YamlValue, tmp_path: Path) -> None:
    body = case["body"].encode() if "body" in case else review()
    headers = dict(case.get("headers", {}))
    if "length" in case:
        headers["Content-Length"] = str(case["length"])
    sent = request(case.get("method", "POST"), case.get("path", "/admit/pods"), body, headers)

    async def play() -> Response:
        async with serve(tmp_path) as server:
            return await server.send(sent)

    answer = asyncio.run(play())

    assert answer.status == case["status"], answer
    assert case.get("body_contains", "").encode() in answer.body
    assert case.get("response_headers", {}).items() <= answer.headers.items()
    if answer.status == 200:
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["response"] == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("?timeout=5s", 4.3, 4.5),
        ("?timeout=1m30s", 29.3, 29.5),  # more than any webhook configuration can say
        ("?timeout=500ms", 0.3, 0.45),
        ("?timeout=1s&a=b", 0.8, 0.9),
        ("", 4.3, 4.5),
        ("?timeout=", 4.3, 4.5),
        ("?timeout=soon", 4.3, 4.5),
        ("?timeout=-1s", 4.3, 4.5),
        ("?timeout=0s", 4.3, 4.5),
        ("?timeout=5", 4.3, 4.5),
        ("?timeout=9999999999999999s", 4.3, 4.5),
    ],
)
def test_the_deadline_is_shorter_than_the_timeout_of_the_caller(
    query: str, low: float, high: float, tmp_path: Path
) -> None:
    async def play() -> float | None:
        async with serve(tmp_path) as server:
            await server.send(request(path=f"/admit/pods{query}", body=review()))
            return server.reviews.calls[0][2]

    seconds = asyncio.run(play())
    assert seconds is not None
    assert low < seconds <= high


def test_a_timeout_gives_a_review_with_status_504(tmp_path: Path) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server:
            server.reviews.unblocked.clear()
            return await server.send(request(path="/admit/pods?timeout=10ms", body=review("late")))

    answer = asyncio.run(play())
    response = answer.json()["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (504, "late", False)


def test_an_unhandled_exception_fails_one_request_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> tuple[Response, Response]:
        async with serve(tmp_path) as server, server.connect() as connection:
            server.reviews.error = RuntimeError("unexpected")
            failed = await connection.send_request(request(body=review("u-7")))
            server.reviews.error = None
            return failed, await connection.send_request(request(body=review("u-8")))

    before = metrics.PANICS.collect()[0].samples[0].value
    failed, next_ = asyncio.run(play())
    assert (failed.status, next_.status) == (500, 200)
    response = failed.json()["response"]
    assert (response["uid"], response["allowed"]) == ("u-7", False)
    assert "unexpected" not in response["status"]["message"]
    assert failed.json()["kind"] == "AdmissionReview"
    assert metrics.PANICS.collect()[0].samples[0].value == before + 1
    assert any(record.exc_info for record in caplog.records)


def test_a_request_before_readiness_gets_the_reason_and_retry_after(tmp_path: Path) -> None:
    async def play() -> tuple[Response, list[object]]:
        async with serve(tmp_path, find_missing=lambda: ["facts are not loaded yet"]) as server:
            return await server.send(request(body=review())), list(server.reviews.calls)

    answer, calls = asyncio.run(play())
    assert answer.status == 503
    assert b"facts are not loaded yet" in answer.body
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"  # another replica may be ready
    assert not calls


def test_requests_above_the_concurrency_limit_are_rejected(tmp_path: Path) -> None:
    async def send(server: WebhookServer, uid: str) -> Response:
        return await server.send(request(body=review(uid)))

    async def play() -> tuple[Response, list[Response]]:
        async with serve(tmp_path, limits=SMALL) as server:
            server.reviews.unblocked.clear()
            both = [asyncio.create_task(send(server, uid)) for uid in ("a", "b")]
            await server.reviews.wait_for_calls(2)
            third = await send(server, "c")
            server.reviews.unblocked.set()
            return third, [await each for each in both]

    refused, others = asyncio.run(play())
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert [each.status for each in others] == [200, 200]


def test_requests_whose_bodies_arrive_later_are_counted_when_they_have(tmp_path: Path) -> None:
    body = review()
    head = request(headers={"Expect": "100-continue", "Content-Length": str(len(body))})

    async def play() -> list[int]:
        limits = RequestLimits(in_flight=2)
        async with serve(tmp_path, limits=limits) as server, contextlib.AsyncExitStack() as stack:
            server.reviews.unblocked.clear()
            clients = [await stack.enter_async_context(server.connect()) for _ in range(3)]
            for client in clients:
                assert (await client.send_request(head)).status == 100
            for count, client in enumerate(clients[:2], 1):
                await client.send(body)
                await server.reviews.wait_for_calls(count)
            third = await clients[2].send_request(body)
            server.reviews.unblocked.set()
            return [third.status, *[(await each.read_response()).status for each in clients[:2]]]

    assert asyncio.run(play()) == [429, 200, 200]


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


CHUNKED = {"Transfer-Encoding": "chunked", "Content-Length": ""}


def test_a_body_in_chunks_is_read(tmp_path: Path) -> None:
    body = review("chunked")

    async def play() -> Response:
        async with serve(tmp_path) as server, server.connect() as connection:
            await connection.send(request(headers=CHUNKED) + chunks(body[:10]))
            return await connection.send_request(chunks(body[10:], b""))

    assert asyncio.run(play()).json()["response"]["uid"] == "chunked"


def test_a_chunked_body_is_rejected_at_the_limit(tmp_path: Path) -> None:
    async def play() -> Response:
        async with (
            serve(tmp_path, limits=RequestLimits(body=1000)) as server,
            server.connect() as connection,
        ):
            await connection.send(request(headers=CHUNKED))
            for _ in range(20):
                await connection.send(chunks(b"x" * 100))
            answer = await connection.read_response()
            assert await connection.wait_closed()
            return answer

    assert asyncio.run(play()).status == 413


def test_a_body_above_the_limit_in_one_packet_is_rejected(tmp_path: Path) -> None:
    """A chunked body in one packet with the headers has no Content-Length to check."""

    async def play() -> Response:
        async with serve(tmp_path, limits=RequestLimits(body=100)) as server:
            return await server.send(request(headers=CHUNKED) + chunks(b"x" * 200, b""))

    assert asyncio.run(play()).status == 413


def test_the_total_size_of_waiting_bodies_is_bounded(tmp_path: Path) -> None:
    """Requests wait for templates while the API server is slow."""
    body = review(padding=80_000)
    limits = RequestLimits(body=90_000, total_bytes=320_000)

    async def play() -> tuple[Response, Response, Response, Response]:
        async with serve(tmp_path, limits=limits) as server:
            server.reviews.unblocked.clear()
            first = asyncio.create_task(server.send(request(body=body)))
            await server.reviews.wait_for_calls(1)
            refused = await server.send(request(body=body))
            small = asyncio.create_task(server.send(request(body=review())))
            await server.reviews.wait_for_calls(2)
            server.reviews.unblocked.set()
            return refused, await first, await small, await server.send(request(body=body))

    refused, *others = asyncio.run(play())
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert [each.status for each in others] == [200, 200, 200]


def test_a_missing_body_gives_a_timeout(tmp_path: Path) -> None:
    async def play() -> tuple[Response, bool]:
        async with serve(tmp_path, limits=SMALL) as server, server.connect() as connection:
            await connection.send(request(headers={"Content-Length": "100"}) + b"{")
            return await connection.read_response(), await connection.wait_closed()

    answer, ended = asyncio.run(play())
    assert (answer.status, ended) == (408, True)


def test_a_malformed_chunk_is_a_client_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server, server.connect() as connection:
            await connection.send(request(headers=CHUNKED) + chunks(b"{"))
            return await connection.send_request(b"zz\r\n")

    assert asyncio.run(play()).status == 400
    assert not any(record.exc_info for record in caplog.records)


def test_a_client_that_expects_100_continue_gets_it(tmp_path: Path) -> None:
    body = review("patient")

    async def play() -> tuple[bytes, Response]:
        async with serve(tmp_path) as server, server.connect() as connection:
            headers = {"Expect": "100-continue", "Content-Length": str(len(body))}
            await connection.send(request(headers=headers))
            interim = await connection.reader.readuntil(b"\r\n\r\n")
            return interim, await connection.send_request(body)

    interim, answer = asyncio.run(play())
    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.json()["response"]["uid"] == "patient"


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    uids = [f"u-{i}" for i in range(30)]

    async def read(connection: Connection) -> list[str]:
        return [(await connection.read_response()).json()["response"]["uid"] for _ in uids]

    async def play() -> list[str]:
        async with serve(tmp_path) as server, server.connect() as connection:
            await connection.send(b"".join(request(body=review(uid)) for uid in uids))
            return await read(connection)

    assert asyncio.run(play()) == uids


def test_a_disconnected_client_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server:
            server.reviews.unblocked.clear()
            async with server.connect() as connection:
                await connection.send(request(body=review("gone")))
                await server.reviews.started.wait()
            async with server.connect() as connection:
                await connection.send(request(headers={"Content-Length": "100"}) + b"{")
            server.reviews.unblocked.set()
            return await server.send(request(body=review("next")))

    assert asyncio.run(play()).json()["response"]["uid"] == "next"
    assert not any(record.exc_info for record in caplog.records)


def test_bytes_that_are_not_http_get_400_without_a_stack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server:
            return await server.send(b"\x16\x03\x01 hello?\r\n\r\n")

    assert asyncio.run(play()).status == 400
    assert not any(record.exc_info for record in caplog.records)


AUDITED = Reply(
    200,
    b"",
    outcome="translated",
    codes=("TolerationAdded",),
    namespace="audited",
    audit=AuditRecord(PodVerdict.TRANSLATED, Mode.ENFORCE, "Job/train", ("a -> b",)),
)


def sample(name: str, **labels: str) -> float:
    of = metrics.WEBHOOK if "decisions" in name else metrics.REVIEWS
    return of.get_sample_value(name, labels) or 0


@pytest.mark.parametrize(
    ("changes", "outcome", "counts"),
    [
        ({}, "translated", [1, 1, 1]),
        ({"dry_run": True}, "dry-run", [0, 0, 1]),
        ({"dry_run": True, "audit": None, "outcome": "error"}, "error", [0, 1, 1]),
        ({"audit": None, "outcome": "allowed"}, "allowed", [0, 1, 1]),
    ],
)
def test_a_dry_run_is_logged_and_counts_as_a_dry_run_only(
    changes: dict[str, YamlValue],
    outcome: str,
    counts: list[int],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = msgspec.structs.replace(AUDITED, **changes)

    def count() -> list[float]:
        return [
            sum(one.value for family in metrics.DECISIONS.collect() for one in family.samples),
            sample("drawbridge_findings_total", code="TolerationAdded"),
            sample(
                "drawbridge_translations_total",
                webhook="pods", operation="CREATE", outcome=outcome,
            ),
        ]  # fmt: skip

    async def play() -> None:
        async with serve(tmp_path) as server:
            server.reviews.audited = reply
            await server.send(request(body=review()))

    before = count()
    with caplog.at_level(logging.DEBUG, "serve.admission"):
        asyncio.run(play())
    added = [new - old for new, old in zip(count(), before, strict=True)]
    assert added == counts
    (line,) = [each for each in caplog.records if each.name == "serve.admission"]
    fields = getattr(line, "fields", {})
    assert fields["dryRun"] is reply.dry_run
    if reply.audit is not None:
        assert line.levelno >= logging.INFO
        assert (fields["owner"], fields["changes"]) == ("Job/train", ("a -> b",))


def test_above_the_connection_limit_the_longest_idle_connection_is_closed(tmp_path: Path) -> None:
    async def play() -> tuple[bool, Response, Response]:
        data = request(body=review())
        async with (
            serve(tmp_path, max_connections=2) as server,
            server.connect() as first,
            server.connect() as second,
        ):
            for connection in (second, first):
                assert (await connection.send_request(data)).status == 200
            # The first connection was used last, so the second is closed.
            async with server.connect() as third:
                newest = await third.send_request(data)
                return await second.wait_closed(), await first.send_request(data), newest

    ended, kept, newest = asyncio.run(play())
    assert ended
    assert (kept.status, newest.status) == (200, 200)


def test_requests_are_counted_by_status_and_not_by_unknown_paths(tmp_path: Path) -> None:
    async def play() -> None:
        async with serve(tmp_path) as server:
            await server.send(request(body=review()))
            await server.send(request(path="/made/up", body=review()))

    def count(webhook: str, code: str) -> float:
        value = metrics.REVIEWS.get_sample_value(
            "controller_runtime_webhook_requests_total", {"webhook": webhook, "code": code}
        )
        return value or 0

    def measured(webhook: str) -> float | None:
        name = "controller_runtime_webhook_latency_seconds_count"
        return metrics.REVIEWS.get_sample_value(name, {"webhook": webhook})

    before = count("pods", "200"), count("unknown", "404")
    asyncio.run(play())
    errors = {"webhook": "guard", "operation": "CREATE", "outcome": "error"}
    assert metrics.REVIEWS.get_sample_value("drawbridge_translations_total", errors) is not None
    assert (count("pods", "200"), count("unknown", "404")) == (before[0] + 1, before[1] + 1)
    assert (bool(measured("pods")), measured("unknown")) == (True, None), "reviews are measured"
    text = json.dumps([str(metric) for metric in metrics.REVIEWS.collect()])
    assert "made/up" not in text
