"""Every request gets the right status, whoever is behind the door."""

import asyncio
import json
from pathlib import Path

import pytest

from runtime import metrics
from tests.runtime.http_client import Answer, Line, request, review
from tests.tables import Plain, cases
from tests.webhook.server.served import Served, served
from webhook.server.http_handler import Limits

CASES = cases(Path(__file__).parent / "cases" / "requests.yaml")
SMALL = Limits(body=1000, in_flight=2, held=1500, slow=0.05)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_table(case: Plain, tmp_path: Path) -> None:
    body = case["body"].encode() if "body" in case else review()
    headers = dict(case.get("headers", {}))
    if "length" in case:
        headers["Content-Length"] = str(case["length"])
    sent = request(case.get("method", "POST"), case.get("path", "/admit/pods"), body, headers)

    async def play() -> Answer:
        async with served(tmp_path) as house:
            return await house.ask(sent)

    answer = asyncio.run(play())

    assert answer.status == case["status"], answer
    assert case.get("says", "").encode() in answer.body
    assert case.get("answers", {}).items() <= answer.headers.items()
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
def test_the_handler_gets_a_deadline_below_the_callers(
    query: str, low: float, high: float, tmp_path: Path
) -> None:
    async def play() -> float | None:
        async with served(tmp_path) as house:
            await house.ask(request(path=f"/admit/pods{query}", body=review()))
            return house.answering.asked[0][2]

    seconds = asyncio.run(play())
    assert seconds is not None
    assert low < seconds <= high


