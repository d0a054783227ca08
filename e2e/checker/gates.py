"""Returns the feature gates of a cluster by Kubernetes version."""

from e2e.checker.quantities import Json

ALPHA = 99
SINCE = {
    "DRAAdminAccess": 34,
    "DRAPrioritizedList": 34,
    "DRAResourceClaimDeviceStatus": 33,
    "DRAPartitionableDevices": 36,
    "DRADeviceTaints": 36,
    "DRADeviceTaintRules": 37,
    "DRAConsumableCapacity": 36,
    "DRADeviceBindingConditions": 36,
    "DRAFractionalCapacityRange": 37,
    "DRAListTypeAttributes": ALPHA,
    "DRADerivedAttributes": ALPHA,
    "DRADeviceCompatibilityGroups": ALPHA,
    "DRAOptionalNodeOperations": ALPHA,
}


def gates(scenario: Json) -> dict[str, bool]:
    """Every gate of a scenario, on or off."""
    minor = int(str(scenario.get("version") or "1.37").split(".")[1])
    told = scenario.get("gates") or {}
    assert isinstance(told, dict)
    out = {gate: bool(told.get(gate, first <= minor)) for gate, first in SINCE.items()}
    alphas = any(out[gate] for gate, first in SINCE.items() if first == ALPHA)
    # Without any alpha feature Kubernetes runs an allocator that does not look at the field at all.
    return out | {"skipNodeOperations": alphas or scenario.get("variant") == "experimental"}
