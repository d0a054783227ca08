"""Checks one allocated device: it exists, matches, may be used, and its fields are right."""

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.checker.asked import Asked
from e2e.checker.expressions import ExpressionError, Expressions
from e2e.checker.pools import Pool, listed, matches, section
from e2e.checker.quantities import Json, RefusedError, amount, quantity
from e2e.checker.violation import BrokenRule


@dataclass(frozen=True)
class Cluster:
    """One node's view of a scenario, and who answers for expressions."""

    node: Json
    gates: dict[str, bool]
    classes: dict[str, Json]
    pools: list[Pool]
    expressions: Expressions


@dataclass(frozen=True)
class Chosen:
    """A result with everything that it refers to."""

    result: Json
    asked: Asked
    pool: Pool
    spec: Json
    device: Json

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the device."""
        return self.pool.driver, self.pool.name, str(self.device["name"])

    @property
    def label(self) -> str:
        """For messages."""
        return f"{'/'.join(self.key)} for {self.asked.name}"


def shareable(cluster: Cluster, device: Json) -> bool:
    """Return whether several requests may hold a device."""
    return cluster.gates["DRAConsumableCapacity"] and bool(device.get("allowMultipleAllocations"))


def find(cluster: Cluster, result: Json, asked: Asked) -> Chosen | BrokenRule:
    """Look up a result's device among those the node may be offered."""
    key = f"{result['driver']}/{result['pool']}/{result['device']}"
    for pool in cluster.pools:
        if (pool.driver, pool.name) != (result["driver"], result["pool"]):
            continue
        if pool.incomplete:
            return BrokenRule("PoolIncomplete", f"{key}: slices of its pool are missing")
        if pool.faults:
            return BrokenRule("PoolInvalid", f"{key}: {pool.faults[0]}")
        for spec, device in pool.devices():
            if device["name"] == result["device"]:
                return Chosen(result, asked, pool, spec, device)
    return BrokenRule("UnknownDevice", f"{key} is not published for the node")


def check_device(cluster: Cluster, chosen: Chosen) -> Iterator[BrokenRule]:
    """Everything about one device that does not depend on other devices."""
    yield from check_wanted(cluster, chosen.asked, chosen.pool.driver, chosen.spec, chosen.device)
    yield from check_usable(cluster, chosen)
    yield from check_taints(cluster, chosen)
    yield from check_copies(cluster, chosen)


def check_wanted(
    cluster: Cluster, asked: Asked, driver: str, spec: Json, device: Json
) -> Iterator[BrokenRule]:
    """Class, selectors and the node that a device is for."""
    name = str(asked.spec["deviceClassName"])
    if name not in cluster.classes:
        yield BrokenRule("ClassGone", f"{asked.name} asks for class {name}")
    if device.get("bindingConditions") and not binding(cluster):
        yield BrokenRule("BindingConditionsOff", f"{device['name']} waits for binding conditions")
    of_class = listed(section(cluster.classes.get(name, {}), "spec"), "selectors")
    for selector in [*of_class, *listed(asked.spec, "selectors")]:
        expression = str(section(selector, "cel")["expression"])
        if not ask(cluster, driver, device, expression):
            yield BrokenRule("SelectorRefuses", f"{device['name']}: {expression}")
    if spec.get("perDeviceNodeSelection") and not matches(cluster.node, device):
        yield BrokenRule("OtherNode", f"{device['name']} is for another node")


def binding(cluster: Cluster) -> bool:
    """Return whether binding conditions are known."""
    both = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
    return all(cluster.gates[gate] for gate in both)


def ask(cluster: Cluster, driver: str, device: Json, expression: str) -> bool:
    """Evaluate a selector; one that fails selects nothing."""
    try:
        return cluster.expressions.value(question(cluster, driver, device, expression)) is True
    except ExpressionError:
        return False


def question(cluster: Cluster, driver: str, device: Json, expression: str) -> Json:
    """What is asked of the evaluator."""
    return {
        "driver": driver,
        "device": {k: v for k, v in device.items() if k not in ("taints", "name")},
        "expression": expression,
        "lists": cluster.gates["DRAListTypeAttributes"],
        "shares": cluster.gates["DRAConsumableCapacity"],
    }


def check_usable(cluster: Cluster, chosen: Chosen) -> Iterator[BrokenRule]:
    """What node and gates have to support."""
    if chosen.spec.get("skipNodeOperations") and cluster.gates["skipNodeOperations"]:
        features = section(cluster.node, "status").get("declaredFeatures") or []
        name = "DRAOptionalNodeOperations"
        if not cluster.gates[name] or name not in features:
            yield BrokenRule("NodeLacksFeature", f"{chosen.label} skips node operations")
    if chosen.device.get("consumesCounters") and not cluster.gates["DRAPartitionableDevices"]:
        yield BrokenRule("CountersOff", f"{chosen.label} draws from counters")


def check_taints(cluster: Cluster, chosen: Chosen) -> Iterator[BrokenRule]:
    """A taint that keeps pods away has to be tolerated."""
    if not cluster.gates["DRADeviceTaints"]:
        return
    tolerations = listed(chosen.asked.spec, "tolerations")
    for taint in listed(chosen.device, "taints"):
        if taint["effect"] not in ("NoSchedule", "NoExecute"):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            yield BrokenRule("Tainted", f"{chosen.label}: {taint['key']}:{taint['effect']}")


def tolerates(toleration: Json, taint: Json) -> bool:
    """One toleration against one taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    equal = toleration.get("operator") in (None, "", "Equal")
    return equal and (toleration.get("value") or "") == (taint.get("value") or "")


def check_copies(cluster: Cluster, chosen: Chosen) -> Iterator[BrokenRule]:
    """Fields of a result that repeat what request, device and slice say."""
    expected: Json = {
        "adminAccess": chosen.asked.admin,
        "tolerations": listed(chosen.asked.spec, "tolerations"),
        "skipNodeOperations": listed(chosen.spec, "skipNodeOperations")
        if cluster.gates["skipNodeOperations"]
        else [],
    }
    for name in ("bindingConditions", "bindingFailureConditions"):
        expected[name] = listed(chosen.device, name) if binding(cluster) else []
    for name, value in expected.items():
        if (chosen.result.get(name) or type(value)()) != value:
            yield BrokenRule("WrongCopy", f"{chosen.label}: {name} is not {value}")


def amounts(cluster: Cluster, asked: Asked, device: Json) -> Json | BrokenRule:
    """What a device's capacities give to a request, or why they cannot."""
    requested = section(section(asked.spec, "capacity"), "requests")
    capacities = section(device, "capacity")
    for name in requested.keys() - capacities.keys():
        return BrokenRule("CapacityRefuses", f"{device['name']} has no capacity {name}")
    out: Json = {}
    for name, capacity in capacities.items():
        fractional = cluster.gates["DRAFractionalCapacityRange"]
        try:
            out[name] = amount(capacity, requested.get(name), fractional=fractional)
        except RefusedError as refusal:
            return BrokenRule("CapacityRefuses", f"{device['name']}: {name}: {refusal}")
        if out[name] < 0 or out[name] > quantity(capacity["value"]):
            return BrokenRule("CapacityRefuses", f"{device['name']}: {name} of {out[name]}")
    return out
