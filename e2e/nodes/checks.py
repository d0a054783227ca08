"""Checks what a driver must not prepare: one pure function and one violation for each rule.

The rules follow the drivers' documentation. A check gets one claim and the state of the driver. It
does not trust the allocator.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.nodes.amounts import amount
from e2e.nodes.layout import Device, Layout
from e2e.nodes.order import Order, Result


@dataclass(frozen=True)
class DriverState:
    """What a driver knows when it is asked to prepare.

    `retired` are devices of earlier generations, which somebody may still hold; `held` are other
    claims' orders on this node; `own` is what was prepared for this very claim; `elsewhere` says
    who else holds which physical device; `configs` maps a configuration kind to the device kind it
    is for and its fields.
    """

    layout: Layout
    retired: Mapping[str, Device] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    held: tuple[Order, ...] = ()
    own: Order | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class Trip:
    """A check that did not hold."""

    device: str
    message: str


Check = Callable[[Order, DriverState], Iterator[Trip]]


def of_layout(order: Order, bench: DriverState) -> Iterator[tuple[Result, Device]]:
    """Yield the results that name a device of the current layout."""
    for result in order.results:
        device = bench.layout.devices.get(result.device)
        if device and result.pool == bench.layout.node:
            yield result, device


def taken(bench: DriverState) -> Iterator[tuple[Order, Result, Device]]:
    """Yield what other claims hold, administrators' looks apart.

    What is no longer published is held all the same, until it is unprepared.
    """
    devices = {**bench.retired, **bench.layout.devices}
    for other in bench.held:
        for result in other.results:
            if not result.admin and result.device in devices:
                yield other, result, devices[result.device]


def claiming(order: Order, bench: DriverState) -> Iterator[tuple[Result, Device]]:
    """Yield what the order would really take: known, and not only looked at."""
    return ((result, device) for result, device in of_layout(order, bench) if not result.admin)


def foreign_node(order: Order, bench: DriverState) -> Iterator[Trip]:
    """A device of another node's pool cannot be prepared here."""
    for result in order.results:
        if result.pool != bench.layout.node:
            yield Trip(result.device, f"pool {result.pool} is not on node {bench.layout.node}")


def unknown_device(order: Order, bench: DriverState) -> Iterator[Trip]:
    """The device was never published by this driver on this node."""
    names = bench.layout.devices.keys() | bench.retired.keys() | bench.lost
    for result in order.results:
        if result.pool == bench.layout.node and result.device not in names:
            yield Trip(result.device, "no such device on this node")


def stale_generation(order: Order, bench: DriverState) -> Iterator[Trip]:
    """The device was in an earlier generation of the pool and is no longer."""
    gone = bench.retired.keys() - bench.layout.devices.keys() - bench.lost
    for result in order.results:
        if result.pool == bench.layout.node and result.device in gone:
            yield Trip(result.device, "only an earlier generation of the pool had it")


def device_lost(order: Order, bench: DriverState) -> Iterator[Trip]:
    """The hardware is gone or failing."""
    for result in order.results:
        if result.pool == bench.layout.node and result.device in bench.lost:
            yield Trip(result.device, "the device is lost")


def device_repeated(order: Order, bench: DriverState) -> Iterator[Trip]:
    """One claim has one exclusive device twice."""
    counted = Counter(
        result.device for result, device in claiming(order, bench) if not device.shared
    )
    for name, times in counted.items():
        if times > 1:
            yield Trip(name, f"allocated {times} times in one claim")


def limits_overwritten(order: Order, bench: DriverState) -> Iterator[Trip]:
    """One claim has two shares of one device: the limits of one overwrite the other's."""
    counted = Counter(result.device for result, device in claiming(order, bench) if device.shared)
    for name, times in counted.items():
        if times > 1:
            yield Trip(name, f"{times} shares in one claim overwrite each other's limits")


def device_taken(order: Order, bench: DriverState) -> Iterator[Trip]:
    """An exclusive device is prepared for another claim."""
    holders = {device.name: other.claim for other, _, device in taken(bench) if not device.shared}
    for result, _ in claiming(order, bench):
        if result.device in holders:
            yield Trip(
                result.device, f"already allocated to different claim {holders[result.device]}"
            )


def sibling_taken(order: Order, bench: DriverState) -> Iterator[Trip]:
    """The same hardware is prepared in another guise: as a GPU and for passthrough."""
    holders = {device.physical: (device, other.claim) for other, _, device in taken(bench)}
    for _, device in claiming(order, bench):
        holder = holders.get(device.physical)
        if holder and {device.kind, holder[0].kind} == {"gpu", "vfio"}:
            yield Trip(device.name, f"the same GPU as {holder[0].name} of claim {holder[1]}")


def share_mismatch(order: Order, bench: DriverState) -> Iterator[Trip]:
    """A shared device comes with a share ID, an exclusive one without."""
    for result, device in claiming(order, bench):
        if device.shared != bool(result.share):
            has = "has" if result.share else "has no"
            kind = "shared" if device.shared else "exclusive"
            yield Trip(result.device, f"a result for a device that is {kind} {has} shareID")


