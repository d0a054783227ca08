"""Counts stage by stage how many devices of many nodes are left for each request of claims.

Each request is looked at alone: that all requests fit together is what the search decides.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from drawbridge.dra.claim import Claim
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.solver.demand import Abort, Option, build_demand, claim_name
from drawbridge.solver.eligibility import Stage
from drawbridge.solver.filter_stages import STAGE_ORDER, filter_candidates
from drawbridge.solver.memo import Memo
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.orders import devices_for_all_mode
from drawbridge.solver.state import State
from drawbridge.solver.world import View, World

_STAGES = (Stage.POOL, *STAGE_ORDER)


class DeviceStage(msgspec.Struct, frozen=True):
    """One filter: the devices before and after it, and the nodes that then have enough."""

    name: str
    before: int
    after: int
    nodes: int


class RequestStages(msgspec.Struct, frozen=True, rename="camel"):
    """The filters of one request, or of one alternative of it; a count of 0 is for all devices."""

    claim: str
    request: str
    device_class: str
    count: int
    stages: tuple[DeviceStage, ...]


class _Counts:
    """The devices and the nodes that are left after each stage, for one option."""

    def __init__(self) -> None:
        self.devices = 0
        self.left = dict.fromkeys(_STAGES, 0)
        self.nodes = dict.fromkeys(_STAGES, 0)

    def add(self, published: int, after: Sequence[int], requested: int) -> None:
        """Count the devices of one node after each stage."""
        self.devices += published
        for stage, left in zip(_STAGES, after, strict=True):
            self.left[stage] += left
            self.nodes[stage] += left >= requested

    def stages(self) -> Iterator[DeviceStage]:
        """Yield the stages in order."""
        before = self.devices
        for stage in _STAGES:
            yield DeviceStage(stage.value, before, self.left[stage], self.nodes[stage])
            before = self.left[stage]


def count_stages(
    world: World, view: View, claims: Sequence[Claim], nodes: Iterable[Node], memo: Memo
) -> tuple[RequestStages, ...]:
    """Return the stages of each request of unallocated claims over the devices of these nodes.

    There are none if the claims have an error: the solver's answer is about that.
    """
    memo.bind(world)
    try:
        demand = build_demand(
            claims, world.classes, world.gates, memo.request_filter, world.deviations
        )
    except Abort:
        return ()
    counts = {option: _Counts() for option in demand.options()}
    for node in nodes:
        try:
            pools = memo.pools_for(node)
        except NodeSelectorError:
            continue
        uses = tuple(view.use(pool.id) for pool in pools)
        state = State(demand, NodeView(world, memo, node, pools, uses))
        _count_node(state, counts)
    return tuple(
        RequestStages(
            claim=claim_name(demand.claims[option.claim]),
            request=option.name,
            device_class=option.device_class.metadata.name,
            count=0 if option.all_mode else option.wanted.count,
            stages=tuple(of_option.stages()),
        )
        for option, of_option in counts.items()
    )


def _count_node(state: State, counts: dict[Option, _Counts]) -> None:
    node_view = state.node_view
    published = sum(len(each.devices) for pool in node_view.pools for each in pool.slices)
    try:
        of_all_mode = devices_for_all_mode(state)
    except Abort:
        of_all_mode = {}
    for option, of_option in counts.items():
        filtered = filter_candidates(state, option, node_view.candidates)
        left = len(node_view.candidates)
        after = [left]
        rejected = {loss.stage: len(loss.rejected) for loss in filtered.losses}
        for stage in STAGE_ORDER:
            left -= rejected.get(stage, 0)
            after.append(left)
        requested = option.wanted.count
        if option.all_mode:
            requested = max(len(of_all_mode.get(option, ())), 1)
        of_option.add(published, after, requested)
