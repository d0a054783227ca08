"""The types, defaults and field descriptions of the Configuration.

Each struct is one object of the file. The JSON Schema, the reference page and
`drawbridge config print` are generated from these types, and `drawbridge.config.accept` validates a
file. Each field has a case that shows what it changes (`tests/config/cases/effects.yaml`).
"""

import enum
import functools
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, cast

import msgspec

from drawbridge.config.part import ConfigurationPart, describe
from drawbridge.config.partitions import Partitions
from drawbridge.config.strategy import Strategy
from drawbridge.config.string_formats import (
    AttributeName,
    DNSLabel,
    DriverName,
    ExpressionText,
    FindingCode,
    LabelKey,
    LabelValue,
    NetworkName,
    NodeShapeText,
    NonNegativeQuantity,
    ObjectName,
    ResourceName,
    UnitQuantity,
    WholeQuantity,
)
from drawbridge.config.target import NamedDevices, Target
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.names import API_VERSION

QuotaAmounts = Mapping[AttributeName, NonNegativeQuantity]


KIND: Final = "Configuration"
# These fields have defaults so that `Configuration()` works, but a file must set them.
REQUIRED: Final = ("apiVersion", "kind")


class Placement(enum.StrEnum):
    """Which component allocates devices."""

    NATIVE = "native"
    BRIDGE = "bridge"


class Policy(enum.StrEnum):
    """How a finding is reported."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


class Operator(enum.StrEnum):
    """The operator of a label selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ConfigurationPart, frozen=True):
    """One requirement of a label selector."""

    key: Annotated[LabelKey, describe("The key of the label.")]
    operator: Annotated[Operator, describe("The operator of the requirement.")]
    values: Annotated[
        tuple[LabelValue, ...],
        describe("The values to compare with. Required for In and NotIn, else not allowed."),
    ] = ()


class LabelSelector(ConfigurationPart, frozen=True):
    """A label selector. An empty selector matches all objects."""

    # Where labels belong that somebody writes beside it.
    ENTRIES_FIELD: ClassVar[str] = "matchLabels"

    match_labels: Annotated[
        Mapping[LabelKey, LabelValue], describe("Labels that must have these values.")
    ] = {}
    match_expressions: Annotated[
        tuple[LabelRequirement, ...], describe("Requirements that must all be met.")
    ] = ()


class Rollout(ConfigurationPart, frozen=True):
    """The share of pods in scope that is translated."""

    percent: Annotated[
        int,
        msgspec.Meta(ge=0, le=100),
        describe("Percentage of root owners whose pods are translated; stable for each owner."),
    ] = 100


class Scope(ConfigurationPart, frozen=True):
    """The pods that are translated. The label drawbridge.dev/translate takes precedence."""

    namespace_selector: Annotated[
        LabelSelector | None,
        describe("Selects namespaces without the label. If not set, none of them are in scope."),
    ] = None
    exclude_namespaces: Annotated[
        tuple[DNSLabel, ...],
        describe("Namespaces that are never in scope, regardless of their labels."),
    ] = cast("tuple[DNSLabel, ...]", ("kube-system",))  # the schema supports only plain defaults
    rollout: Annotated[Rollout, describe("The share of pods in scope that is translated.")] = (
        Rollout()
    )


class Legacy(ConfigurationPart, frozen=True):
    """Names and units of legacy device-plugin resources in pods."""

    renames: Annotated[
        Mapping[ResourceName, ResourceName],
        describe("Custom resource names, and the known resource that each one stands for."),
    ] = {}
    units: Annotated[
        Mapping[ResourceName, UnitQuantity],
        describe("The amount that one unit of a resource stands for, such as 2Mi."),
    ] = {}
    defaults: Annotated[
        Mapping[ResourceName, WholeQuantity],
        describe("The amount to assume for a resource that a pod does not request."),
    ] = {}
    networks: Annotated[
        Mapping[NetworkName, ResourceName],
        describe("Secondary networks, and the resource that provides the interfaces of each one."),
    ] = {}
    labels: Annotated[
        Mapping[DNSLabel, Mapping[LabelKey, AttributeName]],
        describe(
            "Device labels by kind of device, and the attribute that holds the value of each one."
        ),
    ] = {}


class Fleet(ConfigurationPart, frozen=True):
    """Devices and nodes that can be added to the cluster later.

    The first entry of a class applies.
    """

    class_: Annotated[ObjectName, describe("The DeviceClass that the entry applies to.")] = (
        msgspec.field(name="class")
    )
    closed: Annotated[
        Literal["auto"] | bool,
        describe(
            "Whether no other kinds of devices will be added. If so, requests that no published"
            " device can satisfy are denied; otherwise they cause a warning. `auto`: yes if the"
            " class has devices in complete pools, and no node shows an autoscaler (a cloud's"
            " `providerID`, a label of a node group), has a device plugin and no driver for the"
            " same devices, or is not ready and without devices of a driver."
        ),
    ] = "auto"
    expected_shapes: Annotated[
        tuple[NodeShapeText, ...],
        describe(
            "Nodes that can be added, for example by node pools without nodes: the number of"
            " devices of the class, and their known attributes and capacities, such"
            " as `8x productName=NVIDIA H200, memory=141Gi`. Requests that such a node may satisfy"
            " are not denied. A property that is not stated may have any value."
        ),
    ] = ()


