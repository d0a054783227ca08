"""Checks the request policies of capacities."""

from collections.abc import Iterable, Iterator

from drawbridge.dra.capacity import check_request_policy
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding


def check_request_policies(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report request policies that the API server rejects or that abort every pod."""
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            for name, capacity in device.capacity.items():
                yield from check_request_policy(
                    name,
                    capacity,
                    shared=device.allow_multiple_allocations,
                    path=f"spec.devices[{i}].capacity[{name}]",
                    object=f"{KIND}/{slice_.name}",
                )
