"""Scenarios with NVIDIA's own driver: what it makes of the configuration of a claim.

Time-slicing calls nvidia-smi. MPS starts a Deployment, for which the driver waits. What the driver
ignores or refuses is what `drawbridge check` and the judge say of it.
"""

import subprocess
import sys

import yaml

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import FORMER, GPUS, NEWEST, Settings
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.scenarios.objects import claim_spec, opaque, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import REFUSED

VERSION = "resource.nvidia.com/v1beta1"
SHARING = Settings(gates=("TimeSlicingSettings=true", "MPSSupport=true"))
SHAPE = "lab-2g2n"
MIG = "mig.nvidia.com"
SECONDS = 90.0


def config(kind: str, *requests: str, **fields: object) -> JSON:
    """Return a configuration of NVIDIA's driver."""
    return opaque(GPUS, {"apiVersion": VERSION, "kind": kind, **fields}, *requests)


def _sliced(interval: str) -> JSON:
    return {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}


def _enter(stage: Stage, settings: Settings = SHARING) -> tuple[DriverStage, str]:
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    nodes.install(machine, settings)
    return nodes, machine.name


def _run(nodes: DriverStage, name: str, spec: JSON) -> list[JSON]:
    nodes.template(name, spec)
    nodes.run_pod(name, templates={"gpu": name})
    return nodes.check_devices(name)


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_slices_the_time_of_a_gpu(stage: Stage) -> None:
    """The interval reaches nvidia-smi; a configuration for another kind does not."""
    nodes, node = _enter(stage)
    root = nodes.drivers[node].root
    spec = claim_spec(request("gpu", GPUS), config=[config("GpuConfig", sharing=_sliced("Short"))])
    (taken,) = _run(nodes, "short", spec)
    uuid = nodes.drivers[node].machine.gpus[int(taken["device"][-1])].uuid
    assert f"compute-policy -i {uuid} --set-timeslice 1" in root.asked(), root.asked()
    nodes.delete_pod("short")
    asked = len(root.asked())
    other = config("MigDeviceConfig", sharing={"strategy": "TimeSlicing"})
    _run(nodes, "other", claim_spec(request("gpu", GPUS), config=[other]))
    assert "Short" not in str(root.asked()[asked:])
    named = config("MigDeviceConfig", "gpu", sharing={"strategy": "TimeSlicing"})
    nodes.claim("named", claim_spec(request("gpu", GPUS), config=[named]))
    nodes.pod("named", claims={"gpu": "named"})
    nodes.wait_refused("named", "cannot apply")


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_ignores_a_configuration_of_a_prioritized_list(stage: Stage) -> None:
    """One for the main request has no effect; one for the chosen subrequest has."""
    nodes, node = _enter(stage)
    root = nodes.drivers[node].root
    choices = [
        {"name": "two", "deviceClassName": GPUS, "count": 9},
        {"name": "one", "deviceClassName": GPUS, "count": 1},
    ]
    asked = {}
    for name, wanted in (("main", "gpu"), ("chosen", "gpu/one")):
        before = len(root.asked())
        settings = config("GpuConfig", wanted, sharing=_sliced("Long"))
        spec = claim_spec({"name": "gpu", "firstAvailable": choices}, config=[settings])
        _run(nodes, name, spec)
        asked[name] = [one for one in root.asked()[before:] if "--set-timeslice 3" in one]
    assert not asked["main"], asked
    assert len(asked["chosen"]) == 1, asked


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_refuses_what_its_partitions_cannot_have(stage: Stage) -> None:
    """An unknown field is an error; and then the driver cannot release the claim (0.5.0).

    It looks for the GPU of the partition by a bus address that it has not noted, so the pod stays
    until an administrator removes the driver's checkpoint.
    """
    nodes, node = _enter(stage, Settings(gates=("DynamicMIG=true",), mig=(0,)))
    for name, fields in (
        ("interval", {"sharing": _sliced("Short")}),
        ("unknown", {"shraing": {"strategy": "TimeSlicing"}}),
    ):
        spec = claim_spec(request("part", MIG), config=[config("MigDeviceConfig", **fields)])
        nodes.claim(name, spec)
        nodes.pod(name, claims={"gpu": name})
        nodes.wait_refused(name, "unknown field")
    names = ("interval", "unknown")
    # What is not being deleted would be prepared, and fail, once more.
    for name in names:
        nodes.client.delete(nodes.pod_path(name), grace=1)
    driver = nodes.drivers[node]
    lost = "could not get device handle by UUID for "
    nodes.wait("the driver cannot release it", lambda: lost in driver.log(), SECONDS)
    assert all(nodes.exists(nodes.pod_path(name)) for name in names)
    driver.kill()
    driver.forget()
    driver.start()
    nodes.wait(
        "the pods are gone", lambda: not nodes.client.get(nodes.pod_path())["items"], SECONDS
    )


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_starts_the_daemon_of_mps(stage: Stage) -> None:
    """The pod starts when the daemon's pod is ready, and finds the daemon's pipe."""
    nodes, node = _enter(stage)
    limits = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
    sharing = {"strategy": "MPS", "mpsConfig": limits}
    nodes.claim(
        "mps", claim_spec(request("gpu", GPUS), config=[config("GpuConfig", sharing=sharing)])
    )
    nodes.pod("mps", claims={"gpu": "mps"})
    nodes.wait(
        "the pod runs", lambda: nodes.get_pod("mps")["status"]["phase"] == "Running", SECONDS
    )
    nodes.check_devices("mps")
    assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in nodes.lines("mps")
    daemons = "/apis/apps/v1/namespaces/driver-nvidia/deployments"
    assert len(nodes.client.get(daemons)["items"]) == 1
    uuid = nodes.drivers[node].machine.gpus[int(nodes.allocated("mps")[0]["device"][-1])].uuid
    assert f"-i {uuid} -c EXCLUSIVE_PROCESS" in nodes.drivers[node].root.asked()
    nodes.delete_pod("mps")
    nodes.wait("the daemon is gone", lambda: not nodes.client.get(daemons)["items"], SECONDS)
    nodes.wait_unprepared(node)


