"""The fence around devices: API servers refuse other schedulers what our policy names.

In some runs the nodes of ours stay open, and only this keeps others from their devices. Each server
hears of the policy some time after its write, in less time than our allocators wait.
"""

import asyncio
from collections.abc import Iterator

import msgspec

from drawbridge.agreement.device_fence import (
    BINDING_SPEC,
    FencePart,
    FenceParts,
    find_fence_problem,
    policy_spec,
    read_pools,
)
from drawbridge.agreement.owned_pools import SETTLE_SECONDS
from drawbridge.dra.inventory import PoolID
from drawbridge.names import FENCE_POLICY
from tests.cluster.fake.kinds import JSON, Kind, named
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import Change
from tests.cluster.fake.trouble import Seen
from tests.world.network import SYSTEM, Network
from tests.world.nodes import devices_of
from tests.world.objects import DRIVER
from tests.world.watches import Front

_PARTS = tuple(map(named, ("validatingadmissionpolicies", "validatingadmissionpolicybindings")))
_CLAIM = named("resourceclaims")
# A server hears of the policy by then, so that a request that it admitted before is not much later.
_MOST_SECONDS = SETTLE_SECONDS / 2


class DeviceFence:
    """What each API server refuses."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._named: dict[Front, frozenset[PoolID]] = {}
        self._heard_at: dict[Front, float] = {}

    def follow(self, kind: Kind, _: Change) -> None:
        """Let each server hear of a change of the policy, in the order of the changes."""
        if kind not in _PARTS:
            return
        loop, pools = asyncio.get_running_loop(), self._read()
        for front in self._network.fronts:
            lag = min(self._network.random.expovariate(1), _MOST_SECONDS)
            at = self._heard_at[front] = max(self._heard_at.get(front, 0.0), loop.time() + lag)
            loop.call_at(at, self._named.__setitem__, front, pools)

    def start_servers(self) -> None:
        """Let all servers read the policy anew, as after a restore."""
        self._named = dict.fromkeys(self._network.fronts, self._read())

    def guards(self, node: str) -> bool:
        """Whether the policy names the pool of a node."""
        return PoolID(DRIVER, node) in self._read()

    def _read(self) -> frozenset[PoolID]:
        stored = [self._network.store.find(kind, "", FENCE_POLICY) for kind in _PARTS]
        parts = FenceParts(*[each and msgspec.convert(each, FencePart) for each in stored])
        is_there = parts.policy is not None and not find_fence_problem(parts, SYSTEM)
        return read_pools(parts.policy.spec) if parts.policy and is_there else frozenset()

    def check(self, who: str, front: Front, seen: Seen) -> None:
        """Raise RefusedError if others allocate what the policy names, as far as a server knows."""
        pools = {pool.name for pool in self._named.get(front, ())}
        is_status = "/resourceclaims/" in seen.path and seen.path.endswith("/status")
        if not pools or not is_status or who.startswith("allocator"):
            return
        *_, space, _, name, _ = seen.path.split("/")
        before = self._network.store.find(_CLAIM, space, name) or {}
        wanted = devices_of(msgspec.json.decode(seen.body))
        if not devices_of(before) and any(pool in pools for pool, _ in wanted):
            self._network.count("allocation of others that the policy refuses")
            raise RefusedError(403, "only the scheduler drawbridge allocates from this pool")


def make_fence() -> Iterator[JSON]:
    """Yield the policy and its binding, as an administrator installs them."""
    specs = (policy_spec([], SYSTEM), {**BINDING_SPEC})
    for kind, spec in zip(_PARTS, specs, strict=True):
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        yield {**head, "metadata": {"name": FENCE_POLICY}, "spec": spec}
