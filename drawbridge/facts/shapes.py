"""Compute node shapes: which GPUs and NICs share a PCIe root or NUMA node."""

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from drawbridge.dra.families import GPU, NIC
from drawbridge.facts.device_counts import DeviceLocation, NodeDevices, is_single
from drawbridge.facts.model import Neighbourhood, NodeShape


def shape_table(nodes: Iterable[NodeDevices], own_numa: Collection[str] = ()) -> list[NodeShape]:
    """Count the shapes of all nodes, for each pair of a GPU driver and a NIC driver.

    `own_numa` are the drivers whose NUMA nodes a claim can compare by their own attributes.
    """
    counts: Counter[NodeShape] = Counter()
    totals: Counter[str] = Counter()  # of nodes, by GPU driver
    for node in nodes:
        shapes = _shapes(node.locations, own_numa)
        counts.update(shapes)
        totals.update({each.gpu for each in shapes})
    return [
        msgspec.structs.replace(shape, nodes=count, single=is_single(count, totals[shape.gpu]))
        for shape, count in counts.items()
    ]


def _shapes(locations: tuple[DeviceLocation, ...], own_numa: Collection[str]) -> list[NodeShape]:
    gpus = sorted({location.driver for location in locations if location.kind == GPU})
    nics = sorted({location.driver for location in locations if location.kind == NIC})
    return [_shape(locations, gpu, nic, own_numa) for gpu in gpus for nic in nics or [""]]


def _shape(
    locations: tuple[DeviceLocation, ...], gpu: str, nic: str, own_numa: Collection[str]
) -> NodeShape:
    pair = [
        location
        for location in locations
        if (location.kind, location.driver) in ((GPU, gpu), (NIC, nic))
    ]
    derived = (
        (each.own_numa if each.driver in own_numa else each.numa, each.kind)
        for each in pair
        if gpu in own_numa or nic in own_numa
    )
    return NodeShape(
        gpu,
        nic,
        gpus=sum(location.kind == GPU for location in pair),
        nics=sum(location.kind == NIC for location in pair),
        pcie=_neighbourhoods((location.root, location.kind) for location in pair),
        numa=_neighbourhoods((location.numa, location.kind) for location in pair),
        derived=_neighbourhoods(derived),
    )


def _neighbourhoods(locations: Iterable[tuple[str | None, str]]) -> tuple[Neighbourhood, ...]:
    """Count equal groups of devices that share an attribute value, most GPUs first."""
    counts: Counter[tuple[str, str]] = Counter(
        (at, kind) for at, kind in locations if at is not None
    )
    pairs = Counter((counts[at, GPU], counts[at, NIC]) for at in {at for at, _ in counts})
    ordered = sorted(pairs.items(), reverse=True)
    return tuple(Neighbourhood(gpus, nics, times) for (gpus, nics), times in ordered)
