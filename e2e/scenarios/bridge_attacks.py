"""Scenarios: a tenant or a node attacks bridge placement, and pods of ten other namespaces start.

The time from the creation of such a pod to its binding is compared with that in the same run
without the attack. Beside expensive pods, it is compared with that beside as many pods that are as
large and not expensive, because the API server and the scheduler need time for them, too.
"""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.threaded import repeating
from e2e.controlplane.watch import ListWatch
from e2e.nodes import slices
from e2e.runner import print_line
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, request
from e2e.scenarios.tenant import another_namespace

GPU = "gpu.nvidia.com"
MARK = "drawbridge.dev/allocation"
UUID = f'device.attributes["{GPU}"].uuid'
NAMESPACES, NODES = 10, 4
# Of each namespace, in each phase.
PODS = 5
WAITING_ATTACKERS, CREATORS = 40, 8
BOUND_SECONDS = 60.0
PAUSE_SECONDS = 0.1
# What an attack may add to the usual time: other processes of a busy machine delay single pods as
# well. A pod that waits for expensive selectors of others waits for many seconds.
MOST_TIMES, ALLOWED_SECONDS = 1.5, 0.3
ROUNDS = 2
HIGH_GENERATION = 1_000_000


# --- what is expensive ---


def nested_loops(number: int) -> str:
    """Return loops that Kubernetes evaluates within its limit."""
    loop = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"
    nested = f"{loop}.all(a,{loop}.all(b,{loop}.all(c,{loop}.all(d,a+b+c+d<{number + 100}))))"
    return f'{nested} && {UUID} == "{number}"'


def many_matches(number: int) -> str:
    """Return searches for all matches in a long text, in a loop."""
    search = f'"{"ab" * 60}{number}".findAll("a.").size() > i'
    return f'[1,2,3,4].all(i, {search}) && {UUID} == "{number}"'


def concatenated_lists(number: int) -> str:
    """Return lists that are copied in each round of two loops."""
    numbers = ",".join(map(str, range(100)))
    loops = f"l.all(a,l.all(b,(l+l).size()>{number % 150}))"
    return f'cel.bind(l,[{numbers}],{loops}) && {UUID} == "{number}"'


def large_pattern(number: int) -> str:
    """Return a pattern whose program is as large as it may be."""
    return f'{UUID}.matches("^\\\\pL{{3}}{number}$")'


def long_expression(number: int) -> str:
    """Return almost 10 KiB, which take long to compile."""
    parts = " || ".join(f'device.driver == "{number}-{each}"' for each in range(260))
    return f'{parts[:9_000].rpartition(" || ")[0]} || {UUID} == "{number}"'


KINDS: tuple[Callable[[int], str], ...] = (
    nested_loops,
    many_matches,
    concatenated_lists,
    large_pattern,
    long_expression,
)


def expensive_selector(number: int) -> str:
    """Return a selector that no other pod has and that no device satisfies."""
    return KINDS[number % len(KINDS)](number)


def cheap_selector(number: int) -> str:
    """Return as long a selector with one comparison."""
    filler = "x" * (len(expensive_selector(number)) - 60)
    return f'{UUID} == "{number}{filler}"'


# --- pods ---


def create_pod(
    stage: BridgeStage, namespace: str, name: str, *selectors: str, kind: str = GPU
) -> None:
    """Create a pod with a claim of its own."""
    claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
    spec = claim_spec(request("gpu", kind, *selectors))
    stage.client.create(claims, {"metadata": {"name": name}, "spec": spec})
    pod = stage.pod_object(name, claims={"gpu": name})
    stage.client.create(f"/api/v1/namespaces/{namespace}/pods", pod)


@contextlib.contextmanager
def watching(watch: ListWatch) -> Iterator[None]:
    """Watch until the context exits."""
    watch.start()
    try:
        yield
    finally:
        watch.stop()


class Teams:
    """Ten namespaces whose pods get devices of a class, one after the other in each of them."""

    def __init__(self, stage: BridgeStage, kind: str = GPU) -> None:
        self._stage = stage
        self._kind = kind
        self._namespaces = [another_namespace(stage, f"t{each}", {}) for each in range(NAMESPACES)]
        self._bound: dict[str, tuple[float, str]] = {}
        watch = ListWatch(stage.client, "/api/v1/pods", self._note)
        stage.enter(watching(watch))
        self.nodes: set[str] = set()
        self.measure("first")

    def _note(self, _kind: str, pod: JSON) -> None:
        if node := pod["spec"].get("nodeName"):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            self._bound.setdefault(key, (time.monotonic(), node))

    def measure(self, phase: str) -> list[float]:
        """Return how long each pod took to be bound, in order, and print it."""
        with ThreadPoolExecutor(NAMESPACES) as pool:
            times = pool.map(lambda each: self._bind_pods(each, phase), self._namespaces)
            seconds = sorted(itertools.chain.from_iterable(times))
        median, late = percentile(seconds, 50), percentile(seconds, 95)
        print_line(f"      {phase}: median {median:.2f} s, p95 {late:.2f} s")
        return seconds

    def _bind_pods(self, namespace: str, phase: str) -> list[float]:
        return [self._bind_pod(namespace, f"{phase}-{number}") for number in range(PODS)]

    def _bind_pod(self, namespace: str, name: str) -> float:
        stage, began = self._stage, time.monotonic()
        create_pod(stage, namespace, name, kind=self._kind)
        key = f"{namespace}/{name}"
        ended, node = stage.wait(
            f"pod {key} is bound", lambda: self._bound.get(key), BOUND_SECONDS
        ) or (0.0, "")
        self.nodes.add(node)
        stage.client.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", grace=None)
        stage.client.delete(f"{RESOURCE}/namespaces/{namespace}/resourceclaims/{name}")
        return ended - began


