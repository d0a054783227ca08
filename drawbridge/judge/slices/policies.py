"""Checks the request policies of capacities."""

from collections.abc import Iterable, Iterator

from drawbridge.dra.capacity import check_request_policy
from drawbridge.dra.device import Capacity
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding


def check_request_policies(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report request policies that the API server rejects or that abort every pod."""
    clear: set[tuple[Capacity, bool]] = set()
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            shared = device.allow_multiple_allocations
            for name, capacity in device.capacity.items():
                if (capacity, shared) in clear:
                    continue
                path, about = f"spec.devices[{i}].capacity[{name}]", f"{KIND}/{slice_.name}"
                findings = [
                    *check_request_policy(name, capacity, shared=shared, path=path, object=about)
                ]
                if not findings:
                    clear.add((capacity, shared))
                yield from findings
