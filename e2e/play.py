"""Starts a cluster to play with, installs Drawbridge, and stays until Ctrl-C or SIGTERM.

Nodes are simulated and the processes of Drawbridge run on this machine, or with `real` everything
runs in pods on real kubelets. With `drivers` NVIDIA's own programs run on these. Everything ends
with this process.
"""

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError
from types import FrameType

from e2e.bridge.placement import FENCE, OWNED, Placement
from e2e.controlplane.build import DEFAULT, NoGoError, binaries
from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import StartError
from e2e.drivers import driver_root, nvml
from e2e.drivers.build import build as build_drivers
from e2e.drivers.nvidia import GPUS, NEWEST, PLUGIN_PIN, device_plugin
from e2e.drivers.stage import DriverStage
from e2e.installed.installation import CONTROLLER, Installation
from e2e.installed.judge import NAME as JUDGE
from e2e.installed.judge import judged
from e2e.installed.launch import COMMANDS
from e2e.nodes.fleet import Fleet, NodePlan
from e2e.nodes.machine import machine
from e2e.realnodes.bridge import BridgeInstallation
from e2e.realnodes.build import NoProgramsError, programs
from e2e.realnodes.enter import PID_FILE, RUN, lacking, run_inside
from e2e.realnodes.fleet import RealFleet
from e2e.realnodes.installation import OVERLAY, READY_SECONDS, PodInstallation
from e2e.realnodes.product import NEXT, ROOT, image_archive, scheduler_archive
from e2e.realnodes.rig import NodeRig, mount_run
from e2e.realnodes.seed import seeded
from e2e.runner import create_classes, print_line
from e2e.scenarios.registry import RIGS
from e2e.scenarios.stage import Stage

SIMULATED, REAL, PROGRAMS = KINDS = ("simulated", "real", "drivers")
SHAPE, PLUGIN = "lab-2g2n", "nvidia.com/gpu"
# Each has one class of its name.
DRIVERS: Mapping[str, str | None] = {"gpu.nvidia.com": "full", "dra.net": None}
# Two nodes have drivers; the last one still has a device plugin.
NAMES = ("gpu-1", "gpu-2", "gpu-3")
LOOK_SECONDS = 1.0


def play(nodes: str, *, bridge: bool) -> int:
    """Start the cluster, print how to use it, and stay; 1 if it could not be started."""
    try:
        if nodes == SIMULATED:
            _play_simulated(bridge=bridge)
        elif RUN in os.environ:
            _play_real(nodes, bridge=bridge)
        elif reason := lacking():
            print_line(f"real nodes cannot run here: {reason}")
            return 1
        else:
            _build(nodes, bridge=bridge)
            words = ["--bridge"] * bridge
            command = [sys.executable, "-m", "e2e", "play", f"--nodes={nodes}", *words]
            return run_inside(command, print_line)
    except (NoGoError, NoProgramsError, StartError, CalledProcessError) as problem:
        print_line(f"the cluster cannot be started: {problem}")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def plans(*, bridge: bool) -> list[NodePlan]:
    """Return the nodes; with `bridge`, the allocator of Drawbridge owns the first one."""
    first, second, third = NAMES
    units = tuple(device.uuid for device in machine(third, SHAPE).gpus)
    own, taints = (OWNED, (FENCE,)) if bridge else ({}, ())
    return [
        NodePlan(first, SHAPE, DRIVERS, own, taints=taints),
        NodePlan(second, SHAPE, DRIVERS),
        NodePlan(third, SHAPE, plugins={PLUGIN: units}),
    ]


def _play_simulated(*, bridge: bool) -> None:
    began = time.monotonic()
    with (
        ControlPlane(RIGS["installed"](DEFAULT)) as plane,
        Fleet(plane.admin) as fleet,
        contextlib.ExitStack() as stack,
    ):
        create_classes(plane.admin, DRIVERS)
        fleet.add_all(plans(bridge=bridge))
        cluster = Installation(plane)
        cluster.install()
        stack.enter_context(cluster.reachable())
        stage = Stage("play", DEFAULT, plane.admin, fleet, plane)
        cluster.objects += stack.enter_context(judged(stage, cluster)).objects
        for name in (CONTROLLER, JUDGE):
            cluster.report_ready(name)
        if bridge:
            placement = Placement(cluster)
            placement.install()
            stage.wait("a scheduler leads", placement.find_leader, READY_SECONDS)
        stage.wait("the facts are published", partial(_has_drivers, cluster), READY_SECONDS)
        folders = f"{plane.bin}{os.pathsep}{COMMANDS}"
        shell = f"export KUBECONFIG={plane.user_config()} PATH={folders}{os.pathsep}$PATH"
        _stay(began, shell, partial(_act_as_kubelet, cluster))


