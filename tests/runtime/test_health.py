"""Health and metrics on ports of their own, addresses, and the lines that say where they are."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from runtime import logs
from runtime.health import Address, address, operations
from tests.runtime import http_client
from tests.runtime.http_client import Answer

ANY = Address("127.0.0.1", 0)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Take what would go to the error stream."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    logs.configure("debug", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def only() -> None:
    """Let nobody but ours listen, as in a process of ours; the test runner does here."""
    del logging.getLogger().handlers[1:]


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def asked(stream: io.StringIO, missing: list[str], *wanted: tuple[str, str]) -> list[Answer]:
    """Ask each of (listener, path) in turn."""

    async def play() -> list[Answer]:
        async with operations(ANY, ANY, lambda: missing):
            ports = {
                each["name"]: int(each["address"].rpartition(":")[2])
                for each in read(stream)
                if each["msg"] == "listening"
            }
            answers = []
            for name, path in wanted:
                async with http_client.line(ports[name]) as line:
                    answers.append(await line.ask(http_client.request("GET", path)))
            return answers

    return asyncio.run(play())


def test_what_is_ready_says_so(lines: io.StringIO) -> None:
    health, ready = asked(lines, [], ("health", "/healthz"), ("health", "/readyz"))
    assert (health.status, health.body) == (200, b"ok\n")
    assert (ready.status, ready.body) == (200, b"ok\n")


def test_what_is_missing_is_listed_and_the_process_is_alive_all_the_same(
    lines: io.StringIO,
) -> None:
    missing = ["namespaces are not read yet", "no serving certificate yet"]
    health, ready = asked(lines, missing, ("health", "/healthz"), ("health", "/readyz"))
    assert health.status == 200
    assert (ready.status, ready.body.decode().splitlines()) == (503, missing)


def test_metrics_have_the_names_that_dashboards_know(lines: io.StringIO) -> None:
    (answer,) = asked(lines, [], ("metrics", "/metrics"))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    text = answer.body.decode()
    for name in (
        "controller_runtime_webhook_requests_total",
        "controller_runtime_webhook_latency_seconds",
        "controller_runtime_webhook_requests_in_flight",
        "controller_runtime_webhook_panics_total",
        "drawbridge_translations_total",
        "drawbridge_certificate_expiry_seconds",
        "process_resident_memory_bytes",
    ):
        assert f"# TYPE {name} " in text


def test_each_port_has_its_own_paths_and_no_other(lines: io.StringIO) -> None:
    wrong = [("health", "/metrics"), ("metrics", "/readyz"), ("health", "/"), ("metrics", "/")]
    assert [each.status for each in asked(lines, [], *wrong)] == [404] * 4


@pytest.mark.parametrize(
    ("text", "read_"),
    [
        ("10.0.0.1:9443", ("10.0.0.1", 9443)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        (":8080", ("0.0.0.0", 8080)),  # noqa: S104  # what an empty host means
        ("[::1]:8081", ("::1", 8081)),
        ("[::]:0", ("::", 0)),
    ],
)
def test_addresses(text: str, read_: tuple[str, int]) -> None:
    assert address(text) == read_


@pytest.mark.parametrize(
    "text", ["", "9443", "host:", "host:x", "::1:80", "a:65536", "a:-1", "a:²"]
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as") as refused:
        address(text)
    assert text in str(refused.value)


def test_a_line_is_json_whatever_is_in_it(lines: io.StringIO) -> None:
    log = logging.getLogger("runtime.test")
    logs.say(log, logging.INFO, "said", uid="u-1", name="a\x1b[31m\x9b\u202e\ud800", n={1: {2}})
    line = lines.getvalue()
    assert line.count("\n") == 1
    assert all(ord(letter) >= 32 for letter in line[:-1])
    assert not set("\x9b\u202e") & set(line)
    (said,) = read(lines)
    assert list(said)[:4] == ["ts", "level", "logger", "msg"]
    assert (said["level"], said["logger"], said["msg"]) == ("info", "runtime.test", "said")
    assert said["uid"] == "u-1"
    assert said["ts"].endswith("Z")


def test_a_field_cannot_take_the_place_of_what_every_line_has(lines: io.StringIO) -> None:
    logs.say(logging.getLogger("runtime.test"), logging.INFO, "said", ts="never", logger="me")
    (said,) = read(lines)
    assert (said["logger"], said["ts"] == "never") == ("runtime.test", False)


async def _raise(bug: Exception) -> None:
    raise bug


def test_a_bug_has_its_stack_in_the_same_line(lines: io.StringIO) -> None:
    bug = RuntimeError("line\nbreak")
    try:
        asyncio.run(_raise(bug))
    except RuntimeError:
        logging.getLogger("runtime.test").exception("a bug")
    (said,) = read(lines)
    assert said["error"] == "RuntimeError: line\nbreak"
    assert "test_health" in said["stack"]


def test_a_log_that_nobody_reads_any_more_fails_nobody() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("info", stream)
    stream.close()
    try:
        logs.say(logging.getLogger("runtime.test"), logging.INFO, "said")
    finally:
        root.handlers[:], root.level = handlers, level


async def said_in_turn(stream: io.StringIO) -> list[list[str]]:
    """Say lines that wait and lines that do not; gives what was written after each pair."""
    log, seen = logging.getLogger("runtime.test"), []
    together = (("one", logs.say_soon), ("two", logs.say_soon))
    at_once = (("three", logs.say_soon), ("four", logs.say))
    for pair in (together, at_once):
        for word, say in pair:
            say(log, logging.INFO, word)
        seen.append([each["msg"] for each in read(stream)])
    logs.say_soon(log, logging.INFO, "five")
    logs.say_soon(log, logging.ERROR, "six")
    seen.append([each["msg"] for each in read(stream)])
    logs.say_soon(log, logging.INFO, "seven")
    log.warning("eight")
    seen.append([each["msg"] for each in read(stream)])
    logs.say_soon(log, logging.INFO, "nine")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    seen.append([each["msg"] for each in read(stream)])
    logs.say_soon(log, logging.INFO, "ten")
    return seen


def test_lines_of_pods_wait_for_each_other_and_for_nothing_else(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    only()
    monkeypatch.setattr(logs, "TOGETHER", 0)
    seen = asyncio.run(asyncio.wait_for(said_in_turn(lines), 5))
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert seen == [[], words[:4], words[:6], words[:8], words]
    # The loop of the tenth has ended: nobody would write it later.
    logs.say_soon(logging.getLogger("runtime.test"), logging.INFO, "eleven")
    assert [each["msg"] for each in read(lines)] == [*words, "ten", "eleven"]


def test_a_flood_of_lines_is_written_before_it_is_large(lines: io.StringIO) -> None:
    only()

    async def play() -> None:
        for _ in range(1000):
            logs.say_soon(logging.getLogger("runtime.test"), logging.INFO, "said")
        assert len(read(lines)) > 700

    asyncio.run(play())


def test_lines_that_wait_are_written_when_the_process_ends(lines: io.StringIO) -> None:
    only()

    async def play() -> None:
        logs.say_soon(logging.getLogger("runtime.test"), logging.INFO, "last")

    asyncio.run(play())
    logging.shutdown([lambda: logging.getLogger().handlers[0]])  # as Python itself does at the end
    assert [each["msg"] for each in read(lines)] == ["last"]


def test_lines_of_other_libraries_are_json_too(lines: io.StringIO) -> None:
    logging.getLogger("asyncio").warning("%s took %d", "something", 3)
    assert read(lines)[0]["msg"] == "something took 3"
