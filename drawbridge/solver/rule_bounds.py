"""Which groups the devices of rules can still be in, to prune a search by counting.

A choice is a set of groups, with the candidates of each option in them. Without any choice there is
no solution. The choices are necessary conditions only: they lose no solution.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from drawbridge.solver.demand import Option
from drawbridge.solver.needs import (
    MAX_COMBINATIONS,
    Bits,
    Choice,
    DeviceNeed,
    OptionProfile,
    restrict,
)
from drawbridge.solver.rules import ActiveRules, GroupRule, RuleState, SideGroups

# As many take about as long as one step of the search.
_GROUPS_PER_STEP = 8
_OPTIONS_PER_STEP = 2


class _Supply(NamedTuple):
    """The candidates of the options of a rule by group, and its needs by side."""

    by_group: Mapping[Option, Mapping[Hashable, Bits]]
    needs: tuple[tuple[DeviceNeed, ...], ...]

    def groups_of(self, side: int) -> frozenset[Hashable]:
        """Return the groups in which a side can get one more device."""
        return frozenset(
            group
            for need in self.needs[side]
            for option, bits in need.parts
            for group, having in self.by_group[option].items()
            if having & bits
        )

    def choice(self, groups: frozenset[Hashable]) -> Choice | None:
        """Return the candidates in some groups; None if they are too few."""
        chosen: dict[Option, Bits] = {}
        for option, having in self.by_group.items():
            bits = 0
            for group in groups:
                bits |= having.get(group, 0)
            chosen[option] = bits
        for needs in self.needs:
            for need in needs:
                if restrict(need, chosen).union.bit_count() < need.wanted:
                    return None
        return chosen


class RuleBounds:
    """The groups that each rule of one search can have."""

    def __init__(
        self,
        active: ActiveRules,
        profiles: Mapping[Option, OptionProfile],
        spend: Callable[[int], None],
    ) -> None:
        # An error while devices are tried must not be lost.
        prunes = not any(each.failing for each in profiles.values())
        self._active = active
        self._profiles = profiles
        self._spend = spend
        by_request: dict[int, list[OptionProfile]] = {}
        for option, profile in profiles.items():
            by_request.setdefault(option.request_index, []).append(profile)
        self._attributes = [
            _deciding(rule, by_request, spend) if prunes else () for rule in active.rules
        ]

    def choices(
        self,
        states: Sequence[RuleState],
        needs: Sequence[DeviceNeed],
    ) -> Iterator[Sequence[Choice]]:
        """Yield, for each rule that limits the needs, the possible choices of groups."""
        by_request = {need.parts[0][0].request_index: need for need in needs}
        for index, attributes in enumerate(self._attributes):
            rule, state = self._active.rules[index], states[index]
            if not attributes:
                continue
            self._spend(1 + sum(map(len, rule.sides)) // _GROUPS_PER_STEP)
            of_sides = tuple(tuple(_needs_of(side, by_request)) for side in rule.sides)
            if not any(of_sides):
                continue
            choices: list[Choice] = []
            for name, groups in zip(attributes, state.groups, strict=False):
                if groups is not None:
                    by_group = {
                        option: self._profiles[option].by_value.get(name, {})
                        for of_side in of_sides
                        for need in of_side
                        for option, _ in need.parts
                    }
                    options = sum(len(need.parts) for of_side in of_sides for need in of_side)
                    numbers = sum(map(len, by_group.values()))
                    self._spend(1 + (options + numbers) // _GROUPS_PER_STEP)
                    for choice in _choices(groups, state.left, _Supply(by_group, of_sides)):
                        self._spend(1 + options // _OPTIONS_PER_STEP)
                        choices.append(choice)
            yield choices


def _deciding(
    rule: GroupRule,
    by_request: Mapping[int, Sequence[OptionProfile]],
    spend: Callable[[int], None],
) -> Sequence[str]:
    """Return the attributes up to the first one that all candidates publish.

    Returns none if a device has several values of an attribute, because it is in several groups.
    """
    requests = frozenset[int]().union(*rule.sides)
    # Alike options share a profile.
    about = list({id(each): each for at in requests for each in by_request[at]}.values())
    for number, name in enumerate(rule.attributes):
        published = [each.by_value.get(name, {}) for each in about]
        spend(1 + (len(requests) + sum(map(len, published))) // _GROUPS_PER_STEP)
        numbers = [sum(bits.bit_count() for bits in groups.values()) for groups in published]
        if any(
            number > len(profile.attributes.get(name, {}))
            for number, profile in zip(numbers, about, strict=True)
        ):
            return ()
        if all(
            number == profile.eligible.bit_count()
            for number, profile in zip(numbers, about, strict=True)
        ):
            return rule.attributes[: number + 1]
    return rule.attributes


def _needs_of(side: frozenset[int], needs: Mapping[int, DeviceNeed]) -> Iterator[DeviceNeed]:
    """Yield the needs of the requests of a side, in order."""
    return (needs[at] for at in sorted(side) if at in needs)


def _choices(
    sides: tuple[SideGroups, ...], left: tuple[int, ...], supply: _Supply
) -> Iterator[Choice]:
    """Yield the choices of groups with enough candidates, after the devices so far."""
    used = [_values(side) for side in sides]
    together = frozenset[Hashable]().union(*used)
    if len(sides) == 1:
        groups = together or supply.groups_of(0)
        sets = [frozenset({group}) for group in groups] if len(together) < 2 else []
    else:
        sets = list(_group_sets(used, together, left, supply))
    yield from (choice for each in sets if (choice := supply.choice(each)) is not None)


def _group_sets(
    used: Sequence[frozenset[Hashable]],
    together: frozenset[Hashable],
    left: tuple[int, ...],
    supply: _Supply,
) -> Iterator[frozenset[Hashable]]:
    """Yield the largest sets of groups that all sides can have devices in.

    Each side needs one device for each group that it has none in, so `left` limits the number of
    further groups.
    """
    possible = [supply.groups_of(side) for side in range(len(used))]
    spare = min(count - len(together - mine) for count, mine in zip(left, used, strict=True))
    if spare < 0 or any(together - mine - free for mine, free in zip(used, possible, strict=True)):
        return
    further = sorted(frozenset.intersection(*possible) - together, key=repr)
    spare = min(spare, len(further))
    if comb(len(further), spare) > MAX_COMBINATIONS:
        yield together.union(further)
        return
    yield from (together.union(each) for each in combinations(further, spare))


def _values(side: SideGroups) -> frozenset[Hashable]:
    return frozenset[Hashable]().union(*side)
