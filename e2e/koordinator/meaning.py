"""What the hints of a pod mean: whether chosen hardware satisfies them.

Independent of Drawbridge: it looks at a machine, a request and a choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from e2e.koordinator.machines import ChosenHardware, OccupiedMachine
from e2e.koordinator.request import DeviceRequest

PARTITION_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Preferred:
    """Which preferences a choice satisfies, the first one first."""

    aligned: bool
    partition: bool
    root: bool
    numa: bool

    def order(self) -> tuple[bool, ...]:
        """Return a key that is larger for a better choice."""
        return (self.aligned, self.partition, self.root, self.numa)


def find_violations(
    machine: OccupiedMachine, request: DeviceRequest, chosen: ChosenHardware
) -> Iterator[str]:
    """Yield what the choice violates."""
    gpus = [machine.hardware.gpus[number] for number in chosen.gpus]
    if machine.used_gpus.intersection(chosen.gpus):
        yield "a GPU is in use"
    if len(set(chosen.gpus)) != request.gpus or len(chosen.gpus) != request.gpus:
        yield f"{len(chosen.gpus)} GPUs instead of {request.gpus}"
    yield from _nic_violations(machine, request, chosen)
    if must_be_partition(machine, request):
        # A partition takes precedence over the scope.
        if not is_partition(machine, chosen.gpus):
            yield "the GPUs are not a partition"
        return
    if request.scope == "PCIe" and len({each.root for each in gpus}) > 1:
        yield "the GPUs are on several roots"
    if request.scope == "NUMANode" and len({each.numa for each in gpus}) > 1:
        yield "the GPUs are on several NUMA nodes"


def must_be_partition(machine: OccupiedMachine, request: DeviceRequest) -> bool:
    """Whether the GPUs must be one partition."""
    return (request.policy == "Restricted" or machine.honors_partitions) and request.gpus > 1


def is_partition(machine: OccupiedMachine, gpus: tuple[int, ...]) -> bool:
    """Whether these GPUs are one partition of the table; without a table, only their number."""
    if machine.partitions is None:
        return len(gpus) in PARTITION_SIZES
    return tuple(sorted(gpus)) in machine.partitions.get(len(gpus), ())


def _nic_violations(
    machine: OccupiedMachine, request: DeviceRequest, chosen: ChosenHardware
) -> Iterator[str]:
    if any(not machine.is_nic_available(number) for number in chosen.nics):
        yield "a NIC is in use"
    if len(set(chosen.nics)) != len(chosen.nics):
        yield "a NIC twice"
    if len(chosen.nics) < request.nics:
        yield f"{len(chosen.nics)} NICs instead of {request.nics}"
    if request.takes_all_nics and len(chosen.nics) != len(machine.hardware.nics):
        yield "not all NICs"
    if request.joined and request.same_pcie:
        if not is_aligned(machine, chosen):
            yield "the NICs are not where the GPUs are"
        elif len(chosen.nics) != _wanted(request, len(_places(machine, chosen))):
            yield f"{len(chosen.nics)} NICs for {len(_places(machine, chosen))} places"


def _wanted(request: DeviceRequest, places: int) -> int:
    """Return the number of NICs: one for each place at least, unless NICs are the primary type."""
    return request.nics if request.joined[0] == "rdma" else max(request.nics, places)


def _places(machine: OccupiedMachine, chosen: ChosenHardware) -> set[object]:
    """Return where the GPUs are: their roots, or NUMA nodes where roots relate nothing."""
    gpus = [machine.hardware.gpus[number] for number in chosen.gpus]
    return {each.root if machine.roots_relate else each.numa for each in gpus}


def is_aligned(machine: OccupiedMachine, chosen: ChosenHardware) -> bool:
    """Whether each place of the GPUs has a NIC, and no NIC is elsewhere."""
    nics = [machine.hardware.nics[number] for number in chosen.nics]
    if not (machine.roots_relate or machine.nics_publish_numa):
        return False
    there = {each.root if machine.roots_relate else each.numa for each in nics}
    return _places(machine, chosen) == there


def preferred(
    machine: OccupiedMachine, request: DeviceRequest, chosen: ChosenHardware
) -> Preferred:
    """Return which preferences a choice satisfies."""
    gpus = [machine.hardware.gpus[number] for number in chosen.gpus]
    return Preferred(
        not request.joined or is_aligned(machine, chosen),
        machine.partitions is None or is_partition(machine, chosen.gpus),
        len({each.root for each in gpus}) <= 1,
        len({each.numa for each in gpus}) <= 1,
    )


def is_packed(machine: OccupiedMachine, chosen: ChosenHardware) -> bool:
    """Whether the smallest scope that has all chosen GPUs also has GPUs in use."""
    gpus = [machine.hardware.gpus[number] for number in chosen.gpus]
    used = [machine.hardware.gpus[number] for number in machine.used_gpus]
    for scopes, in_use in (
        ({each.root for each in gpus}, {each.root for each in used}),
        ({each.numa for each in gpus}, {each.numa for each in used}),
    ):
        if len(scopes) == 1:
            return bool(scopes & in_use)
    return bool(used)


def enumerate_choices(machine: OccupiedMachine, request: DeviceRequest) -> Iterator[ChosenHardware]:
    """Yield every choice that violates nothing, up to NICs that the rules cannot tell apart.

    GPUs are enumerated one set after the other. For each set, one choice of NICs stands for all:
    the rules only count the NICs of each place.
    """
    free = [each.index for each in machine.free_gpus]
    for gpus in combinations(free, request.gpus):
        for nics in _nic_choices(machine, request, gpus):
            chosen = ChosenHardware(gpus, nics)
            if next(find_violations(machine, request, chosen), None) is None:
                yield chosen


def _nic_choices(
    machine: OccupiedMachine, request: DeviceRequest, gpus: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    nics = machine.hardware.nics
    usable = [number for number in range(len(nics)) if machine.is_nic_available(number)]
    if request.takes_all_nics:
        yield tuple(usable)
        return
    yield tuple(usable[: request.nics])
    if not request.joined:
        return
    places = _places(machine, ChosenHardware(gpus))
    at = {n: nics[n].root if machine.roots_relate else nics[n].numa for n in usable}
    near = [n for n in usable if at[n] in places]
    first = {at[n]: n for n in reversed(near)}
    rest = [n for n in near if n not in first.values()]
    yield (*first.values(), *rest)[: _wanted(request, len(places))]
