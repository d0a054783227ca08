"""Scenarios: pods are created while processes die; none is lost, untranslated or doubled.

Clients create bare pods and retry by name; the stock controllers create those of Deployments. The
result is counted from the API server's objects and the records of the node side.
"""

import contextlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed, template_names, wait_for_facts
from e2e.nodes.fleet import NodePlan
from e2e.nodes.record import Record
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, ORIGINAL, legacy_pod
from e2e.scenarios.forged import NOBODY
from e2e.scenarios.objects import JSON, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import CONFLICT, LABEL, Stage

SHAPE, EACH = "dgx-a100", 8
WRITERS = 16
AGAIN_SECONDS = 0.2
MORE = 50
PATIENCE_SECONDS = 240.0
# Two requests for one GPU, which become two templates.
KINDS: tuple[JSON, ...] = ({}, {"nvidia.com/use-gputype": "A100"})


@dataclass(frozen=True)
class Size:
    """The number of pods, and of nodes for them."""

    bare: int
    deployments: int
    replicas: int
    nodes: int

    @property
    def pods(self) -> int:
        """Return the number of all pods."""
        return self.bare + self.deployments * self.replicas

    @property
    def run(self) -> int:
        """Return the number of pods that have a free device."""
        return min(self.pods, self.nodes * EACH)


FULL = Size(bare=30, deployments=3, replicas=10, nodes=7)
CHAOS = Size(bare=250, deployments=10, replicas=25, nodes=56)


@dataclass
class PodCreation:
    """Clients that create bare pods, and the errors they got."""

    stage: Stage
    numbers: range
    made: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    giving_up: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, number: int) -> None:
        """Create one pod with retries."""
        body = pod(self.stage, f"bare-{number}", number)
        while not self.giving_up.is_set():
            why = _attempt(self.stage, body)
            with self.lock:
                self.made += not why
                self.refused.update([why] if why else [])
            if not why:
                return
            self.giving_up.wait(AGAIN_SECONDS)

    def once(self, number: int) -> None:
        """Create one pod that is not scheduled, without a retry."""
        if self.giving_up.is_set():
            return
        body = pod(self.stage, f"bare-{number}", number)
        body["spec"]["schedulerName"] = NOBODY
        why = _attempt(self.stage, body)
        with self.lock:
            self.made += 1
            self.refused.update([why] if why else [])

    def start(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        """Create all pods in a pool of threads."""
        return [pool.submit(self.create, number) for number in self.numbers]


def pod(stage: Stage, name: str, number: int) -> JSON:
    """Return a legacy pod with one of the two requests."""
    body = legacy_pod(stage, name)
    return {
        **body,
        "metadata": {**body["metadata"], "annotations": dict(KINDS[number % len(KINDS)])},
    }


def _attempt(stage: Stage, body: JSON) -> str:
    """Create a pod and return the error; empty if it exists."""
    try:
        stage.client.create(stage.pod_path(), body)
    except ApiError as problem:
        return "" if problem.code == CONFLICT else f"{problem.code}"
    except OSError as problem:
        return type(problem).__name__
    return ""


def prepare(stage: Stage, cluster: Installation, size: Size) -> None:
    """Add the nodes, and wait until admission knows them."""
    plans = [
        NodePlan(f"{stage.name}-{number}", SHAPE, {GPU: "full"}, {LABEL: stage.name})
        for number in range(size.nodes)
    ]
    stage.fleet.add_all(plans)
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))


def deploy(stage: Stage, size: Size) -> None:
    """Create the Deployments."""
    path = stage.path("deployments", "", "/apis/apps/v1")
    for number in range(size.deployments):
        body = deployment(pod(stage, f"serve-{number}", number), size.replicas)
        body["spec"]["template"]["metadata"]["annotations"] = dict(KINDS[number % len(KINDS)])
        stage.client.create(path, body)


def undeploy(stage: Stage) -> None:
    """Delete the Deployments, which would create new pods during clean-up."""
    path = stage.path("deployments", "", "/apis/apps/v1")
    body = {"propagationPolicy": "Foreground", "apiVersion": "v1", "kind": "DeleteOptions"}
    stage.client.call("DELETE", path, body)
    sets = stage.path("replicasets", "", "/apis/apps/v1")
    gone = (path, sets, stage.pod_path())
    stage.client.call("DELETE", stage.pod_path())
    stage.wait(
        "the Deployments are gone",
        lambda: not any(stage.client.get(each)["items"] for each in gone),
        PATIENCE_SECONDS,
    )


def phases(stage: Stage) -> Counter[str]:
    """Count the pods by phase; empty while the API server does not respond."""
    with contextlib.suppress(OSError, ApiError):
        pods = stage.client.get(stage.pod_path())["items"]
        return Counter(each["status"].get("phase") for each in pods)
    return Counter()


