"""Compatibility of devices: groups on counter sets, and rules between pairs of devices.

Groups: all allocated devices that consume one counter set of a pool must have a group in common.
The states are immutable, so that a search can return to an earlier state.

Rules: a CEL expression selects the devices that a device is compatible with. The Kubernetes API has
no such field: the Configuration, an annotation of the ResourceSlice, or a file declares it. Callers
pass a function that evaluates expressions.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from drawbridge.dra import attributes, codes
from drawbridge.dra.decode_errors import Schema, convert
from drawbridge.dra.device import Attribute, CounterUse, Device
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.names import COMPATIBILITY_ANNOTATION


class UnsetGroups(enum.StrEnum):
    """The devices compatible with a device without groups: others without (1.37), or all."""

    ALONE = "alone"
    ALL = "all"


class GroupState(msgspec.Struct, frozen=True):
    """The groups that all devices on a counter set have in common.

    `groups` is None if no device has groups, and empty if the groups of devices are disjoint.
    """

    members: bool = False
    groups: frozenset[str] | None = None

    def admits(self, groups: Iterable[str], unset: UnsetGroups) -> bool:
        """Tell whether a device with these groups is compatible with the devices on the set."""
        requested = frozenset(groups)
        if unset is UnsetGroups.ALL and (not requested or self.groups is None):
            return True
        if self.groups is None:
            return not (self.members and requested)
        return bool(self.groups & requested)

    def with_member(self, groups: Iterable[str], unset: UnsetGroups) -> "GroupState":
        """Return the state with a device that has these groups, even if it is not admitted.

        If a driver changes the groups of allocated devices, devices with and without groups can be
        on one set. The first device decides then, as in Kubernetes.
        """
        requested = frozenset(groups)
        if not requested:
            return GroupState(members=True, groups=self.groups)
        if self.groups is not None:
            return GroupState(members=True, groups=self.groups & requested)
        if self.members and unset is UnsetGroups.ALONE:
            return self
        return GroupState(members=True, groups=requested)


EMPTY_STATE = GroupState()


class CounterSetID(NamedTuple):
    """A counter set of a pool."""

    pool: PoolID
    name: str


# The state of each counter set. A set without devices is absent.
GroupStates = Mapping[CounterSetID, GroupState]


def add_device(
    states: GroupStates, pool: PoolID, uses: Iterable[CounterUse], unset: UnsetGroups
) -> GroupStates | None:
    """Return the states with a device added; None if a counter set does not admit it.

    Call this once per device, not for further shares of a device.
    """
    changed: dict[CounterSetID, GroupState] = {}
    for use in uses:
        key = CounterSetID(pool, use.counter_set)
        state = changed.get(key) or states.get(key, EMPTY_STATE)
        if not state.admits(use.compatibility_groups, unset):
            return None
        changed[key] = state.with_member(use.compatibility_groups, unset)
    return {**states, **changed} if changed else states


def initial_states(
    allocated: Iterable[tuple[PoolID, Sequence[CounterUse]]], unset: UnsetGroups
) -> GroupStates:
    """Return the states for allocated devices: each device once, without admin access.

    The order decides if groups are disjoint: slices for the node by name, then other slices.
    """
    states: dict[CounterSetID, GroupState] = {}
    for pool, uses in allocated:
        for use in uses:
            key = CounterSetID(pool, use.counter_set)
            state = states.get(key, EMPTY_STATE)
            states[key] = state.with_member(use.compatibility_groups, unset)
    return states


class ExpressionEvaluationError(Exception):
    """An expression cannot be evaluated on a device."""


class Peer(msgspec.Struct, frozen=True):
    """A device with its pool."""

    pool: PoolID
    device: Device

    def __str__(self) -> str:
        return f"{self.pool.driver}/{self.pool.name}/{self.device.name}"


# Evaluates an expression on a device. Raises ExpressionEvaluationError.
Evaluate = Callable[[str, Peer], bool]


class Declaration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Compatibility of the devices of a driver. Without `selector`, of all its devices."""

    driver: str = ""
    selector: str = ""
    physical_device: str = ""
    compatible_only_with: str = ""
    groups: tuple[str, ...] | None = None


class Rule(msgspec.Struct, frozen=True):
    """The devices compatible with a device: an expression, or an error if there are none.

    With `physical_device`, the rule applies only to devices with the same value of the attribute.
    """

    expression: str = ""
    physical_device: str = ""
    error: str = ""


def find_rule(
    peer: Peer,
    configured: Iterable[Declaration],
    annotated: Iterable[Declaration],
    evaluate: Evaluate,
) -> Rule | None:
    """Return the rule of a device: from the configuration, else the annotation, else the field.

    The first declaration that selects the device and has an expression applies. If a selector
    cannot be evaluated, the device is incompatible with all devices.
    """
    candidates = (each for each in (*configured, *annotated) if each.compatible_only_with)
    try:
        rules = _first_selecting(peer, candidates, evaluate)
    except ExpressionEvaluationError as error:
        return Rule(error=f"a selector cannot be evaluated: {error}")
    if rules is not None:
        return Rule(rules.compatible_only_with, rules.physical_device)
    plain = peer.device.compatible_only_with
    return Rule(plain.expression) if plain is not None else None


