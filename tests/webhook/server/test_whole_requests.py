"""A request whose head is known gets the same response as the first one, without a task."""

import asyncio
from pathlib import Path

import pytest

from drawbridge.process import metrics
from drawbridge.process.known_heads import WholeResponse
from tests.process.http_client import Response, request, review
from tests.webhook.server.served import WebhookServer, serve
from webhook.server.http_handler import RequestLimits

PATH = "/admit/pods?timeout=50ms"


def post(uid: str = "u-1", padding: int = 0) -> bytes:
    """Build a request with the path of all of them."""
    return request(path=PATH, body=review(uid, padding))


def play(folder: Path, *requests: bytes) -> tuple[list[Response], WebhookServer]:
    """Send requests on one connection, each after the response to the one before."""

    async def send() -> tuple[list[Response], WebhookServer]:
        async with serve(folder) as server, server.connect() as connection:
            return [await connection.send_request(each) for each in requests], server

    return asyncio.run(send())


def count(name: str) -> float:
    """Return how many pods' reviews a metric has."""
    value = metrics.REVIEWS.get_sample_value(name, {"webhook": "pods", "code": "200"})
    return value or metrics.REVIEWS.get_sample_value(name, {"webhook": "pods"}) or 0


COUNTED = (
    "controller_runtime_webhook_requests_total",
    "controller_runtime_webhook_latency_seconds_count",
)


def test_the_second_request_has_no_task_and_is_counted(tmp_path: Path) -> None:
    before = [count(each) for each in COUNTED]
    responses, server = play(tmp_path, post(), post(), post("another-uid"))
    assert server.reviews.has_tasks == [True, False, False]
    assert responses[0].body == responses[1].body
    assert {**responses[0].headers, "date": ""} == {**responses[1].headers, "date": ""}
    assert responses[2].json()["response"]["uid"] == "another-uid"
    assert [count(each) for each in COUNTED] == [each + 3 for each in before]
    # The time that is left is that of the request, less a margin.
    assert {seconds for _, _, seconds in server.reviews.calls[1:]} == {0.05}


@pytest.mark.parametrize("padding", [20_000, 120_000])
def test_a_body_of_any_size_gets_its_response(padding: int, tmp_path: Path) -> None:
    responses, _ = play(tmp_path, post(), post(), post("large", padding), post())
    assert [each.json()["response"]["uid"] for each in responses] == ["u-1", "u-1", "large", "u-1"]


def test_what_has_to_be_awaited_is_awaited_in_a_task(tmp_path: Path) -> None:
    async def send() -> tuple[Response, float, Response]:
        async with serve(tmp_path) as server, server.connect() as connection:
            long = request(path="/admit/pods?timeout=9s", body=review())
            await connection.send_request(long)
            server.reviews.unblocked.clear()
            waiting = asyncio.create_task(connection.send_request(long))
            await server.reviews.wait_for_calls(2)
            await asyncio.sleep(0)
            gauge = metrics.REVIEWS.get_sample_value(
                "controller_runtime_webhook_requests_in_flight", {"webhook": "pods"}
            )
            server.reviews.unblocked.set()
            return await waiting, gauge or 0, await connection.send_request(long)

    waited, in_flight, next_ = asyncio.run(send())
    assert [each.json()["response"]["uid"] for each in (waited, next_)] == ["u-1", "u-1"]
    assert in_flight == 1


def test_what_is_awaited_for_too_long_gets_504(tmp_path: Path) -> None:
    async def send() -> Response:
        async with serve(tmp_path) as server, server.connect() as connection:
            await connection.send_request(post())
            server.reviews.unblocked.clear()
            return await connection.send_request(post("late"))

    response = asyncio.run(send())
    assert (response.status, response.json()["response"]["uid"]) == (504, "late")


def test_an_unhandled_exception_fails_one_request(tmp_path: Path) -> None:
    async def send() -> list[Response]:
        async with serve(tmp_path) as server, server.connect() as connection:
            await connection.send_request(post())
            server.reviews.error = RuntimeError("unexpected")
            failed = await connection.send_request(post("failed"))
            server.reviews.error = None
            return [failed, await connection.send_request(post())]

    failed, next_ = asyncio.run(send())
    assert (failed.status, next_.status) == (500, 200)
    assert failed.json()["response"]["uid"] == "failed"


def test_requests_above_the_concurrency_limit_are_rejected(tmp_path: Path) -> None:
    async def send() -> list[int]:
        limits = RequestLimits(in_flight=2)
        slow = request(path="/admit/pods?timeout=9s", body=review())
        async with (
            serve(tmp_path, limits=limits) as server,
            server.connect() as first,
            server.connect() as second,
            server.connect() as third,
        ):
            for client in (first, second, third):
                await client.send_request(slow)
            server.reviews.unblocked.clear()
            for number, client in enumerate((first, second), 4):
                await client.send(slow)
                await server.reviews.wait_for_calls(number)
            refused = (await third.send_request(slow)).status
            server.reviews.unblocked.set()
            waited = [(await each.read_response()).status for each in (first, second)]
            return [refused, *waited, (await third.send_request(slow)).status]

    assert asyncio.run(send()) == [429, 200, 200, 200]


def test_while_closing_the_response_closes_the_connection(tmp_path: Path) -> None:
    async def send() -> tuple[Response, bool]:
        async with serve(tmp_path) as server, server.connect() as connection:
            for _ in range(2):
                await connection.send_request(post())
            server.handler.closing = True
            return await connection.send_request(post()), await connection.wait_closed()

    response, ended = asyncio.run(send())
    assert (response.status, response.headers["connection"], ended) == (200, "close", True)


def test_a_process_that_is_no_longer_ready_says_why(tmp_path: Path) -> None:
    missing: list[str] = []

    async def send() -> Response:
        async with (
            serve(tmp_path, find_missing=lambda: missing) as server,
            server.connect() as connection,
        ):
            for _ in range(2):
                await connection.send_request(post())
            missing.append("the certificate has expired")
            return await connection.send_request(post())

    response = asyncio.run(send())
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert b"the certificate has expired" in response.body


def test_a_large_body_that_has_no_room_is_refused(tmp_path: Path) -> None:
    limits = RequestLimits(body=90_000, total_bytes=300_000)
    large = review("large", 80_000)

    async def send() -> tuple[object, object]:
        async with serve(tmp_path, limits=limits) as server:
            responder = server.handler.find_responder(
                "POST", PATH.replace("50ms", "9s"), {"Content-Type": "application/json"}
            )
            assert responder is not None
            server.reviews.unblocked.clear()
            first = responder(large, "192.0.2.1")
            assert not isinstance(first, WholeResponse)
            assert first is not None
            refused = responder(large, "192.0.2.1")
            server.reviews.unblocked.set()
            return (await first).status, refused

    assert asyncio.run(send()) == (200, None)
