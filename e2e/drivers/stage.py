"""Gives a scenario real nodes on which NVIDIA's own driver prepares the devices.

Where a scenario asks for the driver `gpu.nvidia.com` in a mode, NVIDIA's program is started with
the settings of that mode. A container prints the device nodes that it has.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from e2e.controlplane.client import JSON
from e2e.drivers import driver_root
from e2e.drivers.nvidia import (
    GPUS,
    LEGACY,
    NEWEST,
    NvidiaDriver,
    Settings,
    container_devices,
    device_plugin,
)
from e2e.drivers.nvml import Partition
from e2e.nodes.machine import Machine
from e2e.nodes.plugin import physical
from e2e.realnodes.fleet import RealFleet
from e2e.realnodes.stage import END, RealStage
from e2e.scenarios import holdings
from e2e.scenarios.stage import Stage

END_SECONDS = 90.0
# What NVIDIA's device plugin calls GPUs, and those that containers share.
OFFERED = frozenset({LEGACY, f"{LEGACY}.shared"})
VARIABLES = "NVIDIA_|CUDA_|GPU_DEVICE|DRA_"
PRINT = (
    "ls -d /dev/nvidia[0-9]* /dev/nvidia-caps/nvidia-cap[0-9]* 2>/dev/null; "
    "ls -d /sys/class/net/*; "
    f"env | grep -E '^({VARIABLES})'; grep Cpus_allowed_list /proc/self/status; echo {END}"
)
# The settings of the modes that the simulated driver has, on the machines of these scenarios.
MODES: Mapping[str | None, Settings] = {
    None: Settings(),
    "full": Settings(),
    "static-mig": Settings(
        partitions=(
            Partition(0, "1g.5gb", 0),
            Partition(0, "1g.5gb", 1),
            Partition(0, "3g.20gb", 4),
        )
    ),
    # The other GPU stays whole: an A100 changes its mode only by a reset.
    "dynamic-mig": Settings(gates=("DynamicMIG=true",), mig=(0,)),
    "shares-4": Settings(gates=("ConsumableShares=true",), options=("--consumable-shares=4",)),
    "shares-memory": Settings(
        gates=("ConsumableShares=true",), options=("--consumable-shares=memory",)
    ),
}


class DriverStage(RealStage):
    """One scenario's part of the nodes, with the programs that it starts on them."""

    says = PRINT

    def __init__(self, name: str, version: str, fleet: RealFleet) -> None:
        super().__init__(name, version, fleet)
        self.pin = NEWEST
        self.drivers: dict[str, NvidiaDriver] = {}

    def node(
        self,
        suffix: str,
        shape: str,
        drivers: Mapping[str, str | None] | None = None,
        plugins: Mapping[str, tuple[str, ...]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Machine:
        """Label a node, and start NVIDIA's driver and device plugin where they are asked for."""
        others = {name: mode for name, mode in (drivers or {}).items() if name != GPUS}
        offered = plugins or {}
        simulated = {name: units for name, units in offered.items() if name not in OFFERED}
        machine = super().node(suffix, shape, others, simulated, labels)
        if drivers and GPUS in drivers:
            self.install(machine, MODES[drivers[GPUS]])
        for name in offered.keys() & OFFERED:
            self.enter(self._offering(machine, name, len(offered[name])))
        return machine

    @contextmanager
    def _offering(self, machine: Machine, name: str, count: int) -> Iterator[None]:
        """Run NVIDIA's device plugin on a node without its driver; it offers so many units."""
        root = driver_root.lay_out(self.fleet.real_node(machine.name), machine)
        try:
            with device_plugin(self, machine, root, count // len(machine.gpus)):
                self.fleet.wait_allocatable(machine.name, name, count)
                yield
        finally:
            self.fleet.forget_capacity(machine.name, name)

    @contextmanager
    def part(self) -> Iterator[None]:
        """End pods and drivers at the end of the block, and give the nodes back."""
        whole, self._undo = self._undo, ExitStack()
        try:
            with self._undo:
                try:
                    yield
                finally:
                    # While the drivers run, which release their claims.
                    self.end_pods()
        finally:
            self._undo = whole
            self.fleet.remove()
            self._suffixes.clear()
            self.drivers.clear()

    def install(self, machine: Machine, settings: Settings) -> NvidiaDriver:
        """Start NVIDIA's driver on a node, and wait until it has published its devices."""
        return self.enter(self.running(machine, settings))

    @contextmanager
    def running(self, machine: Machine, settings: Settings) -> Iterator[NvidiaDriver]:
        """Run NVIDIA's driver on a node, at most until the end of the block."""
        with NvidiaDriver(self, machine, replace(settings, pin=self.pin)) as driver:
            driver.wait_published()
            self.drivers[machine.name] = driver
            yield driver

    def end_pods(self) -> None:
        """Delete all pods, and wait until they are gone."""
        path = self.pod_path()
        for pod in self.client.get(path)["items"]:
            self.client.delete(self.pod_path(pod["metadata"]["name"]), grace=None)
        gone = "the pods of this part are gone"
        self.wait(gone, lambda: not self.client.get(path)["items"], END_SECONDS)

    # --- what containers have ------------------------------------------------------------------

    def lines(self, pod: str, name: str = "main") -> list[str]:
        """Wait for the output of a container, and return its lines."""

        def output() -> list[str]:
            lines = self.output(pod, name).splitlines()
            return lines if END in lines else []

        return self.wait(f"{pod}/{name} printed what it has", output)

    def seen(self, pod: str, name: str = "main") -> list[str]:
        """Return the device nodes of GPUs that a container sees."""
        return sorted(line for line in self.lines(pod, name) if re.match("/dev/nvidia", line))

    def results(self, pod: JSON) -> list[JSON]:
        """Return the devices that are allocated to the claims of a pod."""
        names = holdings.claims(pod).values()
        return [one for name in names for one in self.allocated(name)]

    def check_devices(self, name: str) -> list[JSON]:
        """Check that each container of a running pod has exactly its GPUs; return all its devices.

        The driver's checkpoint has the claim, and the kubelet says the same of the pod.
        """
        pod = self.wait_running(name)
        driver = self.drivers[pod["spec"]["nodeName"]]
        published = driver.devices()
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            mine = [
                result
                for claim, request in holdings.uses(pod, container)
                for result in self.allocated(claim)
                if request in ("", result["request"].partition("/")[0]) and result["driver"] == GPUS
            ]
            wanted = container_devices(driver.machine, mine, published)
            assert self.seen(name, container["name"]) == wanted, f"{container['name']}: {mine}"
        results = self.results(pod)
        told = {f"{one['driver']}/{one['pool']}/{one['device']}" for one in results}
        assert set(self.fleet.held_by(pod)) == told
        for claim in holdings.claims(pod).values():
            uid = self.get_claim(claim)["metadata"]["uid"]
            assert driver.prepared()[uid]["checkpointState"] == "PrepareCompleted", uid
        return results

    def check_units(self, name: str) -> Counter[str]:
        """Check that containers have the GPUs of their units, and count the units of a pod."""
        pod = self.wait_running(name)
        machine = self.fleet.machines[pod["spec"]["nodeName"]]
        counted: Counter[str] = Counter()
        for share in self.fleet.shares(pod):
            given = {physical(unit) for units in share.units.values() for unit in units}
            wanted = [f"/dev/nvidia{gpu.index}" for gpu in machine.gpus if gpu.uuid in given]
            assert self.seen(name, share.container) == wanted, share
            counted.update({resource: len(units) for resource, units in share.units.items()})
        return counted

    def wait_unprepared(self, node: str) -> None:
        """Wait until the driver on a node has nothing prepared, in its books and for CDI."""
        driver = self.drivers[node]
        self.wait("nothing is prepared", lambda: not driver.prepared() and not driver.cdi())

    def wait_refused(self, pod: str, words: str) -> None:
        """Wait until the kubelet reports these words: a driver registers after it has published."""

        def told() -> bool:
            return any(one.startswith("Failed") and words in one for one in self.events(pod))

        self.wait(f"{pod} is refused: {words}", told, 60.0)


def with_drivers(stage: Stage) -> DriverStage:
    """Return the stage of a scenario that runs the programs of drivers."""
    assert isinstance(stage, DriverStage), "this scenario needs the programs of drivers"
    return stage
