"""Data types between the driver families and the claim writer.

A family makes a `DevicePlan` for one device of an ask. Counts, alternatives, percentages and names
are the same for all families.
"""

import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from drawbridge.documents.paths import format_path
from drawbridge.documents.values import Value
from drawbridge.dra.families import BY_DRIVER, find_own_numa
from drawbridge.facts.model import Facts, Product
from drawbridge.finding import Code, Finding
from drawbridge.translate.legacy.asks import Ask, DeviceUser, Percent, StrategyPreference
from drawbridge.translate.legacy.selectors import AskSelector
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    NotExpressibleError,
)

# A quantity as written in a claim, or a percentage of the device's capacity.
RequestedAmount: TypeAlias = str | Percent


class Sharing(enum.StrEnum):
    """How a driver shares a device, other than by a number of shares."""

    NONE = "none"
    MEMORY = "memory"
    UNLIMITED = "unlimited"


class DriverTarget(msgspec.Struct, frozen=True):
    """A target, with the vocabulary and facts of its driver."""

    family: str
    driver: str
    class_: str
    sharing: str | int
    vocabulary: DriverVocabulary
    facts: Facts | None = None
    vendor: str = ""  # of the devices, if a configured target declares it
    # The configured attributes for partitions of the link between devices, by their size.
    partitions: Mapping[int, tuple[str, ...]] = {}

    def products(self, *, types: tuple[str, ...] = ()) -> tuple[Product, ...]:
        """Return the published products of the driver, only of these types if any are given."""
        rows = self.facts.products_of(self.driver) if self.facts else ()
        return tuple([each for each in rows if each.type in types]) if types else rows

    @property
    def single(self) -> bool:
        """Whether one node has the driver, of more than two with devices of its kind."""
        driver = self.facts.find_driver(self.driver) if self.facts else None
        return driver is not None and driver.single

    def has_room(self, ask: Ask) -> bool:
        """Whether a request has room for alternatives that only one node has.

        They take the place of nothing else: of preferences, numbers, a queue or admin access.
        """
        keeps = self.facts is None or self.facts.keeps_field("firstAvailable")
        return keeps and not (ask.queue or ask.alternatives or ask.admin or ask.joint)

    def publishes(self, name: str) -> bool:
        """Whether the driver publishes an attribute on nearly all of its nodes."""
        driver = self.facts.find_driver(self.driver) if self.facts else None
        return driver is not None and name in driver.attributes and name not in driver.partial

    @property
    def types(self) -> Mapping[str, str]:
        """Map each published attribute to its type."""
        driver = self.facts.find_driver(self.driver) if self.facts else None
        return driver.attributes if driver else {}

    @property
    def own_numa(self) -> str:
        """The driver's own attribute with the NUMA node, if it publishes only that one."""
        family = BY_DRIVER.get(self.family)
        if family is None:
            return ""
        driver = self.facts.find_driver(self.driver) if self.facts else None
        common = driver.common_attributes if driver else {}
        return find_own_numa(msgspec.structs.replace(family, driver=self.driver), common)

    def require_class(self, name: str) -> str:
        """Return the class name; raise NotExpressibleError if the driver has no such class."""
        class_facts = self.facts.find_class(name) if self.facts else None
        if self.facts and class_facts is None:
            raise NotExpressibleError(
                f"DeviceClass {name} does not exist",
                "Install the driver with this class, or set `class` of the target to another one.",
            )
        if class_facts and class_facts.drivers and self.driver not in class_facts.drivers:
            drivers = " and ".join(class_facts.drivers)
            raise NotExpressibleError(
                f"DeviceClass {name} selects devices of {drivers}, not of {self.driver}",
                "Correct `driver` or `class` of the target.",
            )
        return name

    def require_field(self, field: str) -> None:
        """Raise NotExpressibleError if the API server drops this field from claims."""
        if self.facts and not self.facts.keeps_field(field):
            version = self.facts.cluster.version
            raise NotExpressibleError(
                f"this API server ({version}) drops {field} from claims",
                f"Enable the feature gate of {field} on the API server, or upgrade Kubernetes.",
            )


class DevicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to request one device of an ask."""

    class_: str
    selectors: tuple[Expression, ...] = ()
    ask_selectors: tuple[AskSelector, ...] = ()  # the ask's own selectors, not yet written as CEL
    vocabulary: DriverVocabulary | None = None  # if it differs from the driver's usual one
    alternatives: tuple[
        tuple[Expression, ...], ...
    ] = ()  # as many as a request can have, in order of preference; a device matches one of them
    amounts: Mapping[str, RequestedAmount] = {}
    percent_of: tuple[Product, ...] = ()  # the products that a percentage may refer to
    distinct: str = ""  # the attribute in which the devices of one ask differ
    parent: str = ""  # the attribute that devices on one card share
    parameters: tuple[Value, ...] = ()  # driver parameters, one per device; None without parameters
    exclusive: bool = False  # the ask needs a claim of its own
    single: bool = False  # of many nodes with the driver, one has such devices
    losses: tuple[Finding, ...] = ()


def make_finding(
    code: Code, ask: Ask, message: str, *, annotation: str = "", remedy: str | None = None
) -> Finding:
    """Make a finding about an ask, or an annotation of it; the message begins with its names."""
    path = format_path(ask.users[0].path) if ask.users else ""
    path = format_path(("metadata", "annotations", annotation)) if annotation else path
    return code.at(path, f"{', '.join(ask.resources) or ask.row}: {message}", remedy=remedy)


class UnnamedRequest(msgspec.Struct, frozen=True):
    """A device request before it has a name."""

    kind: str
    body: Mapping[str, Value]
    devices: int
    ask: str
    users: tuple[DeviceUser, ...]
    expressions: Mapping[str, Expression] = {}  # of its selectors, by their text


class RequestConstraint(msgspec.Struct, frozen=True):
    """A constraint over requests of one part, by their indices; no indices mean all."""

    kind: str  # matchAttribute or distinctAttribute
    attribute: str
    requests: tuple[int, ...]


class ProximityRule(msgspec.Struct, frozen=True):
    """A proximity rule that no constraint can express, over requests of one part by their indices.

    With `others`, their devices are in the same locations as those of `requests`. Without, all
    devices share one location. A location is a value of the first attribute that devices publish.
    """

    requests: tuple[int, ...]
    others: tuple[int, ...]
    attributes: tuple[str, ...]
    required: bool


class RequestConfig(msgspec.Struct, frozen=True):
    """Opaque driver configuration for one request of a part."""

    request: int
    driver: str
    parameters: Value


class ClaimPart(msgspec.Struct, frozen=True):
    """Requests that must stay in one claim, with their constraints."""

    requests: tuple[UnnamedRequest, ...] = ()
    constraints: tuple[RequestConstraint, ...] = ()
    configs: tuple[RequestConfig, ...] = ()
    separation_key: str = ""  # parts with equal keys are never in one claim
    proximity_rules: tuple[ProximityRule, ...] = ()
    preferences: tuple[StrategyPreference, ...] = ()
    distinct_rules: tuple[RequestConstraint, ...] = ()  # constraints that the API server drops


def is_bound(part: ClaimPart) -> bool:
    """Whether all requests of a part must be in one claim."""
    rules = part.proximity_rules or part.distinct_rules
    return bool(part.constraints or part.separation_key or rules)


class Expressibility(enum.StrEnum):
    """How well a claim can express an ask."""

    EQUAL = "equal"
    LOSSY = "lossy"
    NOT_EXPRESSIBLE = "not expressible"


class TargetResult(msgspec.Struct, frozen=True):
    """The result of the targets for one ask, or for asks that go together."""

    asks: tuple[str, ...]
    expressibility: Expressibility
    part: ClaimPart = ClaimPart()
    findings: tuple[Finding, ...] = ()
    lost: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    # The legacy name that counted devices, with the DeviceClass that replaces it; "" without one.
    names: tuple[tuple[str, str], ...] = ()
