"""Koordinator's allocation on one machine, step by step, as its scheduler does it.

Written from the description of the scheduler, and independent of everything that Drawbridge does.
GPUs come from the table of partitions, then from the topology. NICs come from the roots of the
GPUs in turn, then from elsewhere. Nothing is revised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2e.koordinator.machines import OccupiedMachine, Partitions
from e2e.koordinator.request import DeviceRequest

WHOLE = 100
# What it costs to break a free partition, by its size.
WEIGHTS = {8: 10000, 4: 100, 2: 1}
NODE, NUMA, PCIE = 1, 2, 3
LEVELS = {"": 0, "Node": NODE, "NUMANode": NUMA, "PCIe": PCIE, "Device": 4}


@dataclass(frozen=True)
class ChosenHardware:
    """The numbers of the GPUs and NICs that a pod gets."""

    gpus: tuple[int, ...] = ()
    nics: tuple[int, ...] = ()


def place(machine: OccupiedMachine, request: DeviceRequest) -> ChosenHardware | None:
    """Return what the pod gets, or None if it stays pending."""
    if request.joined and request.joined[0] == "rdma":
        nics = _nics(machine, request, request.nics, frozenset())
        gpus = _gpus(machine, request) if nics is not None else None
    else:
        gpus = _gpus(machine, request) if request.gpus else ()
        if gpus is None:
            return None
        roots = _gpu_roots(machine, gpus) if request.joined else frozenset()
        raised = len(roots) if request.same_pcie else 0
        nics = _nics(machine, request, max(_wanted(machine, request), raised), roots)
    if gpus is None or nics is None:
        return None
    if request.joined and request.same_pcie:
        roots = _gpu_roots(machine, gpus)
        if {machine.hardware.nics[number].root for number in nics} != roots:
            return None
    return ChosenHardware(tuple(gpus), tuple(nics))


def _wanted(machine: OccupiedMachine, request: DeviceRequest) -> int:
    return len(machine.hardware.nics) if request.takes_all_nics else request.nics


def _gpu_roots(machine: OccupiedMachine, gpus: Sequence[int]) -> frozenset[str]:
    return frozenset(machine.hardware.gpus[number].root for number in gpus)


def _nics(
    machine: OccupiedMachine, request: DeviceRequest, wanted: int, roots: frozenset[str]
) -> list[int] | None:
    """Take NICs from the preferred roots in turn, then others, up to one for each root."""
    if not request.rdma:
        return []
    amount = _amount_of_each(request)
    fitting = []
    for number in _by_score(machine):
        has_function = not request.functions or machine.free_functions(number)
        if _free_amount(machine, number) >= amount and has_function:
            fitting.append(number)
    ordered = _in_turn(machine, fitting, roots)
    most = max(wanted, len(roots))
    taken = ordered[:most]
    return taken if len(taken) >= max(1, wanted) else None


def _amount_of_each(request: DeviceRequest) -> int:
    if request.several_nics:
        return WHOLE
    if request.strategy == "RequestsAsCount":
        return WHOLE if request.exclusive else 1
    return request.rdma


def _free_amount(machine: OccupiedMachine, number: int) -> int:
    if number in machine.used_nics:
        return 0
    return WHOLE - machine.used_functions.count(number)


def _by_score(machine: OccupiedMachine) -> list[int]:
    """Order NICs: least used first, then by number."""
    numbers = range(len(machine.hardware.nics))
    return sorted(numbers, key=lambda number: (-_free_amount(machine, number), number))


def _in_turn(machine: OccupiedMachine, numbers: Sequence[int], roots: frozenset[str]) -> list[int]:
    by_root: dict[str, list[int]] = {root: [] for root in sorted(roots)}
    others: list[int] = []
    for number in numbers:
        by_root.get(machine.hardware.nics[number].root, others).append(number)
    turns = max(map(len, by_root.values()), default=0)
    near = [rows[turn] for turn in range(turns) for rows in by_root.values() if turn < len(rows)]
    return near + others


def _gpus(machine: OccupiedMachine, request: DeviceRequest) -> tuple[int, ...] | None:
    """Choose GPUs: from the table of partitions, else from the topology."""
    honored = bool(request.policy) or machine.honors_partitions
    taken = _from_partitions(machine, request.gpus)
    if taken is not None or honored:
        return taken
    chosen = _from_scope(machine, request, _Scope(NODE, range(len(machine.hardware.gpus))), 0)
    return chosen.gpus if chosen else None


def _from_partitions(machine: OccupiedMachine, count: int) -> tuple[int, ...] | None:
    """Return the free partition of this size that breaks the fewest large partitions."""
    table = machine.partitions
    if table is None or count not in table:
        return None
    free = {each.index for each in machine.free_gpus}
    fitting = [each for each in table[count] if free.issuperset(each)]
    if not fitting:
        return None
    return max(fitting, key=lambda each: _left(table, free.difference(each), count))


def _left(table: Partitions, free: set[int], count: int) -> int:
    """Return the weight of the partitions that stay free."""
    return sum(
        weight * sum(free.issuperset(each) for each in table.get(size, ()))
        for size, weight in WEIGHTS.items()
        if size >= count
    )


@dataclass(frozen=True)
class _Scope:
    level: int
    gpus: Sequence[int]


@dataclass(frozen=True)
class _Found:
    """GPUs in one scope: how deep it is, and how many of the scopes around it are in use."""

    depth: int
    in_use: int
    gpus: tuple[int, ...]


def _from_scope(
    machine: OccupiedMachine, request: DeviceRequest, scope: _Scope, in_use: int
) -> _Found | None:
    """Choose GPUs from the deepest scope with enough; of equal ones, where more is in use."""
    if len(scope.gpus) < request.gpus:
        return None
    in_use += bool(machine.used_gpus.intersection(scope.gpus))
    best: _Found | None = None
    for child in _children(machine, scope):
        taken = _from_scope(machine, request, child, in_use)
        if taken and (best is None or (best.depth, best.in_use) < (taken.depth, taken.in_use)):
            best = taken
    if best or LEVELS[request.scope] > scope.level:
        return best
    free = tuple(number for number in scope.gpus if number not in machine.used_gpus)
    if len(free) < request.gpus:
        return None
    return _Found(scope.level, in_use, free[: request.gpus])


def _children(machine: OccupiedMachine, scope: _Scope) -> Iterator[_Scope]:
    gpus = machine.hardware.gpus
    if scope.level == PCIE:
        return
    groups: dict[str, list[int]] = {}
    for number in scope.gpus:
        at = gpus[number].root if scope.level == NUMA else f"{gpus[number].numa:06}"
        groups.setdefault(at, []).append(number)
    for at in sorted(groups):
        yield _Scope(scope.level + 1, groups[at])
