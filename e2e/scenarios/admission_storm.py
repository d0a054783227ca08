"""A storm of legacy manifests while processes die: none lost, none untranslated, none twice.

Bare pods are created by clients that try again by name, as every controller does by its own means;
Deployments by the stock controllers. What is there in the end is counted from the API server's
objects and from the books of the node side.
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
from e2e.installed.installation import Installed, in_step, installed, template_names
from e2e.nodes.fleet import NodePlan
from e2e.nodes.record import Record
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, ORIGINAL, deployment, legacy
from e2e.scenarios.forged import NOBODY
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import LABEL, Stage

SHAPE, EACH = "dgx-a100", 8
WRITERS = 16
THERE = 409
AGAIN_SECONDS = 0.2
MORE = 50
PATIENCE_SECONDS = 240.0
# Two ways to ask for one GPU; they become two templates.
KINDS: tuple[JSON, ...] = ({}, {"nvidia.com/use-gputype": "A100"})


@dataclass(frozen=True)
class Size:
    """How many pods by whom, and nodes for how many of them."""

    bare: int
    deployments: int
    replicas: int
    nodes: int

    @property
    def pods(self) -> int:
        """How many there have to be."""
        return self.bare + self.deployments * self.replicas

    @property
    def run(self) -> int:
        """How many have room to run; the others wait."""
        return min(self.pods, self.nodes * EACH)


FULL = Size(bare=30, deployments=3, replicas=10, nodes=7)
CHAOS = Size(bare=250, deployments=10, replicas=25, nodes=56)


@dataclass
class Writing:
    """Clients that create bare pods, and what they met."""

    stage: Stage
    numbers: range
    made: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    giving_up: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, number: int) -> None:
        """Create one pod, again and again until it is there."""
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
        """Create one pod that nobody schedules, as a client that never tries again."""
        if self.giving_up.is_set():
            return
        body = pod(self.stage, f"bare-{number}", number)
        body["spec"]["schedulerName"] = NOBODY
        why = _attempt(self.stage, body)
        with self.lock:
            self.made += 1
            self.refused.update([why] if why else [])

    def start(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        """Let all of them be created."""
        return [pool.submit(self.create, number) for number in self.numbers]


def pod(stage: Stage, name: str, number: int) -> JSON:
    """Give a legacy pod that asks in one of the ways."""
    body = legacy(stage, name)
    return {
        **body,
        "metadata": {**body["metadata"], "annotations": dict(KINDS[number % len(KINDS)])},
    }


def _attempt(stage: Stage, body: JSON) -> str:
    """Create it; what went wrong, empty when it is there."""
    try:
        stage.client.create(stage.pod_path(), body)
    except ApiError as problem:
        return "" if problem.code == THERE else f"{problem.code}"
    except OSError as problem:
        return type(problem).__name__
    return ""


def prepare(stage: Stage, town: Installed, size: Size) -> None:
    """Add the nodes, and wait until admission knows of them."""
    plans = [
        NodePlan(f"{stage.name}-{number}", SHAPE, {GPU: "full"}, {LABEL: stage.name})
        for number in range(size.nodes)
    ]
    stage.fleet.add_all(plans)
    in_step(stage, town, legacy(stage, "probe"))


def deploy(stage: Stage, size: Size) -> None:
    """Create the Deployments; as whoever applies them does, until each is there."""
    path = stage.path("deployments", "", "/apis/apps/v1")
    for number in range(size.deployments):
        body = deployment(pod(stage, f"serve-{number}", number), size.replicas)
        body["spec"]["template"]["metadata"]["annotations"] = dict(KINDS[number % len(KINDS)])
        stage.client.create(path, body)


def undeploy(stage: Stage) -> None:
    """Or they would make new pods while the stage is cleared."""
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
    """Count the pods by phase; nothing while the API server does not answer."""
    with contextlib.suppress(OSError, ApiError):
        pods = stage.client.get(stage.pod_path())["items"]
        return Counter(each["status"].get("phase") for each in pods)
    return Counter()


def settled(stage: Stage, size: Size) -> bool:
    """Whether as many pods run as there is room for, and the others wait."""
    found = phases(stage)
    return found == Counter(
        {k: v for k, v in (("Running", size.run), ("Pending", size.pods - size.run)) if v}
    )


def misled(stage: Stage) -> list[JSON]:
    """Find the pods that wait for ever for the wrong claim, whoever made it.

    When the API server dies, the stock controller may not see the claim that it has made, makes a
    second one and writes that into the pod's status, while the scheduler has given the device to
    the first. Then nothing but deleting the pod helps.
    """
    with contextlib.suppress(OSError, ApiError):
        pods = stage.client.get(stage.pod_path())["items"]
        claims = stage.client.get(stage.claim_path())["items"]
        reserved = {
            user["uid"]: each["metadata"]["name"]
            for each in claims
            for user in each.get("status", {}).get("reservedFor", ())
        }
        return [each for each in pods if _misled(each, reserved)]
    return []


def _misled(each: JSON, reserved: dict[str, str]) -> bool:
    named = each.get("status", {}).get("resourceClaimStatuses", ())
    own = reserved.get(each["metadata"]["uid"])
    going = "deletionTimestamp" in each["metadata"]
    return bool(named and own and not going and named[0]["resourceClaimName"] != own)


def settle(stage: Stage, size: Size) -> int:
    """Wait until all have what they can have; how many pods had to be made anew."""
    again = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not settled(stage, size):
        assert time.monotonic() < deadline, phases(stage)
        for each in misled(stage):
            name = each["metadata"]["name"]
            again += 1
            stage.delete_pod(name)
            if name.startswith("bare-"):
                Writing(stage, range(0)).create(int(name.removeprefix("bare-")))
        time.sleep(0.5)
    return again


def accounted(stage: Stage, size: Size) -> None:
    """See that no pod is missing or untranslated, and that no claim or GPU is there twice."""
    pods = stage.client.get(stage.pod_path())["items"]
    by_app = Counter(each["metadata"]["labels"]["app"] for each in pods)
    wanted = {f"bare-{number}": 1 for number in range(size.bare)}
    wanted |= {f"serve-{number}": size.replicas for number in range(size.deployments)}
    assert by_app == wanted, by_app - Counter(wanted)
    templates: set[str] = set()
    own: dict[str, str] = {}
    for each in pods:
        name = each["metadata"]["name"]
        limits = each["spec"]["containers"][0]["resources"].get("limits", {})
        assert ORIGINAL in each["metadata"]["annotations"], f"{name} is untranslated"
        assert LEGACY not in limits, f"{name} is untranslated"
        (entry,) = each["spec"]["resourceClaims"]
        templates.add(entry["resourceClaimTemplateName"])
        (status,) = each["status"]["resourceClaimStatuses"]
        assert status["name"] == entry["name"], each["status"]
        own[status["resourceClaimName"]] = each["metadata"]["uid"]
    assert len(own) == size.pods, "two pods have one claim"
    assert template_names(stage) == sorted(templates), templates
    assert len(templates) == len(KINDS), templates
    _claims(stage, size, own)


def _claims(stage: Stage, size: Size, own: dict[str, str]) -> None:
    """See that each pod's claim is its own, and that nothing else holds a GPU."""
    claims = {
        each["metadata"]["name"]: each for each in stage.client.get(stage.claim_path())["items"]
    }
    held: Counter[tuple[str, str]] = Counter()
    for name, claim in claims.items():
        results = (
            claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        )
        held.update((each["pool"], each["device"]) for each in results)
        owner = claim["metadata"]["ownerReferences"][0]["uid"]
        # The stock controller sometimes makes a claim twice for one pod, and gives it only one.
        assert own.get(name, owner) == owner, f"{name} belongs to another pod"
        assert owner in own.values(), f"{name} is nobody's"
        assert name in own or not results, f"{name} is no pod's, and holds a device"
    assert own.keys() <= claims.keys(), own.keys() - claims.keys()
    assert len(held) == size.run, len(held)
    assert set(held.values()) == {1}, held
    if extra := len(claims) - len(own):
        sys.stdout.write(f"      the stock controller made {extra} claims twice\n")


