"""Can an amount be asked of a shared device? The request policies of capacities."""

from collections.abc import Iterable, Iterator

from dra.capacity import check_request_policy
from dra.finding import Finding
from dra.slices import KIND, Slice


def check_request_policies(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Tell of request policies that are refused, or that stop every pod that meets them."""
    for each in slices:
        for i, device in enumerate(each.devices):
            for name, capacity in device.capacity.items():
                yield from check_request_policy(
                    name,
                    capacity,
                    shared=device.allow_multiple_allocations,
                    path=f"spec.devices[{i}].capacity[{name}]",
                    object=f"{KIND}/{each.name}",
                )
