"""The feature gates that affect device allocation, with their defaults per Kubernetes version."""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from drawbridge.dra import codes
from drawbridge.finding import Finding

VERSIONS = ("1.34", "1.35", "1.36", "1.37")
NEWEST = VERSIONS[-1]
# The first version whose slices have compatibility groups.
GROUPS_VERSION = "1.37"
# Before, the counters that a device consumes are of its own slice.
_COUNTERS_APART_VERSION = "1.35"

# One column per version: `+` enabled, `-` disabled, `!` locked to enabled, blank unknown.
_TABLE = """\
DRAAdminAccess                              ++!!
DRAPrioritizedList                          +++!
DRAResourceClaimDeviceStatus                +++!
DRAPartitionableDevices                     --++
DRADeviceTaints                             --++
DRADeviceTaintRules                          --+
DRAConsumableCapacity                       --++
DRAFractionalCapacityRange                     +
DRADeviceBindingConditions                  --++
DRAExtendedResource                         --+!
DRASchedulerFilterTimeout                   ++++
DRAListTypeAttributes                         --
DRANodeAllocatableResources                   --
DRADerivedAttributes                           -
DRADeviceCompatibilityGroups                   -
DRAOptionalNodeOperations                      -
DRAPartitionableDevicesType                    -
"""
_COLUMN = 44
_TAINT_RULES_GATE = "DRADeviceTaintRules"
_TAINT_GATES = {"DRADeviceTaints", _TAINT_RULES_GATE}
# The gate without which an API server drops a field of the devices of an allocation.
GATE_OF_RESULT_FIELD = {
    "bindingConditions": "device_binding_conditions",
    "bindingFailureConditions": "device_binding_conditions",
    "shareID": "consumable_capacity",
    "consumedCapacity": "consumable_capacity",
    "skipNodeOperations": "optional_node_operations",
}

_MINOR = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})")
_GATE = re.compile(r"\s*([A-Za-z0-9]+)\s*=\s*(true|false)\s*", re.IGNORECASE)


class Gates(msgspec.Struct, frozen=True):
    """The feature gates of a cluster. The defaults are those of the newest version."""

    version: str = NEWEST
    admin_access: bool = True
    prioritized_list: bool = True
    resource_claim_device_status: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_taint_rules: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    device_binding_conditions: bool = True
    extended_resource: bool = True
    scheduler_filter_timeout: bool = True
    list_type_attributes: bool = False
    node_allocatable_resources: bool = False
    derived_attributes: bool = False
    device_compatibility_groups: bool = False
    optional_node_operations: bool = False
    partitionable_devices_type: bool = False
    # No gate of Kubernetes: see `with_groups`.
    counts_groups: bool = False

    @property
    def supports_binding_conditions(self) -> bool:
        """Whether devices with binding conditions can be allocated. This needs two gates."""
        return self.device_binding_conditions and self.resource_claim_device_status

    @property
    def ignores_grouped_slices(self) -> bool:
        """Whether the allocator ignores slices with compatibility groups.

        The scheduler of 1.37 ignores them if the gate is disabled. Older versions do not have the
        field.
        """
        reads_groups = self.device_compatibility_groups or self.counts_groups
        return self.version >= GROUPS_VERSION and not reads_groups

    @property
    def counters_apart(self) -> bool:
        """Whether a slice has no devices if it has counter sets."""
        return self.version >= _COUNTERS_APART_VERSION

    def with_groups(self) -> "Gates":
        """Return the gates of a cluster in which slices with compatibility groups count.

        No object and no dry run tells whether the gate is enabled. A server that has such a slice
        served groups when it stored the slice.
        """
        return msgspec.structs.replace(self, counts_groups=self.version >= GROUPS_VERSION)

    def with_taint_rules(self) -> "Gates":
        """Return the gates of a cluster whose API server serves DeviceTaintRules.

        An administrator enables the resource and the gate together, and the version only tells the
        defaults of both.
        """
        return msgspec.structs.replace(self, device_taints=True, device_taint_rules=True)

    def without_fields(self, dropped: Collection[str]) -> "Gates":
        """Return the gates of a cluster whose API server drops these fields of allocations."""
        gates = {gate: False for field, gate in GATE_OF_RESULT_FIELD.items() if field in dropped}
        return msgspec.structs.replace(self, **gates)


DEFAULTS = Gates()


