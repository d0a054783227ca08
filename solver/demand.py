"""What a pod's claims demand, checked as the scheduler checks it before it searches.

Claims become one row of wishes, each with the options that would satisfy it. Nothing here depends
on a node, so that one demand serves all of them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from dra.capacity import Amounts
from dra.claim import ALL, EXACT_COUNT, Choice, Claim, Exactly, Request, Wanted, choices, covers
from dra.classes import DeviceClass
from dra.gates import Gates
from solver.abort import Abort, Cause
from solver.constraints import Constraint, Distinct, Match
from solver.eligibility import Screen

MOST_RESULTS = 32


class Screens(Protocol):
    """Gives the screen of a class's and a request's selectors and amounts."""

    def __call__(
        self, selectors: tuple[tuple[str, ...], tuple[str, ...]], asked: Amounts
    ) -> Screen:
        """Give the same screen for the same question."""


class Option(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a wish; `covered` are the claim's constraints that are about it."""

    claim: int
    wish: int
    name: str
    wanted: Wanted
    admin: bool
    every: bool
    device_class: DeviceClass
    screen: Screen
    covered: tuple[int, ...]
    derived: Mapping[str, str]

    def question(self) -> Hashable:
        """Give what is equal for options that ask the same of every device."""
        return (
            self.screen,
            self.wanted.tolerations,
            self.admin,
            self if self.every else None,
            self.covered,
            self.claim if self.covered else -1,
            tuple(sorted(self.derived.items())),
        )


class Wish(msgspec.Struct, frozen=True, eq=False):
    """One request of a claim; with `prioritized` its first option that leads anywhere counts."""

    claim: int
    request: Request
    options: tuple[Option, ...]
    prioritized: bool


class Demand(msgspec.Struct, frozen=True, eq=False):
    """The wishes of all claims in order, and for each claim its constraints."""

    claims: tuple[Claim, ...]
    wishes: tuple[Wish, ...]
    constraints: tuple[tuple[Constraint, ...], ...]

    def options(self) -> Iterator[Option]:
        """Give all options of all wishes."""
        return (option for wish in self.wishes for option in wish.options)


def demand(
    claims: Sequence[Claim], classes: Mapping[str, DeviceClass], gates: Gates, screens: Screens
) -> Demand:
    """Check claims in the scheduler's order; raises Abort with the first thing that is wrong."""
    room = _Room(claims, classes, gates, screens)
    wishes: list[Wish] = []
    constraints = []
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            try:
                wishes.append(_wish(number, len(wishes), request, room))
            except _WrongError as wrong:
                where = f"claim {shown(claim)}, request {request.name}"
                raise Abort(Cause.REFUSED, f"{where}: {wrong}") from None
        _check_size(claim)
        constraints.append(_constraints(claim, gates))
    return Demand(tuple(claims), tuple(wishes), tuple(constraints))


class _Room(NamedTuple):
    """What claims are checked against."""

    claims: Sequence[Claim]
    classes: Mapping[str, DeviceClass]
    gates: Gates
    screens: Screens


def shown(claim: Claim) -> str:
    """Name a claim in a message."""
    metadata = claim.metadata
    name = metadata.name or metadata.generate_name
    return f"{metadata.namespace}/{name}" if metadata.namespace else name


class _WrongError(Exception):
    """What is wrong with a request."""


def _wish(number: int, at: int, request: Request, room: _Room) -> Wish:
    prioritized = bool(request.first_available)
    if prioritized and not room.gates.prioritized_list:
        raise _WrongError("it has subrequests, but the DRAPrioritizedList feature is disabled")
    # A request with both forms, which no API server takes, is what its alternatives say.
    ways = choices(Request(request.name, None, request.first_available) if prioritized else request)
    if not room.gates.consumable_capacity and any(way.wanted.capacity for way in ways):
        text = "it has capacity requests, but the DRAConsumableCapacity feature is disabled"
        raise _WrongError(text)
    if not ways:
        raise _WrongError("missing device class name (unsupported request type?)")
    return Wish(number, request, tuple(_option(number, at, way, room) for way in ways), prioritized)