def test_an_answer_that_takes_too_long_is_ended_with_a_review_that_says_so(tmp_path: Path) -> None:
    async def play() -> Answer:
        async with served(tmp_path) as house:
            house.answering.go.clear()
            return await house.ask(request(path="/admit/pods?timeout=10ms", body=review("late")))

    answer = asyncio.run(play())
    response = answer.json()["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (504, "late", False)


def test_a_bug_costs_one_request_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> tuple[Answer, Answer]:
        async with served(tmp_path) as house, house.line() as line:
            house.answering.bug = RuntimeError("not thought of")
            failed = await line.ask(request(body=review("u-7")))
            house.answering.bug = None
            return failed, await line.ask(request(body=review("u-8")))

    before = metrics.PANICS.collect()[0].samples[0].value
    failed, next_ = asyncio.run(play())
    assert (failed.status, next_.status) == (500, 200)
    response = failed.json()["response"]
    assert (response["uid"], response["allowed"]) == ("u-7", False)
    assert "not thought of" not in response["status"]["message"]
    assert failed.json()["kind"] == "AdmissionReview"
    assert metrics.PANICS.collect()[0].samples[0].value == before + 1
    assert any(record.exc_info for record in caplog.records)


def test_what_is_not_ready_says_what_is_missing_and_when_to_ask_again(tmp_path: Path) -> None:
    async def play() -> tuple[Answer, list[object]]:
        async with served(tmp_path, missing=lambda: ["facts are not read yet"]) as house:
            return await house.ask(request(body=review())), list(house.answering.asked)

    answer, asked = asyncio.run(play())
    assert answer.status == 503
    assert b"facts are not read yet" in answer.body
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"  # another replica may be ready
    assert not asked


def test_above_the_bound_requests_are_refused_at_once(tmp_path: Path) -> None:
    async def one(house: Served, uid: str) -> Answer:
        return await house.ask(request(body=review(uid)))

    async def play() -> tuple[Answer, list[Answer]]:
        async with served(tmp_path, limits=SMALL) as house:
            house.answering.go.clear()
            both = [asyncio.create_task(one(house, uid)) for uid in ("a", "b")]
            await house.answering.asked_by(2)
            third = await one(house, "c")
            house.answering.go.set()
            return third, [await each for each in both]

    refused, others = asyncio.run(play())
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert [each.status for each in others] == [200, 200]


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


CHUNKED = {"Transfer-Encoding": "chunked", "Content-Length": ""}


def test_a_body_in_chunks_is_read(tmp_path: Path) -> None:
    body = review("chunked")

    async def play() -> Answer:
        async with served(tmp_path) as house, house.line() as line:
            await line.send(request(headers=CHUNKED) + chunks(body[:10]))
            return await line.ask(chunks(body[10:], b""))

    assert asyncio.run(play()).json()["response"]["uid"] == "chunked"


def test_endless_chunks_are_cut_at_the_limit(tmp_path: Path) -> None:
    async def play() -> Answer:
        async with served(tmp_path, limits=Limits(body=1000)) as house, house.line() as line:
            await line.send(request(headers=CHUNKED))
            for _ in range(20):
                await line.send(chunks(b"x" * 100))
            answer = await line.answer()
            assert await line.ended()
            return answer

    assert asyncio.run(play()).status == 413


def test_a_whole_body_above_the_limit_is_cut_as_well(tmp_path: Path) -> None:
    """Chunks that come in one packet with the headers have no length that could be refused."""

    async def play() -> Answer:
        async with served(tmp_path, limits=Limits(body=100)) as house:
            return await house.ask(request(headers=CHUNKED) + chunks(b"x" * 200, b""))

    assert asyncio.run(play()).status == 413


def test_bodies_that_come_in_are_bounded_together(tmp_path: Path) -> None:
    async def play() -> list[int]:
        limits = Limits(body=1000, held=1500, slow=5)
        async with served(tmp_path, limits=limits) as house, house.line() as a, house.line() as b:
            for line in (a, b):
                await line.send(request(headers={"Content-Length": "1000"}) + b"x" * 900)
            done, _ = await asyncio.wait(
                [asyncio.create_task(line.answer()) for line in (a, b)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            return [task.result().status for task in done]

    assert asyncio.run(play()) == [429]


def test_bodies_that_wait_for_an_answer_are_bounded_together(tmp_path: Path) -> None:
    """As templates are waited for while the API server is slow."""
    body = review(padding=800)

    async def play() -> tuple[Answer, Answer, Answer]:
        async with served(tmp_path, limits=Limits(held=1500)) as house:
            house.answering.go.clear()
            first = asyncio.create_task(house.ask(request(body=body)))
            await house.answering.asked_by(1)
            refused = await house.ask(request(body=body))
            house.answering.go.set()
            return refused, await first, await house.ask(request(body=body))

    refused, *others = asyncio.run(play())
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert [each.status for each in others] == [200, 200]


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async def play() -> tuple[Answer, bool]:
        async with served(tmp_path, limits=SMALL) as house, house.line() as line:
            await line.send(request(headers={"Content-Length": "100"}) + b"{")
            return await line.answer(), await line.ended()

    answer, ended = asyncio.run(play())
    assert (answer.status, ended) == (408, True)


def test_a_broken_chunk_is_the_clients_mistake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Answer:
        async with served(tmp_path) as house, house.line() as line:
            await line.send(request(headers=CHUNKED) + chunks(b"{"))
            return await line.ask(b"zz\r\n")

    assert asyncio.run(play()).status == 400
    assert not any(record.exc_info for record in caplog.records)


def test_who_waits_to_be_asked_for_the_body_is_asked(tmp_path: Path) -> None:
    body = review("patient")

    async def play() -> tuple[bytes, Answer]:
        async with served(tmp_path) as house, house.line() as line:
            headers = {"Expect": "100-continue", "Content-Length": str(len(body))}
            await line.send(request(headers=headers))
            asked = await line.reader.readuntil(b"\r\n\r\n")
            return asked, await line.ask(body)

    asked, answer = asyncio.run(play())
    assert asked == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.json()["response"]["uid"] == "patient"


def test_requests_one_after_the_other_are_answered_in_order(tmp_path: Path) -> None:
    uids = [f"u-{i}" for i in range(30)]

    async def read(line: Line) -> list[str]:
        return [(await line.answer()).json()["response"]["uid"] for _ in uids]

    async def play() -> list[str]:
        async with served(tmp_path) as house, house.line() as line:
            await line.send(b"".join(request(body=review(uid)) for uid in uids))
            return await read(line)

    assert asyncio.run(play()) == uids


def test_a_client_that_goes_away_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Answer:
        async with served(tmp_path) as house:
            house.answering.go.clear()
            async with house.line() as line:
                await line.send(request(body=review("gone")))
                await house.answering.begun.wait()
            async with house.line() as line:
                await line.send(request(headers={"Content-Length": "100"}) + b"{")
            house.answering.go.set()
            return await house.ask(request(body=review("next")))

    assert asyncio.run(play()).json()["response"]["uid"] == "next"
    assert not any(record.exc_info for record in caplog.records)


def test_bytes_that_are_no_http_get_400_without_a_stack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> Answer:
        async with served(tmp_path) as house:
            return await house.ask(b"\x16\x03\x01 hello?\r\n\r\n")

    assert asyncio.run(play()).status == 400
    assert not any(record.exc_info for record in caplog.records)


def test_above_the_bound_the_connection_silent_for_longest_goes(tmp_path: Path) -> None:
    async def play() -> tuple[bool, Answer, Answer]:
        asked = request(body=review())
        async with served(tmp_path, most=2) as house, house.line() as first, house.line() as second:
            assert (await first.ask(asked)).status == 200
            # The first has spoken last now, so the second is the one to go.
            async with house.line() as third:
                newest = await third.ask(asked)
                return await second.ended(), await first.ask(asked), newest

    ended, kept, newest = asyncio.run(play())
    assert ended
    assert (kept.status, newest.status) == (200, 200)


def test_requests_are_counted_by_status_and_never_by_what_strangers_write(tmp_path: Path) -> None:
    async def play() -> None:
        async with served(tmp_path) as house:
            await house.ask(request(body=review()))
            await house.ask(request(path="/made/up", body=review()))

    def count(webhook: str, code: str) -> float:
        found = metrics.REGISTRY.get_sample_value(
            "controller_runtime_webhook_requests_total", {"webhook": webhook, "code": code}
        )
        return found or 0

    before = count("pods", "200"), count("unknown", "404")
    asyncio.run(play())
    assert (count("pods", "200"), count("unknown", "404")) == (before[0] + 1, before[1] + 1)
    text = json.dumps([str(metric) for metric in metrics.REGISTRY.collect()])
    assert "made/up" not in text
