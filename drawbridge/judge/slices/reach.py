"""Checks whether pods can get the devices of a slice, and how many claims can share one."""

from collections.abc import Collection, Iterable, Iterator

from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes


def check_nodes(slices: Iterable[Slice], nodes: Collection[str]) -> Iterator[Finding]:
    """Report slices of nodes that do not exist, if any nodes are known."""
    for slice_ in slices if nodes else ():
        if slice_.node_name and slice_.node_name not in nodes:
            message = f"there is no node {slice_.node_name}"
            about = f"{KIND}/{slice_.name}"
            yield codes.SLICE_OF_MISSING_NODE.at("spec.nodeName", message, object=about)


def check_shared(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report the first device of each slice that claims share without any limit."""
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            if device.allow_multiple_allocations and not device.capacity:
                yield codes.SHARED_WITHOUT_CAPACITY.at(
                    f"spec.devices[{i}]",
                    f"{device.name} can be allocated any number of times, without a capacity",
                    object=f"{KIND}/{slice_.name}",
                )
                break