def is_settled(stage: Stage, size: Size) -> bool:
    """Return whether all pods with a free device run and the others are pending."""
    counted = phases(stage)
    return counted == Counter(
        {k: v for k, v in (("Running", size.run), ("Pending", size.pods - size.run)) if v}
    )


def pods_that_never_run(stage: Stage) -> list[JSON]:
    """Find pods that only a deletion helps, because two stock programs missed a write.

    When the API server dies, the claim controller may not see the claim that it has made, makes a
    second one and writes that into the pod's status, while the scheduler has given the device to
    the first. And the scheduler may not see that it has allocated a device, allocates it again, and
    the driver refuses the second pod.
    """
    with contextlib.suppress(OSError, ApiError):
        pods = stage.client.get(stage.pod_path())["items"]
        claims = stage.client.get(stage.claim_path())["items"]
        reserved = {
            user["uid"]: claim["metadata"]["name"]
            for claim in claims
            for user in claim.get("status", {}).get("reservedFor", ())
        }
        twice = _users_of_devices_held_twice(claims)
        return [
            each
            for each in pods
            if "deletionTimestamp" not in each["metadata"]
            and (_has_wrong_claim(each, reserved) or _waits_for_device(each, twice))
        ]
    return []


def _users_of_devices_held_twice(claims: list[JSON]) -> set[str]:
    users: dict[tuple[str, str], set[str]] = {}
    for claim in claims:
        status = claim.get("status", {})
        for result in status.get("allocation", {}).get("devices", {}).get("results", ()):
            of_device = users.setdefault((result["pool"], result["device"]), set())
            of_device.update(user["uid"] for user in status.get("reservedFor", ()))
    return {uid for each in users.values() if len(each) > 1 for uid in each}


def _waits_for_device(pod: JSON, twice: set[str]) -> bool:
    return pod["metadata"]["uid"] in twice and pod["status"].get("phase") == "Pending"


def _has_wrong_claim(pod: JSON, reserved: dict[str, str]) -> bool:
    named = pod.get("status", {}).get("resourceClaimStatuses", ())
    own = reserved.get(pod["metadata"]["uid"])
    return bool(named and own and named[0]["resourceClaimName"] != own)


def wait_settled(stage: Stage, size: Size) -> int:
    """Wait until all pods are settled; returns how many had to be created again."""
    again = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (stuck := pods_that_never_run(stage)) or not is_settled(stage, size):
        assert time.monotonic() < deadline, phases(stage)
        for pod in stuck:
            name = pod["metadata"]["name"]
            again += 1
            stage.delete_pod(name)
            if name.startswith("bare-"):
                PodCreation(stage, range(0)).create(int(name.removeprefix("bare-")))
        time.sleep(0.5)
    return again


def check_pods(stage: Stage, size: Size) -> None:
    """Check that no pod is missing or untranslated, and no claim or GPU is used twice."""
    pods = stage.client.get(stage.pod_path())["items"]
    by_app = Counter(each["metadata"]["labels"]["app"] for each in pods)
    wanted = {f"bare-{number}": 1 for number in range(size.bare)}
    wanted |= {f"serve-{number}": size.replicas for number in range(size.deployments)}
    assert by_app == wanted, by_app - Counter(wanted)
    templates: set[str] = set()
    own: dict[str, str] = {}
    for pod in pods:
        name = pod["metadata"]["name"]
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        assert ORIGINAL in pod["metadata"]["annotations"], f"{name} is untranslated"
        assert LEGACY not in limits, f"{name} is untranslated"
        (entry,) = pod["spec"]["resourceClaims"]
        templates.add(entry["resourceClaimTemplateName"])
        (status,) = pod["status"]["resourceClaimStatuses"]
        assert status["name"] == entry["name"], pod["status"]
        own[status["resourceClaimName"]] = pod["metadata"]["uid"]
    assert len(own) == size.pods, "two pods have one claim"
    assert template_names(stage) == sorted(templates), templates
    assert len(templates) == len(KINDS), templates
    _check_claims(stage, size, own)


def _check_claims(stage: Stage, size: Size, own: dict[str, str]) -> None:
    """Check that each pod has its own claim, and that no other claim has a GPU."""
    claims = {
        item["metadata"]["name"]: item for item in stage.client.get(stage.claim_path())["items"]
    }
    held: Counter[tuple[str, str]] = Counter()
    for name, claim in claims.items():
        results = (
            claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        )
        held.update((each["pool"], each["device"]) for each in results)
        owner = claim["metadata"]["ownerReferences"][0]["uid"]
        # The stock controller sometimes creates two claims for a pod and uses one.
        assert own.get(name, owner) == owner, f"{name} belongs to another pod"
        assert owner in own.values(), f"{name} is nobody's"
        assert name in own or not results, f"{name} is no pod's, and holds a device"
    assert own.keys() <= claims.keys(), own.keys() - claims.keys()
    assert len(held) == size.run, len(held)
    assert set(held.values()) == {1}, held
    if extra := len(claims) - len(own):
        sys.stdout.write(f"      the stock controller made {extra} claims twice\n")


