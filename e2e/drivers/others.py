"""Runs the example driver, the driver for processors and the one for network interfaces."""

from pathlib import Path

from e2e.drivers.build import program
from e2e.drivers.program import DriverProgram, ProgramPlan, kubeconfig
from e2e.nodes.machine import Machine
from e2e.realnodes.stage import RealStage

EXAMPLE, EXAMPLE_PIN = "gpu.example.com", "example-0.4.0"
CPU, CPU_PIN = "dra.cpu", "cpu-0.2.0"
NET, NET_PIN = "dra.net", "net-1.4.0"
LOG_LEVEL = 4


def _start(stage: RealStage, machine: Machine, plan: ProgramPlan) -> DriverProgram:
    node = stage.fleet.real_node(machine.name)
    running = stage.enter(DriverProgram(stage, node, plan))
    running.wait_published()
    return running


def example_driver(stage: RealStage, machine: Machine, *options: str) -> DriverProgram:
    """Start the example driver, whose GPUs exist on paper."""
    command = (
        str(program(EXAMPLE_PIN, "dra-example-kubeletplugin")),
        f"--node-name={machine.name}",
        "--cdi-root=/var/run/cdi",
        "--num-devices=4",
        f"-v={LOG_LEVEL}",
        *options,
    )
    return _start(stage, machine, ProgramPlan("example", EXAMPLE, "example", command))


def cpu_driver(stage: RealStage, machine: Machine, *options: str, memory: int = 0) -> DriverProgram:
    """Start the driver for processors, which sets the cpuset of containers through NRI.

    `memory` limits what it can have, in bytes, as a limit of its container does.
    """
    command = (
        *(("prlimit", f"--data={memory}") if memory else ()),
        str(program(CPU_PIN, "dracpu")),
        f"--kubeconfig={_access(stage, 'cpu')}",
        f"--hostname-override={machine.name}",
        "--bind-address=127.0.0.1:18080",
        "--cpu-device-mode=individual",
        f"-v={LOG_LEVEL}",
        *options,
    )
    return _start(stage, machine, ProgramPlan("cpu", CPU, "cpu", command))


def net_driver(stage: RealStage, machine: Machine) -> DriverProgram:
    """Start the driver for network interfaces, which moves them into pods through NRI."""
    command = (
        program(NET_PIN, "dranet"),
        f"--kubeconfig={_access(stage, 'net')}",
        f"--hostname-override={machine.name}",
        "--bind-address=127.0.0.1:19177",
        "--cloud-provider-hint=NONE",
        # Its default leaves out virtual interfaces, and there are no others.
        "--filter=true",
        f"-v={LOG_LEVEL}",
    )
    return _start(stage, machine, ProgramPlan("net", NET, "net", command))


def _access(stage: RealStage, account: str) -> Path:
    return kubeconfig(stage, account)
