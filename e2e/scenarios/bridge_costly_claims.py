"""Scenarios: claims and slices whose devices take long to choose, or much memory to keep.

Pods of ten other namespaces are bound alone, beside pods with as many claims that are not
expensive, and beside the expensive ones. The devices are 128 on each node, beside the GPUs of the
others.
"""

import contextlib
import itertools
import json
import re
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.memory_groups import MemoryGroup, limited
from e2e.controlplane.threaded import repeating
from e2e.nodes import slices
from e2e.runner import print_line
from e2e.scenarios.bridge_attacks import (
    GPU,
    MOST_TIMES,
    NODES,
    ROUNDS,
    Teams,
    cheap_selector,
    check_not_slower,
    created_steadily,
    expensive_selector,
    is_as_fast,
    percentile,
)
from e2e.scenarios.bridge_gangs import RIG, all_bound, create_group, create_member
from e2e.scenarios.bridge_preemption import create_priority
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, request
from e2e.scenarios.tenant import another_namespace

# A driver with pools that Drawbridge owns, and without a process on these nodes.
WIDE = "dra.net"
DEVICES, REQUESTS, CLAIMS, RULES = 128, 32, 64, 32
MEMBERS, MEMBER_CLAIMS = 32, 1
# The cycles of a gang whose claims are being created pause longer and longer.
GANG_SECONDS = 120.0
ATTRIBUTES: Final = [f"{WIDE}/a{each}" for each in range(8)]
RULES_ANNOTATION = "drawbridge.dev/rules"
COMPATIBILITY = "drawbridge.dev/compatibility"
# A driver that publishes again, and how many selectors it declares.
PUBLISHED_SECONDS, SELECTORS = 10.0, 60
STATUS_SECONDS, STATUS_PAUSE = 0.3, 0.02
LARGE_CLAIMS, CONFIGS, PARAMETERS = 200, 32, 10 * 1024
# The limits of the containers in manifests.
MEMORY, SMALL_MEMORY = 2 << 30, 1 << 30
# Each label takes the allocator ten times its text.
LABELLED_CLAIMS, LABELS = 60, 30_000


def prepare(stage: BridgeStage) -> Teams:
    """Add nodes with GPUs for the teams and with 128 other devices."""
    for number in range(NODES):
        node = stage.node(f"{number}", "dgx-a100", {GPU: "full"}).name
        stage.cluster_object(slices.PATH, wide_slice(node))
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{WIDE}"'}}]}
    stage.cluster_object(
        f"{RESOURCE}/deviceclasses", {"metadata": {"name": f"{stage.name}-wide"}, "spec": spec}
    )
    return Teams(stage)


def wide_slice(node: str, version: int = 0) -> JSON:
    """Return a slice with 128 devices; each version has other UUIDs."""
    devices = []
    for number in range(DEVICES):
        attributes: JSON = {f"a{k}": {"string": f"{number >> k}"} for k in range(len(ATTRIBUTES))}
        attributes["uuid"] = {"string": f"{version}-{number}"}
        devices.append({"name": f"wide-{number}", "attributes": attributes})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": WIDE, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-wide"}, "spec": spec}


def names() -> list[str]:
    """Return the names of the requests of a claim."""
    return [f"r{number}" for number in range(REQUESTS)]


def wide_spec(stage: BridgeStage, constraints: Sequence[JSON] = ()) -> JSON:
    """Return a claim of 32 devices."""
    kind = f"{stage.name}-wide"
    return claim_spec(*[request(each, kind) for each in names()], constraints=constraints)


def near_rules(number: int) -> str:
    """Return rules that differ in nothing but the order of their attributes."""
    turned = [ATTRIBUTES[each % 8 :] + ATTRIBUTES[: each % 8] for each in range(number)]
    near = [{"requests": names(), "attributes": each, "required": False} for each in turned]
    rules = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules", "near": near}
    return json.dumps({**rules, "strategy": {"devices": "packed"}})


def constraints() -> list[JSON]:
    """Return as many constraints as a claim can have."""
    kinds = ("matchAttribute", "distinctAttribute")
    return [
        {"requests": names(), kinds[each % 2]: ATTRIBUTES[each % len(ATTRIBUTES)]}
        for each in range(32)
    ]


