"""A run: a script of events against a cluster of models and real allocators, from one seed."""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from drawbridge.agreement.published_facts import build_data_key
from drawbridge.facts import serialized
from drawbridge.facts.model import Cluster, Facts
from tests.cluster.fake.configuration import accept
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Saved, Store
from tests.world import clock, invariants
from tests.world.network import SYSTEM, Faults, Network
from tests.world.nodes import ClaimController, Kubelet, Use, devices_of
from tests.world.pair import Pair

HOSTS = ("host-a", "host-b")
NODES = {"n1": 2, "n2": 2, "n3": 1}
FAULTS = Faults(refused=0.01, overloaded=0.02, broken=0.02, lost=0.04, slow=0.04)
# After the faults, everything must be well within this time, with the longest hold and Lease.
SETTLE_SECONDS = 240
CONFIGURATION = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools:
  - driver: d.io
    nodeSelector: {matchLabels: {pool: bridge}}
"""
_ADDED = "2025-12-31T00:00:00Z"
# How often an event happens beside others: rare pairs of writers to one device weigh most.
WEIGHTS = {
    "create": 30,
    "delete": 8,
    "delete with force": 10,
    "finish": 6,
    "delete claim": 2,
    "kill": 2,
    "stop kubelet": 2,
    "slow driver": 2,
    "end watches": 3,
    "expire": 1,
    "lag": 3,
    "skew": 1,
    "forge mark": 2,
    "back up": 2,
    "restore": 0.6,
}


class Event(NamedTuple):
    """One event some time after the one before; `drawn` chooses what it happens to."""

    after: float
    name: str
    drawn: int


@dataclass
class Outcome:
    """What a run showed."""

    seed: int
    script: tuple[Event, ...]
    violation: str = ""
    story: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)


def write_script(seed: int, length: int) -> tuple[Event, ...]:
    """Draw a script."""
    drawn = random.Random(f"script {seed}")
    names, weights = tuple(WEIGHTS), tuple(WEIGHTS.values())
    return tuple(
        Event(drawn.expovariate(0.9), drawn.choices(names, weights)[0], drawn.getrandbits(16))
        for _ in range(length)
    )


def play(seed: int, script: Iterable[Event]) -> Outcome:
    """Play a script to its end, or to the first violation."""
    outcome = Outcome(seed, tuple(script))

    async def run() -> None:
        await World(outcome).run()

    clock.run(run, seed)
    return outcome


def shrink(outcome: Outcome) -> Outcome:
    """Return the run with the fewest events that breaks the same invariant, found by halves."""
    broken = outcome.violation.partition(":")[0]
    best, size = outcome, len(outcome.script)
    while size:
        before, at = best, 0
        while at < len(best.script):
            kept = best.script[:at] + best.script[at + size :]
            tried = play(outcome.seed, kept)
            if tried.violation.partition(":")[0] == broken:
                best = tried
            else:
                at += size
        # One that had to stay can go once others went.
        if size > 1 or best is before:
            size //= 2
    return best


class World:
    """The cluster of one run."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.random = random.Random(f"world {outcome.seed}")
        self.network = Network(self.random, Store(clock.now, random.Random(outcome.seed)))
        self.network.open()
        self.server = self.network.fronts[0].server
        self.uses: dict[tuple[str, str], Use] = {}
        self.checked_writes = 0
        self.pairs: dict[str, Pair] = {}
        self.kubelets = {
            name: Kubelet(name, self.network, self._start_use, self._end_use) for name in NODES
        }
        self._number = 0
        self._backup: Saved | None = None
        self._restored_at = float("-inf")
        self._told = 0
        self._is_over = asyncio.Event()

    # --- a run ---

    async def run(self) -> None:
        """Play the script, let everything settle, and check what is left."""
        for each in _objects():
            self.server.put(each)
        self._backup = self.server.saved()
        tasks = [asyncio.ensure_future(each.run()) for each in self.kubelets.values()]
        tasks.append(asyncio.ensure_future(ClaimController(self.network).run()))
        for host in HOSTS:
            self._start_pair(host)
        watching = asyncio.ensure_future(self._watch())
        playing = asyncio.ensure_future(self._play())
        over = asyncio.ensure_future(self._is_over.wait())
        await asyncio.wait((playing, over, watching), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            playing.result()
        for pair in self.pairs.values():
            await pair.kill()
        for task in (*tasks, watching, playing, over):
            task.cancel()
        await asyncio.gather(*tasks, watching, playing, over, return_exceptions=True)
        self.outcome.counted |= self.network.counted

    async def _play(self) -> None:
        await asyncio.sleep(5)
        self.network.faults = replace(FAULTS)
        for event in self.outcome.script:
            await asyncio.sleep(event.after)
            self._happen(event)
        await self._settle()

    async def _settle(self) -> None:
        """End all faults, and wait until all is well without a restart."""
        self.network.faults = Faults()
        for kubelet in self.kubelets.values():
            kubelet.runs.set()
        self._say("the faults end")
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_SECONDS
        while left := self._find(invariants.AT_THE_END):
            if loop.time() > end:
                self._break(left)
                return
            await asyncio.sleep(2)

    async def _watch(self) -> None:
        """Look at what must always hold, as often as anything can have changed."""
        while True:
            await asyncio.sleep(0.1)
            self.check()

    def check(self) -> None:
        """Look at what must always hold."""
        if broken := self._find(invariants.ALWAYS):
            self._break(broken)

    def _find(self, wanted: Iterable[Callable[["World"], Iterable[str]]]) -> str:
        for invariant in wanted:
            for found in invariant(self):
                return f"{invariant.__name__}: {found}"
        return ""

    def _break(self, violation: str) -> None:
        if not self.outcome.violation:
            self.outcome.violation = violation
            self._say(f"BROKEN {violation}")
            self._is_over.set()

    def _say(self, text: str) -> None:
        self._tell_writes()
        self.outcome.story.append(f"{asyncio.get_running_loop().time():9.3f} {text}")

    def _tell_writes(self) -> None:
        """Tell what was written since; each with its version and who sent it."""
        written = self.network.written
        for who, method, path in written[self._told :]:
            if "/leases/" not in path and "/events" not in path:
                self.outcome.story.append(f"          {who}: {method} {path}")
        self._told = len(written)

    # --- the cluster ---

    def all(self, plural: str) -> list[JSON]:
        """Return all objects of a kind, as stored."""
        return [*self.network.store.among(named(plural), "", "", "")]

    devices = NODES

    def since_restore(self) -> float:
        """Return the seconds since the last restore of a backup."""
        return asyncio.get_running_loop().time() - self._restored_at

    def _start_pair(self, host: str) -> None:
        self._number += 1
        self.pairs[host] = Pair(self.network, host, self._number)
        self.pairs[host].start()

    def _start_use(self, pod: JSON, claim: JSON, node: str) -> None:
        key = pod["metadata"]["uid"], claim["metadata"]["uid"]
        self.uses[key] = Use(pod["metadata"]["name"], claim["metadata"]["name"], devices_of(claim))
        self._say(f"{node} prepares {claim['metadata']['name']} for {pod['metadata']['name']}")
        self.check()

    def _end_use(self, pod_uid: str) -> None:
        for key in [each for each in self.uses if each[0] == pod_uid]:
            use = self.uses.pop(key)
            self._say(f"containers of {use.pod} have ended, {use.claim} is unprepared")

    # --- events ---

    def _happen(self, event: Event) -> None:
        self.network.count(event.name)
        told = getattr(self, "_do_" + event.name.replace(" ", "_"))(event.drawn)
        if told:
            self._say(f"{event.name}: {told}")

    def _do_create(self, drawn: int) -> str:
        self._number += 1
        name = f"p{self._number}"
        owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "name": name}
        claims = [f"c{self._number}"]
        if drawn % 5 == 0:
            claims.append(f"d{self._number}")
        spec = {
            "schedulerName": "drawbridge",
            "terminationGracePeriodSeconds": 5,
            "containers": [],
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        }
        pod = self.server.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        )
        owner["uid"] = pod["metadata"]["uid"]
        for claim in claims:
            request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
            self.server.put(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": {"name": claim, "ownerReferences": [owner]},
                    "spec": {"devices": {"requests": [request]}},
                }
            )
        return f"{name} with {', '.join(claims)}"

    def _choose(self, plural: str, drawn: int, *, is_bound: bool | None = None) -> JSON | None:
        chosen = [
            each
            for each in self.all(plural)
            if is_bound is None or ("nodeName" in each["spec"]) == is_bound
        ]
        return chosen[drawn % len(chosen)] if chosen else None

    def _do_delete(self, drawn: int) -> str:
        pod = self._choose("pods", drawn)
        if pod is None:
            return ""
        self.network.store.delete(named("pods"), pod, 5 if "nodeName" in pod["spec"] else 0)
        return f"{pod['metadata']['name']}"

    def _do_delete_with_force(self, drawn: int) -> str:
        pod = self._choose("pods", drawn, is_bound=True)
        if pod is None:
            return ""
        self.server.remove("pods", pod["metadata"]["name"])
        return f"{pod['metadata']['name']}"

    def _do_finish(self, drawn: int) -> str:
        pod = self._choose("pods", drawn, is_bound=True)
        if pod is None:
            return ""
        metadata = {**pod["metadata"], "annotations": {"finish": ""}}
        self.server.put({**pod, "metadata": metadata})
        return f"{pod['metadata']['name']}"

    def _do_delete_claim(self, drawn: int) -> str:
        claim = self._choose("resourceclaims", drawn)
        if claim is None:
            return ""
        self.server.remove("resourceclaims", claim["metadata"]["name"])
        return f"{claim['metadata']['name']}"

    def _do_forge_mark(self, drawn: int) -> str:
        claim = self._choose("resourceclaims", drawn)
        if claim is None:
            return ""
        own = claim["metadata"].get("annotations") or {}
        forged = {**own, "drawbridge.dev/allocation": ("{}", "x")[drawn % 2]}
        self.server.put({**claim, "metadata": {**claim["metadata"], "annotations": forged}})
        return f"{claim['metadata']['name']}"

    def _do_kill(self, drawn: int) -> str:
        host = HOSTS[drawn % 2]
        pair = self.pairs[host]
        self._start_pair(host)
        asyncio.ensure_future(pair.kill())  # noqa: RUF006  # ends by itself
        return f"{host}"

    def _do_stop_kubelet(self, drawn: int) -> str:
        name = sorted(NODES)[drawn % len(NODES)]
        self.kubelets[name].runs.clear()
        asyncio.get_running_loop().call_later(drawn % 17, self.kubelets[name].runs.set)
        return f"{name} for {drawn % 17} s"

    def _do_slow_driver(self, drawn: int) -> str:
        name = sorted(NODES)[drawn % len(NODES)]
        self.kubelets[name].slow = not self.kubelets[name].slow
        return f"{name}: {self.kubelets[name].slow}"

    def _do_end_watches(self, _drawn: int) -> str:
        self.server.end_watches()
        return "all"

    def _do_expire(self, _drawn: int) -> str:
        self.server.expire()
        return "all"

    def _do_lag(self, drawn: int) -> str:
        front = self.network.fronts[drawn % 2]
        front.lag = (0.01, 0.05, 0.3, 1.5)[drawn // 2 % 4]
        return f"server {drawn % 2} by {front.lag} s"

    def _do_skew(self, drawn: int) -> str:
        front = self.network.fronts[drawn % 2]
        front.skew = (0, 11, -11, 120, -120)[drawn // 2 % 5]
        return f"server {drawn % 2} by {front.skew} s"

    def _do_back_up(self, _drawn: int) -> str:
        self._backup = self.server.saved()
        return f"version {self._backup.version}"

    def _do_restore(self, _drawn: int) -> str:
        assert self._backup is not None
        self.server.restore(self._backup)
        self._restored_at = asyncio.get_running_loop().time()
        there = {(each["metadata"]["uid"], devices_of(each)) for each in self.all("resourceclaims")}
        for key, use in self.uses.items():
            if (key[1], use.devices) not in there and not use.lost:
                self.network.count("use that a restore lost")
                self.uses[key] = use._replace(lost=True)
        return f"version {self._backup.version}"


def _objects() -> Iterable[JSON]:
    facts = Facts(cluster=Cluster(version="1.36"))
    digest = serialized.facts_hash(facts)
    data = {build_data_key(digest): serialized.encode_facts(facts).decode(), "current": digest}
    system = {"namespace": SYSTEM}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "drawbridge-facts", **system},
        "data": data,
    }
    yield accept(CONFIGURATION)
    lease = {"name": "drawbridge-scheduler", **system}
    yield {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease, "spec": {}}
    dra = "resource.k8s.io/v1"
    expression = 'device.driver == "d.io"'
    selectors = [{"cel": {"expression": expression}}]
    yield {
        "apiVersion": dra,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": selectors},
    }
    for name, count in NODES.items():
        taint = {"key": "drawbridge.dev/owned", "effect": "NoSchedule", "timeAdded": _ADDED}
        metadata = {"name": name, "labels": {"pool": "bridge"}}
        metadata["annotations"] = {"drawbridge.dev/fence-settled": _ADDED}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "spec": {"taints": [taint]},
        }
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(count)]
        spec = {"driver": "d.io", "nodeName": name, "pool": pool, "devices": devices}
        yield {
            "apiVersion": dra,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-s"},
            "spec": spec,
        }
