"""Models of the controllers of claims, pods and taints in the controller manager."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable

from drawbridge.names import SCHEDULER_NAME
from tests.cluster.fake.kinds import JSON, named, of_object
from tests.world.gangs import GROUP, gang_of, list_shared
from tests.world.gates import is_gated
from tests.world.machines import Machine
from tests.world.network import Network
from tests.world.nodes import CLAIMS, PODS, Client, claim_names, devices_of, path_of
from tests.world.objects import OUT_OF_SERVICE, SCALED, is_over
from tests.world.placed_claims import Reserver
from tests.world.quotas import Quotas
from tests.world.watches import Follower

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
GROUPS = f"/apis/{GROUP.api_version}/{GROUP.plural}"
_POD, _NODE = named("pods"), named("nodes")
_SLICE, _CLAIM = named("resourceslices"), named("resourceclaims")
_TEMPLATE = named("resourceclaimtemplates")
_WHO = "controller-manager claims"
# How often it makes a claim again for a pod, which can wait for long.
_MOST_MISSES = 3
# An autoscaler adds a node for a pod that waits this long, and removes one after this time.
_WAITS, _EMPTY = 8.0, 15.0
# The API server removes what is reported of devices that a claim does not have any more.
_WITHOUT_DEVICES: JSON = {"allocation": None, "devices": None}


class ClaimController:
    """Removes consumers that are gone, deallocates, and deletes claims whose pod is gone."""

    def __init__(self, network: Network, quotas: Quotas) -> None:
        self._network, self._quotas = network, quotas
        self._client = Client(network, _WHO)
        self._pods, self._claims = (
            Follower(network, _WHO, "pods"),
            Follower(network, _WHO, "resourceclaims"),
        )
        self._groups = Follower(network, _WHO, GROUP.long_name)
        self._reserver = Reserver(network, self._client)
        self._changed = asyncio.Event()
        self._misses_of = Counter[str]()  # by the UID of the pod
        # Pods that name another claim since they were bound, as a controller that hears late makes
        # them. The API server offers nothing against that.
        self.renamed: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(self._wake))
            group.create_task(self._claims.run(self._wake))
            group.create_task(self._groups.run(self._wake))
            group.create_task(self._sync())

    def _wake(self, *_: JSON | None) -> None:
        self._changed.set()

    async def _sync(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                # What failed is tried again.
                await asyncio.wait_for(self._changed.wait(), 2.0)
            self._changed.clear()
            await asyncio.sleep(self._network.random.uniform(0.02, 0.4))
            for claim in tuple(self._claims.objects.values()):
                if not self._is_in_use(claim):
                    await self._sync_claim(claim)
            await self._reserver.reserve(self._pods.objects.values(), self._claims.objects)
            for user in (*self._groups.objects.values(), *self._pods.objects.values()):
                if any(
                    "resourceClaimTemplateName" in e for e in user["spec"].get("resourceClaims", ())
                ):
                    await self._make_claims(user)

    async def _make_claims(self, user: JSON) -> None:
        """Make the claims of a pod or a PodGroup from templates, and note their names there.

        A pod that names a PodGroup has no claim before this exists; it shares those of the group.
        """
        find, metadata = self._network.store.find, user["metadata"]
        space = metadata["namespace"]
        if "deletionTimestamp" in metadata or is_over(user):
            return
        group = self._find_group(user)
        if group is None and "schedulingGroup" in user["spec"]:
            return
        shared, named_claims = [*list_shared(user, group)], _list_made(user)
        before = dict(named_claims)
        for entry in user["spec"]["resourceClaims"]:
            name, template = entry["name"], entry.get("resourceClaimTemplateName")
            if entry in shared:
                if (of_group := _list_made(group).get(name)) is not None:
                    named_claims[name] = of_group
                continue
            noted = named_claims.get(name, {}).get("resourceClaimName", "")
            content = find(_TEMPLATE, space, template) if template else None
            is_made = noted and find(_CLAIM, space, noted)
            again = bool(is_made) and self._misses(user)
            if content is None or (is_made and not again):
                continue
            made = await self._make_claim(user, name, content, again=again)
            if made is None:
                return
            named_claims[name] = {"name": name, "resourceClaimName": made}
        if named_claims != before:
            change = {"resourceClaimStatuses": [*named_claims.values()]}
            about = {"metadata": {"uid": metadata["uid"]}, "status": change}
            path = PODS if user["kind"] == "Pod" else GROUPS
            stored = await self._client.ask("PATCH", path_of(path, user, "status"), about)
            if stored is not None and "nodeName" in stored["spec"]:
                self._network.count("claim made for a pod that is bound")
                self.renamed.add(metadata["uid"])

    def _find_group(self, pod: JSON) -> JSON | None:
        """Return the PodGroup of a pod as it is known here."""
        gang = gang_of(pod)
        for group in self._groups.objects.values():
            metadata = group["metadata"]
            if gang == (GROUP, metadata["namespace"], metadata["name"]):
                return group
        return None

    def _misses(self, user: JSON) -> bool:
        """Whether it hears of a claim that it has made later than of the pod that names it."""
        chance = self._network.faults.second if user["kind"] == "Pod" else 0.0
        if not chance or "nodeName" in user["spec"] or self._network.random.random() >= chance:
            return False
        self._misses_of[user["metadata"]["uid"]] += 1
        if self._misses_of[user["metadata"]["uid"]] > _MOST_MISSES:
            return False
        self._network.count("claim made twice")
        return True

    async def _make_claim(
        self, user: JSON, name: str, template: JSON, *, again: bool
    ) -> str | None:
        """Make a claim, or find the one that was made before its name was noted."""
        metadata = user["metadata"]
        owner = {key: user[key] for key in ("apiVersion", "kind")} | {"name": metadata["name"]}
        owner |= {"uid": metadata["uid"], "controller": True}
        marks = {"resource.kubernetes.io/pod-claim-name": name}
        own = () if again else self._network.store.among(_CLAIM, metadata["namespace"], "", "")
        for claim in own:
            is_own = claim["metadata"].get("ownerReferences") == [owner]
            if is_own and (claim["metadata"].get("annotations") or {}).items() >= marks.items():
                return str(claim["metadata"]["name"])
        value = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": f"{metadata['name']}-{name}-{self._network.random.getrandbits(24):06x}",
                "namespace": metadata["namespace"],
                "annotations": marks
                | (template["spec"].get("metadata") or {}).get("annotations", {}),
                "ownerReferences": [owner],
            },
            "spec": template["spec"]["spec"],
        }
        if self._quotas.charge(value):
            return None
        root, _, plural = CLAIMS.rpartition("/")
        path = f"{root}/namespaces/{metadata['namespace']}/{plural}"
        made = await self._client.ask("POST", path, value)
        return None if made is None else str(made["metadata"]["name"])

    def _is_in_use(self, claim: JSON) -> bool:
        """Whether pods or groups that are known to live use a claim that stays."""
        consumers = (claim.get("status") or {}).get("reservedFor")
        return (
            bool(consumers)
            and "deletionTimestamp" not in claim["metadata"]
            and all(self._lives(each["uid"]) for each in consumers)
        )

    def _lives(self, uid: str) -> bool:
        user = self._pods.objects.get(uid) or self._groups.objects.get(uid)
        return user is not None and not is_over(user)

    async def _sync_claim(self, claim: JSON) -> None:
        status = claim.get("status") or {}
        consumers = status.get("reservedFor") or ()
        kept = [e for e in consumers if await self._uses(claim, e)] if consumers else []
        metadata = claim["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
        if len(kept) != len(consumers):
            change: JSON = {"reservedFor": kept or None}
            if not kept:
                change |= _WITHOUT_DEVICES
            await self._client.ask(
                "PATCH", path_of(CLAIMS, claim, "status"), {"metadata": version, "status": change}
            )
        elif (
            metadata.get("finalizers")
            and not status.get("allocation")
            and (
                metadata.get("deletionTimestamp")
                or "drawbridge.dev/allocation" not in (metadata.get("annotations") or {})
            )
        ):
            change = {"metadata": {**version, "finalizers": []}}
            await self._client.ask("PATCH", path_of(CLAIMS, claim), change)
        elif "deletionTimestamp" not in metadata and self._is_orphan(claim):
            await self._client.ask("DELETE", path_of(CLAIMS, claim), {"preconditions": version})
        elif metadata.get("deletionTimestamp") and status.get("allocation") and not kept:
            await self._client.ask(
                "PATCH",
                path_of(CLAIMS, claim, "status"),
                {"metadata": version, "status": _WITHOUT_DEVICES},
            )

    async def _uses(self, claim: JSON, consumer: JSON) -> bool:
        space, name = claim["metadata"]["namespace"], consumer["name"]
        is_group = consumer["resource"] == GROUP.plural
        user = (self._groups if is_group else self._pods).objects.get(consumer["uid"])
        if user is None:
            path = {"metadata": {**claim["metadata"], "name": name}}
            user = await self._client.ask("GET", path_of(GROUPS if is_group else PODS, path))
            if user is None:
                find = self._network.store.find
                return find(GROUP if is_group else _POD, space, name) is not None
        is_same = user["metadata"]["uid"] == consumer["uid"]
        return is_same and not is_over(user)

    def _is_orphan(self, claim: JSON) -> bool:
        find, space = self._network.store.find, claim["metadata"]["namespace"]
        owners = claim["metadata"].get("ownerReferences") or ()
        return bool(owners) and not any(
            (owner := find(of_object(each), space, each["name"]))
            and owner["metadata"]["uid"] == each["uid"]
            for each in owners
        )


def _list_made(user: JSON | None) -> dict[str, JSON]:
    """Return the claims that were made of templates, by the entries of a pod or a PodGroup."""
    made = ((user or {}).get("status") or {}).get("resourceClaimStatuses") or ()
    return {each["name"]: each for each in made}


class GroupProtection:
    """Lets a PodGroup that is deleted go when none of its pods can run any more."""

    def __init__(self, network: Network) -> None:
        self._network = network
        who = "controller-manager groups"
        self._client = Client(network, who)
        self._pods = Follower(network, who, "pods")
        self._groups = Follower(network, who, GROUP.long_name)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(self._wake))
            group.create_task(self._groups.run(self._wake))
            group.create_task(self._release())

    def _wake(self, *_: JSON | None) -> None:
        if any("deletionTimestamp" in e["metadata"] for e in self._groups.objects.values()):
            self._changed.set()

    async def _release(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                # What failed is tried again.
                await asyncio.wait_for(self._changed.wait(), 5.0)
            self._changed.clear()
            await asyncio.sleep(self._network.random.uniform(0.02, 0.2))
            for group in tuple(self._groups.objects.values()):
                metadata = group["metadata"]
                if "deletionTimestamp" in metadata and not self._has_pods(group):
                    version = {key: metadata[key] for key in ("resourceVersion", "uid")}
                    change = {"metadata": {**version, "finalizers": []}}
                    await self._client.ask("PATCH", path_of(GROUPS, group), change)

    def _has_pods(self, group: JSON) -> bool:
        about = GROUP, group["metadata"]["namespace"], group["metadata"]["name"]
        return any(
            gang_of(pod) == about and not is_over(pod) for pod in self._pods.objects.values()
        )


class PodController:
    """Evicts pods from tainted devices, and removes those of nodes that do not exist."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, "controller-manager pods")

    async def run(self) -> None:
        """Work until cancelled."""
        missing: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._network.random.uniform(1, 3))
            tainted = self._tainted()
            for pod in [*self._network.store.among(_POD, "", "", "")]:
                node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
                if not node:
                    continue
                place = self._network.store.find(_NODE, "", node)
                if place is not None and _is_lost(place):
                    self._network.count("eviction from a lost node")
                    await self._delete(pod, now=True)
                elif place is None:
                    if loop.time() - missing.setdefault(uid, loop.time()) > 10:
                        await self._delete(pod, now=True)
                elif "deletionTimestamp" not in pod["metadata"] and tainted & self._devices(pod):
                    self._network.count("eviction by a taint")
                    await self._delete(pod, now=False)

    def _tainted(self) -> set[tuple[str, str]]:
        return {
            (slice_["spec"]["pool"]["name"], device["name"])
            for slice_ in self._network.store.among(_SLICE, "", "", "")
            for device in slice_["spec"].get("devices", ())
            if any(taint["effect"] == "NoExecute" for taint in device.get("taints", ()))
        }

    def _devices(self, pod: JSON) -> set[tuple[str, str]]:
        space = pod["metadata"]["namespace"]
        claims = (self._network.store.find(_CLAIM, space, name) for name in claim_names(pod))
        return {device for claim in claims if claim for device in devices_of(claim)}

    async def _delete(self, pod: JSON, *, now: bool) -> None:
        options: JSON = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        if now:
            options["gracePeriodSeconds"] = 0
        await self._client.ask("DELETE", path_of(PODS, pod), options)


