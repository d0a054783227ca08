"""Models of a kubelet and its driver.

A device is used by a pod from its preparation until the containers of the pod have ended, whatever
the API server says of the pod.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from allocator.state.prepare_failures import REASON as UNPREPARED
from drawbridge.api_error import ApiError
from drawbridge.cluster.client import MERGE, STRATEGIC
from tests.cluster.fake.kinds import JSON
from tests.cluster.fake.trouble import Seen
from tests.world.gangs import is_reserved_for
from tests.world.network import Network
from tests.world.objects import ALL_NODES, MEMORY, RESOURCE, is_over
from tests.world.watches import Follower

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
PODS = "/api/v1/pods"
# How the UID of what a plugin has given begins; no claim has such a one.
PLUGIN = "plugin "
# A kubelet ends the containers of a pod within its grace period, and unprepares in this time.
GRACE_SECONDS = 5.0
UNPREPARE_SECONDS = 3.0
# How long allocators wait after that for the containers of a pod that vanished, at least.
LEAST_HOLD = 30
Device = tuple[str, str]  # pool and name


class Hold(NamedTuple):
    """What a claim has of a device: a share with an amount of its memory, or all of it."""

    device: Device
    share: str
    amount: int


class Use(NamedTuple):
    """One pod uses the devices of a claim.

    `lost` if nothing tells of it to who decides: a restore lost the pod or its claim, Kubernetes
    itself freed the devices too early, or the allocator has never seen the allocation.
    """

    pod: str
    claim: str
    holds: frozenset[Hold]
    node: str
    lost: bool = False
    uid: str = ""  # of the claim

    @property
    def devices(self) -> frozenset[Device]:
        """The devices, without their shares."""
        return frozenset(hold.device for hold in self.holds)


def devices_of(claim: JSON) -> frozenset[Device]:
    """Return the devices that a claim holds."""
    return frozenset((each["pool"], each["device"]) for each in list_results(claim))


def holds_of(claim: JSON) -> frozenset[Hold]:
    """Return what a claim holds of devices; with admin access it uses what others have."""
    results = (each for each in list_results(claim) if not each.get("adminAccess"))
    return frozenset(map(make_hold, results))


def held_by(claim: JSON) -> frozenset[Device]:
    """Return the devices of which a claim holds something."""
    return frozenset(hold.device for hold in holds_of(claim))


def make_hold(result: JSON) -> Hold:
    """Return what a result of an allocation holds."""
    pool, name, share = result["pool"], result["device"], result.get("shareID", "")
    consumed = (result.get("consumedCapacity") or {}).get(MEMORY, 0)
    return Hold((pool, name), share, int(f"{consumed}") if share else ALL_NODES[pool].size(name))


def count_held(holds: Iterable[Hold]) -> Counter[Device]:
    """Return how much is held of each device."""
    held = Counter[Device]()
    for hold in holds:
        held[hold.device] += hold.amount
    return held


def list_results(claim: JSON) -> Sequence[JSON]:
    """Return the results of the allocation of a claim, if it has one."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: Sequence[JSON] = (allocation.get("devices") or {}).get("results") or ()
    return results


def protection_of(claim: JSON) -> tuple[frozenset[Device], bool]:
    """Return the devices of a claim, and whether something keeps it from going with them."""
    return devices_of(claim), bool(claim and claim["metadata"].get("finalizers"))


def consumers_of(claim: JSON) -> list[str]:
    """Return the UIDs of the pods, or of the PodGroup, that a claim is reserved for."""
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()]


