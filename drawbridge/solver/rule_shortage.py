"""Explains by counting why the free devices of a node cannot satisfy a required rule.

It counts only where one attribute decides: all free devices of the rule publish it, each with one
value. Otherwise, the dead end of the search is the reason.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from drawbridge.dra.counted import list_some
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import typed_values
from drawbridge.solver.demand import Option
from drawbridge.solver.filter_stages import filter_candidates
from drawbridge.solver.rules import GroupRule
from drawbridge.solver.state import State

MAX_GROUPS_NAMED = 3


class RuleShortage(NamedTuple):
    """The free devices of a rule, how many of them can be used together, and the message."""

    before: int
    after: int
    message: str


class _Free(NamedTuple):
    """The free devices of a request by group, and the least number that it needs."""

    name: str
    groups: Mapping[Hashable, int]
    requested: int


def find_rule_shortage(state: State) -> RuleShortage | None:
    """Return the shortage of the first required rule that has one."""
    for rule in state.active_rules.rules:
        attribute = rule.attributes[0]
        sides = [[_free(state, at, attribute) for at in sorted(side)] for side in rule.sides]
        published = [[each for each in side if each is not None] for side in sides]
        if published != sides:
            continue
        shortage = (_near if len(published) == 1 else _joint)(rule, attribute, published)
        if shortage is not None:
            return shortage
    return None


def _free(state: State, request_index: int, attribute: str) -> _Free | None:
    """Return the free devices of a request; None if the attribute does not decide about them."""
    request = state.demand.requests[request_index]
    devices: dict[Candidate, Option] = {}
    for option in request.options:
        for candidate in filter_candidates(state, option, state.node_view.candidates).remaining:
            devices.setdefault(candidate, option)
    groups: Counter[Hashable] = Counter()
    for candidate, option in devices.items():
        typed = state.rule_device(option, candidate).find_attribute(attribute)
        values = typed_values(typed) if typed is not None else ()
        if len(values) != 1:
            return None
        groups.update(values)
    return _Free(request.request.name, groups, min(o.wanted.count for o in request.options))


def _near(rule: GroupRule, attribute: str, sides: Sequence[Sequence[_Free]]) -> RuleShortage | None:
    (requests,) = sides
    groups = {group for each in requests for group in each.groups}
    needed = sum(each.requested for each in requests)
    most = max(
        (sum(min(each.groups.get(group, 0), each.requested) for each in requests))
        for group in groups or {None}
    )
    if most >= needed:
        return None
    devices = f"{most} free {'device' if most == 1 else 'devices'} for {rule.names[0]}"
    text = f"at most {devices} with the same {attribute}, {needed} requested"
    return _shortage(rule, sides, most, text)


def _joint(
    rule: GroupRule, attribute: str, sides: Sequence[Sequence[_Free]]
) -> RuleShortage | None:
    of_sides = [{group for each in side for group in each.groups} for side in sides]
    common = set.intersection(*of_sides)
    names = " and ".join(rule.names)
    if not common:
        where = "; ".join(
            f"{name}: {_list(groups)}" for name, groups in zip(rule.names, of_sides, strict=True)
        )
        return _shortage(rule, sides, 0, f"no {attribute} has free devices for {names} ({where})")
    limit = min(len(common), *rule.counts)
    for member in (each for side in sides for each in side):
        largest = sorted((member.groups.get(group, 0) for group in common), reverse=True)
        most = sum(largest[:limit])
        if most < member.requested:
            devices = f"{most} free {'device' if most == 1 else 'devices'} for {member.name}"
            text = f"at most {devices} in {limit} {attribute} with devices for {names}"
            return _shortage(rule, sides, most, f"{text}, {member.requested} requested")
    return None


def _shortage(
    rule: GroupRule, sides: Sequence[Sequence[_Free]], after: int, text: str
) -> RuleShortage:
    before = sum(sum(each.groups.values()) for side in sides for each in side)
    return RuleShortage(before, after, f"{text} ({rule.name})")


def _list(groups: set[Hashable]) -> str:
    """Return the values of some groups, shortened."""
    values = sorted(str(group[1]) if isinstance(group, tuple) else "" for group in groups)
    return list_some(values, MAX_GROUPS_NAMED, "value") or "none"