@contextlib.contextmanager
def waiting_pods(
    stage: BridgeStage, suffix: str, spec: JSON, pods: Sequence[int], rules: str | None = None
) -> Iterator[None]:
    """Let a tenant have pods with so many claims of a template, until the context exits."""
    namespace = another_namespace(stage, suffix, {})
    body: JSON = {"metadata": {"name": "wide"}, "spec": {"spec": spec}}
    if rules is not None:
        body["spec"]["metadata"] = {"annotations": {RULES_ANNOTATION: rules}}
    stage.client.create(f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", body)
    for number, claims in enumerate(pods):
        templates = {f"c{each}": "wide" for each in range(claims)}
        pod = stage.pod_object(f"waits-{number}", templates=templates)
        stage.client.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    def conditions() -> bool:
        listed = stage.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return all(each.get("status", {}).get("conditions") for each in listed)

    stage.wait("the pods were tried", conditions)
    try:
        yield
    finally:
        for number in range(len(pods)):
            path = f"/api/v1/namespaces/{namespace}/pods/waits-{number}"
            stage.client.delete(path, grace=None)


def check_waits(
    stage: BridgeStage,
    teams: Teams,
    cheap: Callable[[int], contextlib.AbstractContextManager[None]],
    costly: Callable[[int], contextlib.AbstractContextManager[None]],
) -> None:
    """Check that the teams wait no longer than beside what is cheap, and that nobody leads anew.

    Both are measured in turns, and one of them counts.
    """
    leader = stage.leader()
    with asked(stage, "alone"):
        teams.measure("alone")
    for number in range(ROUNDS):
        with cheap(number), asked(stage, f"beside-cheap-{number}") as before_calls:
            before = teams.measure(f"beside-cheap-{number}")
        with costly(number), asked(stage, f"beside-costly-{number}") as calls:
            during = teams.measure(f"beside-costly-{number}")
        usual = max(STATUS_SECONDS, MOST_TIMES * percentile(sorted(before_calls), 99))
        if is_as_fast(during, before) and percentile(sorted(calls), 99) <= usual:
            break
    else:
        raise AssertionError("pods or calls wait longer than beside what is cheap, see above")
    assert stage.leader() is leader
    assert '"ready":true' in leader.allocator_status()


@contextlib.contextmanager
def asked(stage: BridgeStage, phase: str) -> Iterator[list[float]]:
    """Ask the leading allocator for its status until the context exits; yields the times."""
    seconds: list[float] = []
    leader = stage.leader()

    def ask() -> None:
        began = time.monotonic()
        leader.allocator_status()
        seconds.append(time.monotonic() - began)

    with repeating(ask, STATUS_PAUSE):
        yield seconds
    calls = sorted(seconds)
    times = ", ".join(f"p{each} {percentile(calls, each):.3f} s" for each in (50, 99))
    print_line(f"      {phase}: {len(calls)} calls for the status, {times}")


@bridge_scenario("full")
def many_rules_about_the_order_of_devices_delay_nobody(stage: BridgeStage) -> None:
    """One pod has 64 claims with 32 rules each; others have what is examined at all."""
    teams, spec = prepare(stage), wide_spec(stage)
    pods = (CLAIMS, 4, 8)
    check_waits(
        stage,
        teams,
        lambda number: waiting_pods(stage, f"cheap{number}", spec, pods),
        lambda number: waiting_pods(stage, f"costly{number}", spec, pods, near_rules(RULES)),
    )


@bridge_scenario("full")
def many_constraints_delay_nobody(stage: BridgeStage) -> None:
    """Three pods have 64 claims with 32 requests and 32 constraints each."""
    teams, pods = prepare(stage), (CLAIMS, CLAIMS, CLAIMS)
    costly = wide_spec(stage, constraints())
    check_waits(
        stage,
        teams,
        lambda number: waiting_pods(stage, f"cheap{number}", wide_spec(stage), pods),
        lambda number: waiting_pods(stage, f"costly{number}", costly, pods),
    )


@contextlib.contextmanager
def waiting_gang(
    stage: BridgeStage, name: str, spec: JSON, priority: str, rules: str | None
) -> Iterator[None]:
    """Let a gang and two pods wait that are more important than what runs, and need too much."""
    body: JSON = {"metadata": {"name": name}, "spec": {"spec": spec}}
    if rules is not None:
        body["spec"]["metadata"] = {"annotations": {RULES_ANNOTATION: rules}}
    stage.client.create(stage.path("resourceclaimtemplates", "", RESOURCE), body)
    member = create_group(stage, name, MEMBERS, priority)
    templates = {f"c{each}": name for each in range(MEMBER_CLAIMS)}
    pods = [f"{name}-{number}" for number in range(MEMBERS + 2)]
    for pod in pods:
        body = stage.pod_object(pod, templates=templates, priorityClassName=priority)
        create_member(stage, body, member if pod in pods[:MEMBERS] else {})

    def is_tried() -> bool:
        texts = (_told(stage, stage.namespace, each) for each in pods[:MEMBERS])
        return any(re.search("the search for 32 members|32 members .* fit", each) for each in texts)

    stage.wait("the gang was tried", is_tried, GANG_SECONDS)
    try:
        yield
    finally:
        for pod in pods:
            stage.client.delete(f"{stage.pod_path()}/{pod}", grace=None)


@bridge_scenario("full", rig=RIG)
def gangs_and_victims_of_costly_claims_delay_nobody(stage: BridgeStage) -> None:
    """A gang of 32 members, and two pods, search for victims, each with 128 devices by 32 rules."""
    teams, spec = prepare(stage), wide_spec(stage)
    high = create_priority(stage, "high", 1000)
    stage.template("runs", spec)
    names = [f"runs-{number}" for number in range(2 * NODES)]
    for each in names:
        stage.pod(each, templates={"c": "runs"})
    stage.wait("pods to evict have devices", all_bound(stage, names))
    check_waits(
        stage,
        teams,
        lambda number: waiting_gang(stage, f"cheap{number}", spec, high, None),
        lambda number: waiting_gang(stage, f"costly{number}", spec, high, near_rules(RULES)),
    )


def selectors(number: int, *, costly: bool) -> str:
    """Return declarations for the annotation of a slice, which select no device."""
    loop = f"[{','.join(map(str, range(17)))}]"
    loops = f"{loop}.all(a,{loop}.all(b,{loop}.all(c,a+b+c<{{}}))) && "
    declared = [
        f"{loops.format(100 + each) if costly else ''}"
        f'device.attributes["{WIDE}"].uuid == "{number}-x{each}"'
        for each in range(SELECTORS)
    ]
    return json.dumps([{"selector": each, "compatibleOnlyWith": "true"} for each in declared])


@contextlib.contextmanager
def published_again(stage: BridgeStage, node: str, *, costly: bool) -> Iterator[None]:
    """Let the driver of a node publish other devices again and again, with declarations."""
    versions = itertools.count(1)

    def publish() -> None:
        version = next(versions)
        body = wide_slice(node, version)
        body["metadata"]["annotations"] = {COMPATIBILITY: selectors(version, costly=costly)}
        stage.client.patch(f"{slices.PATH}/{node}-wide", body)

    with repeating(publish, PUBLISHED_SECONDS):
        yield


@bridge_scenario("full")
def expensive_selectors_in_the_annotation_of_a_slice_delay_nobody(stage: BridgeStage) -> None:
    """The driver of one node declares 60 selectors for 128 devices, and new ones each 10 s."""
    teams = prepare(stage)
    node = stage.node_name("0")
    check_waits(
        stage,
        teams,
        lambda _: published_again(stage, node, costly=False),
        lambda _: published_again(stage, node, costly=True),
    )


@bridge_scenario("full")
def without_prices_nobody_is_delayed(stage: BridgeStage) -> None:
    """Expressions of a tenant cost nothing, and rules and constraints never did."""
    teams = prepare(stage)
    node, spec, pods = stage.node_name("0"), wide_spec(stage), (CLAIMS, 4, 8)
    ruled = wide_spec(stage, constraints())

    @contextlib.contextmanager
    def everything(number: int, *, costly: bool) -> Iterator[None]:
        name = f"{'costly' if costly else 'cheap'}{number}"
        select = expensive_selector if costly else cheap_selector
        offset = number * 10_000
        with (
            published_again(stage, node, costly=costly),
            created_steadily(stage, f"{name}a", lambda each: select(offset + each)),
            waiting_pods(
                stage,
                f"{name}b",
                ruled if costly else spec,
                pods,
                near_rules(RULES) if costly else None,
            ),
        ):
            yield

    with contextlib.ExitStack() as stack:
        for pair in stage.placement.pairs:
            stack.enter_context(pair.unpriced())
        stage.wait("an allocator leads", stage.placement.find_leader)
        check_waits(
            stage,
            teams,
            lambda number: everything(number, costly=False),
            lambda number: everything(number, costly=True),
        )


def memory_of(pid: int) -> int:
    """Return the most memory that a process has had, in MiB."""
    (line,) = (
        each
        for each in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
        if each.startswith("VmHWM:")
    )
    return int(line.split()[1]) >> 10


@bridge_scenario("full")
def opaque_parameters_take_as_much_memory_as_their_text(stage: BridgeStage) -> None:
    """The allocators keep 200 claims with 64 MB of parameters, each in the limit of its memory."""
    teams = prepare(stage)
    processes = [pair.allocator.started_process() for pair in stage.placement.pairs]
    for process in processes:
        resource.prlimit(process.child.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
    leader, before = stage.leader(), teams.measure("before")
    usual = max(memory_of(each.child.pid) for each in processes)
    namespace = another_namespace(stage, "large", {})
    part = '{"":{}}'
    parameters = {"a": [json.loads(part)] * ((PARAMETERS - 20) // (len(part) + 1))}
    config = [{"opaque": {"driver": WIDE, "parameters": parameters}}] * CONFIGS
    spec = claim_spec(request("r", f"{stage.name}-wide"), config=config)

    def create(number: int) -> None:
        body = {"metadata": {"name": f"large-{number}"}, "spec": spec}
        stage.client.create(f"{RESOURCE}/namespaces/{namespace}/resourceclaims", body)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(LARGE_CLAIMS)))
    check_not_slower(before, lambda number: teams.measure(f"beside-large-claims-{number}"))
    most = max(memory_of(each.child.pid) for each in processes)
    print_line(f"      memory of an allocator: {usual} MiB, then {most} MiB at most")
    assert most - usual < MEMORY >> 21
    assert stage.leader() is leader


@bridge_scenario("full")
def a_namespace_that_fills_the_memory_is_the_only_one_that_waits(stage: BridgeStage) -> None:
    """Every process has the memory of its container, and nobody is ended."""
    teams = prepare(stage)
    allocators = [pair.allocator.started_process() for pair in stage.placement.pairs]
    others = [each.started_process() for each in stage.placement.cluster.replicas]
    leader = stage.leader()
    with contextlib.ExitStack() as stack:
        groups: dict[str, tuple[MemoryGroup, int]] = {}
        for limit, processes in ((MEMORY, allocators), (SMALL_MEMORY, others)):
            for process in processes:
                name, pid = f"{stage.name}-{process.name}", process.child.pid
                groups[process.name] = stack.enter_context(limited(name, limit, pid)), limit
        namespace = another_namespace(stage, "labels", {})
        labels = {f"l{number}": "a" for number in range(LABELS)}
        spec = claim_spec(request("r", f"{stage.name}-wide"))

        def create(number: int) -> None:
            body = {"metadata": {"name": f"c{number}", "labels": labels}, "spec": spec}
            stage.client.create(f"{RESOURCE}/namespaces/{namespace}/resourceclaims", body)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(create, range(LABELLED_CLAIMS)))
        # How long they wait depends on the API server, which has the claims as well.
        teams.measure("beside-labels")
        pod = stage.pod_object("waits", claims={"c": f"c{LABELLED_CLAIMS - 1}"})
        stage.client.create(f"/api/v1/namespaces/{namespace}/pods", pod)
        stage.wait(
            "the pod is told", lambda: "is too large: namespace" in _told(stage, namespace, "waits")
        )
        for name, (group, limit) in groups.items():
            print_line(f"      {name}: {group.most() >> 20} MiB of {limit >> 20} MiB at most")
            assert group.most() < limit
    for process in (*allocators, *others):
        assert process.child.poll() is None, f"{process.name} ended"
    assert stage.leader() is leader


def _told(stage: BridgeStage, namespace: str, name: str) -> str:
    """Return what the conditions of a pod say."""
    status = stage.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}").get("status", {})
    return " ".join(each.get("message", "") for each in status.get("conditions", []))