def more_pods_exist(bare: PodCreation) -> Callable[[], bool]:
    """Return a function that tells whether 50 more pods exist than now."""
    before = bare.made
    return lambda: bare.made >= before + MORE


def wait_for(question: Callable[[], bool], writing: list[Future[None]]) -> None:
    """Wait for a condition, or until all pods are created."""
    while not question() and not all(each.done() for each in writing):
        time.sleep(0.005)


def create_during_outages(stage: Stage, size: Size) -> None:
    """Create pods, and kill a webhook, the leader and the API server one after the other."""
    cluster = installed(stage)
    prepare(stage, cluster, size)
    plane, bare = stage.processes, PodCreation(stage, range(size.bare))
    leader, victim = cluster.leader, cluster.webhooks[0]
    began = time.monotonic()
    deploy(stage, size)
    stage.enter(contextlib.closing(_Ending(bare)))
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = bare.start(pool)
        wait_for(lambda: bare.made >= size.bare // 5, writing)
        victim.kill()
        wait_for(lambda: bare.made >= 2 * size.bare // 5, writing)
        leader.kill()
        wait_for(lambda: bare.made >= 3 * size.bare // 5, writing)
        at = bare.made
        plane.processes["kube-apiserver"].kill()
        plane.start_apiserver()
        back = datetime.now(UTC)
        for write in writing:
            write.result()
    wrote = time.monotonic() - began
    assert at < size.bare, "the storm was over before the API server died"
    again = wait_settled(stage, size)
    told = f"{dict(bare.refused)} tried again, {again} misled; written {wrote:.1f} s"
    sys.stdout.write(f"      {told}, settled {time.monotonic() - began:.1f} s\n")
    cluster.start_all()
    _ignore_restart_effects(stage, cluster, back)
    check_pods(stage, size)
    undeploy(stage)


def _ignore_restart_effects(stage: Stage, cluster: Installation, back: datetime) -> None:
    """Drop the effects of an API server restart from the violations.

    It denies all before it has read the roles. And the scheduler takes a reservation back where it
    did not hear that its binding was written; the stock controller makes it again, and the kubelet,
    which has noticed, tries again. Of a device that it allocates twice the driver tells.
    """
    left = stage.violations()
    told = {(each.code, each.by) for each in left}
    assert told <= {("NotReserved", "kubelet"), ("DeviceTaken", GPU)}, left
    seen = Record()
    with cluster.errors_recorded(seen):
        pass
    for violation in seen.violations():
        line = json.loads(violation.message)
        assert "is forbidden" in line["msg"], line
        assert datetime.fromisoformat(line["ts"]) <= back, line


class _Ending:
    """Lets clients give up when a scenario fails."""

    def __init__(self, writing: PodCreation) -> None:
        self._writing = writing

    def close(self) -> None:
        """Stop the clients."""
        self._writing.giving_up.set()


@scenario("full", rig="installed", needs=NEEDS)
def sixty_pods_survive_killed_webhook_leader_and_api_server(stage: Stage) -> None:
    """Every pod is translated, has one claim, and runs, or waits for a free device."""
    create_during_outages(stage, FULL)


@scenario("chaos", rig="installed", needs=NEEDS)
def five_hundred_pods_survive_killed_webhook_leader_and_api_server(stage: Stage) -> None:
    """All three processes are killed while the pods are created."""
    create_during_outages(stage, CHAOS)


@scenario("full", rig="installed", needs=NEEDS)
def a_webhook_that_stops_gracefully_fails_no_create(stage: Stage) -> None:
    """Clients that do not retry create pods while replicas stop and start one at a time."""
    cluster = installed(stage)
    prepare(stage, cluster, Size(bare=0, deployments=0, replicas=0, nodes=1))
    bare = PodCreation(stage, range(10000))
    stage.enter(contextlib.closing(_Ending(bare)))
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(bare.once, number) for number in bare.numbers]
        try:
            for replica in cluster.webhooks:
                wait_for(more_pods_exist(bare), writing)
                assert replica.stop() == 0
                wait_for(more_pods_exist(bare), writing)
                cluster.start_all()
        finally:
            bare.giving_up.set()
    assert not bare.refused, bare.refused
    pods = stage.client.get(stage.pod_path())["items"]
    assert all(ORIGINAL in each["metadata"]["annotations"] for each in pods)
    sys.stdout.write(f"      {bare.made} pods, {len(cluster.webhooks)} graceful ends\n")
    stage.client.call("DELETE", stage.pod_path())
