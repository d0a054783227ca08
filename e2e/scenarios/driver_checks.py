"""Forges one allocation for every check of every driver, on a real API server and gRPC.

There is one function for each rule, which runs with each driver that has the rule. The last
scenario compares the recorded violations with the drivers' checks: each check must fail once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from e2e.nodes.family import FAMILIES
from e2e.nodes.layout import Device
from e2e.nodes.machine import Machine
from e2e.scenarios import forged
from e2e.scenarios.forged import Forgery
from e2e.scenarios.objects import JSON, opaque
from e2e.scenarios.stage import Stage

SHARES = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
NVIDIA = "gpu.nvidia.com"


@dataclass(frozen=True)
class DriverOnNode:
    """A driver on one node, with methods to forge allocations for it."""

    stage: Stage
    driver: str
    machine: Machine

    @property
    def devices(self) -> list[Device]:
        """What is published now."""
        return list(self.stage.fleet.layout(self.driver, self.machine.name).devices.values())

    def result(self, device: Device, share: int = 0, **amounts: str) -> JSON:
        """Return a correct result for a device, with the amounts wanted of a shared one."""
        more: JSON = {}
        if device.shared:
            capacity = device.wire["capacity"]
            least = {name: _least(entry) for name, entry in capacity.items()}
            more = {"shareID": SHARES[share], "consumedCapacity": least | amounts}
        return forged.device(self.driver, self.machine.name, device.name, **more)

    def play(self, name: str, *results: JSON, config: tuple[JSON, ...] = ()) -> None:
        """Let a pod arrive with these results, whatever becomes of it."""
        forged.play(self.stage, name, Forgery(self.machine.name, results, config))

    def good(self, name: str, *results: JSON, config: tuple[JSON, ...] = ()) -> None:
        """Let a pod arrive with results that are right, and run."""
        self.play(name, *results, config=config)
        self.stage.wait_running(name)


def _least(entry: JSON) -> str:
    policy = entry.get("requestPolicy", {})
    return str(policy.get("validRange", {}).get("min", "0"))


Trick = Callable[[DriverOnNode], None]


def foreign_node(scene: DriverOnNode) -> None:
    """The pool is another node's."""
    scene.play("bad", forged.device(scene.driver, "elsewhere", scene.devices[0].name))


def unknown_device(scene: DriverOnNode) -> None:
    """No generation ever had the device."""
    scene.play("bad", forged.device(scene.driver, scene.machine.name, "ghost"))


def stale_generation(scene: DriverOnNode) -> None:
    """A new generation came in the middle, without the device that was chosen."""
    victim = scene.devices[0]
    fleet = scene.stage.fleet
    fleet.publish(fleet.layout(scene.driver, scene.machine.name).without([victim.name]))
    scene.play("bad", scene.result(victim))


def device_lost(scene: DriverOnNode) -> None:
    """The device failed after it was chosen."""
    victim = scene.devices[0]
    scene.stage.fleet.lose(scene.driver, scene.machine.name, victim.name)
    scene.play("bad", scene.result(victim))


def device_repeated(scene: DriverOnNode) -> None:
    """One claim has the device twice."""
    scene.play("bad", *[scene.result(_exclusive(scene))] * 2)


def device_taken(scene: DriverOnNode) -> None:
    """Two claims are forced onto one device."""
    scene.good("first", scene.result(_exclusive(scene)))
    scene.play("bad", scene.result(_exclusive(scene)))


def _exclusive(scene: DriverOnNode) -> Device:
    return next(device for device in scene.devices if not device.shared)


def share_mismatch(scene: DriverOnNode) -> None:
    """A share ID for an exclusive device, or none for a shared one."""
    device = scene.devices[0]
    good = scene.result(device)
    wrong = {key: value for key, value in good.items() if key != "shareID"}
    scene.play("bad", wrong if device.shared else good | {"shareID": SHARES[0]})


