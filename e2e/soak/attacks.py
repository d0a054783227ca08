"""The attackers of a soak: each has a namespace of its own, and repeats one attack by the seed."""

import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from e2e.bridge.placement import OWNED, SCHEDULER, TOLERATION
from e2e.controlplane.client import JSON
from e2e.installed.installation import MODE
from e2e.nodes import slices
from e2e.scenarios import judge
from e2e.scenarios.bridge_api import PODS, ask, tenant
from e2e.scenarios.bridge_api_crowd import SIMULATE, simulation
from e2e.scenarios.objects import RESOURCE, claim_spec, pod_spec, request
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import another_namespace
from e2e.scenarios.tenant_stall import spanning_pod
from e2e.soak.bodies import begin_body, read_refusal, send_whole_body
from e2e.soak.books import MARK
from e2e.soak.cluster import SoakCluster, tolerant
from e2e.soak.journal import Loops
from e2e.soak.object_faults import FINALIZER
from e2e.soak.pods import GPU, PARTITION

OK, CONFLICT = 200, 409
# Also by a webhook that has no room for it, or is away.
REFUSED = (400, 403, 422, 429, 500, 504)
MOST_PODS = 8
# Those of one turn fill the memory for bodies that arrive; a replica keeps each for ten seconds.
BODIES, MOST_BODIES = 12, 48
_LOOP = "[1,2,3,4,5,6,7,8,9,10]"
# Each is accepted by the API server; the number makes each one different from all others.
DEAR_SELECTORS = (
    f"{_LOOP}.all(a,{_LOOP}.all(b,{_LOOP}.all(c,a+b+c<{{n}})))",
    f"{_LOOP}.map(a,{_LOOP}+{_LOOP}+[{{n}}]).size()>0",
    "('x{n}'+device.driver).findAll('[a-z]').size()>{n}",
    "(device.driver+'{n}').matches('\\\\pL{{800}}')",
    "device.attributes['gpu.nvidia.com'].uuid.findAll('.').size()>{n}",
    "(device.driver+'{n}').lowerAscii().split('.').exists(a,a.matches('(a|b|c|d)+{n}$'))",
)


class Attacker:
    """One tenant with a namespace; `number` counts its turns."""

    def __init__(self, cluster: SoakCluster, name: str, seed: int, labels: JSON) -> None:
        self.cluster = cluster
        self.stage = cluster.stage
        self.client = cluster.client
        self.random = random.Random(f"{seed}/{name}")
        self.namespace = another_namespace(self.stage, f"attack-{name}", labels)
        self.number = 0
        self.token = ""
        self.open: list[socket.socket] = []

    def path(self, kind: str, name: str = "", group: str = RESOURCE) -> str:
        """Return the path of a collection or object in the namespace."""
        collection = f"{group}/namespaces/{self.namespace}/{kind}"
        return f"{collection}/{name}" if name else collection

    def claim(self, name: str, spec: JSON, **metadata: object) -> None:
        """Create a claim, unless the API server refuses it."""
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        tolerant(partial(self.client.create, self.path("resourceclaims"), body), CONFLICT, 422)

    def pod(self, name: str, claim: str, **spec: Any) -> None:  # noqa: ANN401  # goes to pod_spec
        """Create a pod that refers to a claim, and remove the oldest pod beyond the limit."""
        own: JSON = {"schedulerName": SCHEDULER, "tolerations": [TOLERATION], **spec}
        own |= {"nodeSelector": self.stage.selector, "terminationGracePeriodSeconds": 1}
        body = {"metadata": {"name": name}, "spec": pod_spec(claims={"gpu": claim}, **own)}
        pods = self.path("pods", group="/api/v1")
        tolerant(partial(self.client.create, pods, body), CONFLICT)
        oldest = f"{name.rpartition('-')[0]}-{self.number - MOST_PODS}"
        tolerant(partial(self.client.delete, f"{pods}/{oldest}", grace=None))
        tolerant(partial(self.client.delete, self.path("resourceclaims", oldest)))


def dear_selectors(attacker: Attacker) -> None:
    """Create a pod whose selectors are expensive, and differ from all others."""
    number = 100_000 + attacker.number
    texts = [text.format(n=number) for text in attacker.random.sample(DEAR_SELECTORS, 3)]
    name = f"dear-{attacker.number}"
    attacker.claim(name, claim_spec(*(_request(at, text) for at, text in enumerate(texts))))
    attacker.pod(name, name)


