"""Collects the different devices that a request can be compared with, and where each one fails."""

from collections.abc import Sequence
from typing import NamedTuple

from drawbridge.dra.claim import Claim
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.proof import MAX_KINDS, Proof, reads_of_claims
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Option, build_demand
from drawbridge.solver.eligibility import SELECTED, Stage
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.world import UNUSED

_OF_CLASS = (None, Stage.REQUEST)


class VisibleDevices(NamedTuple):
    """A node, and the usable devices that it sees."""

    node: Node
    devices: tuple[Candidate, ...]


class RequestPlace(NamedTuple):
    """Where an alternative of a request is written: the object, the path, and the words for it."""

    object: str
    path: str
    name: str


class RequestDevices(NamedTuple):
    """The devices of one alternative of a request, each once, by how far they get.

    `matching` and `fitting` hold, for each kind of node, the devices that the selectors select, and
    those that can give the requested capacity as well.
    """

    option: Option
    of_class: tuple[Candidate, ...]
    matching: tuple[tuple[Candidate, ...], ...]
    fitting: tuple[tuple[Candidate, ...], ...]

    @property
    def class_name(self) -> str:
        """The name of the class."""
        return self.option.device_class.metadata.name


def options_of(claim: Claim, context: JudgeContext) -> tuple[Option, ...]:
    """Return the alternatives of the requests of a claim; raises Abort."""
    world, memo = context.relaxed, context.caches.proofs
    memo.bind(world)
    demand = build_demand((claim,), world.classes, world.gates, memo.request_filter)
    return tuple(demand.options())


def node_devices(claim: Claim, proof: Proof, context: JudgeContext) -> tuple[VisibleDevices, ...]:
    """Return the devices of the nodes of a proof, or of some nodes if it needed none."""
    world, memo = context.relaxed, context.caches.proofs
    visible = []
    reads = reads_of_claims((claim,), context)
    kinds = context.index.representatives(reads)[:MAX_KINDS]
    for node in [node for node, _ in proof.reasons] or kinds:
        try:
            pools = memo.pools_for(node)
        except NodeSelectorError:
            continue
        view = NodeView(world, memo, node, pools, (UNUSED,) * len(pools))
        visible.append(
            VisibleDevices(node, tuple(each for each in view.candidates if _is_on_node(view, each)))
        )
    return tuple(visible)


def _is_on_node(view: NodeView, candidate: Candidate) -> bool:
    try:
        return view.is_on_node(candidate)
    except NodeSelectorError:
        return False


def sort_devices(
    option: Option, nodes: Sequence[VisibleDevices], context: JudgeContext
) -> RequestDevices:
    """Sort the devices of nodes by how far they get for an alternative."""
    of_class: dict[Candidate, None] = {}
    matching, fitting = [], []
    checks_capacity = context.gates.consumable_capacity
    for node in nodes:
        mine = [(device, option.request_filter.check_selectors(device)) for device in node.devices]
        # A device that this scheduler does not support is not compared with the class.
        decided = (device for device, verdict in mine if verdict.stage in _OF_CLASS)
        of_class.update(dict.fromkeys(decided))
        selected = tuple(device for device, verdict in mine if verdict is SELECTED)
        matching.append(selected)
        fitting.append(
            tuple(
                device
                for device in selected
                if not checks_capacity
                or not option.request_filter.required_capacity(device).unsuitable
            )
        )
    return RequestDevices(option, tuple(of_class), tuple(matching), tuple(fitting))
