"""The Configuration: what an administrator can decide, with the defaults.

One struct per object of the file, one line of prose per field; the schema, the reference page and
`drawbridge config print` are made from them. Which fields this version honours stands in
`config.available_fields`; how a file is checked in `config.load`. Nothing here acts on anything.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

import msgspec

from config.string_formats import (
    AttributeName,
    DNSLabel,
    DriverName,
    ExpressionText,
    FindingCode,
    LabelKey,
    LabelValue,
    NetworkName,
    ObjectName,
    ResourceName,
)
from dra.compatibility import UnsetGroups
from dra.names import API_VERSION
from dra.quantity import Quantity

KIND: Final = "Configuration"
# Defaults in code, so that `Configuration()` is the default one; a file has to say them.
REQUIRED: Final = ("apiVersion", "kind")


def describe(description: str) -> msgspec.Meta:
    """A field's prose."""
    return msgspec.Meta(description=description)


class ConfigurationPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of the file: nothing in it is optional by accident, nothing unknown is accepted."""


class Placement(enum.StrEnum):
    """Who picks devices."""

    NATIVE = "native"
    BRIDGE = "bridge"


class Policy(enum.StrEnum):
    """What becomes of a finding."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


class Operator(enum.StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ConfigurationPart, frozen=True):
    """One comparison of a label selector."""

    key: Annotated[LabelKey, describe("The label's key.")]
    operator: Annotated[Operator, describe("How the label is compared.")]
    values: Annotated[
        tuple[LabelValue, ...],
        describe("What it is compared with; needed for In and NotIn, not allowed for the others."),
    ] = ()


class LabelSelector(ConfigurationPart, frozen=True):
    """Labels that must all match; an empty selector matches everything."""

    match_labels: Annotated[
        Mapping[LabelKey, LabelValue], describe("Labels and the values they must have.")
    ] = {}
    match_expressions: Annotated[
        tuple[LabelRequirement, ...], describe("Comparisons that must all hold.")
    ] = ()


class Rollout(ConfigurationPart, frozen=True):
    """How much of what is in scope is translated."""

    percent: Annotated[
        int,
        msgspec.Meta(ge=0, le=100),
        describe("Share of root owners whose pods are translated; stable for each."),
    ] = 100


class Scope(ConfigurationPart, frozen=True):
    """Whose pods are looked at; the label drawbridge.dev/translate decides first."""

    namespace_selector: Annotated[
        LabelSelector | None,
        describe("Namespaces in scope that do not have the label; without it none are."),
    ] = None
    exclude_namespaces: Annotated[
        tuple[DNSLabel, ...], describe("Namespaces never in scope, whatever their labels say.")
    ] = cast("tuple[DNSLabel, ...]", ("kube-system",))  # the schema can only show plain defaults
    rollout: Annotated[Rollout, describe("How much of what is in scope is translated.")] = Rollout()


class Legacy(ConfigurationPart, frozen=True):
    """Names and units of device plugins, as pods write them."""

    renames: Annotated[
        Mapping[ResourceName, ResourceName],
        describe("Resources of your own name, and the known resource each stands for."),
    ] = {}
    units: Annotated[
        Mapping[ResourceName, Quantity], describe("How much one of a resource is, such as 2Mi.")
    ] = {}
    defaults: Annotated[
        Mapping[ResourceName, Quantity],
        describe("How much is meant where a pod does not ask for a resource."),
    ] = {}
    networks: Annotated[
        Mapping[NetworkName, ResourceName],
        describe("Secondary networks, and the resource each takes its interfaces from."),
    ] = {}
    labels: Annotated[
        Mapping[DNSLabel, Mapping[LabelKey, AttributeName]],
        describe("Labels of devices by kind, and the attribute each is published as."),
    ] = {}


# What a driver of one's own may be said to publish.
ATTRIBUTE_WORDS: Final = (
    "product",
    "uuid",
    "architecture",
    "compute",
    "driver-version",
    "cuda-version",
    "profile",
    "parent",
    "kernel-driver",
    "resource",
)
CAPACITY_WORDS: Final = ("memory", "cores", "shares")


class Target(ConfigurationPart, frozen=True):
    """What asks of one kind become."""

    kind: Annotated[Literal["gpu", "nic"], describe("The kind of device asked for.")]
    driver: Annotated[DriverName, describe("The DRA driver that serves it.")]
    class_: Annotated[ObjectName, describe("The DeviceClass to ask for.")] = msgspec.field(
        name="class"
    )
    family: Annotated[
        Literal["nvidia", "hami", "amd", "intel", "dranet", "sriov"] | None,
        describe("For a driver of your own: the known driver family it behaves like."),
    ] = None
    sharing: Annotated[
        Literal["none", "memory", "unlimited"] | Annotated[int, msgspec.Meta(ge=2)],
        describe("How devices are shared: not, by memory, without limit, or by so many at most."),
    ] = "none"
    attributes: Annotated[
        Mapping[DNSLabel, AttributeName],
        describe(
            "For a driver of your own: the attributes that hold product, uuid, architecture,"
            " compute, driver-version, cuda-version, profile, parent, kernel-driver or the"
            " resource of a device plugin."
        ),
    ] = {}
    capacities: Annotated[
        Mapping[DNSLabel, AttributeName],
        describe("For a driver of your own: the capacities that hold memory, cores or shares."),
    ] = {}


