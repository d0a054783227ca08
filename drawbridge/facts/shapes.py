"""Compute node shapes: which GPUs and NICs share a PCIe root or NUMA node."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from drawbridge.facts.device_counts import DeviceLocation, NodeDevices
from drawbridge.facts.families import GPU, NIC
from drawbridge.facts.model import Neighbourhood, NodeShape


def shape_table(nodes: Iterable[NodeDevices]) -> list[NodeShape]:
    """Count the shapes of all nodes, for each pair of a GPU driver and a NIC driver."""
    counts: Counter[NodeShape] = Counter()
    for node in nodes:
        counts.update(_shapes(node.locations))
    return [msgspec.structs.replace(shape, nodes=count) for shape, count in counts.items()]


def _shapes(locations: tuple[DeviceLocation, ...]) -> list[NodeShape]:
    gpus = sorted({location.driver for location in locations if location.kind == GPU})
    nics = sorted({location.driver for location in locations if location.kind == NIC})
    return [_shape(locations, gpu, nic) for gpu in gpus for nic in nics or [""]]


def _shape(locations: tuple[DeviceLocation, ...], gpu: str, nic: str) -> NodeShape:
    pair = [
        location
        for location in locations
        if (location.kind, location.driver) in ((GPU, gpu), (NIC, nic))
    ]
    return NodeShape(
        gpu,
        nic,
        gpus=sum(location.kind == GPU for location in pair),
        nics=sum(location.kind == NIC for location in pair),
        pcie=_neighbourhoods((location.root, location.kind) for location in pair),
        numa=_neighbourhoods((location.numa, location.kind) for location in pair),
    )


def _neighbourhoods(locations: Iterable[tuple[str | None, str]]) -> tuple[Neighbourhood, ...]:
    """Count equal groups of devices that share an attribute value, most GPUs first."""
    counts: Counter[tuple[str, str]] = Counter(
        (at, kind) for at, kind in locations if at is not None
    )
    pairs = Counter((counts[at, GPU], counts[at, NIC]) for at in {at for at, _ in counts})
    ordered = sorted(pairs.items(), reverse=True)
    return tuple(Neighbourhood(gpus, nics, times) for (gpus, nics), times in ordered)