def percentile(seconds: list[float], percent: int) -> float:
    """Return what so many of a hundred are at most; `seconds` are in order."""
    return seconds[(len(seconds) - 1) * percent // 100]


def check_not_slower(before: list[float], during: Callable[[int], list[float]]) -> None:
    """Check that pods are bound in about the same time; one of two rounds counts."""
    if not any(is_as_fast(during(number), before) for number in range(ROUNDS)):
        raise AssertionError("pods are bound later than without the attack, see above")


def is_as_fast(seconds: list[float], before: list[float]) -> bool:
    """Whether pods are bound in about the same time as before."""
    return all(
        percentile(seconds, each) <= MOST_TIMES * percentile(before, each) + ALLOWED_SECONDS
        for each in (50, 95)
    )


@contextlib.contextmanager
def created_steadily(
    stage: BridgeStage, suffix: str, choose: Callable[[int], str]
) -> Iterator[None]:
    """Let a tenant create pods that never get a device, until the context exits."""
    namespace, more = another_namespace(stage, suffix, {}), itertools.count(WAITING_ATTACKERS)

    def create(number: int) -> None:
        create_pod(stage, namespace, f"waits-{number}", choose(number))

    def create_more() -> None:
        create(next(more))

    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(create, range(WAITING_ATTACKERS)))
    with repeating(create_more, PAUSE_SECONDS):
        yield


@bridge_scenario("full")
def expensive_selectors_of_a_tenant_delay_nobody(stage: BridgeStage) -> None:
    """Pods of ten namespaces are bound as fast as beside cheap ones, and the leader stays."""
    for number in range(NODES):
        stage.node(f"{number}", "dgx-a100", {GPU: "full"})
    leader, teams = stage.leader(), Teams(stage)
    teams.measure("alone")
    with created_steadily(stage, "cheap", cheap_selector):
        before = teams.measure("beside-cheap")

    def during(number: int) -> list[float]:
        offset = number * 10_000
        with created_steadily(stage, f"slow{number}", lambda n: expensive_selector(offset + n)):
            return teams.measure(f"beside-expensive-{number}")

    check_not_slower(before, during)
    assert stage.leader() is leader
    assert '"ready":true' in leader.allocator_status()


@bridge_scenario("full")
def a_forged_mark_takes_no_devices_of_others(stage: BridgeStage) -> None:
    """The mark of a partition says that it consumes all counters of the node."""
    node = stage.node("a", "dgx-a100", {GPU: "dynamic-mig"}).name
    teams = Teams(stage, "mig.nvidia.com")
    create_pod(stage, stage.namespace, "forger", kind="mig.nvidia.com")
    stage.wait_running("forger")
    before = teams.measure("before")
    (allocated,) = stage.allocated("forger")
    counters = stage.fleet.layout(GPU, node).counters
    uses = [{"counterSet": name, "counters": each} for name, each in counters.items()]
    device = {key: allocated[key] for key in ("driver", "pool", "device")}
    mark = {"allocator": "drawbridge", "devices": [{**device, "consumesCounters": uses}]}
    note = {"metadata": {"annotations": {MARK: json.dumps(mark)}}}
    stage.client.patch(stage.claim_path("forger"), note)
    stage.wait("it is reported", lambda: "MarkExceedsDevice" in " ".join(stage.events("forger")))
    check_not_slower(before, lambda number: teams.measure(f"beside-the-mark-{number}"))


@bridge_scenario("full")
def a_slice_with_the_pool_of_another_node_takes_no_devices(stage: BridgeStage) -> None:
    """The driver of one node publishes a higher generation of the pool of another one."""
    victim = stage.node("victim", "dgx-a100", {GPU: "full"}).name
    hostile = stage.node("hostile", "lab-2g2n", {}).name
    teams = Teams(stage)
    before = teams.measure("before")
    (forged, *_) = slices.objects(stage.fleet.layout(GPU, victim), HIGH_GENERATION)
    forged["metadata"] = {"name": f"{hostile}-forged"}
    forged["spec"] |= {"nodeName": hostile, "devices": forged["spec"]["devices"][:1]}
    stage.cluster_object(slices.PATH, forged)
    leader = stage.placement.cluster.leader
    stage.wait("it is reported", lambda: "PoolOfAnotherNode" in json.dumps(leader.lines()))
    check_not_slower(before, lambda number: teams.measure(f"beside-the-slice-{number}"))
    assert teams.nodes == {victim}
