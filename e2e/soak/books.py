"""Compares what claims hold with what devices allow, and what pods wait for with what is free.

Uses what the drivers published at first and Kubernetes' own allocator, nothing of Drawbridge.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from e2e.bridge.judgement import broken_rules, node_of, read_world, seen_from
from e2e.bridge.pair import Pair
from e2e.bridge.placement import SCHEDULER
from e2e.checker.quantities import quantity
from e2e.controlplane.client import JSON, Client
from e2e.differential.theirs import Oracle
from e2e.nodes.layout import Layout
from e2e.oracle.build import binary
from e2e.scenarios.objects import RESOURCE
from e2e.scenarios.stage import Stage

Key = tuple[str, str, str]
Layouts = Mapping[tuple[str, str], Layout]
RECORDS = "drawbridge_allocator_records"
MARK = "drawbridge.dev/allocation"
CLAIMS = f"{RESOURCE}/resourceclaims"


def all_claims(client: Client) -> list[JSON]:
    """Return the claims of all namespaces."""
    items: list[JSON] = client.get(CLAIMS)["items"]
    return items


def allocation_of(claim: JSON) -> JSON | None:
    """Return the allocation of a claim, if it has one."""
    allocation: JSON | None = claim.get("status", {}).get("allocation")
    return allocation


def describe_end(pod: JSON) -> str:
    """Say what keeps a deleted pod."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    parts = (
        f"deleted at {metadata.get('deletionTimestamp', 'no time')}",
        f"on {spec.get('nodeName', 'no node')}",
        f"{status.get('phase', 'Pending')}",
        f"with {', '.join(metadata.get('finalizers', ())) or 'no finalizer'}",
    )
    return f"{name_of(pod)} ({', '.join(parts)})"


