"""What administrators do by hand to the fence of owned nodes and of devices, and what follows.

They remove or change the policy, its binding, its rules, the taint of a node, and what our
processes note in annotations. Other schedulers then allocate devices of ours until the fence is
back, which nobody keeps them from: their claims count as those of a rival. A node can still have
its taint when the policy goes, because the policy is about to replace it. Until our controller
finds the policy gone, it removes such a taint, and nothing can tie that to the policy.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from allocator.process import _Parts
from drawbridge.agreement.device_fence import find_fenced_pools, write_pools
from drawbridge.agreement.owned_pools import LEAVING, SETTLE_SECONDS
from drawbridge.agreement.owned_pools import has_fence as is_fenced
from drawbridge.dra.inventory import PoolID
from drawbridge.names import (
    FENCE_POLICY,
    LEAVING_POOLS_ANNOTATION,
    REQUIRED_VERSIONS_ANNOTATION,
    SCHEDULER_LEASE,
    SETTLED_ANNOTATION,
)
from tests.cluster.fake.kinds import JSON, Kind, named
from tests.cluster.fake.store import Change
from tests.world.configurations import is_ours
from tests.world.control import Controllers
from tests.world.events import event
from tests.world.fence import DeviceFence, make_fence
from tests.world.machines import draw_seconds
from tests.world.network import SYSTEM, Network
from tests.world.nodes import devices_of
from tests.world.objects import ALL_NODES, DRIVER, FENCE, has_fence

if TYPE_CHECKING:
    from tests.world.world import World

_NODE, _LEASE, _RULE = named("nodes"), named("leases"), named("devicetaintrules")
_POLICY = named("validatingadmissionpolicies")
_BINDING = named("validatingadmissionpolicybindings")


class OpenedFences:
    """The nodes whose fence somebody opened by hand, until all have heard that it is back."""

    def __init__(self, network: Network, fence: DeviceFence, controllers: Controllers) -> None:
        self._network, self._fence, self._controllers = network, fence, controllers
        # Since when they have a fence again; None while they have none.
        self._closed_at: dict[str, float | None] = {}
        # The nodes whose pools the policy named until somebody opened it.
        self._unguarded: dict[str, None] = {}

    def list_fenced(self) -> list[str]:
        """Return the nodes that have a fence, also those that were ours and still have it."""
        return [name for name in ALL_NODES if self._find(name) and self.has_fence(name)]

    def list_guarded(self) -> list[str]:
        """Return the nodes whose pools the policy names."""
        return [*filter(self._fence.guards, ALL_NODES)]

    def note_opened(self, before: Iterable[str] = ALL_NODES, guarded: Iterable[str] = ()) -> None:
        """Note which of these nodes have no fence now, after somebody has changed it.

        Those that the policy does not guard any more can lose their taint, too.
        """
        opened = [name for name in before if not self.has_fence(name)]
        self._closed_at |= dict.fromkeys(opened)
        self._unguarded |= dict.fromkeys(each for each in guarded if not self._fence.guards(each))

    def note_restored(self) -> None:
        """Note the nodes that a restore has brought back without their fence, as they were once."""
        if self._closed_at:
            self.note_opened()

    def follow(self, kind: Kind, _: Change) -> None:
        """Note which of them has its fence again, or lacks it once more."""
        if kind not in (_NODE, _POLICY, _BINDING):
            return
        now = asyncio.get_running_loop().time()
        for name in [*self._unguarded]:
            if self._fence.guards(name):
                del self._unguarded[name]
            elif not self.has_fence(name) and self._controllers.trusts_policy(name):
                self._closed_at[name] = None
        for name, closed_at in self._closed_at.items():
            if not self.has_fence(name):
                self._closed_at[name] = None
            elif closed_at is None:
                self._closed_at[name] = now

    def is_open(self, name: str) -> bool:
        """Whether others can still allocate devices of a node of ours."""
        now = asyncio.get_running_loop().time()
        closed_at = self._closed_at.get(name, float("-inf"))
        return closed_at is None or now - closed_at < SETTLE_SECONDS

    def lets_in(self, claim: JSON) -> bool:
        """Whether others have just allocated devices of such a node."""
        is_open = any(self.is_open(node) for node, _ in devices_of(claim))
        if is_open:
            self._network.count("allocation of others behind a fence that was opened")
        return is_open

    def has_fence(self, name: str) -> bool:
        """Whether a node has its taint, or the policy names its pool."""
        node = self._find(name)
        return node is None or has_fence(node) or self._fence.guards(name)

    def _find(self, name: str) -> JSON | None:
        return self._network.store.find(_NODE, "", name)


def is_seen_open(parts: _Parts, name: str) -> bool:
    """Whether an allocator sees that a node has no fence, and that no policy names its pool."""
    node = parts.caches.nodes.get(name)
    if node is None or is_fenced(node.value.taints):
        return False
    return PoolID(DRIVER, name) not in (find_fenced_pools(parts.caches.fence_parts(), SYSTEM) or ())


# --- what administrators do ---


@event(0.8)
def open_fence(world: "World", drawn: int) -> str:
    """Remove or change a part of the fence by hand; often, somebody installs it again later."""
    if not world.conditions.fences_devices or drawn % 8 == 0:
        return _remove_taint(world, drawn // 8)
    told = _open_policy(world, drawn // 8)
    seconds = draw_seconds(drawn, 40)
    if drawn % 4:
        asyncio.get_running_loop().call_later(seconds, _install_again, world)
        told += f", until it is installed again after {seconds:.1f} s"
    return told


def _open_policy(world: "World", drawn: int) -> str:
    store, server = world.network.store, world.server
    policy, binding = store.find(_POLICY, "", FENCE_POLICY), store.find(_BINDING, "", FENCE_POLICY)
    number, fenced = drawn % 6, world.opened.list_fenced()
    guarded = world.opened.list_guarded()
    if policy is None or binding is None:
        return "a part of the policy is gone already"
    if number == 0:
        server.remove(_POLICY.plural, FENCE_POLICY)
    elif number == 1:
        server.remove(_BINDING.plural, FENCE_POLICY)
    elif number == 2:
        server.put({**policy, "spec": {**policy["spec"], "failurePolicy": "Ignore"}})
    elif number == 3:
        server.put({**binding, "spec": {**binding["spec"], "validationActions": ["Warn"]}})
    elif number == 4:
        _install_again(world)
    else:
        for rule in [*store.among(_RULE, "", "", "")]:
            store.delete(_RULE, rule)
    world.opened.note_opened(fenced, guarded)
    whats = ("the policy goes", "the binding goes", "the policy fails open", "the binding warns")
    return (*whats, "the policy names no pool", "the rules go")[number]


def _install_again(world: "World") -> None:
    """Apply the policy and the binding as the example has them; the policy names no pools then."""
    fenced, guarded = world.opened.list_fenced(), world.opened.list_guarded()
    for value in make_fence():
        world.server.put(value)
    world.opened.note_opened(fenced, guarded)


def _remove_taint(world: "World", drawn: int) -> str:
    """Remove the taint of a node of ours; somebody adds it again, if nothing else does."""
    fenced = [each for each in world.all("nodes") if has_fence(each) and is_ours(world, each)]
    if not fenced:
        return ""
    node, before = fenced[drawn % len(fenced)], world.opened.list_fenced()
    name = node["metadata"]["name"]
    others = [taint for taint in node["spec"]["taints"] if taint["key"] != FENCE]
    world.server.put({**node, "spec": {**node["spec"], "taints": others}})
    world.opened.note_opened(before)
    if drawn // 8 % 2 == 0:
        return f"{name} without its taint"
    seconds = draw_seconds(drawn, 3) / 4

    def add() -> None:
        current = world.network.store.find(_NODE, "", name)
        if current is not None and not has_fence(current) and is_ours(world, current):
            taints = [
                *(current["spec"].get("taints") or ()),
                {"key": FENCE, "effect": "NoSchedule"},
            ]
            world.server.put({**current, "spec": {**current["spec"], "taints": taints}})

    asyncio.get_running_loop().call_later(seconds, add)
    return f"{name} without its taint, which somebody adds again after {seconds:.1f} s"


@event(0.6)
def change_annotation(world: "World", drawn: int) -> str:
    """Remove or overwrite what our processes note on a node, the Lease or the policy."""
    names = [each["metadata"]["name"] for each in world.all("nodes") if is_ours(world, each)] or [
        ""
    ]
    name = names[drawn // 16 % len(names)]
    kind, space, key, other = (
        (_NODE, "", SETTLED_ANNOTATION, LEAVING),
        (_LEASE, SYSTEM, REQUIRED_VERSIONS_ANNOTATION, "{}"),
        (_POLICY, "", LEAVING_POOLS_ANNOTATION, write_pools([PoolID(DRIVER, name)])),
    )[drawn // 4 % 3]
    text: str | None = (None, "x", other)[drawn % 3]
    about = {_NODE: name, _LEASE: SCHEDULER_LEASE, _POLICY: FENCE_POLICY}[kind]
    value = world.network.store.find(kind, space, about)
    if value is None:
        return ""
    annotations = {**(value["metadata"].get("annotations") or {})}
    annotations.pop(key, None)
    if text is not None:
        annotations[key] = text
    world.server.put({**value, "metadata": {**value["metadata"], "annotations": annotations}})
    return f"{key} of {about} is {text}"


def every_node_of_ours_has_its_fence(world: "World") -> Iterator[str]:
    """Whatever was done by hand, our controller has closed each node again.

    A policy names pools that are published. A node whose driver has not come has nothing to keep.
    """
    published = {each["spec"]["pool"]["name"] for each in world.all("resourceslices")}
    for node in world.all("nodes"):
        name = node["metadata"]["name"]
        needs_fence = name in published or not world.conditions.fences_devices
        if is_ours(world, node) and needs_fence and not world.opened.has_fence(name):
            yield f"{name} has no fence"