def check_command(spec: JSON, *, fatal: bool) -> None:
    """Check that the command refuses a claim that ends its driver, and no other."""
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
    text = yaml.safe_dump({**claim, "metadata": {"name": "empty", "namespace": "research"}})
    words = [sys.executable, "-m", "cli.main", "check", "-f", "-"]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, input=text)
    assert (ran.returncode == REFUSED) == fatal, ran
    assert ("ConfigEndsDriver" in ran.stdout + ran.stderr) == fatal, ran


def _crash(stage: Stage, pin: str) -> None:
    nodes = with_drivers(stage)
    nodes.pin = pin
    nodes, node = _enter(stage)
    driver = nodes.drivers[node]
    for name, sharing in (
        ("empty", {"strategy": "TimeSlicing", "timeSlicingConfig": {}}),
        ("null", {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": None}}),
    ):
        spec = claim_spec(request("gpu", GPUS), config=[config("GpuConfig", sharing=sharing)])
        check_command(spec, fatal=True)
        nodes.claim(name, spec)
        nodes.pod(name, claims={"gpu": name})
        for _ in range(2):
            code = nodes.wait("the driver ends", driver.exit_code, SECONDS)
            assert code == 2, code
            assert "nil pointer dereference" in driver.log()
            driver.start()
        nodes.wait("the driver ends", driver.exit_code, SECONDS)
        nodes.client.delete(nodes.pod_path(name), grace=0)
        nodes.wait_gone(nodes.pod_path(name))
        driver.start()
    _run(nodes, "after", claim_spec(request("gpu", GPUS)))


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_ends_at_a_configuration(stage: Stage) -> None:
    """The driver ends at each attempt to prepare the claim, until the pod is deleted."""
    _crash(stage, NEWEST)


@scenario("drivers", rig="nodes", needs=(FORMER,))
def nvidias_former_driver_ends_at_a_configuration(stage: Stage) -> None:
    """The driver ends at each attempt to prepare the claim, until the pod is deleted."""
    _crash(stage, FORMER)