def more(bare: Writing) -> Callable[[], bool]:
    """Ask whether some more were created than now."""
    before = bare.made
    return lambda: bare.made >= before + MORE


def wait_for(question: Callable[[], bool], writing: list[Future[None]]) -> None:
    """Wait for a moment of the storm; it is over when everything was created."""
    while not question() and not all(each.done() for each in writing):
        time.sleep(0.005)


def storm(stage: Stage, size: Size) -> None:
    """Let a webhook, the leader and the API server die, one after the other."""
    town = installed(stage)
    prepare(stage, town, size)
    plane, bare = stage.processes, Writing(stage, range(size.bare))
    leader, victim = town.leader, town.webhooks[0]
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
        for each in writing:
            each.result()
    wrote = time.monotonic() - began
    assert at < size.bare, "the storm was over before the API server died"
    again = settle(stage, size)
    told = f"{dict(bare.refused)} tried again, {again} misled; written {wrote:.1f} s"
    sys.stdout.write(f"      {told}, settled {time.monotonic() - began:.1f} s\n")
    town.heal()
    _forgive(stage, town, back)
    accounted(stage, size)
    undeploy(stage)


def _forgive(stage: Stage, town: Installed, back: datetime) -> None:
    """Leave out what an API server that dies does to everybody.

    It denies all before it has read the roles. And the scheduler takes a reservation back where it
    did not hear that its binding was written; the stock controller makes it again, and the kubelet,
    which has noticed, tries again.
    """
    left = stage.violations()
    assert {(each.code, each.by) for each in left} <= {("NotReserved", "kubelet")}, left
    seen = Record()
    with town.watched(seen):
        pass
    for each in seen.violations():
        line = json.loads(each.message)
        assert "is forbidden" in line["msg"], line
        assert datetime.fromisoformat(line["ts"]) <= back, line