def _request(number: int, *selectors: str) -> JSON:
    return request(f"r{number}", GPU, *selectors)


def large_claims(attacker: Attacker) -> None:
    """Create a pod with a claim of 32 requests, each with alternatives."""
    options = [
        {"name": f"o{number}", "deviceClassName": GPU, "count": 1 + number} for number in range(8)
    ]
    requests = [{"name": f"r{number}", "firstAvailable": options} for number in range(32)]
    name = f"large-{attacker.number}"
    match = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}
    attacker.claim(name, claim_spec(*requests, constraints=[match]))
    attacker.pod(name, name)


def forged_marks(attacker: Attacker) -> None:
    """Write marks of devices and counters that belong to others, again and again."""
    node = attacker.random.choice(attacker.cluster.nodes)
    counters = {"memory": {"value": "40Gi"}, "multiprocessors": {"value": "98"}}
    devices = [
        {
            "driver": GPU,
            "pool": node,
            "device": f"gpu-{number}",
            "consumesCounters": [{"counterSet": f"gpu-{number}-counter-set", "counters": counters}],
        }
        for number in range(8)
    ]
    text = json.dumps({"allocator": "drawbridge", "devices": devices})
    name = f"mark-{attacker.number % (4 * MOST_PODS)}"
    kind = attacker.random.choice((GPU, PARTITION))
    attacker.claim(name, claim_spec(request("gpu", kind)), annotations={MARK: text})
    note = {"metadata": {"annotations": {MARK: text, "turn": f"{attacker.number}"}}}
    tolerant(partial(attacker.client.patch, attacker.path("resourceclaims", name), note))
    if not attacker.number % 4:
        attacker.pod(f"mark-{attacker.number}", name)