class Fleet(ConfigurationPart, frozen=True):
    """What else may still come to the cluster."""

    class_: Annotated[ObjectName, describe("The DeviceClass this is about.")] = msgspec.field(
        name="class"
    )
    closed: Annotated[
        Literal["auto"] | bool,
        describe("Whether no more kinds of devices will come, so that what fits none is refused."),
    ] = "auto"
    expected_shapes: Annotated[
        tuple[str, ...], describe("Shapes of nodes that may come, beside those that are there.")
    ] = ()


class Decisions(ConfigurationPart, frozen=True):
    """What to do where a translation says less, or is not needed."""

    allow_loss_of: Annotated[
        tuple[Literal["isolation", "exclusivity"], ...],
        describe("Properties that a translation may lose instead of being refused."),
    ] = ()
    native_extended_names: Annotated[
        Literal["leave", "translate"],
        describe("What to do with a legacy name that a DeviceClass serves by itself."),
    ] = "leave"


class Compatibility(ConfigurationPart, frozen=True):
    """Which devices of a driver exclude each other while both are allocated."""

    driver: Annotated[DriverName, describe("The driver whose devices this is about.")]
    selector: Annotated[
        ExpressionText | None,
        describe("CEL: which of its devices; without it, all of them."),
    ] = None
    physical_device: Annotated[
        AttributeName | None,
        describe(
            "The attribute that tells which physical device one is on; others never exclude it."
        ),
    ] = None
    compatible_only_with: Annotated[
        ExpressionText | None,
        describe("CEL in which `device` is the other one: with which ones these go together."),
    ] = None
    groups: Annotated[
        tuple[DNSLabel, ...] | None,
        describe("Compatibility groups of these devices, in place of those the slices publish."),
    ] = None


class Quota(ConfigurationPart, frozen=True):
    """How much of devices a namespace may hold."""

    namespace_selector: Annotated[LabelSelector, describe("The namespaces this is for.")]
    single: Annotated[
        Mapping[ResourceName, Quantity], describe("The most that one pod may ask for, by resource.")
    ] = {}
    total: Annotated[
        Mapping[ResourceName, Quantity],
        describe("The most that one namespace may hold, by resource."),
    ] = {}


class Strategy(ConfigurationPart, frozen=True):
    """Which of several fitting devices is taken."""

    default: Annotated[str | None, describe("The strategy for pods that name none.")] = None
    weights: Annotated[Mapping[str, float], describe("How much each consideration weighs.")] = {}
    max_pods_per_node: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        describe("The most pods with devices that one node takes."),
    ] = None


class OwnedPool(ConfigurationPart, frozen=True):
    """Pools that our allocator alone allocates from."""

    driver: Annotated[DriverName, describe("The driver of the pools.")]
    pool_selector: Annotated[
        LabelSelector | None, describe("Which of its pools; without it, all of them.")
    ] = None
    unfenced: Annotated[
        bool, describe("Whether to go without the taints that keep other schedulers off.")
    ] = False


class Configuration(ConfigurationPart, frozen=True):
    """The whole file."""

    api_version: Annotated[
        Literal["drawbridge.dev/v1alpha1"], describe("The version of this format.")
    ] = API_VERSION
    kind: Annotated[Literal["Configuration"], describe("Always Configuration.")] = KIND
    placement: Annotated[
        Placement,
        describe(
            "Who picks devices: Kubernetes' scheduler, or an allocator of ours. There is none yet: "
            "`serve` refuses `bridge`, and only commands print such claims."
        ),
    ] = Placement.NATIVE
    scope: Annotated[Scope, describe("Whose pods are looked at.")] = Scope()
    legacy: Annotated[Legacy, describe("Names and units of device plugins.")] = Legacy()
    targets: Annotated[
        tuple[Target, ...], describe("What asks become; without any, one for each known driver.")
    ] = ()
    fleet: Annotated[tuple[Fleet, ...], describe("What else may still come to the cluster.")] = ()
    decisions: Annotated[Decisions, describe("What to do where a translation says less.")] = (
        Decisions()
    )
    findings: Annotated[
        Mapping[FindingCode, Policy],
        describe(
            "Findings to treat otherwise than by default: `enforce` makes one an error, `warn` a"
            " warning, `off` silences it."
        ),
    ] = {}
    compatibility: Annotated[
        tuple[Compatibility, ...],
        describe("Which devices exclude each other; wins over the slices."),
    ] = ()
    unset_groups: Annotated[
        UnsetGroups,
        describe(
            "With what a device goes that declares no compatibility group: only with others"
            " without one (`alone`, Kubernetes' rule) or with all."
        ),
    ] = UnsetGroups.ALONE
    quotas: Annotated[tuple[Quota, ...], describe("How much namespaces may hold.")] = ()
    strategy: Annotated[Strategy, describe("Which of several fitting devices is taken.")] = (
        Strategy()
    )
    owned_pools: Annotated[
        tuple[OwnedPool, ...], describe("Pools that our allocator alone allocates from.")
    ] = ()
