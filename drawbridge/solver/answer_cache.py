"""Caches results between calls: a node is solved again only if something relevant changed.

Results are keyed by the specs of the claims and their classes. They depend on the node, its pools
and the use of these pools. Equal uses have the same answers: many
exist only while a decision asks what fits without some claims.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.digest import DIGEST_BYTES, digest
from drawbridge.dra.claim import Claim
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.inventory import Pool
from drawbridge.dra.nodes import Node
from drawbridge.names import RULES_ANNOTATION
from drawbridge.solver.answers import SolverResult
from drawbridge.solver.demand import Demand
from drawbridge.solver.node_classes import SearchCache
from drawbridge.solver.node_pools import are_same
from drawbridge.solver.world import PoolUse

# What takes about as much as a result for a node.
_BYTES_OF_RESULT: Final = 1_000


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
    results: dict[str, CachedResult] = {}
    searches: SearchCache = msgspec.field(default_factory=SearchCache)
    # The nodes that no copy of the process could decide about.
    given_up: int = 0
    # What it costs where it is kept.
    kept_cost: int = -1

    @property
    def cost(self) -> int:
        """What is kept, in results for a node."""
        size = self.demand.size + self.searches.kept_bytes
        return 1 + len(self.results) + size // _BYTES_OF_RESULT


def claims_key(claims: Sequence[Claim]) -> bytes:
    """Return a key that is equal for claims with equal specs and equal rules.

    It is short, because it is kept: a claim can have more than 300 KiB of configuration.
    """
    specs = b"".join([claim.spec.digest for claim in claims])
    rules = [claim.metadata.annotations.get(RULES_ANNOTATION) for claim in claims]
    if not any(each is not None for each in rules) and len(claims) == 1:
        return specs
    return digest(specs + _ENCODER.encode(rules))


def demand_key(claims: Sequence[Claim], classes: Mapping[str, DeviceClass]) -> bytes:
    """Return a key that is equal for equal claims, if their classes are equal as well."""
    names = {name: None for claim in claims for name in claim.spec.class_names}
    used = [classes[name].spec.digest if name in classes else _NO_CLASS for name in names]
    key = b"".join((claims_key(claims), *used))
    return key if len(names) == 1 else digest(key)


_NO_CLASS: Final = bytes(DIGEST_BYTES)
_ENCODER = msgspec.json.Encoder()
