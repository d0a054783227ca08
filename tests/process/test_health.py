"""The health and metrics servers, listen addresses, and logs."""

import asyncio
import io
import json
import logging
import socket
from typing import Any

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drawbridge.process import logs, metrics
from drawbridge.process.addresses import Address, open_listening_socket, parse_address
from drawbridge.process.health import serve_operations
from tests.process import http_client
from tests.process.http_client import Response
from tests.tables import every_row

ANY = Address("127.0.0.1", 0)


def remove_other_handlers() -> None:
    """Remove the log handlers of the test runner, as in a real process."""
    del logging.getLogger().handlers[1:]


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def get_all(stream: io.StringIO, missing: list[str], *wanted: tuple[str, str]) -> list[Response]:
    """Send a request to each (listener, path)."""

    async def play() -> list[Response]:
        async with serve_operations(ANY, ANY, lambda: missing):
            ports = {
                line["name"]: int(line["address"].rpartition(":")[2])
                for line in read(stream)
                if line["msg"] == "listening"
            }
            answers = []
            for name, path in wanted:
                async with http_client.connect(ports[name]) as connection:
                    answers.append(await connection.send_request(http_client.request("GET", path)))
            return answers

    return asyncio.run(play())


def test_a_ready_process_responds_with_ok(lines: io.StringIO) -> None:
    health, ready = get_all(lines, [], ("health", "/healthz"), ("health", "/readyz"))
    assert (health.status, health.body) == (200, b"ok\n")
    assert (ready.status, ready.body) == (200, b"ok\n")


def test_readyz_lists_what_is_missing_and_healthz_is_ok(
    lines: io.StringIO,
) -> None:
    missing = ["namespaces are not synced yet", "no serving certificate yet"]
    health, ready = get_all(lines, missing, ("health", "/healthz"), ("health", "/readyz"))
    assert health.status == 200
    assert (ready.status, ready.body.decode().splitlines()) == (503, missing)


def test_metrics_have_the_documented_names(lines: io.StringIO) -> None:
    with metrics.registered(metrics.REVIEWS, metrics.SERVING):
        (answer,) = get_all(lines, [], ("metrics", "/metrics"))
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


def test_each_port_serves_only_its_own_paths(lines: io.StringIO) -> None:
    wrong = [("health", "/metrics"), ("metrics", "/readyz"), ("health", "/"), ("metrics", "/")]
    assert [each.status for each in get_all(lines, [], *wrong)] == [404] * 4


@pytest.mark.parametrize(
    ("text", "read_"),
    [
        ("10.0.0.1:9443", ("10.0.0.1", 9443)),
        ("[10.0.0.1]:9443", ("10.0.0.1", 9443)),  # of the chart, which does not know the family
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        (":8080", ("", 8080)),
        ("[::1]:8081", ("::1", 8081)),
        ("[::]:0", ("::", 0)),
    ],
)
def test_valid_addresses_are_parsed(text: str, read_: tuple[str, int]) -> None:
    assert parse_address(text) == read_


@every_row("text", ["", "9443", "host:", "host:x", "::1:80", "a:65536", "a:-1", "a:²"])
def test_an_invalid_address_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as") as refused:
        parse_address(text)
    assert text in str(refused.value)


def test_every_log_line_is_valid_json(lines: io.StringIO) -> None:
    log = logging.getLogger("runtime.test")
    logs.log_event(
        log, logging.INFO, "logged", uid="u-1", name="a\x1b[31m\x9b\u202e\ud800", n={1: {2}}
    )
    line = lines.getvalue()
    assert line.count("\n") == 1
    assert all(ord(letter) >= 32 for letter in line[:-1])
    assert not set("\x9b\u202e") & set(line)
    (entry,) = read(lines)
    assert list(entry)[:4] == ["ts", "level", "logger", "msg"]
    assert (entry["level"], entry["logger"], entry["msg"]) == ("info", "runtime.test", "logged")
    assert entry["uid"] == "u-1"
    assert entry["ts"].endswith("Z")


def test_a_field_cannot_replace_the_header_of_a_line(lines: io.StringIO) -> None:
    logs.log_event(
        logging.getLogger("runtime.test"), logging.INFO, "logged", ts="never", logger="me"
    )
    (line,) = read(lines)
    assert (line["logger"], line["ts"] == "never") == ("runtime.test", False)


async def _raise(bug: Exception) -> None:
    raise bug


def test_an_exception_has_its_stack_in_the_same_line(lines: io.StringIO) -> None:
    bug = RuntimeError("line\nbreak")
    try:
        asyncio.run(_raise(bug))
    except RuntimeError:
        logging.getLogger("runtime.test").exception("a bug")
    (line,) = read(lines)
    assert line["error"] == "RuntimeError: line\nbreak"
    assert "test_health" in line["stack"]


def test_a_closed_log_stream_causes_no_exception(lines: io.StringIO) -> None:
    lines.close()
    logs.log_event(logging.getLogger("runtime.test"), logging.INFO, "logged")


