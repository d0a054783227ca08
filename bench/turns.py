"""Measures how long the allocator does nothing else for the largest objects that one may write.

Pods with many claims that others share, or as many claims as an object has room for; a call with
many claims; gangs whose members have claims of their own, or share them in a chain; and a node
whose driver changes all of its slices. The times of pods, calls and slices are CPU time.
"""

import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from allocator.scheduler.protocol import GroupMember, GroupReference, PreFilterGroupRequest
from bench._scale import scaled
from bench._slices import device
from drawbridge.agreement.slice_limits import MAX_OF_DRIVER
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.ledger.pods import Pod, pod_reader
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    claim,
    gpu_slice,
    members_of,
    pod_fields,
)

SHARED, USERS = scaled(2_000, 20), scaled(32, 4)
MOST_CLAIMS: Final = scaled(35_000, 100)
CALLED: Final = scaled(5_000, 20)
MEMBERS, CHAINED = scaled(10_000, 12), scaled(7_000, 12)
# The turns of the process (allocator.scheduler.calls), and where a gang ends that needs more.
TURN_SECONDS, SEARCH_SECONDS, ASKING_SECONDS = 0.02, 0.05, scaled(10, 1)
DEVICES: Final = scaled(128, 2)
GPUS: Final = 8
ROUNDS: Final = scaled(5, 1)


