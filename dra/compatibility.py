"""Which devices may be allocated at the same time: groups on a counter set, rules between pairs.

Groups: all devices that draw from one counter set of a pool must have a group in common, over all
claims. The state of a set is a value, so that going back in a search is keeping the old one.

Rules: a device may say, in an expression over the other device, with what it goes. Upstream has no
such field; the administrator declares it, the driver annotates its slices, or a file has it.
Expressions are evaluated by whoever is handed in. What is allocated, and on which node, is not
known here.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dra import attributes, codes
from dra.decode_errors import Schema, convert
from dra.device import Attribute, CounterUse, Device
from dra.finding import Finding
from dra.inventory import PoolID
from dra.names import COMPATIBILITY_ANNOTATION
from dra.slices import Slice


class UnsetGroups(enum.StrEnum):
    """With what a device without groups goes: only its like (Kubernetes 1.37), or everything."""

    ALONE = "alone"
    ALL = "all"


class GroupState(msgspec.Struct, frozen=True):
    """Who draws from a counter set: the groups all its grouped members have in common.

    `groups` is None where no member has any, and empty where members contradict each other.
    """

    members: bool = False
    groups: frozenset[str] | None = None

    def admits(self, groups: Iterable[str], unset: UnsetGroups) -> bool:
        """Tell whether a device with these groups may join."""
        wanted = frozenset(groups)
        if unset is UnsetGroups.ALL and (not wanted or self.groups is None):
            return True
        if self.groups is None:
            return not (self.members and wanted)
        return bool(self.groups & wanted)

    def with_member(self, groups: Iterable[str], unset: UnsetGroups) -> "GroupState":
        """Give the state with a device that has these groups, admitted or not.

        Where a driver changed groups of allocated devices, members with and without may have met:
        what the first one was stays, as upstream.
        """
        wanted = frozenset(groups)
        if not wanted:
            return GroupState(members=True, groups=self.groups)
        if self.groups is not None:
            return GroupState(members=True, groups=self.groups & wanted)
        if self.members and unset is UnsetGroups.ALONE:
            return self
        return GroupState(members=True, groups=wanted)


EMPTY_STATE = GroupState()


class CounterSetID(NamedTuple):
    """A counter set, which is confined to its pool."""

    pool: PoolID
    name: str


# What is on each counter set; a set that is not there has nobody.
GroupStates = Mapping[CounterSetID, GroupState]


def add_device(
    companies: GroupStates, pool: PoolID, uses: Iterable[CounterUse], unset: UnsetGroups
) -> GroupStates | None:
    """Give the state with a device that draws as `uses` say; None where one of its sets refuses.

    Not for a further share of a device, which was charged with its first one.
    """
    changed: dict[CounterSetID, GroupState] = {}
    for use in uses:
        key = CounterSetID(pool, use.counter_set)
        company = changed.get(key) or companies.get(key, EMPTY_STATE)
        if not company.admits(use.compatibility_groups, unset):
            return None
        changed[key] = company.with_member(use.compatibility_groups, unset)
    return {**companies, **changed} if changed else companies


def initial_states(
    allocated: Iterable[tuple[PoolID, Sequence[CounterUse]]], unset: UnsetGroups
) -> GroupStates:
    """Give the state of what is allocated: devices of a pool on any node, each once, no admin's.

    Their order matters where they contradict each other: slices for the node at hand by name, then
    the others.
    """
    companies: dict[CounterSetID, GroupState] = {}
    for pool, uses in allocated:
        for use in uses:
            key = CounterSetID(pool, use.counter_set)
            company = companies.get(key, EMPTY_STATE)
            companies[key] = company.with_member(use.compatibility_groups, unset)
    return companies


class ExpressionEvaluationError(Exception):
    """An expression could not be evaluated on a device; says why."""


class Peer(msgspec.Struct, frozen=True):
    """A device as an expression sees it, and as results name it."""

    pool: PoolID
    device: Device

    def __str__(self) -> str:
        return f"{self.pool.driver}/{self.pool.name}/{self.device.name}"


# Tells whether an expression holds for a device; raises EvaluationError where it says neither.
Evaluate = Callable[[str, Peer], bool]


class Declaration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What somebody says of the devices of one driver that `selector` selects; none means all."""

    driver: str = ""
    selector: str = ""
    physical_device: str = ""
    compatible_only_with: str = ""
    groups: tuple[str, ...] | None = None


class Rule(msgspec.Struct, frozen=True):
    """What a device goes with: an expression over the other device, or an error, for nothing.

    With `physical_device`, only devices that have the same value of that attribute are looked at.
    """

    expression: str = ""
    physical_device: str = ""
    error: str = ""


def find_rule(
    peer: Peer, configured: Iterable[Declaration], annotated: Iterable[Declaration], ask: Evaluate
) -> Rule | None:
    """Give the rule of a device: as configured, else as its slice is annotated, else its field.

    The first declaration that selects the device and says with what it goes counts. A selector
    that cannot be evaluated makes the device incompatible, because it may be meant.
    """
    saying = (each for each in (*configured, *annotated) if each.compatible_only_with)
    try:
        found = _selecting(peer, saying, ask)
    except ExpressionEvaluationError as error:
        return Rule(error=f"a selector cannot be evaluated: {error}")
    if found is not None:
        return Rule(found.compatible_only_with, found.physical_device)
    plain = peer.device.compatible_only_with
    return Rule(plain.expression) if plain is not None else None