class Client:
    """Requests of a model; an error of the API server is an answer of None."""

    def __init__(self, network: Network, who: str) -> None:
        self._network, self._who = network, who

    async def ask(self, method: str, path: str, body: object = None, **query: str) -> Any:  # noqa: ANN401  # JSON
        """Send a request; patches are merge patches, or keep the other conditions of a pod."""
        headers = {}
        if method == "PATCH":
            keeps = isinstance(body, dict) and "conditions" in body.get("status", ())
            headers["Content-Type"] = STRATEGIC if keeps else MERGE
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
    # The devices that the driver fails to prepare.
    failing: set[str] = field(default_factory=set)
    # The devices that a plugin offers, and those that it gave to the containers of pods, by UID.
    plugin: tuple[str, ...] = ()
    given: dict[str, frozenset[str]] = field(default_factory=dict)
    _workers: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    _wakes: dict[str, asyncio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs.set()
        self._client = Client(self.network, f"kubelet {self.name}")
        self._pods = Follower(self.network, f"kubelet {self.name}", "pods", node=self.name)

    async def run(self) -> None:
        """Work on each pod of the node until cancelled."""
        await self._pods.run(self._follow)

    def start_again(self) -> None:
        """Start on another machine with the name of the one before, whose pods are still there."""
        self.runs.set()
        for pod in tuple(self._pods.objects.values()):
            self._follow(None, pod)

    def vanish(self) -> None:
        """End at once, with all containers: the machine is gone, and no kubelet runs on it."""
        self.runs.clear()
        for uid, worker in self._workers.items():
            worker.cancel()
            self._end_use(uid)
        # The next machine can start before these have ended.
        self._workers, self._wakes = {}, {}

    def _follow(self, before: JSON | None, after: JSON | None) -> None:
        uid = (after or before or {})["metadata"]["uid"]
        if uid in self._wakes:
            self._wakes[uid].set()
        elif after is not None and after["spec"].get("nodeName") == self.name:
            if is_over(after) and "deletionTimestamp" not in after["metadata"]:
                return
            self._wakes[uid] = asyncio.Event()
            self._workers[uid] = worker = asyncio.ensure_future(self._work(uid, after))
            worker.add_done_callback(lambda done: self._end(uid, done))

    def _end(self, uid: str, done: "asyncio.Task[None]") -> None:
        if self._workers.get(uid) is not done:
            return
        del self._workers[uid], self._wakes[uid]
        # After a restore, a pod can be bound here again.
        if not done.cancelled() and (pod := self._pods.objects.get(uid)) is not None:
            self._follow(None, pod)

    async def _work(self, uid: str, pod: JSON) -> None:
        random = self.network.random
        if count := count_legacy(pod):
            is_prepared = await self._admit(uid, pod, count)
            if not is_prepared:
                await self._confirm(uid, pod, "Failed")
                return
        else:
            is_prepared = await self._prepare(uid, pod)
        while not self._must_end(uid):
            # A kubelet sends a status until it sees it, also again after a restore.
            if not is_prepared or self._phase(uid) == "Running":
                await self._change(uid)
            else:
                await self._tell(pod, "Running")
                await asyncio.sleep(random.uniform(0.1, 0.3))
            await self.runs.wait()
        # Containers end within the grace period, and then the driver unprepares.
        grace = GRACE_SECONDS if random.random() < 0.2 else random.uniform(0, 1)
        await asyncio.sleep(grace)
        await asyncio.sleep(UNPREPARE_SECONDS if self.slow else random.uniform(0, 0.2))
        self._end_use(uid)
        await self.runs.wait()
        await self._confirm(uid, pod, "Succeeded")

    def _end_use(self, uid: str) -> None:
        self.given.pop(uid, None)
        self.end(uid)

    async def _change(self, uid: str) -> None:
        await self._wakes[uid].wait()
        self._wakes[uid].clear()

    def _phase(self, uid: str) -> str:
        seen = self._pods.objects.get(uid) or {}
        return str((seen.get("status") or {}).get("phase", ""))

    async def _tell(self, pod: JSON, phase: str) -> None:
        """Send the phase of this pod, not of another one with its name."""
        change = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": phase}}
        await self._client.ask("PATCH", path_of(PODS, pod, "status"), change)

    def _must_end(self, uid: str) -> bool:
        pod = self._pods.objects.get(uid)
        if pod is None or pod["spec"].get("nodeName") != self.name:
            return True
        if "deletionTimestamp" in pod["metadata"]:
            return True
        return "finish" in (pod["metadata"].get("annotations") or {})

    async def _admit(self, uid: str, pod: JSON, count: int) -> bool:
        """Give a pod devices of the plugin, as the device manager does; it knows no claims."""
        await asyncio.sleep(self.network.random.uniform(0.05, 0.3))
        await self.runs.wait()
        taken = frozenset[str]().union(*self.given.values())
        free = [device for device in self.plugin if device not in taken][:count]
        if len(free) < count or self._must_end(uid):
            self.network.count("pod that a device manager refuses")
            return False
        self.given[uid] = frozenset(free)
        results = [{"pool": self.name, "device": device} for device in free]
        claim = {"metadata": {"name": "the plugin", "uid": f"{PLUGIN}{uid}"}}
        self.start(
            pod, {**claim, "status": {"allocation": {"devices": {"results": results}}}}, self.name
        )
        self.network.count("device of a plugin")
        return True

    async def _prepare(self, uid: str, pod: JSON) -> bool:
        """Prepare the claims of a pod as soon as they are reserved for it."""
        random = self.network.random
        while not self._must_end(uid):
            await asyncio.sleep(random.uniform(0.1, 0.5))
            await self.runs.wait()
            if self.plugin:
                continue  # there is no driver
            seen = self._pods.objects.get(uid, pod)
            claims = [await self._read_claim(pod, name) for name in claim_names(seen)]
            if self._must_end(uid):
                return False
            ready = [claim for claim in claims if claim and is_reserved_for(pod, claim)]
            if len(ready) < len(pod["spec"].get("resourceClaims", ())):
                continue
            if any(device in self.failing for claim in ready for _, device in devices_of(claim)):
                await self._tell_failure(pod)
                continue
            for claim in ready:
                self.start(pod, claim, self.name)
            return True
        return False

    async def _tell_failure(self, pod: JSON) -> None:
        """Say that the devices of a pod cannot be prepared, and try it again later."""
        self.network.count("failed preparation")
        about = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
        named_so = {"namespace": about["namespace"], "name": f"{about['name']}-unprepared"}
        event = {"reason": UNPREPARED, "regarding": {"kind": "Pod", **about}}
        value = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": named_so, **event}
        path = f"/apis/events.k8s.io/v1/namespaces/{about['namespace']}/events"
        await self._client.ask("POST", path, value)
        await asyncio.sleep(self.network.random.uniform(1, 3))

    async def _read_claim(self, pod: JSON, name: str) -> Any:  # noqa: ANN401  # JSON
        claim = {"metadata": {"namespace": pod["metadata"]["namespace"], "name": name}}
        return await self._client.ask("GET", path_of(CLAIMS, claim))

    async def _confirm(self, uid: str, pod: JSON, phase: str) -> None:
        """Say that the containers have ended, and let the pod go if it is deleted."""
        while (seen := self._pods.objects.get(uid)) is not None:
            if seen["spec"].get("nodeName") != self.name:
                return
            if self._phase(uid) != phase:
                await self._tell(pod, phase)
            elif "deletionTimestamp" not in seen["metadata"]:
                return
            else:
                now = {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0}
                await self._client.ask("DELETE", path_of(PODS, pod), now)
            await asyncio.sleep(self.network.random.uniform(0.1, 0.4))
            await self.runs.wait()


def claim_names(pod: JSON) -> list[str]:
    """Return the names of the claims of a pod that are known: those from templates come later."""
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    names = (
        each.get("resourceClaimName") or made.get(each["name"])
        for each in pod["spec"].get("resourceClaims", ())
    )
    return [name for name in names if name]


def count_legacy(pod: JSON) -> int:
    """Return how many devices of a plugin a pod requests."""
    containers = pod["spec"].get("containers", ())
    limits = ((each.get("resources") or {}).get("limits") or {} for each in containers)
    return sum(int(each.get(RESOURCE, 0)) for each in limits)
