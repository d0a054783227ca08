"""Node shapes: how GPUs and NICs lie to each other, and how many nodes are alike in it."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from facts.device_counts import DeviceLocation, NodeDevices
from facts.families import GPU, NIC
from facts.model import Neighbourhood, NodeShape


def shape_table(sights: Iterable[NodeDevices]) -> list[NodeShape]:
    """Count the shapes of all nodes, for each pair of a GPU driver and a NIC driver."""
    found: Counter[NodeShape] = Counter()
    for each in sights:
        found.update(_shapes(each.places))
    return [msgspec.structs.replace(shape, nodes=count) for shape, count in found.items()]


def _shapes(places: tuple[DeviceLocation, ...]) -> list[NodeShape]:
    gpus = sorted({place.driver for place in places if place.kind == GPU})
    nics = sorted({place.driver for place in places if place.kind == NIC})
    return [_shape(places, gpu, nic) for gpu in gpus for nic in nics or [""]]


def _shape(places: tuple[DeviceLocation, ...], gpu: str, nic: str) -> NodeShape:
    pair = [place for place in places if (place.kind, place.driver) in ((GPU, gpu), (NIC, nic))]
    return NodeShape(
        gpu,
        nic,
        gpus=sum(place.kind == GPU for place in pair),
        nics=sum(place.kind == NIC for place in pair),
        pcie=_neighbourhoods((place.root, place.kind) for place in pair),
        numa=_neighbourhoods((place.numa, place.kind) for place in pair),
    )


def _neighbourhoods(places: Iterable[tuple[str | None, str]]) -> tuple[Neighbourhood, ...]:
    """Count what stands together, and how often the same does; the most GPUs come first."""
    counts: Counter[tuple[str, str]] = Counter((at, kind) for at, kind in places if at is not None)
    pairs = Counter((counts[at, GPU], counts[at, NIC]) for at in {at for at, _ in counts})
    ordered = sorted(pairs.items(), reverse=True)
    return tuple(Neighbourhood(gpus, nics, times) for (gpus, nics), times in ordered)
