"""Measures the translation of hostile pods, compared with decoding their JSON.

Each shape is repeated until the JSON has the wanted size. `tests/translate` counts
the calls of functions for the same shapes, without timing.
"""

import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from bench import _hostile_claims
from bench._hostile_shapes import SHAPES, Pod
from bench._scale import scaled
from bench.translate import cluster
from drawbridge.brief import USUAL_SECONDS, CutShort
from drawbridge.config.model import Configuration, Legacy
from drawbridge.process.alarm import CutAlarm
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate

SIZES: Final = scaled((30 * 1024, 64 * 1024, 1024 * 1024), (64 * 1024,))
# Of pods that the event loop of the webhook begins to translate.
INLINE_SIZES: Final = scaled((2 * 1024, 8 * 1024, 30 * 1024), (8 * 1024,))
ROUNDS: Final = scaled(3, 1)
_SHOWN: Final = 10
CONFIGURATION: Final = Configuration(
    legacy=Legacy(networks={"default/net-a": "openshift.io/sriov_a"})  # type: ignore[dict-item]  # checked text
)


def make_pod(shape: Callable[[int], Pod], size: int) -> bytes:
    """Repeat the part of a shape about as often as fits `size` bytes of JSON."""
    few, more = len(_encode(shape(64))), len(_encode(shape(128)))
    count = max(2, (size - few) * 64 // (more - few) + 64)
    while len(text := _encode(shape(count))) > size:
        count = count * 9 // 10
    return text


def _encode(value: Pod) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def contexts() -> Mapping[str, TranslationContext]:
    """Return a context with facts about a cluster, and one without."""
    return {
        "facts": TranslationContext(CONFIGURATION, cluster()),
        "no facts": TranslationContext(CONFIGURATION),
    }


def work(value: Pod, context: TranslationContext) -> None:
    """Do what a review or the controller does with a pod."""
    original = restore_original(value)
    translate(value if original is None else original, context)


def time_shapes(size: int) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the milliseconds and the ratio to `json.loads` of each shape."""
    for name, shape in SHAPES.items():
        text = make_pod(shape, size)
        value = msgspec.json.decode(text)
        for kind, context in contexts().items():
            took = _best(lambda value=value, context=context: work(value, context))  # type: ignore[misc]
            read = _best(lambda text=text: json.loads(text))  # type: ignore[misc]
            yield f"{name}, {kind}", took * 1e3, took / read


def time_inline(size: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the milliseconds until a translation ends, or is cut."""
    alarm = CutAlarm()
    alarm.seconds = USUAL_SECONDS
    for name, shape in SHAPES.items():
        value = msgspec.json.decode(make_pod(shape, size))
        for kind, context in contexts().items():
            took = _best(lambda value=value, context=context: _begin(alarm, value, context))  # type: ignore[misc]
            yield f"{name}, {kind}", took * 1e3
    alarm.end()


def _begin(alarm: CutAlarm, value: Pod, context: TranslationContext) -> None:
    with contextlib.suppress(CutShort):
        alarm.run(lambda: work(value, context))
    alarm.stop()


def _best(call: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
        if times[-1] > 1:
            break
    return statistics.median(times)


def run() -> None:
    """Print the shapes of each size, the slowest first."""
    for size in SIZES:
        rows = sorted(time_shapes(size), key=lambda row: -row[1])
        print(f"pods of {size // 1024} KiB")
        for name, took, ratio in itertools.islice(rows, 2 * len(SHAPES)):
            print(f"  {name:<52}{took:9.1f} ms{ratio:9.1f} times json.loads")
    for size in INLINE_SIZES:
        print(f"pods of {size // 1024} KiB, on an event loop")
        for name, took in sorted(time_inline(size), key=lambda row: -row[1])[:_SHOWN]:
            print(f"  {name:<52}{took:9.1f} ms")


PARTS: Final[Mapping[str, Callable[[], None]]] = {"pods": run, "claims": _hostile_claims.run}
