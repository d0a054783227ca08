"""Models of the controllers of claims, pods and taints in the controller manager."""

import asyncio
import contextlib

from tests.cluster.fake.kinds import JSON, named
from tests.world.network import Follower, Network
from tests.world.nodes import CLAIMS, PODS, Client, claim_names, devices_of, path_of
from tests.world.objects import OUT_OF_SERVICE

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_POD, _NODE = named("pods"), named("nodes")
_SLICE, _CLAIM = named("resourceslices"), named("resourceclaims")
_WHO = "controller-manager claims"


class ClaimController:
    """Removes consumers that are gone, deallocates, and deletes claims whose pod is gone."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, _WHO)
        self._pods, self._claims = (
            Follower(network, _WHO, "pods"),
            Follower(network, _WHO, "resourceclaims"),
        )
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(self._wake))
            group.create_task(self._claims.run(self._wake))
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
                await self._sync_claim(claim)

    async def _sync_claim(self, claim: JSON) -> None:
        status = claim.get("status") or {}
        kept = [e for e in status.get("reservedFor") or () if await self._uses(claim, e)]
        metadata = claim["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
        if len(kept) != len(status.get("reservedFor") or ()):
            change: JSON = {"reservedFor": kept or None}
            if not kept:
                change["allocation"] = None
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
        elif "deletionTimestamp" not in metadata and await self._is_orphan(claim):
            await self._client.ask("DELETE", path_of(CLAIMS, claim), {"preconditions": version})
        elif metadata.get("deletionTimestamp") and status.get("allocation") and not kept:
            await self._client.ask(
                "PATCH",
                path_of(CLAIMS, claim, "status"),
                {"metadata": version, "status": {"allocation": None}},
            )

    async def _uses(self, claim: JSON, consumer: JSON) -> bool:
        pod = self._pods.objects.get(consumer["uid"])
        if pod is None:
            path = {"metadata": {**claim["metadata"], "name": consumer["name"]}}
            pod = await self._client.ask("GET", path_of(PODS, path))
            if pod is None:
                return (
                    self._network.store.find(_POD, claim["metadata"]["namespace"], consumer["name"])
                    is not None
                )
        is_same = pod["metadata"]["uid"] == consumer["uid"]
        return is_same and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")

    async def _is_orphan(self, claim: JSON) -> bool:
        owners = claim["metadata"].get("ownerReferences") or ()
        return bool(owners) and not any(
            self._network.store.find(_POD, claim["metadata"]["namespace"], each["name"])
            for each in owners
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


def _is_lost(node: JSON) -> bool:
    return any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
