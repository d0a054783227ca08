"""Runs NVIDIA's DRA driver and device plugin on a real node.

What they ask NVML, /sys and /proc is answered by `nvml` and `driver_root`. All else is their own
code: what they publish, how they prepare, and what they write for the container runtime.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.client import JSON
from e2e.drivers import driver_root
from e2e.drivers.build import program, sources
from e2e.drivers.driver_root import DriverRoot, boot_of, capability_minor
from e2e.drivers.nvml import PIN, Partition
from e2e.drivers.program import DriverProgram, ProgramPlan, number
from e2e.nodes.machine import Machine
from e2e.realnodes.images import BUSYBOX
from e2e.realnodes.stage import RealStage

GPUS = "gpu.nvidia.com"
LEGACY = "nvidia.com/gpu"
PLUGIN = "nvidia-plugin"
NEWEST, FORMER = "nvidia-0.5.0", "nvidia-0.4.1"
PLUGIN_PIN = "nvidia-plugin-0.19.3"
MODULE = "sigs.k8s.io/dra-driver-nvidia-gpu"
LOG_LEVEL = 6


@dataclass(frozen=True)
class Settings:
    """How a cluster administrator sets up the driver on a node; `mig` are GPUs in that mode."""

    pin: str = NEWEST
    gates: Sequence[str] = ()
    options: Sequence[str] = ()
    partitions: Sequence[Partition] = ()
    mig: Sequence[int] = ()


class NvidiaDriver(DriverProgram):
    """The kubelet plugin of NVIDIA's DRA driver on a node of a stage."""

    def __init__(
        self,
        stage: RealStage,
        machine: Machine,
        settings: Settings,
        root: DriverRoot | None = None,
    ) -> None:
        """`root` is that of a program that runs on the node already."""
        self.machine = machine
        self.settings = settings
        node = stage.fleet.real_node(machine.name)
        self._boot = boot_of(node)
        made, mig = settings.partitions, settings.mig
        self.root = root or driver_root.lay_out(node, machine, made, mig)
        super().__init__(stage, node, _plan(self.root, machine.name, settings))

    def start(self) -> None:
        """Start it; after a restart of the node the partitions are those that were made first."""
        if self._boot != boot_of(self.node):
            self._boot = boot_of(self.node)
            made, mig = self.settings.partitions, self.settings.mig
            driver_root.lay_out(self.node, self.machine, made, mig)
        super().start()

    @property
    def _checkpoint(self) -> Path:
        return self.node.path("kubelet", "plugins", GPUS, "checkpoint.json")

    def forget(self) -> None:
        """Remove its checkpoint, as an administrator may while it does not run."""
        self._checkpoint.unlink()

    def prepared(self) -> Mapping[str, JSON]:
        """Return the claims in its checkpoint by UID."""
        path = self._checkpoint
        checkpoint = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        prepared: Mapping[str, JSON] = (checkpoint.get("v2") or {}).get("preparedClaims") or {}
        return prepared


def _plan(root: DriverRoot, node: str, settings: Settings) -> ProgramPlan:
    gates = (f"--feature-gates={','.join(settings.gates)}",) if settings.gates else ()
    command = (
        program(settings.pin, "gpu-kubelet-plugin"),
        f"--node-name={node}",
        "--namespace=driver-nvidia",
        f"--image-name={BUSYBOX}",
        "--cdi-root=/var/run/cdi",
        f"--nvidia-driver-root={root.path}",
        f"--container-driver-root={root.path}",
        f"--nvidia-cdi-hook-path={program(settings.pin, 'nvidia-cdi-hook')}",
        f"-v={LOG_LEVEL}",
        *gates,
        *settings.options,
    )
    # Its image has the templates of the daemons that it starts.
    bound = {**root.bound(), sources(settings.pin, MODULE) / "templates": "/templates"}
    return ProgramPlan(settings.pin, GPUS, "nvidia", command, bound, root.variables())


def device_plugin(
    stage: RealStage, machine: Machine, root: DriverRoot, replicas: int = 1
) -> DriverProgram:
    """Return NVIDIA's device plugin on a node whose root is laid out.

    With `replicas` it gives each GPU to so many containers, and advertises them by another name.
    """
    settings = root.path / "plugin.json"
    settings.write_text(json.dumps(_plugin_settings(replicas)), encoding="ascii")
    command = (
        program(PLUGIN_PIN, "nvidia-device-plugin"),
        "--mig-strategy=none",
        "--device-list-strategy=cdi-cri",
        "--device-discovery-strategy=nvml",
        f"--nvidia-cdi-hook-path={program(PIN, 'nvidia-cdi-hook')}",
        f"--config-file={settings}",
    )
    variables = {
        **root.variables(),
        "NODE_NAME": machine.name,
        "NVIDIA_DRIVER_ROOT": str(root.path),
        "DRIVER_ROOT_CTR_PATH": str(root.path),
        "LD_LIBRARY_PATH": str(root.path / "usr" / "lib64"),
    }
    plan = ProgramPlan(PLUGIN, LEGACY, "nvidia", command, root.bound(), variables)
    return DriverProgram(stage, stage.fleet.real_node(machine.name), plan)


def _plugin_settings(replicas: int) -> JSON:
    if replicas == 1:
        return {"version": "v1"}
    resources = [{"name": LEGACY, "replicas": replicas}]
    shared = {"timeSlicing": {"renameByDefault": True, "resources": resources}}
    return {"version": "v1", "sharing": shared}


def container_devices(
    machine: Machine, results: Iterable[JSON], devices: Iterable[JSON]
) -> list[str]:
    """Return the device nodes that a container must have: of each GPU, and of each partition."""
    published = {one["name"]: one for one in devices}
    paths: set[str] = set()
    for result in results:
        name = result["device"]
        gpu = number(name)
        paths.add(f"/dev/nvidia{gpu}")
        if "-mig-" in name:
            instance = int(name.rpartition("-")[2]) + 1
            minors = (capability_minor(gpu, instance), capability_minor(gpu, instance, 0))
            paths.update(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)
        else:
            uuid = published[name]["attributes"]["uuid"]["string"]
            assert uuid == machine.gpus[gpu].uuid, f"{name} is {uuid}"
    return sorted(paths)
