"""Tables of docs/joint.md about bridge placement: what it allocates, beside Koordinator and native.

The devices come from the real translation and solver, and Koordinator's from its steps.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

from drawbridge.config.model import Placement
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices
from e2e.koordinator.ours import Answer, answer
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import ChosenHardware, place
from e2e.nodes.machine import machine
from tools.joint import MAX_GPUS, RELATED

JOINT: Final = ("gpu", "rdma")
SAME_PCIE: Final = DeviceRequest(1, 100, JOINT, same_pcie=True)


class MachineInUse(NamedTuple):
    """A row of the table: a machine, the numbers of the GPUs and NICs in use, and a request."""

    shape: str
    gpus: tuple[int, ...]
    nics: tuple[int, ...]
    request: DeviceRequest

    @property
    def occupied(self) -> OccupiedMachine:
        """The machine of the row."""
        hardware = machine("node-1", self.shape)
        return OccupiedMachine(hardware, frozenset(self.gpus), frozenset(self.nics))


IN_USE: Final = (
    MachineInUse("aws-p4d", (1, 3, 5, 7), (), DeviceRequest(3, 100, JOINT, same_pcie=True)),
    MachineInUse("aws-p4d", (), (0,), DeviceRequest(1, 100, JOINT, same_pcie=True)),
    MachineInUse("hgx-h100", (), (0, 1), DeviceRequest(2, 100, JOINT, same_pcie=True)),
    MachineInUse("hgx-h100", (), (), DeviceRequest(4, 200, JOINT, same_pcie=True)),
    MachineInUse("aws-p4d", (2, 3, 4, 5, 6, 7), (0,), DeviceRequest(2, 100, JOINT)),
    MachineInUse("aws-p4d", (0,), (), DeviceRequest(2)),
    MachineInUse("aws-p4d", (7,), (), DeviceRequest(1)),
)


@cache
def bridge_answer(shape: str, gpus: int, rdma: int) -> Answer:
    """Return what a pod with the joint rule gets on an empty machine."""
    request = DeviceRequest(gpus, rdma, JOINT, same_pcie=True)
    return answer(OccupiedMachine(machine("node-1", shape)), request)


def _groups(shape: str, chosen: ChosenHardware) -> tuple[tuple[int, int], ...]:
    """Return the GPUs and NICs on each root, those with most devices first."""
    hardware = machine("node-1", shape)
    gpus = Counter(hardware.gpus[number].root for number in chosen.gpus)
    nics = Counter(hardware.nics[number].root for number in chosen.nics)
    return tuple(sorted(((gpus[r], nics[r]) for r in gpus | nics), reverse=True))


def _koordinator(shape: str, gpus: int, rdma: int) -> ChosenHardware | None:
    request = DeviceRequest(gpus, rdma, JOINT, same_pcie=True)
    return place(OccupiedMachine(machine("node-1", shape)), request)


def build_bridge_table(rdma_of: Callable[[int], int]) -> str:
    """Build the table of empty machines; italic where Koordinator allocates nothing."""
    rows = ["| GPUs | " + " | ".join(RELATED) + " |", "|---" * (len(RELATED) + 1) + "|"]
    for gpus in range(1, MAX_GPUS + 1):
        cells = (_cell(shape, gpus, rdma_of(gpus)) for shape in RELATED)
        rows.append(f"| {gpus} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(shape: str, gpus: int, rdma: int) -> str:
    ours = bridge_answer(shape, gpus, rdma)
    if ours.chosen is None:
        return f"refused: {ours.refused.partition(': ')[2]}"
    runs = ((a, b, len(list(alike))) for (a, b), alike in groupby(_groups(shape, ours.chosen)))
    text = ", ".join(f"{n} of {a}:{b}" if n > 1 else f"{a}:{b}" for a, b, n in runs)
    return text if _koordinator(shape, gpus, rdma) else f"*{text}*"


def find_bridge_differences() -> Iterator[str]:
    """Yield the cells of the tables that differ from Koordinator, or refuse what is possible."""
    for shape in RELATED:
        for gpus in range(1, MAX_GPUS + 1):
            for rdma in dict.fromkeys((100, 100 * gpus)):
                ours, theirs = bridge_answer(shape, gpus, rdma), _koordinator(shape, gpus, rdma)
                request = DeviceRequest(gpus, rdma, JOINT, same_pcie=True)
                empty = OccupiedMachine(machine("node-1", shape))
                if theirs and ours.chosen:
                    is_equal = _groups(shape, ours.chosen) == _groups(shape, theirs)
                else:
                    possible = next(enumerate_choices(empty, request), None)
                    is_equal = not theirs and (ours.chosen is None) == (possible is None)
                if not is_equal:
                    yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def build_table_in_use() -> str:
    """Build the table of machines in use."""
    rows = [
        "| machine | in use | requested | Koordinator | native | bridge |",
        "|---|---|---|---|---|---|",
    ]
    for case in IN_USE:
        native = answer(case.occupied, case.request, Placement.NATIVE)
        cells = (
            case.shape,
            _devices(case.occupied, case.gpus, case.nics) or "nothing",
            _requested(case.request),
            _taken(case.occupied, place(case.occupied, case.request)),
            "refused" if native.refused else _taken(case.occupied, native.chosen),
            _taken(case.occupied, answer(case.occupied, case.request).chosen),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _requested(request: DeviceRequest) -> str:
    gpus = "1 GPU" if request.gpus == 1 else f"{request.gpus} GPUs"
    if not request.rdma:
        return gpus
    return f"{gpus}, `rdma: {request.rdma}`" + ("" if request.same_pcie else ", no `requiredScope`")


def _taken(on: OccupiedMachine, chosen: ChosenHardware | None) -> str:
    return _devices(on, chosen.gpus, chosen.nics) if chosen else "waits"


def _devices(on: OccupiedMachine, gpus: tuple[int, ...], nics: tuple[int, ...]) -> str:
    names = [f"gpu-{number}" for number in gpus]
    return " ".join([*names, *(on.hardware.nics[number].name for number in nics)])