def allocation_changed(scene: DriverOnNode) -> None:
    """The allocation is another after the claim was prepared, and the kubelet starts anew."""
    first, other = scene.devices[:2]
    scene.good("bad", scene.result(first))
    path = f"{scene.stage.claim_path('bad')}/status"
    pod = scene.stage.get_pod("bad")
    # In place the API server refuses; through deallocation it goes.
    scene.stage.client.patch(path, {"status": {"allocation": None, "reservedFor": None}})
    forgery = Forgery(scene.machine.name, (scene.result(other),))
    forged.allocate(scene.stage, "bad", forgery, [pod])
    scene.stage.fleet.kubelet.restart()


def handed_out_twice(scene: DriverOnNode) -> None:
    """Something outside the driver, a device plugin, holds the hardware."""
    device = scene.devices[0]
    scene.stage.fleet.record.hold("device-plugin", "somebody", [device.physical])
    scene.play("bad", scene.result(device))
    forged.tripped(scene.stage, "bad")
    scene.stage.fleet.record.release("device-plugin", "somebody")


def config_unreadable(scene: DriverOnNode) -> None:
    """The parameters have a field that the driver does not know."""
    kind = next(iter(FAMILIES[scene.driver].configs), "GpuConfig")
    header = {"apiVersion": FAMILIES[scene.driver].group, "kind": kind} if kind else {}
    config = (opaque(scene.driver, {**header, "colour": "blue"}),)
    scene.play("bad", scene.result(scene.devices[0]), config=config)


def share_repeated(scene: DriverOnNode) -> None:
    """Two claims have the same share of a device."""
    scene.good("first", scene.result(scene.devices[0]))
    scene.play("bad", scene.result(scene.devices[0]))


def capacity_unaccounted(scene: DriverOnNode) -> None:
    """A share does not say what it consumes of one capacity."""
    wrong = scene.result(scene.devices[0])
    del wrong["consumedCapacity"]["memory"]
    scene.play("bad", wrong)


def capacity_outside_policy(scene: DriverOnNode) -> None:
    """An amount lies between two steps."""
    scene.play("bad", scene.result(scene.devices[0], memory="1048577"))


def capacity_overcommitted(scene: DriverOnNode) -> None:
    """Two shares together want more memory than there is."""
    scene.good("first", scene.result(scene.devices[0], memory="30Gi"))
    scene.play("bad", scene.result(scene.devices[0], 1, memory="30Gi"))


def limits_overwritten(scene: DriverOnNode) -> None:
    """One claim has two shares of one GPU."""
    scene.play("bad", scene.result(scene.devices[0]), scene.result(scene.devices[0], 1))


def sibling_taken(scene: DriverOnNode) -> None:
    """One claim has the GPU, another the same GPU for passthrough."""
    gpu, vfio = scene.devices[:2]
    scene.good("first", scene.result(gpu))
    scene.play("bad", scene.result(vfio))


def counter_overcommitted(scene: DriverOnNode) -> None:
    """One claim has the whole GPU, another a partition of it."""
    whole, part = scene.devices[:2]
    scene.good("first", scene.result(whole))
    scene.play("bad", scene.result(part))


def groups_incompatible(scene: DriverOnNode) -> None:
    """Two partitions of different profiles that exclude each other, with counters to spare."""
    small, large = (
        next(device for device in scene.devices if name in device.name)
        for name in ("mig-1g5gb-19-0", "mig-2g10gb-14-2")
    )
    scene.good("first", scene.result(small))
    scene.play("bad", scene.result(large))


def config_kind_mismatch(scene: DriverOnNode) -> None:
    """A configuration for partitions is given to a whole GPU."""
    parameters = _nvidia("MigDeviceConfig", "TimeSlicing")
    # The driver skips one for all requests.
    scene.good("first", scene.result(scene.devices[0]), config=(opaque(NVIDIA, parameters),))
    config = (opaque(NVIDIA, parameters, "gpu"),)
    scene.play("bad", scene.result(scene.devices[1]), config=config)


