"""Others that allocate our devices: a scheduler that tolerates the fence, and a person.

The API server checks no devices, so nothing but the policy of the fence refuses what they write.
Their claims have names of their own, and nothing of ours writes to these objects. What they take
although ours has it is counted, and not judged; judged is what ours does once it can know.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from drawbridge.ledger.ledger import Ledger
from tests.cluster.fake.kinds import JSON, named
from tests.world.configurations import is_ours
from tests.world.events import GRACE_SECONDS, create_claim, create_pod, event
from tests.world.machines import draw_seconds
from tests.world.network import Network
from tests.world.nodes import CLAIMS, PODS, Client, Device, consumers_of, devices_of, path_of
from tests.world.objects import ALL_NODES, DRIVER

if TYPE_CHECKING:
    from tests.world.world import World

NAME: Final = "rival"
_CLAIM_NAME: Final = re.compile(r"r\d+")
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_ATTEMPTS: Final = 6
_POD, _CLAIM, _NODE = named("pods"), named("resourceclaims"), named("nodes")


class _Wanted(NamedTuple):
    """What a rival takes for a claim, with a pod or without, after a pause and for some time."""

    claim: str
    pod: str
    device: Device
    pause: float
    stays: float


class Rivals:
    """Takes devices, and gives them back after a while; and what our allocators did beside that."""

    def __init__(self, network: Network) -> None:
        # The claims that other schedulers allocated behind a fence that was opened by hand.
        self.let_in: set[str] = set()
        self.beside: list[str] = []  # what they promised or bound although they saw it
        self.sent: set[str] = set()  # the UIDs of pods for which they have sent a binding
        self.joined: set[str] = set()  # claims that pods of ours came to share
        self.shared: set[tuple[str, Device]] = set()  # pods of ours, and what rivals use, too
        self._network = network
        self._wanted: asyncio.Queue[_Wanted] = asyncio.Queue()
        self._scheduler, self._person = (
            Client(network, f"{NAME} scheduler"),
            Client(network, f"{NAME} person"),
        )

    def has(self, claim: str) -> bool:
        """Whether a claim of this name is one that others allocate beside us."""
        return _CLAIM_NAME.fullmatch(claim) is not None or claim in self.let_in

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._take(await self._wanted.get()))

    def take(self, wanted: _Wanted) -> None:
        """Take a device for a claim soon."""
        self._wanted.put_nowait(wanted)

    async def _take(self, wanted: _Wanted) -> None:
        await asyncio.sleep(wanted.pause)
        for _ in range(_ATTEMPTS):
            claim, pod = self._find(wanted)
            if claim is None or (wanted.pod and pod is None):
                break
            if devices_of(claim) or await self._allocate(claim, pod, wanted.device):
                await self._bind(pod, wanted.device[0])
                await asyncio.sleep(wanted.stays)
                break
            await asyncio.sleep(self._network.random.uniform(0.1, 1))
        self.end(wanted.claim, wanted.pod)

    def _find(self, wanted: _Wanted) -> tuple[JSON | None, JSON | None]:
        find = self._network.store.find
        return find(_CLAIM, "default", wanted.claim), find(_POD, "default", wanted.pod)

    def end(self, claim: str, pod: str) -> None:
        """Delete the pod of a claim, or the claim that has none."""
        find, delete = self._network.store.find, self._network.store.delete
        if (own := find(_POD, "default", pod)) is not None:
            delete(_POD, own, GRACE_SECONDS)
        elif not pod and (left := find(_CLAIM, "default", claim)) is not None:
            delete(_CLAIM, left)

    async def _allocate(self, claim: JSON, pod: JSON | None, device: Device) -> bool:
        """Write an allocation; a person forgets the finalizer, and names no version."""
        metadata = claim["metadata"]
        client, about = self._person, {"uid": metadata["uid"]}
        node, name = device
        term = {"key": "metadata.name", "operator": "In", "values": [node]}
        request = _name_request(claim)
        result = {"request": request, "driver": DRIVER, "pool": node, "device": name}
        status: JSON = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [term]}]},
            }
        }
        if pod is not None:
            own = {"resource": "pods", "name": pod["metadata"]["name"]}
            status["reservedFor"] = [{**own, "uid": pod["metadata"]["uid"]}]
            client = self._scheduler
            change = {"resourceVersion": metadata["resourceVersion"], "finalizers": [_FINALIZER]}
            marked = await client.ask("PATCH", path_of(CLAIMS, claim), {"metadata": change})
            if marked is None:
                return False
            about["resourceVersion"] = marked["metadata"]["resourceVersion"]
        change = {"metadata": about, "status": status}
        return await client.ask("PATCH", path_of(CLAIMS, claim, "status"), change) is not None

    async def _bind(self, pod: JSON | None, node: str) -> None:
        if pod is None:
            return
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
        target = {"target": {"kind": "Node", "name": node}}
        await self._scheduler.ask("POST", path_of(PODS, pod, "binding"), {**body, **target})


def _name_request(claim: JSON) -> str:
    """Return the name of the first request of a claim, as a result has it."""
    request = claim["spec"]["devices"]["requests"][0]
    alternatives = request.get("firstAvailable")
    return "/".join([request["name"], *([alternatives[0]["name"]] if alternatives else [])])


# --- what happens ---


@event(2.5)
def allocate_as_rival(world: "World", drawn: int) -> str:
    """Let a rival take a device of ours, mostly for a pod that it binds, for some time."""
    device = _choose_device(world, drawn)
    if device is None:
        return ""
    name = world.next_name("r")
    pod = create_pod(world, [name], scheduler=NAME) if drawn // 8 % 4 else None
    create_claim(world, name, pod, drawn, is_plain=True)
    pause = (0.0, 0.3, draw_seconds(drawn, 4))[drawn // 32 % 3]
    wanted = _Wanted(
        name, pod["metadata"]["name"] if pod else "", device, pause, draw_seconds(drawn // 2, 60)
    )
    world.rivals.take(wanted)
    who = wanted.pod or "nobody"
    return f"{name} of {who} takes {'/'.join(device)} in {pause:.1f} s for {wanted.stays:.0f} s"


@event(0.7)
def end_rivals(world: "World", _drawn: int) -> str:
    """Let all rivals give their devices back."""
    claims = world.all("resourceclaims")
    left = [claim for claim in claims if world.rivals.has(claim["metadata"]["name"])]
    for claim in left:
        owners = claim["metadata"].get("ownerReferences") or ({"name": ""},)
        world.rivals.end(claim["metadata"]["name"], owners[0]["name"])
    return ", ".join(claim["metadata"]["name"] for claim in left)


def _choose_device(world: "World", drawn: int) -> Device | None:
    """Return a device of ours: free, being given away, kept, or allocated; else any of them."""
    ours = [
        (name, device)
        for name in sorted(ALL_NODES)
        if (node := world.network.store.find(_NODE, "", name)) and is_ours(world, node)
        for device in ALL_NODES[name].devices
        if device not in ALL_NODES[name].nics
    ]
    held = {device for claim in world.holders.values() for device in devices_of(claim)}
    kinds: tuple[Iterable[Device], ...] = (
        [device for device in ours if device not in held],
        _list_promised(world),
        _list_promised(world),
        _list_kept(world),
        _list_unused(world),
        _list_unused(world),
        held,
    )
    kind = drawn % len(kinds)
    chosen = sorted(set(kinds[kind]).intersection(ours)) or ours
    return chosen[drawn // 8 % len(chosen)] if chosen else None


def _ledgers(world: "World") -> Iterator[Ledger]:
    for pair in world.pairs.values():
        if pair.parts is not None and pair.parts.state.ready and pair.parts.term.leading:
            yield pair.parts.state.decisions.state.ledger


def _list_unused(world: "World") -> Iterator[Device]:
    """Yield what claims have that no pod with a node uses."""
    used = {pod["metadata"]["uid"] for pod in world.all("pods") if "nodeName" in pod["spec"]}
    for claim in world.holders.values():
        if used.isdisjoint(consumers_of(claim)):
            yield from devices_of(claim)


def _list_promised(world: "World") -> Iterator[Device]:
    for ledger in _ledgers(world):
        for active in ledger.reservations.values():
            yield from ((hold.pool.name, hold.device) for hold in active.holds)


def _list_kept(world: "World") -> Iterator[Device]:
    for ledger in _ledgers(world):
        for holds in ledger.kept.values():
            yield from ((hold.pool.name, hold.device) for hold in holds)