async def log_in_turn(stream: io.StringIO) -> list[list[str]]:
    """Log buffered and unbuffered lines. Return the written lines after each pair."""
    log, seen = logging.getLogger("runtime.test"), []
    together = (("one", logs.log_event_buffered), ("two", logs.log_event_buffered))
    at_once = (("three", logs.log_event_buffered), ("four", logs.log_event))
    for pair in (together, at_once):
        for word, write in pair:
            write(log, logging.INFO, word)
        seen.append([each["msg"] for each in read(stream)])
    logs.log_event_buffered(log, logging.INFO, "five")
    logs.log_event_buffered(log, logging.ERROR, "six")
    seen.append([each["msg"] for each in read(stream)])
    logs.log_event_buffered(log, logging.INFO, "seven")
    log.warning("eight")
    seen.append([each["msg"] for each in read(stream)])
    logs.log_event_buffered(log, logging.INFO, "nine")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    seen.append([each["msg"] for each in read(stream)])
    logs.log_event_buffered(log, logging.INFO, "ten")
    return seen


def test_buffered_lines_are_written_together_and_in_order(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_other_handlers()
    monkeypatch.setattr(logs, "FLUSH_DELAY", 0)
    seen = asyncio.run(asyncio.wait_for(log_in_turn(lines), 5))
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert seen == [[], words[:4], words[:6], words[:8], words]
    # The event loop of the tenth line has ended, so the next line flushes it.
    logs.log_event_buffered(logging.getLogger("runtime.test"), logging.INFO, "eleven")
    assert [each["msg"] for each in read(lines)] == [*words, "ten", "eleven"]


def test_the_buffer_is_flushed_when_it_is_full(lines: io.StringIO) -> None:
    remove_other_handlers()

    async def play() -> None:
        for _ in range(1000):
            logs.log_event_buffered(logging.getLogger("runtime.test"), logging.INFO, "logged")
        assert len(read(lines)) > 700

    asyncio.run(play())


def test_buffered_lines_are_written_when_the_process_exits(lines: io.StringIO) -> None:
    remove_other_handlers()

    async def play() -> None:
        logs.log_event_buffered(logging.getLogger("runtime.test"), logging.INFO, "last")

    asyncio.run(play())
    logging.shutdown([lambda: logging.getLogger().handlers[0]])  # as Python itself does at the end
    assert [each["msg"] for each in read(lines)] == ["last"]


def test_lines_of_other_libraries_are_json(lines: io.StringIO) -> None:
    logging.getLogger("asyncio").warning("%s took %d", "something", 3)
    assert read(lines)[0]["msg"] == "something took 3"


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "reached"),
    [("", ["127.0.0.1", "::1"]), ("127.0.0.1", ["127.0.0.1"]), ("::1", ["::1"])],
    ids=["all", "IPv4", "IPv6"],
)
def test_without_a_host_both_families_are_served(host: str, reached: list[str]) -> None:
    with open_listening_socket(Address(host, 0), "health") as opened:
        port = opened.getsockname()[1]
        assert [each for each in ("127.0.0.1", "::1") if connects(each, port)] == reached


@pytest.mark.parametrize("failing", ["socket", "bind"])
def test_without_ipv6_ipv4_is_served(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """A kernel without IPv6 creates no such socket; a disabled one has no address to bind."""

    class WithoutIPv6(socket.socket):
        def __init__(self, family: int, kind: int) -> None:
            if failing == "socket" and family == socket.AF_INET6:
                raise OSError(97, "Address family not supported by protocol")
            super().__init__(family, kind)

        def bind(self, address: object, /) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(99, "Cannot assign requested address")
            super().bind(address)  # type: ignore[arg-type]

    monkeypatch.setattr("drawbridge.process.addresses.socket.socket", WithoutIPv6)
    with open_listening_socket(Address("", 0), "health") as opened:
        assert opened.family == socket.AF_INET
        monkeypatch.undo()
        assert connects("127.0.0.1", opened.getsockname()[1])


def test_a_port_in_use_is_not_taken_for_missing_ipv6() -> None:
    with (
        open_listening_socket(Address("", 0), "health") as first,
        pytest.raises(OSError, match="metrics cannot listen on :"),
    ):
        open_listening_socket(Address("", first.getsockname()[1]), "metrics")


def test_others_run_while_a_collector_prepares_its_metrics() -> None:
    steps: list[str] = []

    class Slow(Collector):
        async def prepare(self) -> None:
            steps.append("begins")
            await asyncio.sleep(0)
            steps.append("ends")

        def collect(self) -> list[Metric]:
            return [GaugeMetricFamily("prepared", "Steps so far.", len(steps))]

    async def play() -> bytes:
        writing = asyncio.create_task(metrics.write_metrics())
        await asyncio.sleep(0)  # it begins
        steps.append("another task")
        return await writing

    with metrics.registered(Slow()):
        written = asyncio.run(play())
    assert steps == ["begins", "another task", "ends"]
    assert b"prepared 3.0" in written
    assert b"prepared" not in asyncio.run(metrics.write_metrics())