def share_repeated(order: Order, bench: DriverState) -> Iterator[Trip]:
    """A share ID is used once per device."""
    used = {(device.name, result.share) for _, result, device in taken(bench)}
    for result, _ in claiming(order, bench):
        if result.share and (result.device, result.share) in used:
            yield Trip(result.device, f"share {result.share} belongs to another claim")
        used.add((result.device, result.share))


def capacity_unaccounted(order: Order, bench: DriverState) -> Iterator[Trip]:
    """A share says how much it consumes of every capacity of its device, and of no other."""
    for result, device in claiming(order, bench):
        wanted = device.wire.get("capacity", {}).keys() if device.shared else set()
        if result.consumed.keys() != wanted:
            names = ", ".join(sorted(result.consumed.keys() ^ wanted))
            yield Trip(result.device, f"consumedCapacity and the device's capacity differ: {names}")


def capacity_outside_policy(order: Order, bench: DriverState) -> Iterator[Trip]:
    """An amount is one the device's request policy could have given."""
    for result, device in claiming(order, bench):
        for name, text in result.consumed.items():
            policy = device.wire.get("capacity", {}).get(name, {}).get("requestPolicy", {})
            if not _allowed(policy, text):
                yield Trip(result.device, f"{name}: {text} is no amount its policy gives")


def _allowed(policy: Mapping[str, Any], text: str) -> bool:
    value = amount(text)
    if value < 0:
        return False
    if "validValues" in policy:
        return value in {amount(valid) for valid in policy["validValues"]}
    if "validRange" not in policy:
        return True
    valid = policy["validRange"]
    least = amount(valid["min"])
    if value < least or ("max" in valid and value > amount(valid["max"])):
        return False
    return "step" not in valid or (value - least) % amount(valid["step"]) == 0


def capacity_overcommitted(order: Order, bench: DriverState) -> Iterator[Trip]:
    """All shares of a device together stay within each of its capacities."""
    total: Counter[tuple[str, str]] = Counter()
    everybody = [(result, device) for _, result, device in taken(bench)]
    mine = list(claiming(order, bench))
    for result, device in everybody + mine:
        for name, text in result.consumed.items():
            total[device.name, name] += amount(text)  # type: ignore[assignment]  # counts fractions
    for device in {device.name: device for _, device in mine if device.shared}.values():
        for name, capacity in device.wire.get("capacity", {}).items():
            if total[device.name, name] > amount(capacity["value"]):
                used = float(total[device.name, name])
                yield Trip(device.name, f"{name}: {used:g} of {capacity['value']} consumed")


def _drawing(order: Order, bench: DriverState) -> tuple[dict[str, Device], dict[str, Device]]:
    """Devices that draw on counters, once each: the order's, and everybody's."""
    mine = {device.name: device for _, device in claiming(order, bench)}
    everybody = {device.name: device for _, _, device in taken(bench)} | mine
    return mine, everybody


def counter_overcommitted(order: Order, bench: DriverState) -> Iterator[Trip]:
    """All prepared devices together stay within each counter set."""
    mine, everybody = _drawing(order, bench)
    used: Counter[tuple[str, str]] = Counter()
    for device in everybody.values():
        for draw in device.wire.get("consumesCounters", ()):
            for name, counter in draw["counters"].items():
                used[draw["counterSet"], name] += amount(counter["value"])  # type: ignore[assignment]  # counts fractions
    for device in mine.values():
        for draw in device.wire.get("consumesCounters", ()):
            limits = bench.layout.counters.get(draw["counterSet"], {})
            over = [
                name
                for name in draw["counters"]
                if used[draw["counterSet"], name]
                > amount(limits.get(name, {"value": "0"})["value"])
            ]
            if over:
                yield Trip(device.name, f"{draw['counterSet']}: too little {', '.join(over)}")


def groups_incompatible(order: Order, bench: DriverState) -> Iterator[Trip]:
    """Everything on one counter set has a compatibility group in common, or none has any."""
    mine, everybody = _drawing(order, bench)
    members: dict[str, list[frozenset[str]]] = {}
    for device in everybody.values():
        for draw in device.wire.get("consumesCounters", ()):
            groups = frozenset(draw.get("compatibilityGroups", ()))
            members.setdefault(draw["counterSet"], []).append(groups)
    for device in mine.values():
        for draw in device.wire.get("consumesCounters", ()):
            together = members[draw["counterSet"]]
            if any(together) and not frozenset.intersection(*together):
                yield Trip(device.name, f"{draw['counterSet']}: no group in common")


def config_unreadable(order: Order, bench: DriverState) -> Iterator[Trip]:
    """Parameters are read strictly: kind, version, every field and its type are known."""
    for result, _ in of_layout(order, bench):
        parameters = order.configs.get(result.request)
        if parameters is not None and (problem := _unreadable(parameters, bench)):
            yield Trip(result.device, problem)


