"""How long a small pod waits while a tenant sends large bodies.

Reviews small pods one after the other, alone and beside clients that send large bodies without a
pause, through the dispatcher with a worker process. Prints the median and the longest wait.
"""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

from bench._cluster import make_admission
from bench._scale import scaled
from bench.webhook_inprocess import FACTS, build_body
from drawbridge.config.model import Configuration
from drawbridge.translate.pods import make_context
from webhook.admission.large_reviews import ReviewDispatcher
from webhook.admission.replies import await_reply
from webhook.server.worker_process import WorkerProcess

CALLS: Final = scaled(400, 5)
SIZE: Final = scaled(3 << 20, 1 << 20)
CLIENTS: Final = 4


def _shapes() -> Iterator[tuple[str, dict[str, Any]]]:
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    yield "args", {"containers": [{"name": "a", "resources": gpu, "args": ["a"] * (SIZE // 4)}]}
    yield "lists", {"containers": [{"name": "a", "resources": gpu}], "x": [[]] * (SIZE // 3)}
    container = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}},
    }
    yield "containers", {"containers": [container] * (SIZE // len(json.dumps(container)))}


def _large(spec: dict[str, Any]) -> bytes:
    review = json.loads(build_body(0, "large"))
    review["request"]["object"]["spec"] = spec
    return json.dumps(review, separators=(",", ":")).encode()


async def _measure(dispatcher: ReviewDispatcher) -> list[float]:
    waits = []
    for number in range(CALLS):
        started = time.perf_counter()
        await await_reply(dispatcher.review_pod(build_body(number, "small"), 5))
        await asyncio.sleep(0.001)
        waits.append(time.perf_counter() - started - 0.001)
    return waits


async def _attack(dispatcher: ReviewDispatcher, body: bytes) -> None:
    while True:
        await await_reply(dispatcher.review_pod(body, 5))
        await asyncio.sleep(0)


def _print(name: str, waits: list[float]) -> None:
    median, longest = statistics.median(waits) * 1000, max(waits) * 1000
    print(f"{name:12} median {median:7.2f} ms, longest {longest:7.1f} ms")


async def _print_rows() -> None:
    cluster, templates, handler = make_admission(make_context(Configuration(), FACTS))
    async with contextlib.aclosing(WorkerProcess()) as worker:
        await worker.start()
        dispatcher = ReviewDispatcher(handler, cluster, templates, worker)
        _print("alone", await _measure(dispatcher))
        for name, spec in _shapes():
            body = _large(spec)
            tasks = [asyncio.create_task(_attack(dispatcher, body)) for _ in range(CLIENTS)]
            await asyncio.sleep(0.5)
            _print(name, await _measure(dispatcher))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def run() -> None:
    """Print one row for each shape of body."""
    asyncio.run(_print_rows())