def _option(number: int, at: int, way: Choice, room: _Room) -> Option:
    wanted = way.wanted
    device_class = _checked(way, room.classes, room.gates)
    asked = wanted.capacity.requests if wanted.capacity else {}
    return Option(
        claim=number,
        wish=at,
        name=way.name,
        wanted=wanted,
        admin=way.admin_access,
        every=wanted.allocation_mode == ALL,
        device_class=device_class,
        screen=room.screens(_selectors(device_class, wanted), asked),
        covered=_covered(room.claims[number], way.name),
        derived={each.name: each.expression for each in wanted.derived_attributes},
    )


def _checked(way: Choice, classes: Mapping[str, DeviceClass], gates: Gates) -> DeviceClass:
    wanted = way.wanted
    if wanted.derived_attributes and not gates.derived_attributes:
        raise _WrongError("it has derived attributes, but the feature is disabled")
    for index, selector in enumerate(wanted.selectors):
        if selector.cel is None:
            text = f"selector #{index}: CEL expression empty (unsupported selector type?)"
            raise _WrongError(text)
    said = isinstance(wanted, Exactly) and wanted.admin_access is not None
    if said and not gates.admin_access:
        raise _WrongError("admin access is requested, but the feature is disabled")
    name = wanted.device_class_name
    if not name:
        raise _WrongError("missing device class name (unsupported request type?)")
    if name not in classes:
        raise _WrongError(f"there is no device class {name}")
    if wanted.allocation_mode not in (ALL, EXACT_COUNT):
        raise _WrongError(f"unsupported count mode {wanted.allocation_mode}")
    for index, selector in enumerate(classes[name].spec.selectors):
        if selector.cel is None:
            raise _WrongError(f"device class {name}: selector #{index} has no CEL expression")
    return classes[name]


def _selectors(
    device_class: DeviceClass, wanted: Wanted
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    of_class, of_request = (
        tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
        for selectors in (device_class.spec.selectors, wanted.selectors)
    )
    return of_class, of_request


def _covered(claim: Claim, name: str) -> tuple[int, ...]:
    return tuple(
        index
        for index, constraint in enumerate(claim.spec.devices.constraints)
        if covers(constraint.requests, name)
    )


def _check_size(claim: Claim) -> None:
    """Refuse a claim whose exact counts alone are too many; mode All is counted on the node."""
    minimum = least(claim, {})
    if minimum > MOST_RESULTS:
        text = f"it needs at least {minimum} devices, a claim can have {MOST_RESULTS}"
        raise Abort(Cause.REFUSED, f"claim {shown(claim)}: {text}")


def least(claim: Claim, of_all: Mapping[str, int]) -> int:
    """Count the devices a claim needs at least; `of_all` by the name of the option."""
    total = 0
    for request in claim.spec.devices.requests:
        total += min(
            of_all.get(way.name, 0) if way.wanted.allocation_mode == ALL else way.wanted.count
            for way in choices(request)
        )
    return total


def _constraints(claim: Claim, gates: Gates) -> tuple[Constraint, ...]:
    # Schedulers before 1.37 never hand the gate to their allocator: lists do not match there.
    lists = gates.list_type_attributes and gates.version >= "1.37"
    made: list[Constraint] = []
    for index, constraint in enumerate(claim.spec.devices.constraints):
        if constraint.match_attribute is not None:
            made.append(Match(constraint.match_attribute, lists=lists))
        elif constraint.distinct_attribute is not None:
            made.append(Distinct(constraint.distinct_attribute, lists=lists))
        else:
            text = f"constraint #{index}: empty constraint (unsupported constraint type?)"
            raise Abort(Cause.REFUSED, f"claim {shown(claim)}, {text}")
    return tuple(made)
