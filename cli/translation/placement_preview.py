"""Places the first pod of each pod template of an object on the devices of a cluster, in memory.

All devices count as free, and so do CPU, memory and what device plugins serve: each object starts
with a cluster without pods. A pod whose scheduler cannot use owned nodes is placed on the others.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cli.input.cluster_objects import ClusterObjects
from cli.simulation.pod_allocators import (
    PodAllocators,
    find_cluster_nodes,
    find_pod_allocators,
)
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.documents.document import Document
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.claim import Template, template_reader
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.dra.gates import Gates
from drawbridge.facts.model import Facts
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import NodeResources
from drawbridge.ledger.placing import Placer, PodPlacement, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.reasons import drop_unsuitable_nodes
from drawbridge.translate.manifests.workloads import find_places

_MAX_DEVICES: Final = 4


@dataclass(frozen=True)
class PlacementPreview:
    """The devices and the nodes of a cluster, as each allocator sees them."""

    allocators: PodAllocators
    planners: Mapping[Allocator, Planner]
    nodes: ClusterNodes

    def new_ledger(self) -> Ledger:
        """Return a ledger in which all devices are free."""
        return Ledger()

    def place(
        self,
        document: Document,
        value: Value,
        templates: Iterable[Mapping[str, Value]],
        ledger: Ledger,
    ) -> Iterator[tuple[str, str]]:
        """Yield the node and the devices of each first pod, or the reasons why no node fits."""
        decoded = _decode_templates(templates)
        resources = NodeResources(self.nodes.nodes)
        for pod in _first_pods(value, document):
            by = self.allocators.choose(pod)
            nodes = self.allocators.nodes(by, self.nodes)
            held = hold_claims(ledger, (), decoded)
            placer = Placer(self.planners[by], nodes, held, resources=resources)
            yield from _describe_placement(placer.place_pod(pod))


def make_preview(
    objects: ClusterObjects,
    enabled: Gates,
    configuration: Configuration,
    facts: Facts | None = None,
) -> PlacementPreview:
    """Prepare the placement on the devices of a cluster, by the allocators of translated pods."""
    allocators = find_pod_allocators(objects, enabled, configuration, facts)
    used = Allocator if owned_pools(configuration) else (Allocator.UPSTREAM,)
    by_name = tuple({each.name: each for each in objects.nodes}.values())
    nodes = find_cluster_nodes(by_name, objects, enabled, configuration.legacy)
    return PlacementPreview(allocators, {each: allocators.planner(each) for each in used}, nodes)


def _decode_templates(templates: Iterable[Mapping[str, Value]]) -> list[Template]:
    reader = template_reader()
    decoded = (reader.read(dict(each)) for each in templates)
    return [each for each in decoded if isinstance(each, Template)]


def _first_pods(value: Value, document: Document) -> Iterator[Pod]:
    """Yield the first pod of each pod template in an object, as its controller creates it."""
    kind, _, full = document.name.partition("/")
    namespace, _, bare = full.rpartition("/")
    stem = bare or f"unnamed-{document.index}"
    for number, place in enumerate(find_places(value)):
        metadata = get_value(place.pod, ("metadata",))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **(metadata if isinstance(metadata, dict) else {}),
                "name": stem if kind == "Pod" else f"{stem}-{number}",
                "namespace": namespace or "default",
            },
            "spec": get_value(place.pod, ("spec",)),
        }
        decoded = pod_reader().read(pod)
        if not isinstance(decoded, tuple):
            yield decoded


def _describe_placement(placement: PodPlacement) -> Iterator[tuple[str, str]]:
    """Yield the node and the devices of a pod, or the reasons why no node fits."""
    if placement.node is None:
        for reason in drop_unsuitable_nodes(placement.reasons):
            nodes = count_noun(reason.nodes, "node")
            yield "not placed", f"{nodes}: {reason.message} [{reason.code}]"
        return
    devices = list(_allocated_devices(placement))
    text = list_some(devices, _MAX_DEVICES, "device")
    yield f"on {placement.node}", text or "no DRA devices"


def _allocated_devices(placement: PodPlacement) -> Iterator[str]:
    for _, allocation in placement.claims:
        for result in allocation.devices.results if allocation is not None else ():
            amounts = result.consumed_capacity.items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in amounts)
            yield result.device + (f" ({share})" if share else "")