def name_of(item: JSON) -> str:
    """Return namespace and name."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def is_of(claim: str, pods: Collection[str]) -> bool:
    """Whether a claim, as `namespace/name`, was generated for one of these pods."""
    name = claim.rpartition("/")[2]
    return any(name.startswith(f"{pod}-") for pod in pods)


def held_twice(claims: Iterable[JSON], layouts: Layouts) -> Iterator[str]:
    """Yield devices that are held twice, and capacity and counters that are exceeded."""
    holders: defaultdict[Key, list[str]] = defaultdict(list)
    shares: set[Key] = set()
    consumed: defaultdict[tuple[Key, str], Fraction] = defaultdict(Fraction)
    for claim in claims:
        allocation = allocation_of(claim) or {"devices": {}}
        for result in allocation["devices"].get("results", ()):
            if result.get("adminAccess"):
                continue
            key = (result["driver"], result["pool"], result["device"])
            holders[key].append(name_of(claim))
            if result.get("shareID"):
                shares.add(key)
            for name, value in result.get("consumedCapacity", {}).items():
                consumed[key, name] += quantity(value)
    for key, names in holders.items():
        if len(names) > 1 and key not in shares:
            yield f"{'/'.join(key)} is held by {', '.join(names)}"
    yield from _exceeded_capacity(consumed, layouts)
    yield from _exceeded_counters(holders, layouts)


def _exceeded_capacity(
    consumed: Mapping[tuple[Key, str], Fraction], layouts: Layouts
) -> Iterator[str]:
    for (key, name), value in consumed.items():
        driver, pool, device = key
        wire = layouts[driver, pool].devices[device].wire
        if value > quantity(wire["capacity"][name]["value"]):
            yield f"{'/'.join(key)}: {name}: {value} consumed"


def _exceeded_counters(held: Iterable[Key], layouts: Layouts) -> Iterator[str]:
    drawn: defaultdict[tuple[str, str, str, str], Fraction] = defaultdict(Fraction)
    for driver, pool, device in held:
        layout = layouts.get((driver, pool))
        wire = layout.devices[device].wire if layout else {}
        for use in wire.get("consumesCounters", ()):
            for name, counter in use["counters"].items():
                drawn[driver, pool, use["counterSet"], name] += quantity(counter["value"])
    for (driver, pool, counters, name), value in drawn.items():
        if value > quantity(layouts[driver, pool].counters[counters][name]["value"]):
            yield f"{driver}/{pool}: {value} drawn of {counters}/{name}"


def broken(client: Client, version: str) -> list[str]:
    """List the rules that allocations of all namespaces break."""
    claims = [claim for claim in all_claims(client) if allocation_of(claim)]
    return broken_rules(client, version, claims)


def leaks(stage: Stage) -> list[str]:
    """List what is left although no pod is there."""
    claims = all_claims(stage.client)
    out = [f"claim {name_of(claim)} is allocated" for claim in claims if allocation_of(claim)]
    out += [
        f"claim {name_of(claim)} is reserved"
        for claim in claims
        if claim.get("status", {}).get("reservedFor")
    ]
    out += [
        f"claim {name_of(claim)} has a mark"
        for claim in claims
        if MARK in claim["metadata"].get("annotations", {})
    ]
    for name, driver in stage.fleet.drivers.items():
        for node, station in driver.stations.copy().items():
            out += [f"{name} on {node} has prepared {uid}" for uid in station.prepared]
    return out


def remembered(pairs: Iterable[Pair]) -> list[str]:
    """List what the allocators keep of pods although no pod is there."""
    kept = {
        f"{pair.allocator.name} keeps {name}": pair.allocator.metric(RECORDS, of=name)
        for pair in pairs
        for name in ("pods", "vanished-claims")
    }
    return [f"{text}: {count:.0f}" for text, count in kept.items() if count]


class Waiting:
    """Which pods wait although Kubernetes' allocator places them: `free`, or after evictions."""

    def __init__(self, client: Client, version: str, selector: Mapping[str, str]) -> None:
        self.version = version
        self.world: JSON = read_world(client, version)
        self.nodes = [
            str(node["metadata"]["name"])
            for node in self.world["nodes"]
            if _is_open(node, selector)
        ]
        pods = client.get("/api/v1/pods")["items"]
        self.pods = {pod["metadata"]["uid"]: pod for pod in pods}
        self.claims = {name_of(claim): claim for claim in all_claims(client)}
        self.allocated: defaultdict[str, list[JSON]] = defaultdict(list)
        for claim in self.claims.values():
            if allocation_of(claim):
                self.allocated[node_of(claim)].append(claim)
        self.volumes = _nodes_of_volumes(client)
        self.skipped: Counter[str] = Counter()
        self._answers: dict[tuple[str, int, bool, str], str] = {}

    def left_behind(self) -> list[str]:
        """List the pods that wait for no reason."""
        oracle, out = Oracle(binary()), []
        try:
            for pod in self.pods.values():
                if pod["spec"].get("schedulerName") != SCHEDULER or pod["spec"].get("nodeName"):
                    continue
                if "deletionTimestamp" in pod["metadata"]:
                    self.skipped["being deleted"] += 1
                    continue
                if why := self._why(oracle, pod):
                    out.append(f"{name_of(pod)} (priority {_priority(pod)}): {why}")
        finally:
            oracle.close()
        return out

    def _why(self, oracle: Oracle, pod: JSON) -> str:
        claims = self._claims_of(pod)
        if claims is None:
            self.skipped["without its claims"] += 1
            return ""
        needed = [claim for claim in claims if not allocation_of(claim)]
        if not needed:
            return "its claims are allocated, or it has none"
        for evictions in (False, True):
            text = json.dumps([claim["spec"] for claim in needed], sort_keys=True)
            key = (text, _priority(pod) if evictions else 0, evictions, self._tied_to(pod))
            if key not in self._answers:
                self._answers[key] = self._place(oracle, needed, pod, evictions=evictions)
            if node := self._answers[key]:
                return f"fits on {node}{' after evictions' if evictions else ''}"
        self.skipped["really without devices"] += 1
        return ""

    def _claims_of(self, pod: JSON) -> list[JSON] | None:
        """Return the claims of a pod; None if one is missing or is being deleted."""
        names = {
            status["name"]: status.get("resourceClaimName")
            for status in pod.get("status", {}).get("resourceClaimStatuses", ())
        }
        claims = []
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName") or names.get(entry["name"])
            claim = self.claims.get(f"{pod['metadata']['namespace']}/{name}")
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return None
            claims.append(claim)
        return claims

    def _place(self, oracle: Oracle, claims: list[JSON], pod: JSON, *, evictions: bool) -> str:
        """Return a node on which claims can be allocated; empty if there is none."""
        for name in (self._tied_to(pod),) if self._tied_to(pod) else self.nodes:
            held = self.allocated[name]
            if evictions:
                held = [claim for claim in held if not self._yields(claim, _priority(pod))]
                if len(held) == len(self.allocated[name]):
                    continue
            scenario: dict[str, Any] = seen_from(name, self.world)
            answer = oracle.answer({**scenario, "claims": claims, "allocated": held})
            if answer[name]["verdict"] == "allocated":
                return name
        return ""

    def _tied_to(self, pod: JSON) -> str:
        """Return the node of the volume of a pod; empty if it has none yet."""
        return self.volumes.get(name_of(pod), "")

    def _yields(self, claim: JSON, priority: int) -> bool:
        """Return whether all pods of a claim have a lower priority."""
        users = [self.pods.get(entry["uid"]) for entry in claim["status"].get("reservedFor", ())]
        return all(user is not None and _priority(user) < priority for user in users)


def _nodes_of_volumes(client: Client) -> dict[str, str]:
    """Return the node of each volume by its claim, which is named like the pod."""
    nodes = {}
    for volume in client.get("/api/v1/persistentvolumes")["items"]:
        owner = volume["spec"]["claimRef"]
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        (place,) = term["matchExpressions"]
        nodes[f"{owner['namespace']}/{owner['name']}"] = str(place["values"][0])
    return nodes


def _priority(pod: JSON) -> int:
    return int(pod["spec"].get("priority", 0))


def _is_open(node: JSON, selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels", {})
    return not node["spec"].get("unschedulable") and selector.items() <= labels.items()
