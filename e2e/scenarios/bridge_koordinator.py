"""Scenarios: pods with Koordinator's hints in bridge placement, on three shapes of machines.

Each pod has a node of its own, where another pod already has a GPU and the NIC beside it. Admission
translates the pods, and the allocator selects the devices. They are read from the records of the
drivers, and compared with what the hints mean.
"""

from dataclasses import replace
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.koordinator.machines import HOPPER, ChosenHardware, OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices, find_violations, preferred
from e2e.koordinator.published import find_hardware
from e2e.koordinator.request import DeviceRequest
from e2e.nodes.machine import Machine
from e2e.scenarios.objects import JSON

GPU, NIC, VF = "gpu.nvidia.com", "dra.net", "sriovnetwork.k8snetworkplumbingwg.io"
SHAPES: Final = ("dgx-a100", "hgx-h100", "aws-p4d")
JOINT, NICS_FIRST = ("gpu", "rdma"), ("rdma", "gpu")
FIRST: Final = DeviceRequest(1, 100, JOINT, same_pcie=True)
REQUESTS: Final = (
    FIRST,
    DeviceRequest(3, 50, JOINT, same_pcie=True),
    DeviceRequest(4, 200, JOINT, same_pcie=True),
    DeviceRequest(2, 200, JOINT, same_pcie=True),
    DeviceRequest(2, 200, NICS_FIRST, same_pcie=True),
    DeviceRequest(3, 100, JOINT),
    DeviceRequest(2, 100, JOINT, same_pcie=True, functions=True),
    DeviceRequest(2, 2, JOINT, same_pcie=True, strategy="RequestsAsCount", exclusive=True),
    DeviceRequest(1, 200, JOINT, strategy="ApplyForAll"),
    DeviceRequest(1, 100, strategy="ApplyForAll"),
    DeviceRequest(2, scope="PCIe"),
    DeviceRequest(2, 100, JOINT, same_pcie=True, scope="NUMANode"),
    DeviceRequest(1, scope="Device"),
    DeviceRequest(6, scope="Node"),
    DeviceRequest(2, 100, JOINT, same_pcie=True, policy="Restricted"),
    DeviceRequest(4, policy="BestEffort"),
)
REFUSED = (403, 422)


def _register(shape: str) -> None:
    def play(stage: BridgeStage) -> None:
        _play(stage, shape)

    play.__name__ = f"koordinator_hints_{shape}".replace("-", "_")
    play.__doc__ = f"Every hint of Koordinator holds on {shape}."
    # On all versions one shape is enough: older ones differ in the fields that they drop.
    bridge_scenario("smoke" if shape == "aws-p4d" else "full")(play)


for _shape in SHAPES:
    _register(_shape)


def _play(stage: BridgeStage, shape: str) -> None:
    machines = []
    for number, request in enumerate(REQUESTS):
        nics: dict[str, str | None] = {VF: None} if request.functions else {NIC: "reversed"}
        machines.append(stage.node(f"n{number}", shape, {GPU: "links", **nics}))
    set_mode(stage, "enforce")
    product = machines[0].product["name"]
    wait_for_facts(stage, stage.placement.cluster, _pod("probe", FIRST, machines[0]), product)
    for number, (machine, request) in enumerate(zip(machines, REQUESTS, strict=True)):
        first = replace(FIRST, functions=request.functions)
        stage.client.create(stage.pod_path(), _pod(f"first-{number}", first, machine))
    occupied = [
        _occupied(stage, f"first-{number}", machine, request)
        for number, (machine, request) in enumerate(zip(machines, REQUESTS, strict=True))
    ]
    rows = list(zip(range(len(REQUESTS)), occupied, REQUESTS, strict=True))
    for number, used, request in [row for row in rows if _create(stage, *row)]:
        _check(stage, f"pod-{number}", used, request)


def _pod(name: str, request: DeviceRequest, machine: Machine) -> JSON:
    pod = request.pod()
    pod["metadata"]["name"] = name
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": machine.name}
    return pod


def _occupied(
    stage: BridgeStage, pod: str, machine: Machine, request: DeviceRequest
) -> OccupiedMachine:
    """Return the machine with the devices that its first pod has."""
    empty = OccupiedMachine(machine, partitions=HOPPER, functions=request.functions)
    held = _chosen(stage, pod, empty)
    assert list(find_violations(empty, FIRST, held)) == [], f"{pod}: {held}"
    used = replace(empty, used_gpus=frozenset(held.gpus))
    if request.functions:
        return replace(used, used_functions=held.nics)
    return replace(used, used_nics=frozenset(held.nics))


def _chosen(stage: BridgeStage, pod: str, machine: OccupiedMachine) -> ChosenHardware:
    """Wait until a pod runs, and return the hardware that the drivers prepared for it."""
    held = stage.fleet.held_by(stage.wait_running(pod))
    return find_hardware(machine, [each.rpartition("/")[2] for each in held])


def _create(
    stage: BridgeStage, number: int, machine: OccupiedMachine, request: DeviceRequest
) -> bool:
    """Create a pod; False if admission refuses it, which it may only if no machine could serve."""
    try:
        stage.client.create(stage.pod_path(), _pod(f"pod-{number}", request, machine.hardware))
    except ApiError as problem:
        if problem.code not in REFUSED:
            raise
        refusal = f"{problem}"
    else:
        return True
    possible = next(enumerate_choices(machine.empty(), request), None)
    assert possible is None, f"{request} is refused, but possible is {possible}: {refusal}"
    return False


def _check(stage: BridgeStage, name: str, machine: OccupiedMachine, request: DeviceRequest) -> None:
    """Check that a pod has what its hints mean, or waits because nothing satisfies them."""
    possible = list(enumerate_choices(machine, request))
    if not possible:
        stage.wait_unschedulable(name)
        return
    chosen = _chosen(stage, name, machine)
    violations = list(find_violations(machine, request, chosen))
    assert violations == [], f"{request} has {chosen}: {violations}"
    best = max(preferred(machine, request, each).order() for each in possible)
    own = preferred(machine, request, chosen).order()
    assert own == best, f"{request} has {chosen}: {own} instead of {best}"
