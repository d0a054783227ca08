"""Plays a trace through the engine of `drawbridge simulate`, beside the strategy alone.

Each GPU is a device that several claims can share, with a capacity of 1000 thousandths, and so is
each NIC, of another driver. Tasks without devices are not the allocator's: they run where the
strategy alone puts them. Which nodes have enough of an application is said by the pods' affinity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from bench._week import Job, JobsOfNodes
from drawbridge.choice.amounts import WHOLE, AskedOthers, NodeRoom, Taken, Task
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import TypicalTasks
from drawbridge.dra.attributes import PCIE_ROOT
from drawbridge.dra.claim import (
    CapacityRequests,
    ClaimMetadata,
    ClaimSpec,
    Constraint,
    Devices,
    ExactRequest,
    Request,
    Selector,
    Template,
    TemplateSpec,
)
from drawbridge.dra.classes import ClassSpec, DeviceClass
from drawbridge.dra.device import (
    Attribute,
    Capacity,
    CELExpression,
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
NICS: Final = "nic.example.com"
# The names of devices, by driver, and the classes that select them.
_DEVICES: Final = {DRIVER: "gpu", NICS: "nic"}
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
    """The placer of `drawbridge simulate` with nodes that are all idle."""

    def __init__(
        self,
        nodes: Mapping[str, NodeRoom],
        tasks: Iterable[Task],
        strategy: str,
    ) -> None:
        machines = tuple(_node(name, room) for name, room in nodes.items())
        planner = Planner(Gates(consumable_capacity=True))
        for driver, name in _DEVICES.items():
            selector = Selector(CELExpression(f'device.driver == "{driver}"'))
            metadata = ClaimMetadata(name=name)
            planner.update(DeviceClass(metadata=metadata, spec=ClassSpec((selector,))))
        for node, (name, room) in zip(machines, nodes.items(), strict=True):
            planner.update(node)
            for each in _slices(name, room):
                planner.update(each)
        self._devices = {name: room.shape.devices for name, room in nodes.items()}
        templates = {_template_name(each): _template(each) for each in tasks}
        self._placer = Placer(
            planner,
            ClusterNodes(nodes=machines),
            hold_claims(Ledger(), (), templates.values()),
            resources=NodeResources(machines),
            choice=NodeChoice(planner, StrategyNames(strategy)),
        )

    def place(
        self, name: str, task: Task, pinned: str = "", without: Sequence[str] = ()
    ) -> Where | None:
        """Place a task: on this node if it is pinned, and not on those that are left out."""
        placed = self._placer.place_pod(_pod(name, task, pinned, without))
        if placed.node is None:
            return None
        first = {"gpu": 0, "nic": self._devices[placed.node]}
        allocations = [each for _, each in placed.claims if each is not None]
        names = (each.device.split("-") for one in allocations for each in one.devices.results)
        return placed.node, tuple(sorted(first[kind] + int(number) for kind, number in names))


def play(
    nodes: Mapping[str, NodeRoom],
    strategy: ChoiceStrategy,
    jobs: Sequence[Job],
) -> Iterator[Step]:
    """Yield what both decide, job by job."""
    alone = JobsOfNodes(nodes, strategy)
    engine = Engine(nodes, {each.task for each in jobs}, strategy.name)
    for number, job in enumerate(jobs):
        name, task = f"task-{number}", job.task
        full = alone.full_nodes(job)
        node = alone.choose(job, f"{_NAMESPACE}/{name}")
        chosen = None if node is None else (node, alone.start(job, node))
        pinned = node if node is not None and not task.devices else ""
        asks = bool(task.devices or pinned)
        yield Step(task, chosen, engine.place(name, task, pinned, full) if asks else None)


def _kind(others: AskedOthers) -> str:
    return f"{NICS} {PCIE_ROOT}" if others.near else NICS


def as_published(typical: TypicalTasks) -> TypicalTasks:
    """Return typical tasks in bytes, with the kinds of devices that the nodes have here."""
    weights = {
        task._replace(
            memory=task.memory << 20,
            others=tuple(each._replace(kind=_kind(each)) for each in task.others),
        ): weight
        for task, weight in typical.weights.items()
    }
    return TypicalTasks(weights, typical.total)


def _node(name: str, room: NodeRoom) -> Node:
    amounts = {
        "cpu": Quantity(room.cpu, -3, Format.DECIMAL_SI, decimal=False),
        "memory": parse(f"{room.memory}Mi"),
        "pods": parse("1000"),
    }
    return Node(name, {"model": room.shape.label, "name": name}, allocatable=amounts)


def _slices(name: str, room: NodeRoom) -> Iterator[Slice]:
    """Yield the slices of a node: of its GPUs, and of its NICs on the same PCIe roots."""
    others = room.shape.others
    roots = others[0].of_devices if others else (None,) * room.shape.devices
    yield _slice(name, DRIVER, [_device(DRIVER, *each, room) for each in enumerate(roots)])
    if others:
        nics = enumerate(others[0].groups)
        yield _slice(name, NICS, [_device(NICS, *each, room) for each in nics])


def _slice(node: str, driver: str, devices: Iterable[Device]) -> Slice:
    name = f"{node}-{_DEVICES[driver]}"
    return Slice(name, driver, node, 1, 1, node_name=node, devices=tuple(devices))


def _device(driver: str, number: int, root: int | None, room: NodeRoom) -> Device:
    attributes = {PRODUCT: Attribute(string=room.shape.label)}
    if root is not None:
        attributes[PCIE_ROOT] = Attribute(string=f"pci0000:{root:02x}")
    return Device(
        f"{_DEVICES[driver]}-{number}",
        attributes=attributes,
        capacity={_MILLI: Capacity(parse(f"{WHOLE}"))},
        allow_multiple_allocations=True,
    )


def _template(task: Task) -> Template:
    """Return the template of claims for the devices of a task."""
    requests = [_request("gpu", task.devices, task.share)]
    requests += (_request("nic", each.devices, each.share) for each in task.others)
    near = any(each.near for each in task.others)
    constraints = (Constraint(match_attribute=PCIE_ROOT),) if near else ()
    spec = ClaimSpec(Devices(requests=tuple(requests), constraints=constraints))
    metadata = ClaimMetadata(name=_template_name(task), namespace=_NAMESPACE)
    return Template(metadata=metadata, spec=TemplateSpec(spec=spec))


def _request(device: str, count: int, share: int) -> Request:
    asked = CapacityRequests({_MILLI: parse(f"{share}")})
    return Request(
        device, exactly=ExactRequest(device_class_name=device, count=count, capacity=asked)
    )


def _template_name(task: Task) -> str:
    others = (f"-{each.devices}-{each.share}-{each.near:d}" for each in task.others)
    return f"gpu-{task.devices}-{task.share}{''.join(others)}"


def _pod(name: str, task: Task, pinned: str, without: Sequence[str]) -> Pod:
    template = _template_name(task)
    claims = (PodClaim("gpu", resource_claim_template_name=template),) if task.devices else ()
    terms = []
    if task.labels:
        terms.append(Requirement("model", "In", tuple(sorted(task.labels))))
    if without:
        terms.append(Requirement("name", "NotIn", tuple(without)))
    required = NodeSelector((NodeSelectorTerm(match_expressions=tuple(terms)),))
    requests = {"memory": parse(f"{task.memory}Mi"), "cpu": parse(f"{task.cpu}m")}
    spec = PodSpec(
        node_name=pinned,
        affinity=Affinity(NodeAffinity(required)) if terms else None,
        resource_claims=claims,
        containers=(PodContainer("main", ContainerResources(requests)),),
    )
    return Pod(metadata=NamedPodMetadata(name=name, namespace=_NAMESPACE), spec=spec)
