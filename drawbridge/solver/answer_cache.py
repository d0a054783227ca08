"""Caches results between calls: a node is solved again only if something relevant changed.

Results are keyed by the specs of the claims and their classes. They depend on the node, its pools
and the use of these pools. The caller passes unchanged pool uses as the same objects.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from drawbridge.dra.claim import DIGEST_BYTES, Claim
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.inventory import Pool
from drawbridge.dra.nodes import Node
from drawbridge.names import RULES_ANNOTATION
from drawbridge.solver.answers import SolverResult
from drawbridge.solver.demand import Demand
from drawbridge.solver.node_classes import SearchCache
from drawbridge.solver.node_pools import are_same
from drawbridge.solver.world import PoolUse, World


class CachedResult(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A result and its inputs; a solution with shares needs new share IDs in each call."""

    node: Node
    pools: tuple[Pool, ...]
    uses: tuple[PoolUse, ...]
    result: SolverResult
    has_shares: bool = False

    def is_current(self, node: Node, pools: tuple[Pool, ...], uses: tuple[PoolUse, ...]) -> bool:
        """Return whether the inputs are unchanged."""
        return self.uses == uses and are_same(self.node, self.pools, node, pools)


class DemandResults(msgspec.Struct, eq=False):
    """A demand, and the last result for each node by name. Equal claims have the same `key`."""

    key: bytes
    demand: Demand
    classes: dict[str, DeviceClass]
    results: dict[str, CachedResult] = {}
    searches: SearchCache = msgspec.field(default_factory=SearchCache)
    # The nodes that no copy of the process could decide about.
    given_up: int = 0

    def is_current(self, world: World) -> bool:
        """Return whether the classes are unchanged."""
        return all(world.classes.get(name) is each for name, each in self.classes.items())


def demand_key(claims: Sequence[Claim]) -> bytes:
    """Return a key that is equal for claims with equal specs and equal rules.

    It is short, because it is kept: a claim can have more than 300 KiB of configuration.
    """
    specs = b"".join([claim.spec.digest for claim in claims])
    rules = [claim.metadata.annotations.get(RULES_ANNOTATION) for claim in claims]
    if not any(each is not None for each in rules) and len(claims) == 1:
        return specs
    return hashlib.blake2b(specs + _ENCODER.encode(rules), digest_size=DIGEST_BYTES).digest()


def new_demand_results(key: bytes, demand: Demand) -> DemandResults:
    """Return an empty cache entry for a demand."""
    used = {o.device_class.metadata.name: o.device_class for o in demand.options()}
    return DemandResults(key, demand, used)


_ENCODER = msgspec.json.Encoder()
