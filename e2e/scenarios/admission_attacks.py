"""Scenarios: bodies that never end, and thousands of findings.

Tenants in ten other namespaces are served meanwhile.
"""

import asyncio
import contextlib
import json
import multiprocessing
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.threaded import repeating
from e2e.installed.installation import Installation, installed, wait_for_facts
from e2e.nodes.machine import Machine
from e2e.scenarios.admission import GPU, NEEDS, legacy_pod
from e2e.scenarios.objects import JSON, RESOURCE, allocation, claim_spec, request, result
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import (
    another_namespace,
    check_innocents_not_delayed,
    innocent_namespaces,
)

# The sizes of the bodies of an attacker, and how many are held of each: together more than the
# memory for bodies that are arriving. Where a large one does not fit any more, a small one does.
HELD_BODIES = {3 << 20: 64, 512 << 10: 16, 96 << 10: 16, 16 << 10: 16}
CHUNK = 64 << 10
AGAIN_SECONDS = 0.1
# Attackers have other addresses than the API server, and also its own.
SOURCES = ("127.0.0.1", "127.0.9.1", "127.0.9.2", "127.0.9.3")
LARGE_BYTES, LARGE_PAUSE = 100 << 10, 0.2
# One finding for each claim: more than the allocator remembers.
FORGED_MARKS, FLOOD_WRITERS = 2800, 4
MOST_EVENT_SECONDS = 15.0


class Target(NamedTuple):
    """A connection of an attacker: to which port, from which address, for how large a body."""

    port: int
    source: str
    size: int


def _anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _hold_body(target: Target, context: ssl.SSLContext) -> None:
    """Send a body without its last byte, and wait until it is refused."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", target.port, ssl=context, local_addr=(target.source, 0)
    )
    head = (
        "POST /admit/pods?timeout=30s HTTP/1.1\r\nHost: webhook\r\n"
        f"Content-Type: application/json\r\nContent-Length: {target.size}\r\n\r\n"
    )
    try:
        writer.write(head.encode())
        for sent in range(0, target.size - 1, CHUNK):
            if reader.at_eof():
                return
            writer.write(b" " * min(CHUNK, target.size - 1 - sent))
            await writer.drain()
        await reader.read(1)
    finally:
        writer.close()


async def _again_and_again(target: Target, context: ssl.SSLContext) -> None:
    while True:
        with contextlib.suppress(OSError):
            await _hold_body(target, context)
        await asyncio.sleep(AGAIN_SECONDS)


async def _attack(targets: Sequence[Target]) -> None:
    context = _anyone()
    await asyncio.gather(*(_again_and_again(each, context) for each in targets))


def _run_attack(targets: Sequence[Target]) -> None:
    asyncio.run(_attack(targets))


@contextlib.contextmanager
def attacked(cluster: Installation) -> Iterator[None]:
    """Let a process attack each replica of the webhook."""
    ports = [each.port("admission") for each in cluster.webhooks]
    targets = [
        Target(port, source, size)
        for port in ports
        for size, count in HELD_BODIES.items()
        for source in islice(cycle(SOURCES), count)
    ]
    process = multiprocessing.get_context("spawn").Process(target=_run_attack, args=(targets,))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


@scenario("full", rig="installed", needs=NEEDS)
def unfinished_bodies_from_the_network_delay_no_namespace(stage: Stage) -> None:
    """Some of them come from the address of the API server. Large pods wait, none is refused."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    calls: list[Callable[[], object]] = []
    large: list[Callable[[], object]] = []
    for number, namespace in enumerate(innocent_namespaces(stage)):
        pod, chosen = legacy_pod(stage, "innocent"), calls
        if number % 2 == 0:
            pod["metadata"]["annotations"], chosen = {"note": "x" * LARGE_BYTES}, large
        path = f"/api/v1/namespaces/{namespace}/pods"
        chosen.append(partial(stage.client.create, path, pod, dryRun="All"))

    @contextlib.contextmanager
    def beside_large(*, attack: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if attack:
                stack.enter_context(attacked(cluster))
            for each in large:
                stack.enter_context(repeating(each, LARGE_PAUSE))
            yield

    check_innocents_not_delayed(
        "small pods",
        calls,
        partial(beside_large, attack=True),
        partial(beside_large, attack=False),
    )


def hold(
    stage: BridgeStage,
    namespace: str,
    name: str,
    machine: Machine,
    device: str = "gpu-0",
    **metadata: JSON,
) -> None:
    """Let a claim hold a device that others hold, or that does not exist."""
    path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
    spec = claim_spec(request("gpu", GPU))
    stage.client.create(path, {"metadata": {"name": name, **metadata}, "spec": spec})
    held = allocation(machine.name, (result(GPU, machine.name, device),))
    stage.client.patch(f"{path}/{name}/status", {"status": {"allocation": held}})


def seconds_until_events(
    stage: BridgeStage, namespaces: Sequence[str], name: str, machine: Machine
) -> float:
    """Return the seconds until each namespace has the event of its claim."""
    began = time.monotonic()
    for namespace in namespaces:
        hold(stage, namespace, name, machine)

    def is_told(namespace: str) -> bool:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        events = stage.client.get(path)["items"]
        return any(
            (each["reason"], each["regarding"]["name"]) == ("DeviceHeldTwice", name)
            for each in events
        )

    for namespace in namespaces:
        stage.wait(f"the event in {namespace}", partial(is_told, namespace))
    return time.monotonic() - began


def _forge_mark(stage: BridgeStage, namespace: str, machine: Machine, number: int) -> None:
    """Add an allocated claim whose mark has a counter that no device has."""
    counters = [{"counterSet": "forged", "counters": {"memory": {"value": "1"}}}]
    device = {"driver": GPU, "pool": machine.name, "device": "gpu-1", "consumesCounters": counters}
    mark = json.dumps({"allocator": "drawbridge", "devices": [device]})
    annotations = {"drawbridge.dev/allocation": mark}
    hold(stage, namespace, f"forged-{number}", machine, "gpu-1", annotations=annotations)


@bridge_scenario("full")
def the_findings_of_one_namespace_leave_events_to_others(stage: BridgeStage) -> None:
    """Ten others soon have events of what is severe, and the log says what was dropped."""
    other = stage.node("b", "lab-2g2n", {GPU: "full"})
    namespaces, forger = innocent_namespaces(stage), another_namespace(stage, "forger", {})
    hold(stage, namespaces[0], "first", other)
    before = seconds_until_events(stage, namespaces, "before", other)
    with ThreadPoolExecutor(FLOOD_WRITERS) as pool:
        list(pool.map(partial(_forge_mark, stage, forger, other), range(FORGED_MARKS)))
    during = seconds_until_events(stage, namespaces, "during", other)
    print(f"      events: {before:.1f} s without it, {during:.1f} s during the attack")  # noqa: T201
    assert during < MOST_EVENT_SECONDS, (before, during)
    allocator = stage.leader().allocator
    stage.wait(
        "events are dropped", lambda: allocator.metric("drawbridge_events_dropped_total") > 0
    )
    stage.wait(
        "the log says whose events were dropped",
        lambda: any(
            "dropped" in each["msg"] and f"{forger} (" in each["msg"] for each in allocator.lines()
        ),
    )