def _unreadable(parameters: Mapping[str, Any], bench: DriverState) -> str:
    kind = parameters.get("kind", "")
    if kind not in bench.configs:
        return f"configuration kind {kind!r} is not known"
    if parameters.get("apiVersion", "") != bench.group:
        return f"apiVersion {parameters.get('apiVersion', '')!r} is not {bench.group!r}"
    fields = {name: value for name, value in parameters.items() if name not in _HEADER}
    return _misfit(fields, bench.configs[kind][1], kind)


_HEADER = ("kind", "apiVersion")


def _misfit(value: Any, form: Any, path: str) -> str:  # noqa: ANN401  # JSON against its form
    """Say what of `value` does not have the form; empty when all does. Null is no value."""
    if not isinstance(form, Mapping):
        return "" if type(value) is form else f"{path} is no {form.__name__}"
    if not isinstance(value, Mapping):
        return f"{path} is no object"
    for name, inner in value.items():
        if name not in form:
            return f"unknown field {path}.{name}"
        if inner is not None and (problem := _misfit(inner, form[name], f"{path}.{name}")):
            return problem
    return ""


def driver_ended(order: Order, bench: DriverState) -> Iterator[Trip]:
    """Settings of time slicing without an interval end the process of the driver."""
    for result, _ in of_layout(order, bench):
        sharing = order.configs.get(result.request, {}).get("sharing")
        if not isinstance(sharing, Mapping) or sharing.get("strategy") != "TimeSlicing":
            continue
        settings = sharing.get("timeSlicingConfig")
        if isinstance(settings, Mapping) and settings.get("interval") is None:
            yield Trip(result.device, "the driver ends: timeSlicingConfig without an interval")


def config_kind_mismatch(order: Order, bench: DriverState) -> Iterator[Trip]:
    """A configuration is for the kind of device it is given to."""
    for result, device in of_layout(order, bench):
        kind = order.configs.get(result.request, {}).get("kind", "")
        wanted = bench.configs.get(kind, ("",))[0]
        if wanted and wanted != device.kind:
            yield Trip(result.device, f"{kind} is for {wanted}, the device is {device.kind}")


def config_unsupported(order: Order, bench: DriverState) -> Iterator[Trip]:
    """MPS works neither with partitions made on demand nor with consumable shares."""
    for result, device in of_layout(order, bench):
        sharing = order.configs.get(result.request, {}).get("sharing")
        strategy = sharing.get("strategy") if isinstance(sharing, Mapping) else None
        dynamic = device.kind == "mig" and "consumesCounters" in device.wire
        if strategy == "MPS" and (dynamic or device.shared):
            yield Trip(result.device, "MPS with dynamic MIG or consumable shares is not supported")


def config_conflict(order: Order, bench: DriverState) -> Iterator[Trip]:
    """All claims on one device configure it alike."""
    others = {device.name: (other, result) for other, result, device in taken(bench)}
    for result, _ in claiming(order, bench):
        if result.device in others:
            other, theirs = others[result.device]
            if other.config(theirs) != order.config(result):
                yield Trip(result.device, f"configured otherwise by claim {other.claim}")


def allocation_changed(order: Order, bench: DriverState) -> Iterator[Trip]:
    """What was prepared for a claim stays its allocation until it is unprepared."""
    if bench.own and bench.own.results != order.results:
        before = {(result.pool, result.device) for result in bench.own.results}
        after = {(result.pool, result.device) for result in order.results}
        changed = sorted(device for _, device in before ^ after)
        yield Trip(", ".join(changed), "the allocation changed after it was prepared")


def handed_out_twice(order: Order, bench: DriverState) -> Iterator[Trip]:
    """Nobody outside this driver, such as a device plugin, has given the hardware away."""
    for _, device in claiming(order, bench):
        if device.physical in bench.elsewhere:
            yield Trip(
                device.name, f"{device.physical} is held by {bench.elsewhere[device.physical]}"
            )


COMMON: dict[str, Check] = {
    "ForeignNode": foreign_node,
    "UnknownDevice": unknown_device,
    "StaleGeneration": stale_generation,
    "DeviceLost": device_lost,
    "DeviceRepeated": device_repeated,
    "DeviceTaken": device_taken,
    "ShareMismatch": share_mismatch,
    "AllocationChanged": allocation_changed,
    "HandedOutTwice": handed_out_twice,
    "ConfigUnreadable": config_unreadable,
}
SHARES: dict[str, Check] = {
    "ShareRepeated": share_repeated,
    "CapacityUnaccounted": capacity_unaccounted,
    "CapacityOutsidePolicy": capacity_outside_policy,
    "CapacityOvercommitted": capacity_overcommitted,
}
NVIDIA: dict[str, Check] = {
    "SiblingTaken": sibling_taken,
    "CounterOvercommitted": counter_overcommitted,
    "GroupsIncompatible": groups_incompatible,
    "DriverEnded": driver_ended,
    "ConfigKindMismatch": config_kind_mismatch,
    "ConfigUnsupported": config_unsupported,
    "ConfigConflict": config_conflict,
}
HAMI: dict[str, Check] = {"LimitsOverwritten": limits_overwritten}