def effective_counter_uses(
    peer: Peer, configured: Iterable[Declaration], annotated: Iterable[Declaration], ask: Evaluate
) -> tuple[CounterUse, ...]:
    """Give what a device draws, with the groups declared for it in place of those published.

    Raises EvaluationError where a selector cannot be evaluated: nothing safe can be assumed then.
    """
    saying = (each for each in (*configured, *annotated) if each.groups is not None)
    found = _selecting(peer, saying, ask)
    uses = peer.device.consumes_counters
    if found is None or found.groups is None:
        return uses
    return tuple(msgspec.structs.replace(use, compatibility_groups=found.groups) for use in uses)


def _selecting(
    peer: Peer, declarations: Iterable[Declaration], ask: Evaluate
) -> Declaration | None:
    for each in declarations:
        of_driver = each.driver in ("", peer.pool.driver)
        if of_driver and (not each.selector or ask(each.selector, peer)):
            return each
    return None


class PlacedDevice(msgspec.Struct, frozen=True):
    """A device that is taken on a node, or is to be."""

    node: str
    peer: Peer
    rule: Rule | None = None
    admin_access: bool = False


class Incompatibility(msgspec.Struct, frozen=True):
    """Why two devices do not go together: what `refusing` says of `refused`, or an error."""

    refusing: Peer
    refused: Peer
    expression: str
    error: str = ""

    def finding(self) -> Finding | None:
        """Tell of an error; a plain no is no finding but an answer."""
        if not self.error:
            return None
        message = f"{self.refusing} counts as incompatible with {self.refused}: {self.error}"
        return codes.COMPATIBILITY_ERROR.at("", message, object=f"Device/{self.refusing}")


def find_incompatibility(
    candidate: PlacedDevice, taken: Iterable[PlacedDevice], ask: Evaluate
) -> Incompatibility | None:
    """Give the first reason why `candidate` may not join those taken, each asked both ways.

    Only devices of one driver on one node are compared; one used with admin access goes with
    everything. A second share of a device is asked whether the device goes with itself.
    """
    for other in taken:
        found = check_direction(candidate, other, ask) or check_direction(other, candidate, ask)
        if found is not None:
            return found
    return None


def check_direction(
    one: PlacedDevice, other: PlacedDevice, ask: Evaluate
) -> Incompatibility | None:
    """Give the reason why `one` says that it does not go with `other`; one of the two ways."""
    apart = one.node != other.node or one.peer.pool.driver != other.peer.pool.driver
    if one.rule is None or apart or one.admin_access or other.admin_access:
        return None
    if not _on_one_device(one.rule.physical_device, one.peer, other.peer):
        return None
    expression, error = one.rule.expression, one.rule.error
    if not error:
        try:
            if ask(expression, other.peer):
                return None
        except ExpressionEvaluationError as failed:
            error = f"{failed}"
    return Incompatibility(one.peer, other.peer, expression, error)


def _on_one_device(attribute: str, one: Peer, other: Peer) -> bool:
    """Tell whether two devices may be parts of one physical device: only a difference says no."""
    if not attribute:
        return True
    mine, others = _values(attribute, one), _values(attribute, other)
    return not mine or not others or bool(mine & others)


def _values(name: str, peer: Peer) -> frozenset[tuple[str, object]]:
    """Give the values of an attribute, each with its type; a bare name is the driver's own."""
    domain, identifier = attributes.split_name(name, peer.pool.driver)
    found = attributes.find_attribute(peer.device, peer.pool.driver, f"{domain}/{identifier}")
    if found is None:
        return frozenset()
    values = set()
    for scalar, several in _TYPES:
        one, many = getattr(found, scalar), getattr(found, several)
        values |= {(scalar, value) for value in (*(many or ()), *(() if one is None else (one,)))}
    return frozenset(values)


_FIELDS = Attribute.__struct_fields__
# Each type's field for one value and for several: string and strings, and so on.
_TYPES = tuple(zip(_FIELDS[:4], _FIELDS[4:], strict=True))
_DECLARATIONS = Schema(tuple[Declaration, ...])


def read_declarations(each: Slice) -> tuple[tuple[Declaration, ...], tuple[Finding, ...]]:
    """Read what a slice's annotation declares of its devices: a list, as in the configuration.

    An entry says nothing of the driver, which is the slice's.
    """
    text = each.annotations.get(COMPATIBILITY_ANNOTATION)
    if text is None:
        return (), ()
    about, path = f"ResourceSlice/{each.name}", f"metadata.annotations[{COMPATIBILITY_ANNOTATION}]"
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        return (), (codes.UNREADABLE_JSON.at(path, f"{error}", object=about),)
    read = convert(plain, _DECLARATIONS, path=path, object=about)
    if read and isinstance(read[0], Finding):
        return (), read
    foreign = tuple(
        codes.NOT_ALLOWED.at(
            f"{path}[{i}].driver",
            f"driver is {each_said.driver}, but an annotation applies only to devices of its own slice",
            object=about,
            remedy="Remove the driver field.",
        )
        for i, each_said in enumerate(read)
        if each_said.driver not in ("", each.driver)
    )
    return (() if foreign else read), foreign