def _print(title: str, seconds: Iterable[float], parts: int = 1) -> None:
    rounds = sorted(each * 1000 / parts for each in seconds)
    middle = rounds[len(rounds) // 2]
    print(f"{title:56} {middle:9.3f} ms   {rounds[0]:9.3f} to {rounds[-1]:9.3f}", flush=True)


def _time(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def _make_cluster(nodes: int) -> Cluster:
    cluster = Cluster()
    names = [f"n{number}" for number in range(nodes)]
    cluster.add(*(Node(name, {"name": name}) for name in names))
    cluster.add(*(gpu_slice(name, GPUS) for name in names))
    return cluster


# --- pods ---


def _changes(uid: str, names: Iterable[str]) -> Iterator[bytes]:
    """Yield the JSON of a pod with another annotation each time."""
    names = [*names]
    for version in range(ROUNDS + 1):
        yield json.dumps(pod_fields(uid, *names, annotations={"changed": f"{version}"})).encode()


def _read(text: bytes) -> Pod:
    read = pod_reader().read(json.loads(text))
    if not isinstance(read, Pod):
        raise SystemExit(f"the pod is not read: {read}")
    return read


def _measure_changes(cluster: Cluster, uid: str, names: Iterable[str], title: str) -> None:
    first, *others = _changes(uid, names)
    followed = [_read(first)]
    cluster.add(*followed)

    def follow(text: bytes) -> None:
        after = _read(text)
        cluster.state.apply(followed[-1], after)
        followed.append(after)

    _print(f"a change of a pod with {title}", [_time(partial(follow, text)) for text in others])


def measure_pods() -> None:
    """Print what a change of a pod with many claims takes, and its end."""
    users = [f"user-{number}" for number in range(USERS)]
    names = [f"shared-{number}" for number in range(SHARED)]
    cluster = _make_cluster(SHARED // GPUS + 1)
    for number, name in enumerate(names):
        held = allocation_on(f"n{number // GPUS}", number % GPUS)
        cluster.add_claim(claim(name, allocation=held, pods=users))
    pods = {uid: _read(next(_changes(uid, names))) for uid in users}
    cluster.add(*pods.values())
    _measure_changes(cluster, users[0], names, f"{SHARED:,} claims that {USERS} pods share")
    ended = [_time(partial(cluster.state.apply, pods[uid], None)) for uid in users[1:]]
    _print("its end, for each claim that is reserved for it", ended, SHARED)
    many = [f"c{number}" for number in range(MOST_CLAIMS)]
    _measure_changes(_make_cluster(1), "p", many, f"{MOST_CLAIMS:,} claims")


# --- calls ---


def measure_calls() -> None:
    """Print what a call takes that says of a pod which claims it has."""
    claims = [claim(f"c{number}") for number in range(CALLED)]
    took = []
    for _ in range(ROUNDS):
        cluster = _make_cluster(1)
        request = cluster.request("p", *claims)
        took.append(_time(partial(cluster.decisions.prefilter, request, 0.0)))
    _print(f"a call with {CALLED:,} claims", took)


# --- gangs ---


def _chained(cluster: Cluster) -> PreFilterGroupRequest:
    """Return a gang of which each member shares a claim with the next one."""
    raw = [_raw(claim(f"c{number}")) for number in range(CHAINED + 1)]
    members = tuple(
        GroupMember(pod=cluster.pod(f"m{number}"), claims=(raw[number], raw[number + 1]))
        for number in range(CHAINED)
    )
    group = GroupReference(key="default/chain", min_count=CHAINED)
    return PreFilterGroupRequest(pod_uid="m0", group=group, members=members)


def _raw(plain: Plain) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(plain))


def _has_passed(end: float) -> bool:
    return time.process_time() >= end


def _time_turns(cluster: Cluster, request: PreFilterGroupRequest) -> Iterator[float]:
    """Ask until the decision is made, as the scheduler does; yield the time of each turn."""
    is_decided = False
    while not is_decided:
        steps = cluster.decisions.receive_group(request, time.monotonic())
        received = None
        while received is None:
            began = time.process_time()
            try:
                while time.process_time() < began + TURN_SECONDS:
                    next(steps)
            except StopIteration as end:
                received = end.value
            yield time.process_time() - began
        began = time.process_time()
        out_of_time = partial(_has_passed, began + SEARCH_SECONDS)
        reply = cluster.decisions.prefilter_group(received, time.monotonic(), out_of_time)
        is_decided = reply.complete
        yield time.process_time() - began


def _measure_gang(title: str, ask: Callable[[Cluster], PreFilterGroupRequest], nodes: int) -> None:
    cluster = _make_cluster(nodes)
    request, turns = ask(cluster), list[float]()
    gc.collect()
    gc.disable()  # as the process does while it decides
    for seconds in _time_turns(cluster, request):
        turns.append(seconds)
        if sum(turns) > ASKING_SECONDS:
            title = f"{title}, in {ASKING_SECONDS} s of them"
            break
    gc.enable()
    longest = max(turns) * 1000
    print(f"the longest of {len(turns)} turns for {title}: {longest:.1f} ms", flush=True)


def measure_gangs() -> None:
    """Print how long a gang holds the loop at once."""
    uids = [f"m{number}" for number in range(MEMBERS)]
    nodes = MEMBERS // GPUS + 1
    _measure_gang(f"a gang of {MEMBERS:,}", lambda cluster: members_of(cluster, uids), nodes)
    _measure_gang(f"a gang of {CHAINED:,} in a chain", _chained, nodes)


# --- slices ---


def _publish(generation: int) -> list[bytes]:
    """Return the JSON of the slices of node n0, each with a pool of its own."""
    devices = [device(0, number) for number in range(DEVICES)]
    return [
        json.dumps(
            {
                "metadata": {"name": f"s{number}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": "n0",
                    "pool": {
                        "name": f"n0-{number}",
                        "generation": generation,
                        "resourceSliceCount": 1,
                    },
                    "devices": devices,
                },
            }
        ).encode()
        for number in range(MAX_OF_DRIVER)
    ]


def measure_slices() -> None:
    """Print what it takes to follow a node that changes all of its slices, and to decide next."""
    cluster, reader = _make_cluster(2), slice_reader()
    followed = dict[str, Slice]()

    def follow(published: list[bytes]) -> None:
        for text in published:
            after = reader.read(json.loads(text))
            if not isinstance(after, Slice):
                raise SystemExit(f"the slice is not read: {after}")
            cluster.state.apply(followed.get(after.name), after)
            followed[after.name] = after

    follow(_publish(1))
    cluster.schedule("warm", claim("warm"))
    took, decided = list[float](), list[float]()
    for generation in range(2, ROUNDS + 2):
        took.append(_time(partial(follow, _publish(generation))))
        decide = partial(cluster.prefilter, f"p{generation}", claim(f"c{generation}"))
        decided.append(_time(decide))
        if not decide().fit:
            raise SystemExit(f"the next decision has no node: {decide().message}")
    _print(f"to follow {MAX_OF_DRIVER} slices of {DEVICES} devices", took)
    _print("the next decision", decided)


PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "pods": measure_pods,
    "calls": measure_calls,
    "gangs": measure_gangs,
    "slices": measure_slices,
}