def _has_drivers(cluster: Installation) -> bool:
    published = {driver["name"] for driver in (cluster.facts() or {}).get("drivers", ())}
    return published == set(DRIVERS)


def _act_as_kubelet(cluster: Installation) -> None:
    """Start processes that ended, and let the pods of Drawbridge run."""
    # Whoever plays may delete anything of the installation, or refuse what it needs.
    with contextlib.suppress(ApiError, StartError, AssertionError, OSError):
        cluster.mark_pods_ready()
        cluster.start_all(LOOK_SECONDS)


# --- real nodes ----------------------------------------------------------------------------------


class JudgedInstallation(PodInstallation):
    """Drawbridge as pods, with the component of the judge."""

    def write_overlay(self, image: str) -> None:
        """Name the image, and add the component."""
        super().write_overlay(image)
        path = self.folder / OVERLAY
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}\ncomponents: [../../components/judge]\n", encoding="utf-8")


def _build(nodes: str, *, bridge: bool) -> list[tuple[Path, str]]:
    """Build everything while there is a network; return the archives of the images."""
    binaries(DEFAULT)
    programs(DEFAULT)
    if nodes == PROGRAMS:
        nvml.library()
        build_drivers(NEWEST, PLUGIN_PIN)
    archives = [(image_archive(), NEXT)]
    return [*archives, (scheduler_archive(), NEXT)] if bridge else archives


def _play_real(nodes: str, *, bridge: bool) -> None:
    began, run = time.monotonic(), Path(os.environ[RUN])
    mount_run(run)
    built = programs(DEFAULT)
    seed = seeded(built, _build(nodes, bridge=bridge))
    with NodeRig(DEFAULT, NAMES, built, seed) as rig:
        create_classes(rig.plane.admin, (GPUS,) if nodes == PROGRAMS else DRIVERS)
        with RealFleet(rig) as fleet, contextlib.ExitStack() as stack:
            if nodes == PROGRAMS:
                stage = DriverStage("play", DEFAULT, fleet)
                stack.callback(stage.clean_up)
                _start_programs(stage)
            else:
                fleet.add_all(plans(bridge=False))
            cluster = BridgeInstallation(rig, NAMES[0]) if bridge else JudgedInstallation(rig)
            cluster.install()
            rig.wait("Drawbridge is ready", cluster.rolled_out)
            target = (run / PID_FILE).read_text(encoding="ascii")
            own = cluster.environment()
            shell = (
                f"nsenter --target={target} --net --mount --wd={shlex.quote(str(ROOT))} "
                f"env KUBECONFIG={own['KUBECONFIG']} PATH={shlex.quote(own['PATH'])} bash"
            )
            _stay(began, shell, lambda: None)


def _start_programs(stage: DriverStage) -> None:
    """Start NVIDIA's driver on two nodes, and its device plugin on the third."""
    first, second, third = NAMES
    for name in (first, second):
        stage.node(name, SHAPE, {GPUS: DRIVERS[GPUS]})
    machine = stage.node(third, SHAPE)
    root = driver_root.lay_out(stage.fleet.real_node(third), machine)
    stage.enter(device_plugin(stage, machine, root))
    stage.fleet.wait_allocatable(third, PLUGIN, len(machine.gpus))


# --- the person ----------------------------------------------------------------------------------


def _stay(began: float, shell: str, look: Callable[[], None]) -> None:
    """Print how to use the cluster, and look after it until a signal comes."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    # They stay: a second Ctrl-C must not disturb the end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    for line in _first_words(time.monotonic() - began, shell):
        print_line(line)
    while not ended.wait(LOOK_SECONDS):
        look()
    print_line("ending the cluster")


def _first_words(seconds: float, shell: str) -> Iterator[str]:
    first, second, third = NAMES
    yield f"ready after {seconds:.0f} s: Kubernetes {DEFAULT}"
    yield f"{first} and {second} have DRA drivers; {third} has a device plugin for {PLUGIN}"
    yield "In another terminal:"
    yield ""
    yield f"    {shell}"
    yield "    kubectl get nodes,resourceslices"
    yield "    drawbridge doctor"
    yield ""
    yield "docs/administrators.md continues. Ctrl-C ends the cluster and removes everything."
