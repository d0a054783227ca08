"""Measures a judgement: a claim with 4 requests and 8 selectors against 10,000 slices of 8 devices.

Known expressions were judged before, in a claim with other counts. New ones have a value that no
claim had before, so they are compiled and evaluated. An attribute that few devices differ in has a
few values in the whole fleet; a near-unique one has another value on each device. The baseline of
the same run evaluates one known selector on all devices, one after the other. Times are those of
the processor.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator

from bench._scale import scaled
from bench.inventory import DEVICES, SLICES, slice_
from bench.solver import GPU, as_slice, classes, known_gates
from drawbridge.cel.dra import Selectors
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeCaches, JudgeContext, build_context
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import claim_subject
from drawbridge.solver.expressions import ExpressionEvaluator
from drawbridge.solver.world import World

ROUNDS = scaled(9, 2)
PRODUCTS = 8
REQUESTS = 4
_PRODUCT = f'device.attributes["{GPU}"].productName != "{{}}"'
_MEMORY = f'device.capacity["{GPU}"].memory.compareTo(quantity("{{}}")) >= 0'
_UUID = f'device.attributes["{GPU}"].uuid != "{{}}"'
_NO_UUID = f'device.attributes["{GPU}"].uuid == "{{}}"'


def cluster() -> World:
    """Make the published devices: 8 products, and an own UUID on each device."""
    slices = []
    for node in range(SLICES):
        plain = slice_(node)
        for device in plain["spec"]["devices"]:  # type: ignore[index]
            device["attributes"]["productName"] = {"string": f"NVIDIA P{node % PRODUCTS}"}
        slices.append(as_slice(plain))
    return World(build_inventory(slices, gates=known_gates()), classes()).as_upstream()


def claim(texts: tuple[str, str], number: int, count: int = 1) -> Claim:
    """Make a claim with 4 requests, each with two selectors whose values are numbered."""
    requests = [
        {
            "name": f"r{request}",
            "exactly": {
                "deviceClassName": GPU,
                "count": count,
                "selectors": [
                    {"cel": {"expression": text.format(f"{number * REQUESTS + request}")}}
                    for text in texts
                ],
            },
        }
        for request in range(REQUESTS)
    ]
    plain = {
        "metadata": {"name": f"c{number}", "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    }
    read = read_claim(plain)
    if not isinstance(read, Claim):
        raise SystemExit(f"{read}")
    return read


def judge(asked: Claim, context: JudgeContext) -> tuple[Finding, ...]:
    """Judge a claim."""
    return judge_subject(claim_subject(asked), context)


def measure(name: str, context: JudgeContext, claims: Iterator[Claim], limit: float) -> None:
    """Print the median of judging one claim after the other; those of an impossible row fail."""
    times = []
    findings = 0
    for asked in claims:
        start = time.process_time()
        findings = len(judge(asked, context))
        times.append((time.process_time() - start) * 1000)
    if bool(findings) != name.endswith("impossible"):
        raise SystemExit(f"{name}: {findings} findings")
    median = statistics.median(times)
    flag = f"  above {limit:g} ms" if limit and median > limit else ""
    print(f"{name:62} median {median:8.2f} ms, {findings} findings{flag}")


def _timed(what: str, action: Callable[[], JudgeContext]) -> JudgeContext:
    start = time.process_time()
    made = action()
    print(f"{what:62}        {(time.process_time() - start) * 1000:8.0f} ms")
    return made


def _evaluate_all(world: World) -> float:
    """Time one selector on all devices without an index."""
    evaluator = ExpressionEvaluator(world.gates)
    text = _PRODUCT.format("0")
    start = time.process_time()
    for member in world.inventory.slices:
        for device in member.devices:
            evaluator.selects(text, member.driver, device)
    return (time.process_time() - start) * 1000


def run() -> None:
    """Print all rows."""
    world = cluster()
    caches = JudgeCaches(Selectors.of_gates(world.gates))
    print(f"{SLICES} slices of {DEVICES} devices, {REQUESTS} requests with 2 selectors each")
    print(f"{'one selector on every device (baseline)':62} {_evaluate_all(world):15.0f} ms")
    nodes = [Node(f"node-{node:05}") for node in range(SLICES)]
    context = _timed("index of the devices", lambda: build_context(world, nodes, caches=caches))
    others = world.inventory.slices[1:]
    changed = World(
        build_inventory([as_slice(slice_(0)), *others], gates=world.gates), world.classes
    ).as_upstream()
    context = _timed(
        "index after one slice changed", lambda: build_context(changed, nodes, caches=caches)
    )
    few, near = (_PRODUCT, _MEMORY), (_UUID, _PRODUCT)
    for count, what in ((2, "possible"), (3, "impossible")):
        judge(claim(few, 0), context)
        repeated = (claim(few, 0, count + extra % 2 * 8) for extra in range(ROUNDS))
        if count == 2:
            repeated = (claim(few, 0, 1 + extra % 2) for extra in range(ROUNDS))
        measure(f"known expressions, {what}", context, repeated, 5)
        fresh = itertools.count(1000 * count)
        new = (claim(few, next(fresh), count) for _ in range(ROUNDS))
        measure(f"new expressions over attributes of few values, {what}", context, new, 50)
    numbers = itertools.count(50_000)
    new = (claim(near, next(numbers)) for _ in range(3))
    measure("new expressions over a near-unique attribute, possible", context, new, 0)
    new = (claim((_NO_UUID, _PRODUCT), next(numbers)) for _ in range(3))
    measure("new expressions over a near-unique attribute, impossible", context, new, 0)