def driver_ended(scene: DriverOnNode) -> None:
    """Settings of time slicing have no interval."""
    parameters = _nvidia("GpuConfig", "TimeSlicing")
    parameters["sharing"]["timeSlicingConfig"] = {}
    scene.play("bad", scene.result(scene.devices[0]), config=(opaque(NVIDIA, parameters),))


def config_unsupported(scene: DriverOnNode) -> None:
    """MPS on a partition that is made on demand."""
    part = next(device for device in scene.devices if device.kind == "mig")
    config = (opaque(NVIDIA, _nvidia("MigDeviceConfig", "MPS")),)
    scene.play("bad", scene.result(part), config=config)


def config_conflict(scene: DriverOnNode) -> None:
    """Two claims on one shared GPU configure it differently."""
    gpu = scene.devices[0]
    scene.good("first", scene.result(gpu))
    config = (opaque(NVIDIA, _nvidia("GpuConfig", "TimeSlicing")),)
    scene.play("bad", scene.result(gpu, 1), config=config)


def _nvidia(kind: str, strategy: str) -> JSON:
    header = {"apiVersion": FAMILIES[NVIDIA].group, "kind": kind}
    return {**header, "sharing": {"strategy": strategy}}


@dataclass(frozen=True)
class ForgedViolation:
    """One violation with one driver in one of its modes."""

    code: str
    driver: str
    mode: str | None
    trick: Trick
    since: str = "1.34"


ANY: dict[str, Trick] = {
    "ForeignNode": foreign_node,
    "UnknownDevice": unknown_device,
    "StaleGeneration": stale_generation,
    "DeviceLost": device_lost,
    "AllocationChanged": allocation_changed,
    "HandedOutTwice": handed_out_twice,
    "ConfigUnreadable": config_unreadable,
}
EXCLUSIVE: dict[str, Trick] = {"DeviceRepeated": device_repeated, "DeviceTaken": device_taken}
SHARED: dict[str, Trick] = {
    "ShareRepeated": share_repeated,
    "CapacityUnaccounted": capacity_unaccounted,
    "CapacityOutsidePolicy": capacity_outside_policy,
    "CapacityOvercommitted": capacity_overcommitted,
}
# The shared mode of a driver, where it has one; hami-core has no other.
SHARING = {NVIDIA: "shares-unlimited", "hami-core-gpu.project-hami.io": None}
SPECIAL = (
    ForgedViolation("SiblingTaken", NVIDIA, "vfio", sibling_taken),
    ForgedViolation("CounterOvercommitted", NVIDIA, "dynamic-mig", counter_overcommitted, "1.36"),
    ForgedViolation("GroupsIncompatible", NVIDIA, "groups", groups_incompatible, "1.36"),
    ForgedViolation("DriverEnded", NVIDIA, "full", driver_ended),
    ForgedViolation("ConfigKindMismatch", NVIDIA, "full", config_kind_mismatch),
    ForgedViolation("ConfigUnsupported", NVIDIA, "dynamic-mig", config_unsupported, "1.36"),
    ForgedViolation("ConfigConflict", NVIDIA, "shares-unlimited", config_conflict, "1.36"),
    ForgedViolation(
        "LimitsOverwritten", "hami-core-gpu.project-hami.io", None, limits_overwritten, "1.36"
    ),
)


def forged_violations() -> Iterator[ForgedViolation]:
    """Yield every violation with every driver that checks it."""
    for driver in FAMILIES:
        always_shared = driver in SHARING and SHARING[driver] is None
        since = "1.36" if always_shared else "1.34"
        yield from (
            ForgedViolation(code, driver, None, trick, since) for code, trick in ANY.items()
        )
        yield ForgedViolation("ShareMismatch", driver, None, share_mismatch, "1.36")
        if not always_shared:
            yield from (
                ForgedViolation(code, driver, None, trick) for code, trick in EXCLUSIVE.items()
            )
        if driver in SHARING:
            mode = SHARING[driver]
            yield from (
                ForgedViolation(code, driver, mode, trick, "1.36") for code, trick in SHARED.items()
            )
    yield from SPECIAL
