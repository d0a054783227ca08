"""Plays a trace through the engine of `drawbridge simulate`, beside the strategy alone.

Each GPU is a device that several claims can share, with a capacity of 1000 thousandths. Tasks
without devices are not the allocator's: they run where the strategy alone puts them.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from bench._trace import Trace
from drawbridge.choice.amounts import WHOLE, NodeRoom, Taken, Task
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import TypicalTasks
from drawbridge.dra.claim import (
    CapacityRequests,
    ClaimMetadata,
    ClaimSpec,
    Devices,
    ExactRequest,
    Request,
    Template,
    TemplateSpec,
)
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.device import (
    Attribute,
    Capacity,
    Device,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
)
from drawbridge.dra.gates import Gates
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Format, Quantity, parse
from drawbridge.dra.slices import Slice
from drawbridge.ledger.cards import PRODUCT
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_choice import NodeChoice
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import NodeResources
from drawbridge.ledger.placing import Placer, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import (
    Affinity,
    ContainerResources,
    NamedPodMetadata,
    NodeAffinity,
    Pod,
    PodClaim,
    PodContainer,
    PodSpec,
)

DRIVER: Final = "gpu.example.com"
_CLASS: Final = "gpu"
_MILLI: Final = "milli"
_NAMESPACE: Final = "default"
# A node, and the numbers of its devices.
Where: TypeAlias = tuple[str, Taken]


class Step(NamedTuple):
    """A task, where the strategy alone puts it, and where the engine does."""

    task: Task
    alone: Where | None
    engine: Where | None


class Engine:
    """The placer of `drawbridge simulate` with the nodes of a trace, all idle."""

    def __init__(self, trace: Trace, strategy: str, typical: TypicalTasks) -> None:
        nodes = trace.nodes
        machines = tuple(_node(name, room) for name, room in nodes.items())
        planner = Planner(Gates(consumable_capacity=True))
        planner.update(DeviceClass(metadata=ClaimMetadata(name=_CLASS)))
        for node, (name, room) in zip(machines, nodes.items(), strict=True):
            planner.update(node)
            planner.update(_slice(name, room))
        templates = map(_template, {(each.devices, each.share) for each in trace.tasks})
        self._placer = Placer(
            planner,
            ClusterNodes(nodes=machines),
            hold_claims(Ledger(sharing=True), (), templates),
            resources=NodeResources(machines),
            choice=NodeChoice(planner, StrategyNames(strategy), typical=_in_bytes(typical)),
        )

    def place(self, name: str, task: Task, pinned: str = "") -> Where | None:
        """Place a task, on this node if it is pinned."""
        placed = self._placer.place_pod(_pod(name, task, pinned))
        if placed.node is None:
            return None
        allocations = [each for _, each in placed.claims if each is not None]
        names = (result.device for each in allocations for result in each.devices.results)
        return placed.node, tuple(sorted(int(each.removeprefix("gpu-")) for each in names))


def play(
    trace: Trace, strategy: ChoiceStrategy, typical: TypicalTasks, tasks: Iterable[Task]
) -> Iterator[Step]:
    """Yield what both decide, task by task."""
    chooser = NodeChooser(trace.nodes, strategy)
    engine = Engine(trace, strategy.name, typical)
    for number, task in enumerate(tasks):
        name = f"task-{number}"
        chosen = chooser.choose(task, f"{_NAMESPACE}/{name}")
        if chosen is not None:
            chooser.place(task, chosen.node, chosen.judged.taken)
        alone = (chosen.node, chosen.judged.taken) if chosen else None
        pinned = chosen.node if chosen is not None and not task.devices else ""
        asks = bool(task.devices or pinned)
        yield Step(task, alone, engine.place(name, task, pinned) if asks else None)


def _in_bytes(typical: TypicalTasks) -> TypicalTasks:
    weights = {
        task._replace(memory=task.memory << 20): weight for task, weight in typical.weights.items()
    }
    return TypicalTasks(weights, typical.total)


def _node(name: str, room: NodeRoom) -> Node:
    amounts = {
        "cpu": Quantity(room.cpu, -3, Format.DECIMAL_SI, decimal=False),
        "memory": parse(f"{room.memory}Mi"),
        "pods": parse("1000"),
    }
    return Node(name, {"model": room.shape.label}, allocatable=amounts)


def _slice(name: str, room: NodeRoom) -> Slice:
    devices = tuple(
        Device(
            f"gpu-{number}",
            attributes={PRODUCT: Attribute(string=room.shape.label)},
            capacity={_MILLI: Capacity(parse(f"{WHOLE}"))},
            allow_multiple_allocations=True,
        )
        for number in range(room.shape.devices)
    )
    return Slice(name, DRIVER, name, 1, 1, node_name=name, devices=devices)


def _template(kind: tuple[int, int]) -> Template:
    """Return the template of claims for so many devices, and thousandths of each."""
    devices, share = kind
    asked = CapacityRequests({_MILLI: parse(f"{share}")})
    exactly = ExactRequest(device_class_name=_CLASS, count=devices, capacity=asked)
    spec = ClaimSpec(Devices(requests=(Request("gpu", exactly=exactly),)))
    metadata = ClaimMetadata(name=_template_name(*kind), namespace=_NAMESPACE)
    return Template(metadata=metadata, spec=TemplateSpec(spec=spec))


def _template_name(devices: int, share: int) -> str:
    return f"gpu-{devices}-{share}"


def _pod(name: str, task: Task, pinned: str) -> Pod:
    template = _template_name(task.devices, task.share)
    claims = (PodClaim("gpu", resource_claim_template_name=template),) if task.devices else ()
    models = Requirement("model", "In", tuple(sorted(task.labels or ())))
    required = NodeSelector((NodeSelectorTerm(match_expressions=(models,)),))
    requests = {"memory": parse(f"{task.memory}Mi"), "cpu": parse(f"{task.cpu}m")}
    spec = PodSpec(
        node_name=pinned,
        affinity=Affinity(NodeAffinity(required)) if task.labels else None,
        resource_claims=claims,
        containers=(PodContainer("main", ContainerResources(requests)),),
    )
    return Pod(metadata=NamedPodMetadata(name=name, namespace=_NAMESPACE), spec=spec)