def effective_counter_uses(
    peer: Peer,
    configured: Iterable[Declaration],
    annotated: Iterable[Declaration],
    evaluate: Evaluate,
) -> tuple[CounterUse, ...]:
    """Return the counter consumption of a device, with declared groups replacing published ones.

    Raises ExpressionEvaluationError if a selector cannot be evaluated.
    """
    candidates = (each for each in (*configured, *annotated) if each.groups is not None)
    configuration = _first_selecting(peer, candidates, evaluate)
    uses = peer.device.consumes_counters
    if configuration is None or configuration.groups is None:
        return uses
    return tuple(
        msgspec.structs.replace(use, compatibility_groups=configuration.groups) for use in uses
    )


def _first_selecting(
    peer: Peer, declarations: Iterable[Declaration], evaluate: Evaluate
) -> Declaration | None:
    for declaration in declarations:
        same_driver = declaration.driver in ("", peer.pool.driver)
        if same_driver and (not declaration.selector or evaluate(declaration.selector, peer)):
            return declaration
    return None


class PlacedDevice(msgspec.Struct, frozen=True):
    """A device on a node, allocated or considered for allocation."""

    node: str
    peer: Peer
    rule: Rule | None = None
    admin_access: bool = False


class Incompatibility(msgspec.Struct, frozen=True):
    """Why two devices are incompatible: the rule of `refusing` excludes `refused`, or fails."""

    refusing: Peer
    refused: Peer
    expression: str
    error: str = ""

    def finding(self) -> Finding | None:
        """Return a finding for an evaluation error; None if the rule evaluates to false."""
        if not self.error:
            return None
        message = f"{self.refusing} counts as incompatible with {self.refused}: {self.error}"
        return codes.COMPATIBILITY_ERROR.at("", message, object=f"Device/{self.refusing}")


def find_incompatibility(
    candidate: PlacedDevice, taken: Iterable[PlacedDevice], evaluate: Evaluate
) -> Incompatibility | None:
    """Return the first incompatibility between `candidate` and the allocated devices.

    Checks both directions, for devices of one driver on one node. Admin access is compatible with
    everything. A second share of a device is checked against the device itself.
    """
    for other in taken:
        incompatibility = check_direction(candidate, other, evaluate) or check_direction(
            other, candidate, evaluate
        )
        if incompatibility is not None:
            return incompatibility
    return None


def check_direction(
    asking: PlacedDevice, other: PlacedDevice, evaluate: Evaluate
) -> Incompatibility | None:
    """Check the rule of `one` against `other`, in this direction only."""
    apart = asking.node != other.node or asking.peer.pool.driver != other.peer.pool.driver
    if asking.rule is None or apart or asking.admin_access or other.admin_access:
        return None
    if not _on_one_device(asking.rule.physical_device, asking.peer, other.peer):
        return None
    expression, error = asking.rule.expression, asking.rule.error
    if not error:
        try:
            if evaluate(expression, other.peer):
                return None
        except ExpressionEvaluationError as failed:
            error = f"{failed}"
    return Incompatibility(asking.peer, other.peer, expression, error)


def _on_one_device(attribute: str, peer: Peer, other: Peer) -> bool:
    """Tell whether two devices may be on one physical device: true unless values differ."""
    if not attribute:
        return True
    mine, others = _values(attribute, peer), _values(attribute, other)
    return not mine or not others or bool(mine & others)


def _values(name: str, peer: Peer) -> frozenset[tuple[str, object]]:
    """Return the values of an attribute with their types."""
    domain, identifier = attributes.split_name(name, peer.pool.driver)
    attribute = attributes.find_attribute(peer.device, peer.pool.driver, f"{domain}/{identifier}")
    if attribute is None:
        return frozenset()
    values = set()
    for scalar, several in _TYPES:
        single, many = getattr(attribute, scalar), getattr(attribute, several)
        values |= {
            (scalar, value) for value in (*(many or ()), *(() if single is None else (single,)))
        }
    return frozenset(values)


_FIELDS = Attribute.__struct_fields__
# For each type, the fields for one value and for a list: string and strings, and so on.
_TYPES = tuple(zip(_FIELDS[:4], _FIELDS[4:], strict=True))
_DECLARATIONS = Schema(tuple[Declaration, ...])


def read_declarations(resource_slice: Slice) -> tuple[tuple[Declaration, ...], tuple[Finding, ...]]:
    """Read the compatibility declarations in the annotation of a slice.

    The format is the list of the configuration without `driver`, which is that of the slice.
    """
    text = resource_slice.annotations.get(COMPATIBILITY_ANNOTATION)
    if text is None:
        return (), ()
    about, path = (
        f"ResourceSlice/{resource_slice.name}",
        f"metadata.annotations[{COMPATIBILITY_ANNOTATION}]",
    )
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
            f"driver is {declaration.driver}, but the annotation applies only to its own slice",
            object=about,
            remedy="Remove the driver field.",
        )
        for i, declaration in enumerate(read)
        if declaration.driver not in ("", resource_slice.driver)
    )
    return (() if foreign else read), foreign
