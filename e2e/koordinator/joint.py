"""What a joint request gets on published machine layouts, here and from Koordinator.

The machines are data of the e2e drivers. The requests come from the real translation with real
facts, the devices from the real solver, and Koordinator's from its steps.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

from drawbridge.config.model import Placement
from drawbridge.finding import Severity
from e2e.koordinator import published
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices
from e2e.koordinator.ours import Answer, answer
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import ChosenHardware, place
from e2e.nodes.machine import machine

Groups = tuple[tuple[int, int], ...]  # the GPUs and NICs of each group
MAX_GPUS: Final = 8
RELATED: Final = (
    "dgx-a100",
    "hgx-h100",
    "aws-p4d",
    "koordinator-fake-8g4n",
    "koordinator-h800",
)
UNRELATED: Final = ("azure-nd-a100-v4", "oci-gb200")
JOINT: Final = ("gpu", "rdma")


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


class JointResult(NamedTuple):
    """The devices of each group, GPUs by number and NICs by name, or why the pod is refused."""

    devices: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def groups(self) -> Groups:
        """The GPUs and NICs of each group."""
        return tuple((len(gpus), len(nics)) for gpus, nics in self.devices)


def empty_machine(shape: str, *, numa: bool = False, derives: bool = False) -> OccupiedMachine:
    """Return a machine; with `numa`, NICs publish their NUMA node as GPUs do.

    With `derives`, the API server stores derived attributes.
    """
    return OccupiedMachine(machine("node-1", shape), numa=numa, derives=derives)


def _request(gpus: int, rdma: int) -> DeviceRequest:
    return DeviceRequest(gpus, rdma, JOINT, same_pcie=True)


@cache
def translate_joint(
    shape: str, gpus: int, rdma: int, *, numa: bool = False, derives: bool = False
) -> JointResult:
    """Translate the pod for a machine with native placement, and place it there."""
    empty = empty_machine(shape, numa=numa, derives=derives)
    ours = answer(empty, _request(gpus, rdma), Placement.NATIVE)
    findings = tuple(
        f"{finding.message} [{finding.code}]"
        for finding in ours.findings
        if finding.severity is Severity.ERROR or finding.code == "NeighbourhoodChanged"
    )
    groups = groupby(ours.results, lambda each: each.request.partition("-")[2])
    chosen = [published.find_hardware(empty, [one.device for one in each]) for _, each in groups]
    named = [(each.gpus, tuple(sorted(nic_names(empty, each)))) for each in chosen]
    return JointResult(tuple(named), findings)


@cache
def bridge_answer(shape: str, gpus: int, rdma: int) -> Answer:
    """Return what a pod with the joint rule gets on an empty machine in bridge placement."""
    return answer(empty_machine(shape), _request(gpus, rdma))


def nic_names(on: OccupiedMachine, chosen: ChosenHardware) -> Iterator[str]:
    """Yield the names of the NICs."""
    return (on.hardware.nics[number].name for number in chosen.nics)


def koordinator_groups(shape: str, gpus: int, rdma: int) -> Groups | None:
    """Return the GPUs and NICs that Koordinator takes on each root of an empty machine, or None."""
    taken = place(empty_machine(shape), _request(gpus, rdma))
    return None if taken is None else groups_by_root(shape, taken)


def groups_by_root(shape: str, chosen: ChosenHardware) -> Groups:
    """Return the GPUs and NICs on each root, those with most devices first."""
    hardware = machine("node-1", shape)
    gpus = Counter(hardware.gpus[number].root for number in chosen.gpus)
    nics = Counter(hardware.nics[number].root for number in chosen.nics)
    return tuple(sorted(((gpus[r], nics[r]) for r in gpus | nics), reverse=True))


def find_differences() -> Iterator[str]:
    """Yield the pods for which native placement and Koordinator take other numbers of devices."""
    for shape, gpus, rdma in _pods((*RELATED, *UNRELATED)):
        ours = translate_joint(shape, gpus, rdma).groups
        theirs = koordinator_groups(shape, gpus, rdma) or ()
        if _numbers(shape, ours) != _numbers(shape, theirs):
            yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def find_derived_differences() -> Iterator[str]:
    """Yield the pods that derived attributes give other devices than a common attribute does."""
    for shape, gpus, rdma in _pods(UNRELATED):
        common = translate_joint(shape, gpus, rdma, numa=True)
        if translate_joint(shape, gpus, rdma, derives=True) != common:
            yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def find_bridge_differences() -> Iterator[str]:
    """Yield the pods for which bridge placement differs from Koordinator, or refuses wrongly."""
    for shape, gpus, rdma in _pods(RELATED):
        ours, theirs = bridge_answer(shape, gpus, rdma), koordinator_groups(shape, gpus, rdma)
        if theirs and ours.chosen:
            is_equal = groups_by_root(shape, ours.chosen) == theirs
        else:
            possible = next(enumerate_choices(empty_machine(shape), _request(gpus, rdma)), None)
            is_equal = not theirs and (ours.chosen is None) == (possible is None)
        if not is_equal:
            yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def _pods(shapes: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    for shape in shapes:
        for gpus in range(1, MAX_GPUS + 1):
            yield from ((shape, gpus, rdma) for rdma in dict.fromkeys((100, 100 * gpus)))


def _numbers(shape: str, groups: Groups) -> list[tuple[int, int]]:
    """Return the groups in sorted order; their sums if they take all devices of a machine."""
    total = (sum(gpus for gpus, _ in groups), sum(nics for _, nics in groups))
    return [total] if total == count_devices(shape) else sorted(groups)


def count_devices(shape: str) -> tuple[int, int]:
    """Return the numbers of GPUs and NICs of a machine."""
    hardware = machine("node-1", shape)
    return len(hardware.gpus), len(hardware.nics)
