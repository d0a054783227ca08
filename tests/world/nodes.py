"""Models of a kubelet and its driver, and of the claim controller and garbage collection.

A device is used by a pod from its preparation until the containers of the pod have ended, whatever
the API server says of the pod.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from drawbridge.api_error import ApiError
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.trouble import Seen
from tests.world.network import Follower, Network

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
PODS = "/api/v1/pods"
# A kubelet ends the containers of a pod within its grace period, and unprepares in this time.
GRACE_SECONDS = 5.0
UNPREPARE_SECONDS = 3.0
Device = tuple[str, str]  # pool and name
_POD = named("pods")


class Use(NamedTuple):
    """One pod uses the devices of a claim; `lost` if a restore lost the pod or its claim."""

    pod: str
    claim: str
    devices: frozenset[Device]
    lost: bool = False


def devices_of(claim: JSON) -> frozenset[Device]:
    """Return the devices that a claim holds."""
    results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {})
    return frozenset((each["pool"], each["device"]) for each in results.get("results", ()))


def consumers_of(claim: JSON) -> list[str]:
    """Return the UIDs of the pods that a claim is reserved for."""
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()]


class Client:
    """Requests of a model; an error of the API server is an answer of None."""

    def __init__(self, network: Network, who: str) -> None:
        self._network, self._who = network, who

    async def ask(self, method: str, path: str, body: object = None, **query: str) -> Any:  # noqa: ANN401  # JSON
        """Send a request; merge patches are patches."""
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        data = b"" if body is None else msgspec.json.encode(body)
        seen = Seen(method, path, query, headers, data)
        with contextlib.suppress(ApiError):
            answer = await self._network.send(self._who, self._network.choose(), seen)
            return msgspec.json.decode(answer)
        return None


def path_of(collection: str, value: JSON, sub: str = "") -> str:
    """Return the path of an object of a namespace."""
    root, _, plural = collection.rpartition("/")
    metadata = value["metadata"]
    path = f"{root}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
    return f"{path}/{sub}" if sub else path


@dataclass
class Kubelet:
    """A kubelet with its driver; `runs` is cleared while it is down, containers run on."""

    name: str
    network: Network
    start: Callable[[JSON, JSON, str], None]
    end: Callable[[str], None]
    runs: asyncio.Event = field(default_factory=asyncio.Event)
    slow: bool = False
    _workers: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs.set()
        self._client = Client(self.network, f"kubelet {self.name}")
        self._pods = Follower(self.network, PODS)

    async def run(self) -> None:
        """Work on each pod of the node until cancelled."""
        await self._pods.run(self._follow)

    def _follow(self, _before: JSON | None, after: JSON | None) -> None:
        if after is None or after["spec"].get("nodeName") != self.name:
            return
        uid = after["metadata"]["uid"]
        phase = (after.get("status") or {}).get("phase")
        if uid not in self._workers and phase not in ("Succeeded", "Failed"):
            self._workers[uid] = worker = asyncio.ensure_future(self._work(uid, after))
            worker.add_done_callback(lambda _: self._end(uid))

    def _end(self, uid: str) -> None:
        del self._workers[uid]
        # After a restore, a pod can be bound here again.
        self._follow(None, self._pods.objects.get(uid))

    async def _work(self, uid: str, pod: JSON) -> None:
        random = self.network.random
        is_told = not await self._prepare(uid, pod)
        while not self._must_end(uid):
            # A kubelet sends a status until it is acknowledged.
            is_told = is_told or await self._tell(pod, "Running")
            await asyncio.sleep(random.uniform(0.1, 0.3))
            await self.runs.wait()
        # Containers end within the grace period, and then the driver unprepares.
        grace = GRACE_SECONDS if random.random() < 0.2 else random.uniform(0, 1)
        await asyncio.sleep(grace)
        await asyncio.sleep(UNPREPARE_SECONDS if self.slow else random.uniform(0, 0.2))
        self.end(uid)
        await self.runs.wait()
        await self._confirm(uid, pod)

    async def _tell(self, pod: JSON, phase: str) -> bool:
        """Send the phase of this pod, not of another one with its name."""
        change = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": phase}}
        path = path_of(PODS, pod, "status")
        return await self._client.ask("PATCH", path, change) is not None

    def _must_end(self, uid: str) -> bool:
        pod = self._pods.objects.get(uid)
        if pod is None or pod["spec"].get("nodeName") != self.name:
            return True
        if "deletionTimestamp" in pod["metadata"]:
            return True
        return "finish" in (pod["metadata"].get("annotations") or {})

    async def _prepare(self, uid: str, pod: JSON) -> bool:
        """Prepare the claims of a pod as soon as they are reserved for it."""
        random = self.network.random
        while not self._must_end(uid):
            await asyncio.sleep(random.uniform(0.05, 0.3))
            await self.runs.wait()
            claims = [await self._read_claim(pod, name) for name in claim_names(pod)]
            if self._must_end(uid):
                return False
            ready = [each for each in claims if each and uid in consumers_of(each)]
            if len(ready) == len(claims):
                for claim in ready:
                    self.start(pod, claim, self.name)
                return True
        return False

    async def _read_claim(self, pod: JSON, name: str) -> Any:  # noqa: ANN401  # JSON
        claim = {"metadata": {"namespace": pod["metadata"]["namespace"], "name": name}}
        return await self._client.ask("GET", path_of(CLAIMS, claim))

    async def _confirm(self, uid: str, pod: JSON) -> None:
        """Say that the containers have ended, and let the pod go if it is deleted."""
        while (seen := self._pods.objects.get(uid)) is not None:
            if seen["spec"].get("nodeName") != self.name:
                return
            phase = (seen.get("status") or {}).get("phase")
            if phase != "Succeeded":
                await self._tell(pod, "Succeeded")
            elif "deletionTimestamp" not in seen["metadata"]:
                return
            else:
                now = {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0}
                await self._client.ask("DELETE", path_of(PODS, pod), now)
            await asyncio.sleep(self.network.random.uniform(0.1, 0.4))
            await self.runs.wait()


def claim_names(pod: JSON) -> list[str]:
    """Return the names of the claims of a pod."""
    return [each["resourceClaimName"] for each in pod["spec"].get("resourceClaims", ())]


class ClaimController:
    """Removes consumers that are gone, deallocates, and deletes claims whose pod is gone."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, "claim controller")
        self._pods, self._claims = Follower(network, PODS), Follower(network, CLAIMS)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._claims.run())
            group.create_task(self._sync())

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(self._network.random.uniform(0.1, 0.5))
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