class _Ending:
    """Lets clients give up when a scenario fails in between."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def close(self) -> None:
        """End them."""
        self._writing.giving_up.set()


@scenario("full", rig="installed", needs=NEEDS)
def sixty_pods_survive_the_death_of_a_webhook_the_leader_and_the_api_server(stage: Stage) -> None:
    """Every pod is translated, has one claim, and runs, or waits where there is no room."""
    storm(stage, FULL)


@scenario("chaos", rig="installed", needs=NEEDS)
def five_hundred_pods_survive_the_same(stage: Stage) -> None:
    """A webhook, the leading controller and the API server die while they are created."""
    storm(stage, CHAOS)


@scenario("full", rig="installed", needs=NEEDS)
def a_webhook_that_stops_gracefully_fails_no_create(stage: Stage) -> None:
    """While clients that never try again create pods, one replica goes, comes back, and goes."""
    town = installed(stage)
    prepare(stage, town, Size(bare=0, deployments=0, replicas=0, nodes=1))
    bare = Writing(stage, range(10000))
    stage.enter(contextlib.closing(_Ending(bare)))
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(bare.once, number) for number in bare.numbers]
        try:
            for replica in town.webhooks:
                wait_for(more(bare), writing)
                assert replica.stop() == 0
                wait_for(more(bare), writing)
                town.heal()
        finally:
            bare.giving_up.set()
    assert not bare.refused, bare.refused
    pods = stage.client.get(stage.pod_path())["items"]
    assert all(ORIGINAL in each["metadata"]["annotations"] for each in pods)
    sys.stdout.write(f"      {bare.made} pods, {len(town.webhooks)} graceful ends\n")
    stage.client.call("DELETE", stage.pod_path())
