"""The plain data between families and the printing: how one device of an ask is asked for.

A family makes a `Plan`; everything else, counts, alternatives, percentages, names, is the same for
all of them.
"""

import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from documents.paths import format_path
from documents.values import Value
from dra.finding import Code, Finding
from facts.model import Facts, Product
from translate.legacy.asks import Ask, DeviceUser, PackingPreference, Percent
from translate.legacy.selectors import AskSelector
from translate.targets.vocabulary import DriverVocabulary, NotExpressibleError

# A quantity as it is written, or a part of what the device has of it.
RequestedAmount: TypeAlias = str | Percent


class Sharing(enum.StrEnum):
    """How a driver shares a device, where it is not by a number of shares."""

    NONE = "none"
    MEMORY = "memory"
    UNLIMITED = "unlimited"


class DriverTarget(msgspec.Struct, frozen=True):
    """A target, with what is known of its driver here."""

    family: str
    driver: str
    class_: str
    sharing: str | int
    words: DriverVocabulary
    facts: Facts | None = None

    def products(self, *, types: tuple[str, ...] = ()) -> tuple[Product, ...]:
        """The published products of the driver, of these types if any are named."""
        rows = self.facts.products_of(self.driver) if self.facts else ()
        return tuple([each for each in rows if each.type in types]) if types else rows

    def publishes(self, name: str) -> bool:
        """Whether the driver publishes an attribute on some device here."""
        driver = self.facts.driver_named(self.driver) if self.facts else None
        return driver is not None and name in driver.attributes

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the published attributes."""
        driver = self.facts.driver_named(self.driver) if self.facts else None
        return driver.attributes if driver else {}

    def offers(self, name: str) -> str:
        """Give the class of this name back; refuse one that is known not to exist."""
        if self.facts and self.facts.class_named(name) is None:
            raise NotExpressibleError(f"there is no DeviceClass {name}")
        return name

    def keeps(self, field: str) -> None:
        """Refuse what this API server would drop from the claim."""
        if self.facts and not self.facts.keeps(field):
            version = self.facts.cluster.version
            raise NotExpressibleError(f"this API server ({version}) drops {field} from claims")


class DevicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How one device of an ask is asked for."""

    class_: str
    selectors: tuple[str, ...] = ()
    wanted: tuple[AskSelector, ...] = ()  # the ask's own that are still to be written
    words: DriverVocabulary | None = None  # where they are others than the driver's usual ones
    ways: tuple[tuple[str, ...], ...] = ()  # in order of preference; one of them holds
    amounts: Mapping[str, RequestedAmount] = {}
    percent_of: tuple[Product, ...] = ()  # the products that a percentage may be of
    distinct: str = ""  # devices of one ask differ in this attribute
    parent: str = ""  # devices on one card are equal in it
    parameters: tuple[Value, ...] = ()  # of one device each; None where there is nothing to tell
    apart: bool = False  # no other ask may be in its claim
    losses: tuple[Finding, ...] = ()


def make_finding(code: Code, ask: Ask, message: str) -> Finding:
    """Make a finding about an ask, by the names that the pod has for it."""
    path = format_path(ask.users[0].path) if ask.users else ""
    return code.at(path, f"{', '.join(ask.resources) or ask.row}: {message}")


class UnnamedRequest(msgspec.Struct, frozen=True):
    """A request before it has its name."""

    kind: str
    body: Mapping[str, Value]
    devices: int
    ask: str
    users: tuple[DeviceUser, ...]


class RequestConstraint(msgspec.Struct, frozen=True):
    """A constraint over requests of one part, by their numbers; none of them: all."""

    word: str  # matchAttribute or distinctAttribute
    attribute: str
    requests: tuple[int, ...]


class ProximityRule(msgspec.Struct, frozen=True):
    """What no constraint can say, over requests of one part by their numbers.

    With `others`: the places of their devices are those of the `requests`. Without: one place for
    all. A place is a value of the first attribute that the devices publish.
    """

    requests: tuple[int, ...]
    others: tuple[int, ...]
    attributes: tuple[str, ...]
    required: bool


class RequestConfig(msgspec.Struct, frozen=True):
    """Configuration for one request of a part."""

    request: int
    driver: str
    parameters: Value


class ClaimPart(msgspec.Struct, frozen=True):
    """What must stay in one claim."""

    requests: tuple[UnnamedRequest, ...] = ()
    rules: tuple[RequestConstraint, ...] = ()
    settings: tuple[RequestConfig, ...] = ()
    apart: str = ""  # parts with the same key are never in one claim
    links: tuple[ProximityRule, ...] = ()
    wishes: tuple[PackingPreference, ...] = ()


class Expressibility(enum.StrEnum):
    """How well it can be said."""

    EQUAL = "equal"
    LOSSY = "lossy"
    UNSAYABLE = "not sayable"


class TargetResult(msgspec.Struct, frozen=True):
    """What became of one ask, or of asks that go together."""

    asks: tuple[str, ...]
    answer: Expressibility
    part: ClaimPart = ClaimPart()
    findings: tuple[Finding, ...] = ()
    lost: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
