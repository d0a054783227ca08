"""Scenarios: a claim compares NUMA nodes that two drivers name differently (KEP-6080).

The pods ask as Koordinator's do. The machine relates its GPUs and NICs by NUMA nodes alone, and the
driver of the NICs publishes its own name for them. Then the API server starts to drop the field.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import Options
from e2e.installed.installation import Installation, installed, set_mode, wait_for_facts
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.published import find_hardware
from e2e.koordinator.request import DeviceRequest
from e2e.nodes.machine import Machine
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

GATE: Final = "DRADerivedAttributes"
NATIVE, BRIDGE = "derived attributes", "derived attributes in bridge placement"
NUMA: Final = "resource.kubernetes.io/numaNode"
SHAPE: Final = "azure-nd-a100-v4"
# Three GPUs are on two NUMA nodes, and each of these needs a NIC.
REQUEST: Final = DeviceRequest(3, 100, ("gpu", "rdma"), same_pcie=True)
REFUSED: Final = "no published attribute relates these devices on any node"
# The controller probes the API server every 30 seconds.
KNOWN_SECONDS: Final = 60.0


def deriving(version: str) -> Options:
    """Return a control plane with derived attributes, which are off by default."""
    usual = default_options(version)
    return replace(usual, gates={**usual.gates, GATE: True})


RIGS[NATIVE] = RIGS[BRIDGE] = deriving


@scenario("full", since="1.37", rig=NATIVE, needs=NEEDS)
def numa_nodes_of_two_names_are_compared(stage: Stage) -> None:
    """The stock scheduler allocates by derived attributes, and nothing once they are dropped."""
    _play(stage, installed(stage))


@bridge_scenario("full", since="1.37", rig=BRIDGE)
def numa_nodes_of_two_names_are_compared_in_bridge_placement(stage: BridgeStage) -> None:
    """The allocator obeys derived attributes, and allocates nothing once they are dropped."""
    set_mode(stage, "enforce")
    stage.leader()
    _play(stage, stage.placement.cluster)


def _play(stage: Stage, cluster: Installation) -> None:
    machine = stage.node("a", SHAPE, {"gpu.nvidia.com": "full", "dra.net": "reversed"})
    wait_for_facts(stage, cluster, _pod("probe", machine), machine.product["name"])
    stage.client.create(stage.pod_path(), _pod("first", machine))
    stage.wait_running("first")
    assert _numa_nodes(stage, "first", machine) == [1, 1]
    assert _derives(stage, "first")
    if isinstance(stage, BridgeStage):
        assert stage.check_allocations() == 1
    # A leader probes when it begins to lead, and admission would refuse the pod at once.
    for controller in cluster.controllers:
        controller.kill()
    stage.processes.turn_off(GATE)
    for webhook in cluster.webhooks:
        webhook.wait_ready()
    # Its template is stored with the field, which the generated claim has no more.
    stage.client.create(stage.pod_path(), _pod("second", machine))
    stage.wait_unschedulable("second")
    cluster.start_all()
    (stage.placement if isinstance(stage, BridgeStage) else cluster).ignore_denials()
    assert not _derives(stage, "second")
    claim = stage.get_claim(stage.generated_claim("second"))
    written = {each.get("matchAttribute") for each in claim["spec"]["devices"]["constraints"]}
    assert NUMA in written, claim
    assert "allocation" not in claim.get("status", {}), claim
    stage.wait("admission refuses the pod", lambda: _is_refused(stage, machine), KNOWN_SECONDS)
    stage.delete_pod("first")
    held = stage.generated_claim("second")
    stage.wait("its claim is gone", lambda: _names_claims(stage) == [held])


def _pod(name: str, machine: Machine) -> JSON:
    pod = REQUEST.pod()
    pod["metadata"]["name"] = name
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": machine.name}
    return pod


def _numa_nodes(stage: Stage, pod: str, machine: Machine) -> list[int]:
    """Return on how many NUMA nodes the devices of each group are."""
    groups = defaultdict(list)
    for result in stage.allocated(stage.generated_claim(pod)):
        groups[result["request"].partition("-")[2]].append(result["device"])
    numa_nodes = []
    for devices in groups.values():
        chosen = find_hardware(OccupiedMachine(machine), devices)
        gpus = {machine.gpus[number].numa for number in chosen.gpus}
        numa_nodes.append(len(gpus | {machine.nics[number].numa for number in chosen.nics}))
    return numa_nodes


def _derives(stage: Stage, pod: str) -> bool:
    """Return whether the claim of a pod has derived attributes."""
    claim = stage.get_claim(stage.generated_claim(pod))
    return any(
        "derivedAttributes" in each["exactly"] for each in claim["spec"]["devices"]["requests"]
    )


def _names_claims(stage: Stage) -> list[str]:
    return [each["metadata"]["name"] for each in stage.client.get(stage.claim_path())["items"]]


def _is_refused(stage: Stage, machine: Machine) -> bool:
    try:
        stage.client.create(stage.pod_path(), _pod("late", machine), dryRun="All")
    except ApiError as problem:
        return REFUSED in f"{problem}"
    return False
