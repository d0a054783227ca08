"""Compares the hardware of a running pod with what the case expects.

Reads the records of drivers and plugins.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from e2e.nodes.amounts import amount
from e2e.nodes.layout import Device
from e2e.nodes.machine import Gpu, Machine, Nic
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

PARTS = ("mig", "amdgpu-partition")  # several of them may be parts of one piece of hardware


class ExpectedDevices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The devices of one container by kind, and its units of plugins.

    Every shared device gives `consumed` of its capacities; every partition has `profile`.
    """

    devices: dict[str, int] = {}
    consumed: dict[str, str] = {}
    profile: str = ""
    units: dict[str, int] = {}


class ExpectedPods(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pods whose names begin so: how many, where they may be, and what each container has.

    With `roots` (or `numa`) the GPUs and the NICs of a pod are on the same PCIe roots (or NUMA
    nodes), and there are so many of those; `ports` is how many ports its NICs are, or are functions
    of. With `together` its containers have the same devices;
    `lent` ones, which end before the others begin, have devices of the others.
    """

    name: str
    at: list[str]
    containers: dict[str, ExpectedDevices]
    count: int = 1
    roots: int = 0
    numa: int = 0
    ports: int = 0
    together: bool = False
    lent: list[str] = []


class PreparedDevice(msgspec.Struct, frozen=True):
    """One device that a driver has prepared, with its hardware."""

    request: str
    driver: str
    device: Device
    hardware: Gpu | Nic
    consumed: Mapping[str, str]

    @property
    def profile(self) -> str:
        """Say which kind of partition it is; empty for anything else."""
        attributes = self.device.wire["attributes"]
        profile = attributes.get("profile") or attributes.get("partitionProfile") or {}
        return str(profile.get("string", "")) if self.device.kind in PARTS else ""


def compare(stage: Stage, pods: ExpectedPods, pod: JSON) -> None:
    """Compare a running pod with the expectation."""
    node = pod["spec"]["nodeName"]
    assert node in map(stage.node_name, pods.at), f"{pods.name} is on {node}"
    held = {claim: list(_held(stage, node, claim)) for claim in claims(pod).values()}
    everything = [one for some in held.values() for one in some]
    prepared = sorted(f"{one.driver}/{node}/{one.device.name}" for one in everything)
    of_drivers = stage.fleet.held_by(pod)
    assert prepared == of_drivers, f"drivers: {prepared}, kubelet: {of_drivers}"
    for claim, some in held.items():
        _distinct(claim, some)
    _places(pods, everything)
    _ports(pods, everything)
    _containers(stage, pods, pod, held)


def _distinct(claim: str, some: Sequence[PreparedDevice]) -> None:
    """Check that no two devices of one claim are the same; containers may share by two claims."""
    names = [one.device.name for one in some]
    assert len(set(names)) == len(names), f"claim {claim} has a device twice: {names}"
    whole = [one.device.physical for one in some if one.device.kind not in PARTS]
    assert len(set(whole)) == len(whole), f"claim {claim} has hardware twice: {names}"


def _containers(
    stage: Stage, pods: ExpectedPods, pod: JSON, held: Mapping[str, Sequence[PreparedDevice]]
) -> None:
    containers = {one["name"]: one for one in _all_containers(pod)}
    assert containers.keys() == pods.containers.keys(), f"containers: {sorted(containers)}"
    users: Counter[int] = Counter()
    for name, container in containers.items():
        mine = list(_of_container(pod, container, held))
        _container(name, pods.containers[name], mine)
        users.update(id(one) for one in mine if name not in pods.lent)
    everything = [id(one) for some in held.values() for one in some]
    together = sum(bool(one.devices) for one in pods.containers.values()) if pods.together else 1
    assert users == dict.fromkeys(everything, together), "each device is in its containers"
    given = stage.fleet.units(pod)
    wanted = sum((Counter(one.units) for one in pods.containers.values()), Counter())
    assert {name: len(units) for name, units in given.items()} == wanted, f"units: {given}"


def _all_containers(pod: JSON) -> list[JSON]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def claims(pod: JSON) -> dict[str, str]:
    """Map the pod's own names of its claims to theirs; the scheduler's own claim has none."""
    status = pod.get("status", {})
    named = (*pod["spec"].get("resourceClaims", ()), *status.get("resourceClaimStatuses", ()))
    made = {
        entry["name"]: entry["resourceClaimName"] for entry in named if "resourceClaimName" in entry
    }
    special = status.get("extendedResourceClaimStatus")
    return made | ({"": special["resourceClaimName"]} if special else {})


def _of_container(
    pod: JSON, container: JSON, held: Mapping[str, Sequence[PreparedDevice]]
) -> Iterator[PreparedDevice]:
    """Yield what a container is given: devices of the requests it names, or of whole claims."""
    for claim, request in uses(pod, container):
        yield from (one for one in held[claim] if request in ("", one.request.partition("/")[0]))


def uses(pod: JSON, container: JSON) -> list[tuple[str, str]]:
    """List the claims of a container with the request that it names, empty for the whole claim."""
    made = claims(pod)
    named = [
        (made[entry["name"]], entry.get("request", ""))
        for entry in container.get("resources", {}).get("claims", ())
    ]
    special = pod.get("status", {}).get("extendedResourceClaimStatus", {})
    mapped = [
        (special["resourceClaimName"], mapping["requestName"])
        for mapping in special.get("requestMappings", ())
        if mapping["containerName"] == container["name"]
    ]
    return [*named, *mapped]


def _held(stage: Stage, node: str, claim: str) -> Iterator[PreparedDevice]:
    """Read a claim from the books of all drivers on a node."""
    machine = stage.fleet.machines[node]
    for name, driver in stage.fleet.drivers.items():
        station = driver.stations.get(node)
        for order in list(station.prepared.values()) if station else ():
            if order.claim != f"{stage.namespace}/{claim}":
                continue
            devices = stage.fleet.layout(name, node).devices
            for result in order.results:
                device = devices[result.device]
                hardware = _hardware(machine, device)
                yield PreparedDevice(result.request, name, device, hardware, result.consumed)


def _hardware(machine: Machine, device: Device) -> Gpu | Nic:
    for gpu in machine.gpus:
        if gpu.uuid == device.physical:
            return gpu
    port = device.wire["attributes"].get("pfPciAddress", {}).get("string")
    for nic in machine.nics:
        if machine.nic_identity(nic) == device.physical or nic.bus == port:
            return nic
    raise AssertionError(f"{device.name} is nothing that {machine.name} has")


def _places(pods: ExpectedPods, everything: Sequence[PreparedDevice]) -> None:
    """Compare the roots, or NUMA nodes, of GPUs and NICs."""
    for wanted, place in ((pods.roots, "root"), (pods.numa, "numa")):
        if not wanted:
            continue
        gpus, nics = (
            {getattr(one.hardware, place) for one in everything if isinstance(one.hardware, kind)}
            for kind in (Gpu, Nic)
        )
        # Without NICs only the GPUs have a place; the containers' devices are compared apart.
        assert nics in (gpus, set()), f"{place} of GPUs {gpus}, of NICs {nics}"
        assert len(gpus) == wanted, f"{place}: {gpus}"


def _ports(pods: ExpectedPods, everything: Sequence[PreparedDevice]) -> None:
    ports = {one.hardware.bus for one in everything if isinstance(one.hardware, Nic)}
    assert pods.ports in (0, len(ports)), f"ports: {ports}"


def _container(name: str, wanted: ExpectedDevices, mine: Sequence[PreparedDevice]) -> None:
    kinds = Counter(one.device.kind for one in mine)
    assert kinds == wanted.devices, f"{name} has {dict(kinds)}"
    amounts = {what: amount(text) for what, text in wanted.consumed.items()}
    for share in mine:
        consumed = {what: amount(text) for what, text in share.consumed.items()}
        assert consumed == (amounts if share.device.shared else {}), (
            f"{share.device.name}: {consumed}"
        )
        assert share.profile in ("", wanted.profile), f"{share.device.name}: {share.profile}"
