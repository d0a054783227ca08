"""What a joint request gets on published machine layouts.

The machines are data of the e2e drivers. The requests come from the real translation with real
facts, and the devices from the real solver.
"""

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

from drawbridge.config.model import Placement
from drawbridge.finding import Severity
from e2e.koordinator import published
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.ours import answer
from e2e.koordinator.request import DeviceRequest
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


def joint_request(gpus: int, rdma: int) -> DeviceRequest:
    """Return the request of GPUs with NICs at the same roots."""
    return DeviceRequest(gpus, rdma, JOINT, same_pcie=True)


@cache
def translate_joint(
    shape: str, gpus: int, rdma: int, *, numa: bool = False, derives: bool = False
) -> JointResult:
    """Translate the pod for a machine with native placement, and place it there."""
    empty = empty_machine(shape, numa=numa, derives=derives)
    ours = answer(empty, joint_request(gpus, rdma), Placement.NATIVE)
    findings = tuple(
        f"{finding.message} [{finding.code}]"
        for finding in ours.findings
        if finding.severity is Severity.ERROR or finding.code == "NeighbourhoodChanged"
    )
    groups = groupby(ours.results, lambda each: each.request.partition("-")[2])
    chosen = [published.find_hardware(empty, [one.device for one in each]) for _, each in groups]
    nics = empty.hardware.nics
    named = [(each.gpus, tuple(sorted(nics[n].name for n in each.nics))) for each in chosen]
    return JointResult(tuple(named), findings)


def find_derived_differences() -> Iterator[str]:
    """Yield the pods that derived attributes give other devices than a common attribute does."""
    for shape, gpus, rdma in list_pods(UNRELATED):
        common = translate_joint(shape, gpus, rdma, numa=True)
        if translate_joint(shape, gpus, rdma, derives=True) != common:
            yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def list_pods(shapes: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield pods with a NIC, and with as many NICs as GPUs, for each number of GPUs."""
    for shape in shapes:
        for gpus in range(1, MAX_GPUS + 1):
            yield from ((shape, gpus, rdma) for rdma in dict.fromkeys((100, 100 * gpus)))


def count_devices(shape: str) -> tuple[int, int]:
    """Return the numbers of GPUs and NICs of a machine."""
    hardware = machine("node-1", shape)
    return len(hardware.gpus), len(hardware.nics)
