"""Sends damaged requests to a port, several at a time, and reports wrong responses."""

import asyncio
import contextlib
import json
import random
import ssl
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from e2e.damaged import reviews, wires
from e2e.damaged.wires import HOST, DamagedRequest

# A namespace that nobody knows may still come: each review about one waits a second for it.
PATIENCE = 120.0
AT_ONCE = 24
PROBE = 250  # after so many cases a good review must have a good answer


class Target(NamedTuple):
    """The port, its CA, and the namespace that is opted in."""

    port: int
    authority: str
    namespace: str


class Outcome(NamedTuple):
    """The number of requests of each kind, the statuses, and the errors."""

    kinds: Counter[str]
    statuses: Counter[str]
    wrong: list[str]

    def add(self, other: "Outcome") -> None:
        """Add the counts of another outcome."""
        self.kinds.update(other.kinds)
        self.statuses.update(other.statuses)
        self.wrong.extend(other.wrong)


def empty_outcome() -> Outcome:
    """Return an outcome without counts."""
    return Outcome(Counter(), Counter(), [])


class HttpResponse(NamedTuple):
    """One HTTP response."""

    status: int
    body: bytes


def cases(seed: int, count: int, namespace: str) -> Iterator[DamagedRequest]:
    """Yield `count` requests; the same for the same seed."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        yield wires.case(chance, reviews.damaged(chance, f"uid-{number}", namespace))


async def send_cases(target: Target, seed: int, count: int) -> Outcome:
    """Send all requests of a seed."""
    return await send_each(target, f"{seed}", cases(seed, count, target.namespace))


async def send_each(target: Target, label: str, requests: Iterator[DamagedRequest]) -> Outcome:
    """Send requests, several at a time, and check every response."""
    outcome = empty_outcome()
    trust = trusted(target)
    numbered = enumerate(requests)

    async def work() -> None:
        for number, request in numbered:
            outcome.kinds[request.name] += 1
            error = await _send_in_time(target, trust, request, outcome)
            if error:
                outcome.wrong.append(f"case {label}/{number} ({request.name}): {error}")
            if number % PROBE == 0:
                outcome.wrong.extend(await probe(target, trust))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return outcome


async def probe(target: Target, trust: ssl.SSLContext) -> list[str]:
    """Send a valid review and return the errors."""
    chance = random.Random(0)
    body = json.dumps(reviews.review(chance, "probe", target.namespace)).encode()
    probe = DamagedRequest("probe", (wires.request(body),), wires.one_of(200), body)
    said = await _send_in_time(target, trust, probe, empty_outcome())
    return [f"a good review among them: {said}"] if said else []


async def ready(target: Target) -> None:
    """Wait until valid reviews get valid responses."""
    while await probe(target, trusted(target)):  # noqa: ASYNC110  # another process's state
        await asyncio.sleep(0.02)


def trusted(target: Target) -> ssl.SSLContext:
    """Return a TLS context that trusts the CA of the target."""
    trust = ssl.create_default_context(cadata=target.authority)
    # The rig's authorities are no model of RFC 5280, and newer Pythons look closely.
    trust.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return trust


async def _send_in_time(
    target: Target, trust: ssl.SSLContext, request: DamagedRequest, outcome: Outcome
) -> str:
    try:
        async with asyncio.timeout(PATIENCE):
            return await _send(target, trust, request, outcome)
    except TimeoutError:
        return f"no end within {PATIENCE:g} s"
    except OSError as error:
        return "" if request.hasty or not request.right else f"{type(error).__name__}: {error}"


async def _send(
    target: Target, trust: ssl.SSLContext, request: DamagedRequest, outcome: Outcome
) -> str:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        target.port,
        ssl=trust if request.tls else None,
        server_hostname=HOST if request.tls else None,
        limit=1 << 22,
    )
    try:
        with contextlib.suppress(ConnectionError):  # it may have said no before we are done
            for piece in request.pieces:
                writer.write(piece)
                await writer.drain()
        if not request.right:
            return await _check_optional_response(reader, request, outcome)
        return await _check_responses(reader, request, outcome)
    finally:
        if request.hasty:
            writer.transport.abort()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _check_optional_response(
    reader: asyncio.StreamReader, request: DamagedRequest, outcome: Outcome
) -> str:
    """Read a response if one arrives at once; status 5xx is an error."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(0.02):
            status = (await _read_response(reader)).status
            outcome.statuses[f"{request.name} {status}"] += 1
            return f"status {status}" if status >= 500 else ""
    return ""


async def _check_responses(
    reader: asyncio.StreamReader, request: DamagedRequest, outcome: Outcome
) -> str:
    for number, right in enumerate(request.right):
        try:
            answer = await _read_response(reader)
        except asyncio.IncompleteReadError as error:
            return f"answer {number + 1} ended early: {error.partial[:200]!r}"
        outcome.statuses[f"{request.name} {answer.status}"] += 1
        if b'"patch"' in answer.body:
            outcome.statuses[f"{request.name} with a patch"] += 1
        if answer.status not in right:
            return f"status {answer.status}, not {sorted(right)}: {answer.body[:200]!r}"
        if request.body and (said := reviews.find_error(request.body, answer.status, answer.body)):
            return said
    return ""


async def _read_response(reader: asyncio.StreamReader) -> HttpResponse:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").lower().split("\r\n")
    sizes = (line.partition(":")[2] for line in lines if line.startswith("content-length:"))
    return HttpResponse(int(first.split()[1]), await reader.readexactly(int(next(sizes, "0"))))


def format_outcome(outcome: Outcome) -> Iterator[str]:
    """Format the counts, one line for each kind."""
    for name, count in sorted(outcome.kinds.items()):
        prefix = f"{name} "
        seen = {k: v for k, v in sorted(outcome.statuses.items()) if k.startswith(prefix)}
        shown = ", ".join(f"{key.removeprefix(prefix)}: {n}" for key, n in seen.items())
        yield f"{name:18} {count:6}  {shown}"
