"""A machine of the comparison: its hardware, what is in use on it, and its table of partitions.

Koordinator numbers devices by their minor. Here that is their position on the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from e2e.nodes.families.nics import FUNCTIONS
from e2e.nodes.machine import Gpu, Machine

Partitions = Mapping[int, tuple[tuple[int, ...], ...]]
# Koordinator's table for Hopper boards with eight GPUs. Numbers are minors.
HOPPER: Partitions = {
    1: tuple((number,) for number in range(8)),
    2: ((0, 1), (2, 3), (4, 5), (6, 7)),
    4: ((0, 1, 2, 3), (4, 5, 6, 7)),
    8: (tuple(range(8)),),
}


@dataclass(frozen=True)
class ChosenHardware:
    """The numbers of the GPUs and NICs that a pod gets."""

    gpus: tuple[int, ...] = ()
    nics: tuple[int, ...] = ()


@dataclass(frozen=True)
class OccupiedMachine:
    """A machine with devices in use.

    `used_functions` are numbers of NICs, once for each of their functions in use. With `functions`
    the NICs are offered as virtual functions. `numa` tells whether NICs publish their NUMA node,
    `configured_partitions` whether the configuration declares the partitions instead of the driver,
    `old_api` whether the API server drops `distinctAttribute` and `capacity` from claims, and
    `derives` whether it stores derived attributes.
    """

    hardware: Machine
    used_gpus: frozenset[int] = frozenset()
    used_nics: frozenset[int] = frozenset()
    used_functions: tuple[int, ...] = ()
    partitions: Partitions | None = None
    configured_partitions: bool = False
    honors_partitions: bool = False
    functions: bool = False
    numa: bool = False
    old_api: bool = False
    derives: bool = False

    def empty(self) -> "OccupiedMachine":
        """Return the machine with nothing in use."""
        nothing: frozenset[int] = frozenset()
        return replace(self, used_gpus=nothing, used_nics=nothing, used_functions=())

    @property
    def free_gpus(self) -> list[Gpu]:
        """The GPUs that no pod has, in order."""
        return [each for each in self.hardware.gpus if each.index not in self.used_gpus]

    def free_functions(self, number: int) -> int:
        """Return how many functions of a NIC are free."""
        if number in self.used_nics or self.hardware.nics[number].storage:
            return 0
        return FUNCTIONS - self.used_functions.count(number)

    def is_nic_available(self, number: int) -> bool:
        """Return whether a claim can get the NIC, or a function of it."""
        return self.free_functions(number) > 0 if self.functions else number not in self.used_nics

    @property
    def roots_relate(self) -> bool:
        """Whether a GPU and a NIC share a PCIe root."""
        roots = {nic.root for number, nic in enumerate(self.hardware.nics) if self._offered(number)}
        return any(gpu.root in roots for gpu in self.hardware.gpus)

    @property
    def nics_publish_numa(self) -> bool:
        """Whether NICs publish their NUMA node by the name that GPUs use."""
        return self.numa and not self.functions

    def _offered(self, number: int) -> bool:
        return not (self.functions and self.hardware.nics[number].storage)
