"""One node as the solver looks at it: its pools, its candidates, and what is held of them.

Knows no claim: what is asked of the site comes with each question.
"""

from functools import cached_property

from dra.compatibility import Companies, Member, Peer
from dra.counters import Counters
from dra.gates import Gates
from dra.inventory import Pool, PoolID, device_selected
from dra.nodes import Node
from solver.candidates import Candidate
from solver.memo import Memo
from solver.world import Use, World

OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"


def minds_operations(gates: Gates) -> bool:
    """Tell whether the scheduler looks at skipNodeOperations at all.

    Only that variant of its allocator does which any of these alphas brings in.
    """
    return (
        gates.optional_node_operations
        or gates.list_type_attributes
        or gates.derived_attributes
        or gates.device_compatibility_groups
    )


class Site:
    """A node, the pools it sees, and the candidates in those that can be used."""

    def __init__(
        self,
        world: World,
        memo: Memo,
        node: Node,
        pools: tuple[Pool, ...],
        uses: tuple[Use, ...],
    ) -> None:
        self.world = world
        self.gates = world.gates
        self.node = node
        self.memo = memo
        self.pools = pools
        self.by_id = {pool.id: pool for pool in pools}
        self.uses: dict[PoolID, Use] = dict(zip(self.by_id, uses, strict=True))
        self.candidates: tuple[Candidate, ...] = tuple(
            [candidate for pool in pools if pool.usable for candidate in memo.in_pool(pool)]
        )

    def operates(self, candidate: Candidate) -> bool:
        """Tell whether the node can do without the operations that the device's slice skips."""
        if not candidate.slice.skip_node_operations or not minds_operations(self.gates):
            return True
        declared = OPTIONAL_OPERATIONS in self.node.declared_features
        return self.gates.optional_node_operations and declared

    @property
    def invalid(self) -> Pool | None:
        """The first pool that is invalid: where nothing fits, it is named."""
        return next((pool for pool in self.pools if pool.invalid), None)

    def counters(self, pool: PoolID) -> Counters:
        """Say what the allocated devices of a pool leave of its counters."""
        return self.memo.baseline(self.by_id[pool], self.uses[pool]).counters

    @cached_property
    def companies(self) -> Companies:
        """Say who is on the counter sets of all pools."""
        companies: dict[object, object] = {}
        for pool in self.pools:
            if pool.counter_sets:
                companies |= self.memo.baseline(pool, self.uses[pool.id]).companies
        return companies  # type: ignore[return-value]  # put together from such

    def here(self, candidate: Candidate) -> bool:
        """Tell whether the device is for this node; raises NodeSelectorError."""
        each = candidate.slice
        return not each.per_device_node_selection or device_selected(
            each, candidate.device, self.node
        )

    @cached_property
    def residents(self) -> tuple[Member, ...]:
        """Give the allocated devices on this node, for the rules about company."""
        return tuple(
            self.member(candidate)
            for candidate in self.candidates
            if self.uses[candidate.pool].holds(candidate.name) and self.here(candidate)
        )

    @cached_property
    def ruled(self) -> frozenset[str]:
        """Give the drivers that have a device with a rule about its company."""
        return frozenset(each.pool.driver for each in self.candidates if each.rule is not None)

    def member(self, candidate: Candidate, *, admin: bool = False) -> Member:
        """Give a device as rules about company see it."""
        peer = Peer(candidate.pool, candidate.device)
        return Member(self.node.name, peer, candidate.rule, admin)
