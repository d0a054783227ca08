"""Scenarios with the example driver, and with the drivers for processors and network interfaces."""

from e2e.drivers.others import (
    CPU,
    CPU_PIN,
    EXAMPLE,
    EXAMPLE_PIN,
    NET,
    NET_PIN,
    cpu_driver,
    example_driver,
    net_driver,
)
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.scenarios.drivers_configured import check_command
from e2e.scenarios.objects import RESOURCE, claim_spec, device_class, opaque, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "lab-2g2n"
LINK = "nic0"
MACHINE = ("--cpu-device-mode=grouped", "--group-by=machine")
# Its chart sets no limit. A driver without one takes the memory of this machine.
MEMORY = 256 << 20
SECONDS = 180.0


def define_class(nodes: DriverStage, driver: str) -> None:
    """Create the class that a driver's chart installs."""
    body = device_class(driver, f"device.driver == '{driver}'")
    nodes.cluster_object(f"{RESOURCE}/deviceclasses", body)


@scenario("drivers", rig="nodes", needs=(EXAMPLE_PIN,))
def the_example_driver_names_its_devices_in_variables(stage: Stage) -> None:
    """A container has a variable for each device of its claim, and none of another."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    define_class(nodes, EXAMPLE)
    example_driver(nodes, machine)
    nodes.claim("two", claim_spec(request("gpu", EXAMPLE, count=2)))
    nodes.run_pod("two", claims={"gpu": "two"})
    names = {one["device"] for one in nodes.allocated("two")}
    told = {line for line in nodes.lines("two") if line.startswith("GPU_DEVICE_")}
    numbers = {name.rpartition("-")[2] for name in names}
    assert {f"GPU_DEVICE_{number}=gpu-{number}" for number in numbers} <= told, told
    assert len([one for one in told if "=gpu-" in one]) == len(numbers), told


@scenario("drivers", rig="nodes", needs=(CPU_PIN,))
def the_driver_for_processors_sets_the_cpuset(stage: Stage) -> None:
    """The container runs on the processor of its claim."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    define_class(nodes, CPU)
    driver = cpu_driver(nodes, machine)
    nodes.claim("one", claim_spec(request("cpu", CPU)))
    nodes.run_pod("one", claims={"cpu": "one"})
    (taken,) = nodes.allocated("one")
    attributes = next(one for one in driver.devices() if one["name"] == taken["device"])[
        "attributes"
    ]
    wanted = attributes["dra.cpu/cpuID"]["int"] if "dra.cpu/cpuID" in attributes else None
    wanted = attributes["cpuID"]["int"] if wanted is None else wanted
    assert f"Cpus_allowed_list:\t{wanted}" in nodes.lines("one")


@scenario("drivers", rig="nodes", needs=(CPU_PIN,))
def the_driver_for_processors_ends_at_a_configuration(stage: Stage) -> None:
    """It keeps each number of a range in memory, at each attempt, until the pod is deleted."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    define_class(nodes, CPU)
    driver = cpu_driver(nodes, machine, *MACHINE, memory=MEMORY)
    for name, cpuset in (("endless", "0-99999999999"), ("after", "0")):
        settings = opaque(CPU, {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": cpuset}}, "cpu")
        capacity = {"requests": {f"{CPU}/cpu": "1"}}
        spec = claim_spec(request("cpu", CPU, capacity=capacity), config=[settings])
        check_command(spec, fatal=name == "endless")
        nodes.claim(name, spec)
        nodes.pod(name, claims={"cpu": name})
        if name == "endless":
            for _ in range(2):
                code = nodes.wait("the driver ends", driver.exit_code, SECONDS)
                assert code == 2, code
                assert "out of memory" in driver.log() or "cannot allocate memory" in driver.log()
                driver.start()
            nodes.wait("the driver ends", driver.exit_code, SECONDS)
            nodes.client.delete(nodes.pod_path(name), grace=0)
            nodes.wait_gone(nodes.pod_path(name))
            driver.start()
    nodes.wait_running("after")
    assert "Cpus_allowed_list:\t0" in nodes.lines("after")


@scenario("drivers", rig="nodes", needs=(NET_PIN,))
def the_driver_for_network_interfaces_moves_one_into_the_pod(stage: Stage) -> None:
    """Without hardware it publishes a virtual interface of the node, and none with RDMA."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    node = nodes.fleet.real_node(machine.name)
    node.run("ip", "link", "add", LINK, "type", "veth", "peer", "name", f"{LINK}-peer")
    driver = net_driver(nodes, machine)
    devices = {one["attributes"]["dra.net/ifName"]["string"]: one for one in driver.devices()}
    assert LINK in devices, devices
    assert not any(one["attributes"]["dra.net/rdma"]["bool"] for one in devices.values())
    selector = f"device.attributes['{NET}'].ifName == '{LINK}'"
    nodes.claim("one", claim_spec(request("nic", NET, selector)))
    nodes.run_pod("one", claims={"nic": "one"})
    assert f"/sys/class/net/{LINK}" in nodes.lines("one")
    assert LINK not in node.run("ip", "-br", "link").replace(f"{LINK}-peer", "")
    nodes.delete_pod("one")
    node.run("ip", "link", "del", f"{LINK}-peer")