class Decisions(ConfigurationPart, frozen=True):
    """What to do if a translation loses a property, or is not necessary."""

    allow_loss_of: Annotated[
        tuple[Literal["isolation", "exclusivity"], ...],
        describe(
            "Properties that a translation is allowed to lose. By default, such a pod is denied."
        ),
    ] = ()
    native_extended_names: Annotated[
        Literal["leave", "translate"],
        describe("What to do with a legacy name that a DeviceClass serves as extended resource."),
    ] = "leave"
    native_shares: Annotated[
        Literal["leave", "translate"],
        describe(
            "What to do with a legacy name of shares, such as nvidia.com/gpu.shared, that a"
            " DeviceClass serves with `extendedResourceCapacityRequests` (KEP-6406, proposed for"
            " Kubernetes 1.38). `leave` needs a scheduler that obeys the field."
        ),
    ] = "translate"
    admin_access: Annotated[
        Literal["refuse", "allow"],
        describe(
            "Whether a legacy request to monitor devices becomes a request with admin access. The"
            " namespace must have the label resource.kubernetes.io/admin-access as well."
        ),
    ] = "refuse"


class Admission(ConfigurationPart, frozen=True):
    """Which requests the API server sends to the webhooks."""

    every_pod: Annotated[
        bool,
        describe(
            "Whether the API server sends every pod of a namespace in scope, not only pods that"
            " request devices. Pods to which another webhook adds requests are then translated."
        ),
    ] = False


class Compatibility(ConfigurationPart, frozen=True):
    """Which devices of a driver cannot be allocated at the same time."""

    driver: Annotated[DriverName, describe("The driver of the devices.")]
    selector: Annotated[
        ExpressionText | None,
        describe("A CEL expression that selects devices of the driver. If not set, all of them."),
    ] = None
    physical_device: Annotated[
        AttributeName | None,
        describe(
            "The attribute that identifies the physical device. Others are always compatible."
        ),
    ] = None
    compatible_only_with: Annotated[
        ExpressionText | None,
        describe(
            "A CEL expression for the compatible devices, in which `device` is the other device."
        ),
    ] = None
    groups: Annotated[
        tuple[DNSLabel, ...] | None,
        describe(
            "Compatibility groups of these devices, instead of the groups in the ResourceSlices."
        ),
    ] = None


class QuotaPer(enum.StrEnum):
    """What a quota counts together."""

    NAMESPACE = "namespace"
    SELECTION = "selection"


class Quota(ConfigurationPart, frozen=True):
    """Limits on the devices of namespaces. All quotas that select a namespace apply."""

    name: Annotated[DNSLabel, describe("The name in messages, in the API and in metrics.")]
    namespaces: Annotated[
        tuple[DNSLabel, ...],
        describe("The namespaces that the limits apply to. Excludes `namespaceSelector`."),
    ] = ()
    namespace_selector: Annotated[
        LabelSelector | None,
        describe(
            "The namespaces that the limits apply to, by their labels. If neither is set, the"
            " limits apply to all namespaces."
        ),
    ] = None
    per: Annotated[
        QuotaPer,
        describe(
            "Whether each selected namespace can have the total (`namespace`), or all of them"
            " together (`selection`)."
        ),
    ] = QuotaPer.NAMESPACE
    single: Annotated[
        Mapping[ObjectName, QuotaAmounts],
        describe(
            "The maximum of one pod, by DeviceClass: a number of `devices`, or a capacity such as"
            " `memory`."
        ),
    ] = {}
    total: Annotated[
        Mapping[ObjectName, QuotaAmounts],
        describe("The maximum of all claims with devices, by DeviceClass."),
    ] = {}


class Preemption(ConfigurationPart, frozen=True):
    """When pods evict others for devices."""

    delay_seconds: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=3600)],
        describe(
            "How long a pod with `placement: bridge` that fits nowhere waits before it evicts"
            " others for devices, so that an autoscaler can add a node."
        ),
    ] = 0


class NodeFence(enum.StrEnum):
    """What keeps other schedulers away from owned pools."""

    TAINT = "taint"
    RULES = "rules"