def _field(gate: str) -> str:
    """Return the field name of a gate: `device_taints` for `DRADeviceTaints`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", gate.removeprefix("DRA")).lower()


def _states(version: str) -> dict[str, str]:
    """Return the gates of `version` with their signs in the table."""
    column = _COLUMN + VERSIONS.index(version)
    rows = (row.ljust(_COLUMN + len(VERSIONS)) for row in _TABLE.splitlines())
    return {row[:_COLUMN].rstrip(): row[column] for row in rows if row[column] != " "}


def gates_of_version(
    version: str = NEWEST, overrides: Mapping[str, bool] = {}
) -> Gates | tuple[Finding, ...]:
    """Return the gates of a Kubernetes version with overrides by name."""
    short = re.match(r"v?([0-9]+\.[0-9]+)(?![0-9])", version)
    if short is None or short[1] not in VERSIONS:
        message = f'"{version}" is not one of {", ".join(VERSIONS)}'
        return (codes.KUBERNETES_VERSION_UNSUPPORTED.at("--kubernetes-version", message),)
    version = short[1]
    states = _states(version)
    if findings := _check_overrides(version, states, overrides):
        return findings
    on = dict.fromkeys((name for name in Gates.__struct_fields__ if name != "version"), False)
    on |= {_field(gate): sign != "-" for gate, sign in states.items()}
    on |= {_field(gate): value for gate, value in overrides.items()}
    if _TAINT_RULES_GATE not in states:
        # Up to 1.34, DRADeviceTaints controls both features.
        on["device_taint_rules"] = on["device_taints"]
    return Gates(version=version, **on)


def nearest_version(version: str) -> str:
    """Return this version if it is known, else the nearest known one."""
    parts = _MINOR.match(version)
    given = tuple(map(int, parts.groups())) if parts else (0, 0)
    by_number = {tuple(map(int, each.split("."))): each for each in VERSIONS}
    return by_number.get(given, VERSIONS[0] if given < min(by_number) else NEWEST)


def is_older(version: str, other: str) -> bool:
    """Whether a version is older than another one; false if it cannot be read."""
    parts, others = _MINOR.match(version), _MINOR.match(other)
    if parts is None or others is None:
        return False
    return tuple(map(int, parts.groups())) < tuple(map(int, others.groups()))


def kubelet_serves_names(kubelet: str, server: Gates) -> bool:
    """Whether a kubelet gives containers the devices of the scheduler's claim for their names.

    An older one than the API server has the defaults of its own version, and ignores that claim if
    its gate is off: it starts the containers without devices. Others have the gates of the server.
    """
    if not is_older(kubelet, server.version):
        return server.extended_resource
    own = gates_of_version(nearest_version(kubelet))
    return isinstance(own, Gates) and own.extended_resource


def version_of_kubelets(versions: Iterable[str]) -> str:
    """Return the oldest known version that an API server with these kubelets can have.

    A kubelet is never newer than its API server. Without kubelets, it is the newest version.
    """
    return max((nearest_version(each) for each in versions if _MINOR.match(each)), default=NEWEST)


def _check_overrides(
    version: str, states: Mapping[str, str], overrides: Mapping[str, bool]
) -> tuple[Finding, ...]:
    """Return findings for overrides that an API server of this version rejects."""
    findings = []
    for gate, value in overrides.items():
        if gate not in states:
            message = f"{gate} is not known in Kubernetes {version}"
            findings.append(codes.FEATURE_GATE_UNKNOWN.at("--feature-gates", message))
        elif states[gate] == "!" and not value:
            message = f"{gate} cannot be turned off in Kubernetes {version}"
            findings.append(codes.FEATURE_GATE_LOCKED.at("--feature-gates", message))
    return tuple(findings)


def parse_gates(text: str) -> Mapping[str, bool] | tuple[Finding, ...]:
    """Read `DRADeviceTaints=true,DRAListTypeAttributes=false`."""
    overrides = {}
    for part in filter(str.strip, text.split(",")):
        gate = _GATE.fullmatch(part)
        if gate is None:
            message = f'"{part.strip()}" has no =true or =false'
            return (codes.FEATURE_GATES_UNREADABLE.at("--feature-gates", message),)
        overrides[gate[1]] = gate[2].lower() == "true"
    return overrides


def read_gates(
    version: str, overrides: str, *, serves_taint_rules: bool = False
) -> Gates | tuple[Finding, ...]:
    """Read the gates of a version with overrides as text, or return the findings about them.

    `serves_taint_rules` tells that the API server serves DeviceTaintRules, so that their gate is
    enabled unless the overrides disable it.
    """
    parsed = parse_gates(overrides)
    if isinstance(parsed, tuple):
        return parsed
    enabled = gates_of_version(version, parsed)
    if not isinstance(enabled, Gates) or not serves_taint_rules or parsed.keys() & _TAINT_GATES:
        return enabled
    return enabled.with_taint_rules()