class Autoscaler:
    """Adds a node when pods wait for long, and removes it when it had no pods for some time."""

    def __init__(self, network: Network, machines: Iterable[Machine]) -> None:
        self._network, self._machines = network, [e for e in machines if e.name in SCALED]
        self._waiting: dict[str, float] = {}  # pods, since when, by UID

    async def run(self) -> None:
        """Work until cancelled."""
        empty_since: dict[str, float] = {}
        loop, random = asyncio.get_running_loop(), self._network.random
        while True:
            await asyncio.sleep(random.uniform(2, 5))
            pods = [*self._network.store.among(_POD, "", "", "")]
            used = {pod["spec"].get("nodeName") for pod in pods}
            waiting = [p["metadata"]["uid"] for p in pods if _is_waiting(p)]
            self._waiting = {uid: self._waiting.get(uid, loop.time()) for uid in waiting}
            is_needed = any(loop.time() - since > _WAITS for since in self._waiting.values())
            for machine in self._machines:
                if not machine.is_there or machine.name in used:
                    empty_since.pop(machine.name, None)
                elif loop.time() - empty_since.setdefault(machine.name, loop.time()) > _EMPTY:
                    self._network.count("node that an autoscaler removes")
                    # A scheduler that has not seen it can still choose the node.
                    machine.cordon(_EMPTY)
                    await asyncio.sleep(random.uniform(0.5, 3))
                    machine.remove(0)
                    del empty_since[machine.name]
                if not machine.is_there and is_needed:
                    self._network.count("node that an autoscaler adds")
                    await asyncio.sleep(random.uniform(1, 5))
                    machine.register()


def _is_waiting(pod: JSON) -> bool:
    is_bound = "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"]
    is_ours = pod["spec"]["schedulerName"] == SCHEDULER_NAME
    return is_ours and not is_bound and not is_gated(pod)


def _is_lost(node: JSON) -> bool:
    return any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
