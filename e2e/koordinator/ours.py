"""What Drawbridge makes of a pod: the translation for a cluster of one machine, and the devices."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from drawbridge.config.model import Configuration, Placement
from drawbridge.config.partitions import Partitions
from drawbridge.config.policy import partition_tables
from drawbridge.config.string_formats import AttributeName, DriverName
from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import read_class
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import read_slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.solver.answers import Solution
from drawbridge.solver.solve import solve
from drawbridge.solver.world import World, view_of_claims
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from e2e.koordinator import published
from e2e.koordinator.machines import ChosenHardware, OccupiedMachine
from e2e.koordinator.request import DeviceRequest

T = TypeVar("T")
VERSION = "1.36"
POLICY = "node.koordinator.sh/gpu-partition-policy"


@dataclass(frozen=True)
class Answer:
    """What the pod gets, or why it gets nothing: refused at admission, or it waits.

    `results` are the devices by request. `work` is that of the search, in the unit of the
    allocator's limit.
    """

    chosen: ChosenHardware | None = None
    refused: str = ""
    waits: str = ""
    findings: tuple[Finding, ...] = ()
    results: tuple[AllocationResult, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings of the translation."""
        return tuple(each.code for each in self.findings)


def answer(
    machine: OccupiedMachine, request: DeviceRequest, placement: Placement = Placement.BRIDGE
) -> Answer:
    """Translate the pod for a placement, and allocate its claims."""
    configuration = _configuration(machine, placement)
    gates = Gates(
        VERSION, consumable_capacity=not machine.old_api, derived_attributes=machine.derives
    )
    labels = {POLICY: "Honor"} if machine.honors_partitions else {}
    node = Node(machine.hardware.name, labels=labels)
    slices = tuple(_read(each, read_slice) for each in published.slices(machine))
    classes = tuple(_read(each, read_class) for each in published.classes(machine))
    facts = gather_facts(FactsInput(slices, classes, (node,)), configuration, gates).facts
    claims, findings = _translated(request, configuration, facts)
    if not claims:
        errors = [each.message for each in findings if each.severity is Severity.ERROR]
        return Answer(refused="; ".join(errors) or f"{findings}", findings=findings)
    inventory = build_inventory(slices, gates=gates)
    world = World(
        inventory,
        {each.metadata.name: each for each in classes},
        partitions=partition_tables(configuration),
    )
    return replace(_allocate(machine, world, claims, node), findings=findings)


def _allocate(
    machine: OccupiedMachine, world: World, claims: Sequence[Claim], node: Node
) -> Answer:
    """Search for the devices of claims beside those in use."""
    held = [_claim(each) for each in published.held_claims(machine)]
    numbers = itertools.count(1)
    answer = solve(
        world,
        view_of_claims(held),
        claims,
        [node],
        ids=lambda: f"share-{next(numbers)}",
    )[node.name]
    if not isinstance(answer, Solution):
        return Answer(waits="; ".join(map(str, answer.reasons)))
    results = tuple(each for one in answer.allocations for each in one.devices.results)
    chosen = published.find_hardware(machine, [each.device for each in results])
    return Answer(chosen, results=results)


def _translated(
    request: DeviceRequest, configuration: Configuration, facts: Facts
) -> tuple[list[Claim], tuple[Finding, ...]]:
    """Return the claims of the pod's templates; none if the pod is refused."""
    translated = translate_object(request.pod(), "Pod//worker", make_context(configuration, facts))
    claims = []
    for number, template in enumerate(translated.templates):
        spec: Any = template["spec"]
        metadata = {"name": f"claim-{number}", "namespace": "default", **spec.get("metadata", {})}
        claims.append(_claim({"metadata": metadata, "spec": spec["spec"]}))
    return claims, translated.findings


def _configuration(machine: OccupiedMachine, placement: Placement) -> Configuration:
    declared = machine.partitions if machine.configured_partitions else None
    rows = tuple(row for size, rows in (declared or {}).items() if size > 1 for row in rows)
    entry = Partitions(DriverName(published.DRIVER), AttributeName(published.MODULE), rows)
    return Configuration(placement=placement, partitions=(entry,) if rows else ())


def _claim(content: dict[str, Any]) -> Claim:
    head = {"apiVersion": published.API, "kind": "ResourceClaim"}
    return _read({**head, **content}, read_claim)


def _read(raw: dict[str, Any], reader: Callable[[object], T | tuple[Finding, ...]]) -> T:
    read = reader(json.dumps(raw).encode())
    if isinstance(read, tuple):
        raise ValueError(read)  # noqa: TRY004  # the content is wrong, not the type
    return read