class OwnedPool(ConfigurationPart, frozen=True):
    """Pools of one driver on selected nodes, which only the Drawbridge allocator allocates from.

    A node has the taint if any entry that selects it needs the taint.
    """

    driver: Annotated[DriverName, describe("The driver of the pools.")]
    node_selector: Annotated[
        LabelSelector,
        describe(
            "Selects the nodes by their labels; `{}` selects every node. Only pools whose slices"
            " all name one of these nodes are owned."
        ),
    ]
    unfenced: Annotated[
        bool,
        describe(
            "Whether to omit the taint drawbridge.dev/owned:NoSchedule from these nodes, which"
            " keeps pods of other schedulers away. Without it, another scheduler can allocate a"
            " device a second time."
        ),
    ] = False
    fence: Annotated[
        NodeFence,
        describe(
            "What keeps other schedulers away: the `taint` of the nodes, or `rules` of the API"
            " server about their devices, so that pods without devices can use the nodes. `rules`"
            " needs the policy drawbridge-owned-devices and an API server with DeviceTaintRules;"
            " without them the nodes have the taint."
        ),
    ] = NodeFence.TAINT

    @property
    def by_rules(self) -> bool:
        """Whether the fence is made of rules, where that is possible."""
        return self.fence is NodeFence.RULES and not self.unfenced

    @property
    def tainted(self) -> bool:
        """Whether the nodes need the taint, whatever the cluster has."""
        return self.fence is NodeFence.TAINT and not self.unfenced


class Bridge(ConfigurationPart, frozen=True):
    """Which pods use bridge placement, and how. The label drawbridge.dev/placement comes first."""

    namespace_selector: Annotated[
        LabelSelector | None,
        describe(
            "Selects the namespaces whose pods use bridge placement, with `placement: bridge`; pods"
            " of other namespaces use native placement. If not set, all namespaces."
        ),
    ] = None
    forced_deletion_seconds: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=3600)],
        describe(
            "How long the devices of a pod that was deleted with force stay unpromised after its"
            " termination grace period: its containers can run on while nothing in the API says"
            " so. A node that is deleted, or has the taint node.kubernetes.io/out-of-service, frees"
            " them at once."
        ),
    ] = 30


class Configuration(ConfigurationPart, frozen=True, dict=True):  # for the cached property
    """The configuration file."""

    api_version: Annotated[
        Literal["drawbridge.dev/v1alpha1"], describe("The version of the format.")
    ] = API_VERSION
    kind: Annotated[Literal["Configuration"], describe("Always Configuration.")] = KIND
    placement: Annotated[
        Placement,
        describe(
            "Which component allocates devices: the Kubernetes scheduler (`native`) or the"
            " Drawbridge allocator (`bridge`), for the pools in `ownedPools`."
        ),
    ] = Placement.NATIVE
    bridge: Annotated[Bridge, describe("Which pods use bridge placement, and how.")] = Bridge()
    scope: Annotated[Scope, describe("The pods that are translated.")] = Scope()
    legacy: Annotated[Legacy, describe("Names and units of legacy device-plugin resources.")] = (
        Legacy()
    )
    targets: Annotated[
        tuple[Target, ...],
        describe(
            "The drivers to translate to. If no entry has a `kind`, every known driver, in addition"
            " to the entries."
        ),
    ] = ()
    fleet: Annotated[
        tuple[Fleet, ...], describe("Devices and nodes that can be added to the cluster later.")
    ] = ()
    decisions: Annotated[Decisions, describe("What to do if a translation loses a property.")] = (
        Decisions()
    )
    admission: Annotated[
        Admission, describe("Which requests the API server sends to the webhooks.")
    ] = Admission()
    findings: Annotated[
        Mapping[FindingCode, Policy],
        describe(
            "Findings to report with another severity: `enforce` reports an error, `warn` a"
            " warning, and `off` does not report the finding. `enforce` does not raise what would"
            " be an error about devices if it were certain (`fleet`): a setting proves nothing."
        ),
    ] = {}
    compatibility: Annotated[
        tuple[Compatibility, ...],
        describe(
            "Devices that cannot be allocated at the same time. Overrides the ResourceSlices."
        ),
    ] = ()
    unset_groups: Annotated[
        UnsetGroups,
        describe(
            "The devices that are compatible with a device without compatibility groups: only"
            " other devices without groups (`alone`, as in Kubernetes) or `all` devices."
        ),
    ] = UnsetGroups.ALONE
    partitions: Annotated[
        tuple[Partitions, ...],
        describe(
            "Partitions of a fabric that rules of claims refer to, with `placement: bridge`."
            " Without effect with `native`."
        ),
    ] = ()
    quotas: Annotated[tuple[Quota, ...], describe("Limits on the devices of namespaces.")] = ()
    strategy: Annotated[Strategy, describe("How to choose between suitable devices.")] = Strategy()
    preemption: Annotated[Preemption, describe("When pods evict others for devices.")] = (
        Preemption()
    )
    owned_pools: Annotated[
        tuple[OwnedPool, ...],
        describe(
            "Pools that only the Drawbridge allocator allocates from. Required with `placement:"
            " bridge`, and without effect with `native`."
        ),
    ] = ()

    @functools.cached_property
    def named_devices(self) -> Mapping[str, NamedDevices]:
        """What each resource name of a target requests: the only place that says so."""
        return {
            f"{name}": NamedDevices(
                target, f"{target.selectors.get(name, '')}", name in target.amounts
            )
            for target in reversed(self.targets)
            for name in target.names
        }
