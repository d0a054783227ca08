"""A model of the stock kube-scheduler with its allocator of devices, and of what upstream mended.

`DEFECTS` are races and mistakes of Kubernetes, by their numbers. With one of them the model does
what the code did before it was mended. It shows that the world finds such things:

- kubernetes 136269: a cycle reads the allocated claims and then those that are being written. One
  that is written in between is in neither list, and its devices are given again.
- kubernetes 140436: a device that is refused for its taint keeps the counters that it would take.
- kubernetes 141471: a pod that is deleted with force frees its devices while its containers run.
  Kubernetes documents this one and has not mended it.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import product

from tests.cluster.fake.kinds import JSON
from tests.world.asks import asks_of
from tests.world.gates import is_gated
from tests.world.network import Network
from tests.world.nodes import (
    CLAIMS,
    PODS,
    Client,
    Device,
    Hold,
    claim_names,
    count_held,
    count_legacy,
    devices_of,
    holds_of,
    path_of,
)
from tests.world.objects import DRIVER, MEMORY, RESOURCE, SWAPPED, give, has_fence, is_open, is_over
from tests.world.watches import Follower

NAME = "stock"
MENDED = ("136269", "140436")
DEFECTS = (*MENDED, "141471")
_FINALIZER = "resource.kubernetes.io/delete-protection"
# A binding that is on its way takes no longer than this, less than nodes have to settle.
LONGEST_SECONDS = 7.0
LAG_SECONDS = 5.0
# That a response told of a binding counts for so long: the storage can be restored since.
BOUND_SECONDS = 30.0


class StockScheduler:
    """One kube-scheduler that tries the waiting pods in turns."""

    def __init__(
        self,
        network: Network,
        defects: Collection[str] = (),
        slow_bindings: float = 0.1,
        *,
        obeys_rules: bool = False,
    ) -> None:
        self._network, self._defects, self._obeys_rules = network, defects, obeys_rules
        self._slow_bindings = slow_bindings
        self._client = Client(network, f"{NAME} scheduler")
        who = f"{NAME} scheduler"
        self._pods, self._claims = (
            Follower(network, who, "pods"),
            Follower(network, who, "resourceclaims"),
        )
        self._nodes, self._slices = (
            Follower(network, who, "nodes"),
            Follower(network, who, "resourceslices"),
        )
        self._rules = Follower(network, who, "devicetaintrules")
        self._in_flight: dict[str, frozenset[Hold]] = {}  # by the UID of the claim
        self._allocated: dict[str, frozenset[Hold]] = {}
        # The version of a claim that a response told, and until when the watch can be behind.
        self._assumed: dict[str, tuple[int, float]] = {}
        # When what it knew was listed as it decided about a claim the last time, by UID.
        self._known_since: dict[str, float] = {}
        self._revision = 0
        self._busy: set[str] = set()
        self._places: dict[str, str] = {}  # of pods that are being bound, by UID
        # The version that had a pod which a response told is bound, and until when that counts.
        self._bound: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._claims.run(self._claim_changed))
            group.create_task(self._nodes.run())
            group.create_task(self._slices.run())
            if self._obeys_rules:
                group.create_task(self._rules.run())
            while True:
                await asyncio.sleep(self._network.random.expovariate(4))
                waiting = [pod for pod in self._pods.objects.values() if self._is_waiting(pod)]
                if waiting:
                    # Cycles follow each other, and only bindings run beside them.
                    await self._try(self._network.random.choice(waiting), group)

    def _claim_changed(self, before: JSON | None, after: JSON | None) -> None:
        uid = (after or before or {})["metadata"]["uid"]
        version, until = self._assumed.get(uid, (0, 0.0))
        is_older = after is not None and int(after["metadata"]["resourceVersion"]) < version
        loop = asyncio.get_running_loop()
        if is_older and loop.time() < until:
            # A response has told more, unless the storage was restored since.
            loop.call_at(until, lambda: self._claim_changed(after, self._claims.objects.get(uid)))
            return
        self._note(uid, holds_of(after) if after is not None else frozenset())

    def _note(self, uid: str, holds: frozenset[Hold]) -> None:
        """Follow what a claim has; each change is a revision."""
        self._revision += 1
        self._allocated.pop(uid, None)
        if holds:
            self._allocated[uid] = holds

    def _is_waiting(self, pod: JSON) -> bool:
        metadata, spec = pod["metadata"], pod["spec"]
        if spec.get("schedulerName") != NAME or "nodeName" in spec or is_gated(pod):
            return False
        version, until = self._bound.get(metadata["uid"], ("", 0.0))
        is_behind = metadata["resourceVersion"] == version
        is_bound = is_behind and asyncio.get_running_loop().time() < until
        is_alive = "deletionTimestamp" not in metadata
        return is_alive and not is_bound and metadata["uid"] not in self._busy

    async def _gather(self) -> Counter[Device]:
        """Return how much is taken of each device."""
        while True:
            revision = self._revision
            allocated = {hold for held in self._allocated.values() for hold in held}
            # Other goroutines run in between.
            await asyncio.sleep(self._network.random.expovariate(50))
            in_flight = {hold for held in self._in_flight.values() for hold in held}
            if "136269" in self._defects or revision == self._revision:
                return count_held(allocated | in_flight)

    async def _try(self, pod: JSON, group: asyncio.TaskGroup) -> None:
        if count := count_legacy(pod):
            for node in self._usable_nodes():
                if self._count_free(node) >= count:
                    self._busy.add(_uid(pod))
                    self._places[_uid(pod)] = node
                    group.create_task(self._bind(pod, node, (), {}))
                    return
            return
        by_name = {value["metadata"]["name"]: value for value in self._claims.objects.values()}
        claims = [by_name.get(name) for name in claim_names(pod)]
        if any(claim is None or "deletionTimestamp" in claim["metadata"] for claim in claims):
            return
        own = [claim for claim in claims if claim is not None]
        if len(own) < len(pod["spec"].get("resourceClaims", ())):
            return
        new = [claim for claim in own if not devices_of(claim)]
        only = {pool for claim in own for pool, _ in devices_of(claim)}
        taken = await self._gather()
        # Nothing tells a scheduler which devices a plugin gave, so these pods avoid that node.
        for node in [name for name in self._usable_nodes() if name != SWAPPED]:
            chosen = self._choose(node, new, taken) if only <= {node} else None
            if chosen is not None:
                self._in_flight |= {uid: holds_of({"status": each}) for uid, each in chosen.items()}
                self._known_since |= dict.fromkeys(chosen, self._find_known_since())
                self._busy.add(_uid(pod))
                group.create_task(self._bind(pod, node, own, chosen))
                return
        if only and any(name not in only for name in self._usable_nodes()):
            await self._deallocate(pod, own)

    def has_decided_before(self, moment: float, claim: JSON) -> bool:
        """Whether it decided about a claim with what it knew before a moment."""
        return self._known_since.get(_uid(claim), moment) < moment

    def _find_known_since(self) -> float:
        followers = (self._pods, self._claims, self._nodes, self._slices)
        return min(each.listed_at for each in followers)

    async def _deallocate(self, pod: JSON, claims: Iterable[JSON]) -> None:
        """Do PostFilter: take back one allocation that keeps the pod from a node."""
        for claim in claims:
            consumers = (claim.get("status") or {}).get("reservedFor") or []
            if devices_of(claim) and all(one["uid"] == _uid(pod) for one in consumers):
                metadata = claim["metadata"]
                change = {
                    "metadata": {
                        "uid": _uid(claim),
                        "resourceVersion": metadata["resourceVersion"],
                    },
                    "status": {"allocation": None, "reservedFor": None},
                }
                await self._client.ask("PATCH", path_of(CLAIMS, claim, "status"), change)
                return

    def _count_free(self, name: str) -> int:
        """Return how many devices of its plugin a node has left, as the API server knows it."""
        nodes = (e for e in self._nodes.objects.values() if e["metadata"]["name"] == name)
        node: JSON = next(nodes, {})
        offered = (node.get("status") or {}).get("allocatable") or {}
        used = sum(
            count_legacy(pod)
            for uid, pod in self._pods.objects.items()
            if (pod["spec"].get("nodeName") or self._places.get(uid)) == name and not is_over(pod)
        )
        return int(offered.get(RESOURCE, 0)) - used

    def _usable_nodes(self) -> list[str]:
        return sorted(
            node["metadata"]["name"]
            for node in self._nodes.objects.values()
            if is_open(node)
            and not has_fence(node)
            and node["metadata"]["name"] not in self._network.full
        )

    def _choose(
        self, node: str, claims: Iterable[JSON], taken: Mapping[Device, int]
    ) -> dict[str, JSON] | None:
        """Return the allocations of claims on a node, or None.

        The counters are charged by the first share of a device, and before the taint is seen.
        """
        if self._is_refused(node):
            return None
        slices = [s["spec"] for s in self._slices.objects.values() if s["spec"]["nodeName"] == node]
        devices = {
            each["name"]: each
            for part in slices
            for each in part.get("devices", ())
            if part["driver"] == DRIVER  # its pods ask for no others
        }
        units = sum(
            int(counter["value"])
            for part in slices
            for counters in part.get("sharedCounters", ())
            for counter in counters["counters"].values()
        )
        held = {name: taken[node, name] for name in devices if (node, name) in taken}
        left = units - sum(_units(devices[name]) for name in held)
        chosen: dict[str, JSON] = {}
        for claim in claims:
            results: list[JSON] = []
            for ask in asks_of(claim):
                own = {each["device"] for each in results if each["request"] == ask.request}
                for choice, name in product(ask.choices, devices):
                    device, needed = devices[name], 0 if name in held else _units(devices[name])
                    amount = give(_capacity(device), held.get(name, 0), choice.memory)
                    if not amount or needed > left or name in own:
                        continue
                    left -= needed
                    if device.get("taints"):
                        left += 0 if "140436" in self._defects else needed
                        continue
                    held[name] = held.get(name, 0) + amount
                    results.append(self._make_result(node, device, choice.name, amount))
                    break
                else:
                    return None
            chosen[_uid(claim)] = {"allocation": {"devices": {"results": results}}}
        return chosen

    def _make_result(self, node: str, device: JSON, request: str, amount: int) -> JSON:
        """Return the result of a request; a share has an ID and what it consumes."""
        result = {"request": request, "driver": DRIVER, "pool": node, "device": device["name"]}
        if not device.get("allowMultipleAllocations"):
            return result
        share = uuid.UUID(int=self._network.random.getrandbits(128), version=4)
        return {**result, "shareID": f"{share}", "consumedCapacity": {MEMORY: f"{amount}"}}

    def _is_refused(self, pool: str) -> bool:
        """Whether a rule taints all devices of a pool."""
        selectors = (rule["spec"]["deviceSelector"] for rule in self._rules.objects.values())
        return any(each.get("pool") == pool for each in selectors)

    async def _bind(
        self, pod: JSON, node: str, claims: Iterable[JSON], chosen: Mapping[str, JSON]
    ) -> None:
        """Do PreBind and Bind."""
        random = self._network.random
        is_slow = random.random() < self._slow_bindings
        await asyncio.sleep(random.uniform(1, LONGEST_SECONDS) if is_slow else random.uniform(0, 1))
        written = [await self._allocate(claim, pod, chosen.get(_uid(claim))) for claim in claims]
        for uid in chosen:
            self._in_flight.pop(uid, None)
        if all(written):
            metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
            target = {"target": {"kind": "Node", "name": node}}
            path = path_of(PODS, pod, "binding")
            if await self._client.ask("POST", path, {**body, **target}) is not None:
                until = asyncio.get_running_loop().time() + BOUND_SECONDS
                self._bound[_uid(pod)] = pod["metadata"]["resourceVersion"], until
        self._busy.discard(_uid(pod))
        self._places.pop(_uid(pod), None)

    async def _allocate(self, claim: JSON, pod: JSON, chosen: JSON | None) -> bool:
        """Write the finalizer, then the allocation and the pod."""
        metadata = claim["metadata"]
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": _uid(pod)}
        status: JSON = {"reservedFor": [*(e for e in reserved if e["uid"] != _uid(pod)), consumer]}
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        if chosen is not None:
            status |= chosen
            change = {"metadata": {**version, "finalizers": [_FINALIZER]}}
            marked = await self._client.ask("PATCH", path_of(CLAIMS, claim), change)
            if marked is None:
                return False
            version["resourceVersion"] = marked["metadata"]["resourceVersion"]
        change = {"metadata": version, "status": status}
        answer = await self._client.ask("PATCH", path_of(CLAIMS, claim, "status"), change)
        if answer is not None and "136269" not in self._defects:
            until = asyncio.get_running_loop().time() + LAG_SECONDS
            self._assumed[_uid(claim)] = int(answer["metadata"]["resourceVersion"]), until
            self._note(_uid(claim), holds_of(answer))
        return answer is not None


def _uid(value: JSON) -> str:
    return str(value["metadata"]["uid"])


def _capacity(device: JSON) -> JSON | None:
    """Return the capacity of a device that is shared; others are given as a whole, to any request.

    To one that asks for memory, this scheduler gives none of them.
    """
    return device["capacity"][MEMORY] if device.get("allowMultipleAllocations") else None


def _units(device: JSON) -> int:
    drawn = (use["counters"].values() for use in device.get("consumesCounters", ()))
    return sum(int(counter["value"]) for counters in drawn for counter in counters)