def forged_slices(attacker: Attacker) -> None:
    """Publish a pool of another node at a high generation, as a driver on a node of its own."""
    node = f"{attacker.stage.name}-hostile"
    body = {"metadata": {"name": node, "labels": dict(OWNED)}}
    tolerant(partial(attacker.client.create, "/api/v1/nodes", body), CONFLICT)
    victim = attacker.random.choice(attacker.cluster.nodes)
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    pool = {"name": victim, "generation": 1_000_000 + attacker.number, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": node, "pool": pool, "devices": [device]}
    name = f"hostile-{attacker.number}"
    tolerant(
        partial(attacker.client.create, slices.PATH, {"metadata": {"name": name}, "spec": spec}),
        CONFLICT,
    )
    oldest = f"hostile-{attacker.number - MOST_PODS}"
    tolerant(partial(attacker.client.delete, f"{slices.PATH}/{oldest}"))


def api_calls(attacker: Attacker) -> None:
    """Simulate many pods with the API of a random allocator."""
    if not attacker.token:
        attacker.token = tenant(attacker.stage, "caller", [PODS], attacker.namespace)
    pair = attacker.random.choice(attacker.cluster.pairs)
    body = simulation(attacker.namespace, 50)
    for _ in range(5):
        ask(attacker.stage, pair, SIMULATE, attacker.token, body)


def many_findings(attacker: Attacker) -> None:
    """Create claims with marks that cannot be read, and pods that wait, both with events."""
    for number in range(5):
        name = f"bad-{(attacker.number * 5 + number) % 100}"
        note = {"metadata": {"annotations": {MARK: f"{{{attacker.number}"}}}
        attacker.claim(name, claim_spec(request("gpu", GPU, f"device.driver == 'bad-{name}'")))
        tolerant(partial(attacker.client.patch, attacker.path("resourceclaims", name), note), 422)
    never = f"device.driver == 'never-{attacker.number}'"
    name = f"never-{attacker.number}"
    attacker.claim(name, claim_spec(request("gpu", GPU, never)))
    attacker.pod(name, name)


def expensive_pods(attacker: Attacker) -> None:
    """Create pods that cost the webhook much, in a namespace that is opted in."""
    stage: Stage = attacker.stage
    pod = spanning_pod(stage, f"expensive-{attacker.number}", shares=True)
    pod["metadata"].pop("namespace", None)
    for _ in range(5):
        path = attacker.path("pods", group="/api/v1")
        tolerant(partial(attacker.client.create, path, pod, dryRun="All"), *REFUSED)


def judged_claims(attacker: Attacker) -> None:
    """Create claims that are impossible, or whose judgement is expensive."""
    bodies = [judge.claim("impossible", judge.TOO_MUCH), judge.expensive_claim(attacker.number)]
    for body in bodies:
        create = partial(
            attacker.client.create, attacker.path("resourceclaims"), body, dryRun="All"
        )
        tolerant(create, *REFUSED)


def unfinished_bodies(attacker: Attacker) -> None:
    """Hold connections to the webhook with bodies that never end."""
    replica = attacker.random.choice(attacker.stage.placement.cluster.webhooks)
    for _ in range(BODIES):
        attacker.open.append(begin_body(replica.port("admission")))
    while len(attacker.open) > MOST_BODIES:
        with attacker.open.pop(0) as connection:
            read_refusal(connection)


def pods_that_never_run(attacker: Attacker) -> None:
    """Create important pods that no node can have, with finalizers and nominated nodes."""
    name, node = f"idle-{attacker.number}", attacker.random.choice(attacker.cluster.nodes)
    attacker.claim(name, claim_spec(request("gpu", GPU, count=9)))
    attacker.pod(name, name, priorityClassName=f"{attacker.stage.name}-high")
    path = attacker.path("pods", name, "/api/v1")
    kept = {"metadata": {"finalizers": [FINALIZER]}} if attacker.random.random() < 0.3 else {}
    if kept:
        tolerant(partial(attacker.client.patch, path, kept))
    nominated = {"status": {"nominatedNodeName": node}}
    tolerant(partial(attacker.client.patch, f"{path}/status", nominated))


@dataclass(frozen=True)
class Attack:
    """One kind of attack; `pause` is between its turns, `enforced` opts its namespace in."""

    name: str
    turn: Callable[[Attacker], None]
    pause: float
    enforced: bool = False


ATTACKS = (
    Attack("selectors", dear_selectors, 3.0),
    Attack("large", large_claims, 5.0),
    Attack("marks", forged_marks, 0.5),
    Attack("slices", forged_slices, 4.0),
    Attack("api", api_calls, 1.0),
    Attack("findings", many_findings, 2.0),
    Attack("webhook", expensive_pods, 2.0, enforced=True),
    Attack("judge", judged_claims, 1.0, enforced=True),
    Attack("bodies", unfinished_bodies, 2.0),
    Attack("idle", pods_that_never_run, 5.0),
)


def _labels(attack: Attack) -> JSON:
    return {MODE: "enforce"} if attack.enforced else {}


class Attackers:
    """All attackers of a soak."""

    def __init__(self, cluster: SoakCluster, seed: int) -> None:
        self.cluster = cluster
        self.attackers = [
            (attack, Attacker(cluster, attack.name, seed, _labels(attack))) for attack in ATTACKS
        ]

    def start(self, loops: Loops) -> None:
        """Begin all attacks."""
        for attack, attacker in self.attackers:
            turn = partial(self._turn, attack, attacker)
            loops.start(f"attack {attack.name}", turn, attack.pause)

    def _turn(self, attack: Attack, attacker: Attacker) -> None:
        attacker.number += 1
        attack.turn(attacker)

    def clean_up(self) -> list[str]:
        """Remove what attackers have left, except their namespaces, which go with the stage.

        Return what a replica of the webhook still refuses to their address.
        """
        client = self.cluster.client
        for _, attacker in self.attackers:
            while attacker.open:
                attacker.open.pop().close()
            pods = attacker.path("pods", group="/api/v1")
            for pod in client.get(pods)["items"]:
                path = f"{pods}/{pod['metadata']['name']}"
                if pod["metadata"].get("finalizers"):
                    tolerant(partial(client.patch, path, {"metadata": {"finalizers": None}}))
                tolerant(partial(client.delete, path, grace=None))
            # Those of pods that still end go with these.
            tolerant(partial(client.delete, attacker.path("resourceclaims")))
        hostile = f"{self.cluster.stage.name}-hostile"
        for item in client.get(slices.PATH)["items"]:
            if item["spec"].get("nodeName") == hostile:
                tolerant(partial(client.delete, f"{slices.PATH}/{item['metadata']['name']}"))
        tolerant(partial(client.delete, f"/api/v1/nodes/{hostile}"))
        return [
            f"{replica.name} answers {status} to a large body"
            for replica in self.cluster.stage.placement.cluster.webhooks
            if (status := send_whole_body(replica.port("admission"))) != OK
        ]
