"""What decisions depend on beside the objects, and what a change of it requires."""

import enum
import uuid
from typing import NamedTuple

from allocator.state.cluster_state import AllocatorState, OwnsPool
from allocator.state.pool_filter import make_driver_filter
from drawbridge.brief import Brief
from drawbridge.config.model import Configuration
from drawbridge.config.policy import (
    compatibility_declarations,
    device_quotas,
    partition_tables,
)
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.gates import Gates
from drawbridge.facts.model import Facts
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.quota_use import QuotaUse


class Inputs(NamedTuple):
    """What the decisions depend on beside the objects.

    `dropped` has the fields of allocations that the API server has not stored lately.
    """

    configuration: Configuration
    facts: Facts
    dropped: frozenset[str] = frozenset()

    @property
    def gates(self) -> Gates:
        """The feature gates, without those whose fields are dropped."""
        return self.facts.cluster.feature_gates.without_fields(self.dropped)


class Effect(enum.Enum):
    """What a change of the inputs requires: pools change owners, or decisions are built anew."""

    NONE = "none"
    OWNERS = "owners"
    REBUILD = "rebuild"


def compare_inputs(before: Inputs, after: Inputs) -> Effect:
    """Return what a change requires: counts in the facts do not matter, for example."""
    if before.configuration != after.configuration or before.gates != after.gates:
        return Effect.REBUILD
    served = [
        {(each.extended, each.drivers) for each in of.facts.classes if each.extended}
        for of in (before, after)
    ]
    return Effect.NONE if served[0] == served[1] else Effect.OWNERS


def make_state(
    inputs: Inputs, owns_pool: OwnsPool, *, serves_taint_rules: bool, brief: Brief | None = None
) -> AllocatorState:
    """Return a state without objects; it obeys DeviceTaintRules that the API server serves."""
    configuration, gates = inputs.configuration, inputs.gates
    if serves_taint_rules:
        gates = gates.with_taint_rules()
    planner = Planner(
        gates,
        compatibility=compatibility_declarations(configuration),
        unset_groups=UnsetGroups(configuration.unset_groups),
        partitions=partition_tables(configuration),
        brief=brief,
    )
    quotas = QuotaUse(device_quotas(configuration), awaits_labels=True)
    seconds, ledger = configuration.bridge.forced_deletion_seconds, Ledger(quotas=quotas)
    state = AllocatorState(planner, ledger, owns_pool, seconds, make_driver_filter(configuration))
    state.ids = lambda: str(uuid.uuid4())
    return state
