"""Rules of claims about groups of devices, from the annotation `drawbridge.dev/rules`.

The devices of a rule are those of the requests that it names. The first attribute of the rule that
all of them publish divides them into groups. The state of a rule is an immutable value: adding a
device returns a new state, and backtracking restores the old one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from drawbridge.dra.device import Attribute
from drawbridge.dra.rules import Joint, Near, Rules, RuleStrategy
from drawbridge.solver.constraints import TypedValues, typed_values

# The groups of one side of a rule: the values of its devices, without duplicates.
SideGroups: TypeAlias = frozenset[TypedValues]
FindAttribute: TypeAlias = Callable[[str], Attribute | None]
# The time for an attribute of a rule, and for each side there, in all other checks of a device.
_ATTRIBUTE_STEPS, _SIDE_STEPS = 0.5, 0.125
# As many rules, or requests with rules, are copied in about one step.
_COPIED_PER_STEP = 128


class RuleDevice(NamedTuple):
    """A device for a rule: its request, how many devices its alternative gets, its attributes."""

    request_index: int
    requested: int
    find_attribute: FindAttribute


class GroupRule(msgspec.Struct, frozen=True, eq=False):
    """A rule about the groups of devices.

    A side is a set of requests, by their indexes in the demand. With one side (`near`), all devices
    are in one group. With several (`joint`), each side has devices in the groups of the first side,
    in all of them and in no others. `names` are the requests of each side as messages name them,
    and `counts` is the largest number of devices of each side.
    """

    claim: int
    name: str
    sides: tuple[frozenset[int], ...]
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    counts: tuple[int, ...]
    required: bool

    @property
    def check_steps(self) -> float:
        """How many steps the rule adds to the checks of a device."""
        return len(self.attributes) * (_ATTRIBUTE_STEPS + len(self.sides) * _SIDE_STEPS)


class RuleState(NamedTuple):
    """The devices of a rule so far.

    `groups` holds, for each attribute, the groups of each side, or None if a device does not
    publish the attribute. `left` is how many devices each side can still get, and `last` the
    request of the last device.
    """

    groups: tuple[tuple[SideGroups, ...] | None, ...]
    left: tuple[int, ...]
    last: int = -1


class ActiveRules:
    """The rules that one search obeys, by the requests that they are about.

    `most` is the largest number of devices of each request.
    """

    __slots__ = ("_most", "by_request", "checks", "empty", "rules")

    def __init__(
        self,
        rules: Sequence[GroupRule],
        most: Sequence[int],
        before: "ActiveRules | None" = None,
    ) -> None:
        self.rules: tuple[GroupRule, ...] = (*before.rules, *rules) if before else tuple(rules)
        empty = tuple(_empty(rule) for rule in rules)
        self.empty: tuple[RuleState, ...] = (*before.empty, *empty) if before else empty
        self._most = most
        # By request: its rules, and the steps of their checks.
        by_request = dict(before.by_request) if before else {}
        checks = dict(before.checks) if before else {}
        for index, rule in enumerate(rules, len(self.rules) - len(rules)):
            for side, members in enumerate(rule.sides):
                for at in members:
                    by_request[at] = (*by_request.get(at, ()), (index, side))
                    checks[at] = checks.get(at, 0.0) + rule.check_steps
        self.by_request: Mapping[int, tuple[tuple[int, int], ...]] = by_request
        self.checks: Mapping[int, float] = checks

    def step_cost(self, request_index: int) -> int:
        """Return how many steps a device of a request counts."""
        if request_index not in self.checks:
            return 1
        return 1 + math.ceil(self.checks[request_index]) + len(self.rules) // _COPIED_PER_STEP

    def sides_of(self, request_index: int) -> tuple[tuple[int, int], ...]:
        """Return the rules about a request, by number, and its side in each of them."""
        return self.by_request.get(request_index, ())

    def attributes_of(self, request_index: int) -> frozenset[str]:
        """Return the attributes that decide about the devices of a request."""
        sides = self.sides_of(request_index)
        return frozenset(name for index, _ in sides for name in self.rules[index].attributes)

    def extend(
        self, states: tuple[RuleState, ...], device: RuleDevice
    ) -> tuple[RuleState, ...] | GroupRule:
        """Return the states with one more device, or the rule that it violates."""
        new = list(states)
        spare = self._most[device.request_index] - device.requested
        for index, side in self.sides_of(device.request_index):
            new[index] = _add(self.rules[index], states[index], side, device, spare)
            if not is_possible(new[index]):
                return self.rules[index]
        return tuple(new)

    def with_rule(self, rule: GroupRule) -> "ActiveRules":
        """Return these rules and one more."""
        return ActiveRules((rule,), self._most, self)

    @property
    def copy_steps(self) -> int:
        """How many steps it takes to add a rule."""
        return 1 + (len(self.rules) + len(self.by_request)) // _COPIED_PER_STEP

    def holds(self, rule: GroupRule, devices: Iterable[RuleDevice]) -> bool:
        """Return whether the devices of a solution, in search order, satisfy a rule."""
        alone = ActiveRules((rule,), self._most)
        states = alone.empty
        for device in devices:
            extended = alone.extend(states, device)
            if isinstance(extended, GroupRule):
                return False
            states = extended
        return is_possible(states[0])


class ClaimRules(msgspec.Struct, frozen=True, eq=False):
    """The rules of all claims of a demand, in order, and the strategy of each claim.

    `attributes` holds, for each request with rules, their attributes in order, each once.
    """

    required: ActiveRules = ActiveRules((), ())
    preferences: tuple[GroupRule, ...] = ()
    strategies: tuple[RuleStrategy | None, ...] = ()
    attributes: Mapping[int, tuple[tuple[str, ...], ...]] = {}


def compile_rules(
    claims: Sequence[tuple[Rules, Mapping[str, int]]], most: Sequence[int]
) -> ClaimRules:
    """Compile the rules of claims, each with the indexes of its requests by name.

    `most` is the largest number of devices of each request.
    """
    compiled = tuple(
        rule
        for number, (rules, requests) in enumerate(claims)
        for rule in _compile(number, rules, requests, most)
    )
    return ClaimRules(
        ActiveRules([rule for rule in compiled if rule.required], most),
        tuple(rule for rule in compiled if not rule.required),
        tuple(rules.strategy for rules, _ in claims),
        _attributes_by_request(compiled),
    )


def _attributes_by_request(rules: Iterable[GroupRule]) -> Mapping[int, tuple[tuple[str, ...], ...]]:
    by_request: dict[int, dict[tuple[str, ...], None]] = {}
    for rule in rules:
        for at in frozenset().union(*rule.sides):
            by_request.setdefault(at, {})[rule.attributes] = None
    return {at: tuple(names) for at, names in by_request.items()}


def _compile(
    claim: int, rules: Rules, requests: Mapping[str, int], most: Sequence[int]
) -> Iterator[GroupRule]:
    """Yield the rules of one claim in the order in which preferences apply."""
    parts: list[tuple[str, Sequence[Sequence[str]], Joint | Near]] = []
    for number, joint in enumerate(rules.joint):
        others = [(name,) for name in joint.others]
        parts.append((f"joint[{number}]", (joint.primary, *others), joint))
    for number, near in enumerate(rules.near):
        parts.append((f"near[{number}]", (near.requests,), near))
    for name, sides, rule in parts:
        members = tuple(frozenset(requests[request] for request in side) for side in sides)
        counts = tuple(sum(most[at] for at in side) for side in members)
        names = tuple(" and ".join(side) for side in sides)
        yield GroupRule(claim, name, members, names, rule.attributes, counts, rule.required)


def is_possible(state: RuleState) -> bool:
    """Return whether more devices could satisfy the rule, by numbers; exact without any left.

    A later device may publish fewer attributes, until the first one that all publish decides.
    """
    if any(state.left):
        return any(
            sides is not None and groups_can_agree(sides, state.left) for sides in state.groups
        )
    decisive = next((sides for sides in state.groups if sides is not None), None)
    return decisive is not None and groups_can_agree(decisive, state.left)


def groups_can_agree(sides: tuple[SideGroups, ...], left: tuple[int, ...]) -> bool:
    """Return whether the sides can have equal groups after `left` more devices on each of them."""
    if len(sides) == 1:
        return not sides[0] or bool(frozenset.intersection(*sides[0]))
    union = frozenset[TypedValues]().union(*sides)
    if all(len(values) == 1 for values in union):
        return all(len(union - side) <= count for side, count in zip(sides, left, strict=True))
    # A device with several values is in several groups, so one more device can match all others.
    primary, *others = sides
    lacking = [any(not _meets(each, other) for each in primary) for other in others]
    primary_lacks = any(not _meets(each, primary) for other in others for each in other)
    return all(
        count > 0 or not lacks for count, lacks in zip(left, (primary_lacks, *lacking), strict=True)
    )


def _meets(values: TypedValues, side: SideGroups) -> bool:
    return any(values & other for other in side)


def _empty(rule: GroupRule) -> RuleState:
    sides: tuple[SideGroups, ...] = tuple(frozenset() for _ in rule.sides)
    return RuleState(tuple(sides for _ in rule.attributes), rule.counts)


def _add(rule: GroupRule, state: RuleState, side: int, device: RuleDevice, spare: int) -> RuleState:
    """Return the state with one more device of a side.

    The first device of a request shows its alternative, which may have fewer devices than others.
    """
    groups: list[tuple[SideGroups, ...] | None] = []
    for name, sides in zip(rule.attributes, state.groups, strict=True):
        attribute = device.find_attribute(name) if sides is not None else None
        values = typed_values(attribute) if attribute is not None else None
        if sides is None or not values:
            groups.append(None)
        else:
            groups.append((*sides[:side], sides[side] | {values}, *sides[side + 1 :]))
    taken = 1 if state.last == device.request_index else 1 + spare
    left = (*state.left[:side], state.left[side] - taken, *state.left[side + 1 :])
    return RuleState(tuple(groups), left, device.request_index)
