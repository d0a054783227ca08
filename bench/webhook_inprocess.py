"""Measures a review in process, without sockets: decode, decide, encode.

The baseline is an echo handler that reads the uid and responds with a prepared patch. Each row
shows the CPU time of the best of several rounds in microseconds, and the rate relative to the echo
handler: for reviews one after the other, and cold, when the caches of the processor are emptied
before each. In a server, what it does between two reviews empties a part of them.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from types import CoroutineType
from typing import Any, Final

import msgspec

from bench._cluster import IN, OUT, make_admission
from bench._scale import scaled
from bench.webhook import pod as written
from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Facts, ResourceFacts
from drawbridge.process import review
from drawbridge.translate.pods import make_context
from webhook.admission.replies import PendingReply, Reply, await_reply

ROUNDS, CALLS = scaled((7, 400), (1, 5))
GPU = "gpu.nvidia.com"
FACTS = Facts(
    classes=(ClassFacts(GPU, drivers=(GPU,), devices=64),),
    names=(ResourceFacts("nvidia.com/gpu", nodes=8, devices=64, most=8),),
)


_OTHERS: Final = bytearray(8 << 20)  # more than the caches of one core


class _Called(msgspec.Struct):
    uid: str


class _Review(msgspec.Struct):
    request: _Called


_ECHO = msgspec.json.Decoder(_Review)
_READY = review.compose_allowed([{"op": "add", "path": "/metadata/labels/a", "value": "b"}])


async def _echo(body: bytes) -> bytes:
    return review.compose_review(_ECHO.decode(body).request.uid, _READY)


def build_body(
    number: int, owner: str, *, namespace: str = IN, gpus: int = 1, legacy: bool = True
) -> bytes:
    """Return the review of a pod."""
    asks = {"nvidia.com/gpu": f"{gpus}"} if legacy else {}
    text = json.dumps(written("web", "registry/web:1", owner, asks, {}))
    token = "kube-api-access-" + "".join(chr(97 + number // 26**i % 26) for i in range(5))
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "operation": "CREATE",
        "object": json.loads(text.replace("kube-api-access-xxxxx", token)),
        "dryRun": False,
    }
    whole = {"kind": review.KIND, "apiVersion": review.API_VERSION, "request": request}
    return json.dumps(whole, separators=(",", ":")).encode()


KINDS: Mapping[str, Callable[[int], bytes]] = {
    "out of scope": lambda i: build_body(i, "abc", namespace=OUT),
    "repeated": lambda i: build_body(i, "abc"),
    "distinct": lambda i: build_body(i, f"owner-{i}", gpus=i % 8 + 1),
    "distinct, nothing asked": lambda i: build_body(i, f"none-{i}", legacy=False),
}


TRANSLATED = ("repeated", "distinct")


def _empty_caches() -> None:
    _OTHERS[::64] = _OTHERS[::64]


async def _timed(
    call: Callable[[bytes], Any], bodies: Sequence[bytes], before: Callable[[], None] | None = None
) -> float:
    spent = 0
    for body in bodies:
        if before is not None:
            before()
        start = time.thread_time_ns()
        reply = call(body)
        if isinstance(reply, CoroutineType):
            await reply
        spent += time.thread_time_ns() - start
    return spent / len(bodies) / 1000


def make_review_function() -> Callable[[bytes], Reply | PendingReply]:
    """Return the function of a new handler that reviews the body of a request."""
    return make_admission(make_context(Configuration(), FACTS)).handler.review_pod


async def _rows() -> None:
    review_pod = make_review_function()
    number = itertools.count(1)
    for name, make in KINDS.items():
        reply = await await_reply(review_pod(make(next(number))))
        response = msgspec.json.decode(reply.body)["response"]
        if ("patch" in response) != (name in TRANSLATED):
            raise SystemExit(f"{name}: a wrong response: {response}")
    best: dict[tuple[str, Callable[[], None] | None], float] = {}
    for _, before in itertools.product(range(ROUNDS), (None, _empty_caches)):
        for name, make in {"echo": KINDS["repeated"], **KINDS}.items():
            bodies = [make(next(number)) for _ in range(CALLS)]
            call = _echo if name == "echo" else review_pod
            took = await _timed(call, bodies, before)
            best[name, before] = min(best.get((name, before), 1e9), took)
    head = f"{'us':>8} {'of the echo':>12} {'cold us':>8} {'of the echo':>12}"
    print(f"{'':26} {head}   ({len(bodies[0])} bytes, best of {ROUNDS})")
    for name in ("echo", *KINDS):
        print(f"{name:26}", end="")
        for before in (None, _empty_caches):
            took = best[name, before]
            print(f" {took:8.1f} {best['echo', before] / took:12.2f}", end="")
        print()


def run() -> None:
    """Print all rows."""
    asyncio.run(_rows())
