"""Pruning of a search: counting bounds, and keys for interchangeable devices.

Pruning is sound: it loses no solution and no error that the scheduler would report. Counting
therefore stops before the first request whose devices may cause an error.
"""

import marshal
from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import Any, Final

from msgspec.structs import astuple

from drawbridge.digest import digest
from drawbridge.dra.compatibility import GroupState
from drawbridge.dra.device import Attribute
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import DistinctConstraint, typed_values
from drawbridge.solver.demand import Abort, Option, RequestDemand
from drawbridge.solver.needs import (
    MAX_COMBINATIONS,
    Bits,
    Choice,
    DeviceNeed,
    OptionProfile,
    exceeds_supply,
    restrict,
)
from drawbridge.solver.rule_bounds import RuleBounds
from drawbridge.solver.search import Pruning, Search
from drawbridge.solver.state import CONSTRAINTS_PER_STEP, Rejection, State

# As many rounds of a loop that only counts take about as long as one step.
_ROUNDS_PER_STEP = 8
# Equal contents are equal bytes: later versions also write which parts are one object.
_MARSHAL_VERSION: Final = 2


class SearchBounds:
    """The pruning of one search."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self._spend = search.meter.spend
        self.state = search.state
        self.demand = search.state.demand
        self.candidates = self.state.node_view.candidates
        self.active_rules = self.state.active_rules
        self.initial = State(self.demand, self.state.node_view, self.active_rules)
        self.bit = {candidate: 1 << i for i, candidate in enumerate(self.candidates)}
        self._all: Bits = (1 << len(self.candidates)) - 1
        # The last candidates of each order, by their number. The search keeps the orders.
        self._behind: dict[int, list[Bits]] = {}
        self.shared: Bits = sum(bit for each, bit in self.bit.items() if each.shared)
        self._profiles_by_key: dict[Hashable, OptionProfile] = {}
        self._equivalence_classes: dict[Candidate, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self.profiles = {option: self._profile(option) for option in self.demand.options()}
        # What no option can have makes no difference, whatever its driver declares.
        self._usable: Bits = 0
        for profile in self._profiles_by_key.values():
            self._usable |= profile.eligible | profile.failing
        filters = {each.request_filter.key: each.request_filter for each in self.profiles}
        self._filters = [each for _, each in sorted(filters.items())]
        self._rule_bounds = RuleBounds(self.active_rules, self.profiles, self._spend)
        # The attributes that decide whether devices are interchangeable, and the profiles.
        self._attributes_noted = sum(
            1 + len(each.attributes) for each in self._profiles_by_key.values()
        )
        # Mode All takes its devices in order, and the order decides between a rejection and an
        # error. Devices are not interchangeable then.
        self._order_matters = any(o.all_mode and self._may_abort(o) for o in self.profiles)

    def is_impossible(self) -> bool:
        """Return whether counting proves that there is no solution."""
        needs = self._needs_from(0, 0)
        return needs is None or self._cannot_satisfy(self.initial, needs)

    def is_hopeless(self, option: Option, number: int, start: int) -> bool:
        """Return whether counting proves that no solution follows."""
        profile = self.profiles[option]
        if self._may_abort(option):
            return False
        taken = 0 if option.admin else self._exclusive_devices(self.state)
        free = profile.eligible & ~taken
        behind = free if option.all_mode else free & self._candidates_from(option, start)
        first = DeviceNeed(self._count(option) - number, ((option, behind),))
        if first.wanted > behind.bit_count():
            return True
        needs = self._needs_from(option.request_index + 1, taken)
        return needs is None or self._cannot_satisfy(self.state, [first, *needs])

    def equivalence_class(self, candidate: Candidate) -> int:
        """Return a key that is equal for interchangeable candidates."""
        cached = self._equivalence_classes.get(candidate)
        if cached is None:
            kind = candidate if self._order_matters else self._device_kind(candidate)
            cached = self._equivalence_classes[candidate] = self._kinds.setdefault(
                kind, len(self._kinds)
            )
        return cached

    def state_key(self, option: Option) -> Hashable:
        """Return a key that is equal for states that differ only in interchangeable devices."""
        if self._order_matters:
            return None
        self._spend(len(self.state.trail) // _ROUNDS_PER_STEP)
        alone: list[tuple[object, ...]] = []
        sharing: dict[Candidate, list[tuple[object, ...]]] = {}
        for taken in self.state.trail:
            option_there = taken.option if taken.option.claim == option.claim else None
            how: tuple[object, ...] = (taken.option.admin,)
            if option_there is not None:
                sides = self.active_rules.sides_of(option_there.request_index)
                derives = id(option_there) if option_there.derived_attributes else 0
                how = (*how, option_there.constraint_indexes, derives, sides)
            if taken.candidate.shared:
                amounts = tuple(sorted((k, v.nanos()) for k, v in (taken.amounts or {}).items()))
                sharing.setdefault(taken.candidate, []).append((how, amounts))
            else:
                alone.append((self.equivalence_class(taken.candidate), how))
        together = [
            (self.equivalence_class(candidate), tuple(sorted(held)))
            for candidate, held in sharing.items()
        ]
        return option, tuple(sorted(alone)), tuple(sorted(together))

    def node_state_key(self) -> bytes | None:
        """Return a key that is equal for nodes with equal searches; None if there is none.

        It is short, because it is kept: a driver decides how many amounts its devices have.
        """
        if self._order_matters or any(each.failing for each in self._profiles_by_key.values()):
            return None
        node_view = self.state.node_view
        usable = {each.pool for each, bit in self.bit.items() if self._usable & bit}
        if any(map(node_view.has_rules, {each.driver for each in usable})):
            return None
        pools = tuple(
            (
                tuple(sorted(node_view.counters(pool).remaining.items())),
                tuple(
                    (key.name, _describe_groups(company))
                    for key, company in sorted(node_view.group_states(pool).items())
                ),
            )
            if pool in usable
            else None
            for pool in node_view.by_id
        )
        kinds = tuple([self._device_kind(candidate) for candidate in self.candidates])
        content: Any = (kinds, pools, self.search.orders.positions())
        return digest(marshal.dumps(content, _MARSHAL_VERSION))

    def _candidates_from(self, option: Option, start: int) -> Bits:
        """Return the candidates from a position on, in the order of an option."""
        order = self.search.orders.candidates_for(option)
        if order is self.candidates:
            return self._all >> start << start
        behind = self._behind.get(id(order))
        if behind is None:
            behind = self._behind[id(order)] = [0]
            for candidate in reversed(order):
                behind.append(behind[-1] | self.bit[candidate])
        return behind[len(order) - start]

    def _profile(self, option: Option) -> OptionProfile:
        rules = self.active_rules.sides_of(option.request_index)
        key = (option.equivalence_key(), rules)
        cached = self._profiles_by_key.get(key)
        if cached is None:
            rule_attributes = sorted(self.active_rules.attributes_of(option.request_index))
            keys: list[int | str] = [*option.constraint_indexes, *rule_attributes]
            cached = self._profiles_by_key[key] = OptionProfile(keys)
            all_mode_devices = self.search.orders.all_mode_devices
            for candidate in all_mode_devices[option] if option.all_mode else self.candidates:
                self._classify(cached, option, candidate)
        return cached

    def _classify(self, profile: OptionProfile, option: Option, candidate: Candidate) -> None:
        """Add a candidate to the profile of an option."""
        self._spend(1)
        bit = self.bit[candidate]
        try:
            if isinstance(self.initial.check_device(option, candidate), Rejection):
                return
        except Abort:
            profile.failing |= bit
            return
        # The attributes of constraints and rules are read once more.
        self._spend(
            self.active_rules.step_cost(option.request_index)
            - 1
            + len(option.constraint_indexes) // CONSTRAINTS_PER_STEP
        )
        profile.eligible |= bit
        for index in option.constraint_indexes:
            constraint = self.demand.constraints[option.claim][index]
            attribute = self.initial.attribute(option, candidate, constraint.name)
            if attribute is not None:
                profile.note(index, candidate, attribute, constraint.values(attribute), bit)
        device = self.initial.rule_device(option, candidate)
        for name in self.active_rules.attributes_of(option.request_index):
            attribute = device.find_attribute(name)
            values = typed_values(attribute) if attribute is not None else ()
            if attribute is not None and values:
                profile.note(name, candidate, attribute, values, bit)

    def _device_kind(self, candidate: Candidate) -> Hashable:
        self._spend(self._attributes_noted // _ROUNDS_PER_STEP)
        bit = self.bit[candidate]
        if not self._usable & bit:
            return None
        eligibility = tuple(
            (
                bool(profile.eligible & bit),
                bool(profile.failing & bit),
                tuple([_describe(each.get(candidate)) for each in profile.attributes.values()]),
            )
            for profile in self._profiles_by_key.values()
        )
        draws = None
        if candidate.counter_uses:
            uses = tuple(
                (use.counter_set, use.compatibility_groups) for use in candidate.counter_uses
            )
            # Pools by position, so that nodes with different pool names can share results.
            pool = list(self.state.node_view.by_id).index(candidate.pool)
            draws = (pool, uses, tuple(sorted(candidate.draw.items())))
        alone = candidate if self.state.node_view.has_rules(candidate.pool.driver) else None
        return (eligibility, draws, alone, self._share_key(candidate) if candidate.shared else None)

    def _share_key(self, candidate: Candidate) -> Hashable:
        """Return a key of a shareable device: its capacity, allocated and requested amounts."""
        held = self.state.node_view.uses[candidate.pool].shares.get(candidate.name)
        self._spend(1 + len(self._filters))
        requested = (each.required_capacity(candidate).amounts for each in self._filters)
        amounts = [{k: each.value for k, each in candidate.device.capacity.items()}, *requested]
        return (
            held is not None,
            tuple(sorted((k, v.nanos()) for k, v in (held or {}).items())),
            tuple(tuple(sorted((k, v.nanos()) for k, v in each.items())) for each in amounts),
        )

    def _count(self, option: Option) -> int:
        return (
            len(self.search.orders.all_mode_devices[option])
            if option.all_mode
            else option.wanted.count
        )

    def _may_abort(self, option: Option) -> bool:
        """Return whether an error can occur while the devices of the option are tried."""
        aborts = option.all_mode and option.constraint_indexes
        if aborts and not self.state.node_view.world.deviations.all_goes_back:
            return True
        return bool(self.profiles[option].failing)

    def _exclusive_devices(self, state: State) -> Bits:
        """Return the chosen devices that cannot be shared."""
        taken = 0
        self._spend(len(state.trail) // _ROUNDS_PER_STEP)
        for step in state.trail:
            taken |= self.bit[step.candidate]
        return taken & ~self.shared

    def _needs_from(self, request: int, taken: Bits) -> list[DeviceNeed] | None:
        """Return the needs of the requests from `request` on, up to the first that may abort.

        Returns None if a request cannot be satisfied.
        """
        needs = []
        for following in self.demand.requests[request:]:
            self._spend((len(following.options) + 3) // _ROUNDS_PER_STEP)
            if any(self._may_abort(option) for option in following.options):
                break
            need = self._need_of(following, taken)
            if need is None:
                return None
            needs.append(need)
        return needs

    def _need_of(self, request: RequestDemand, taken: Bits) -> DeviceNeed | None:
        parts: list[tuple[Option, Bits]] = []
        count = 0
        for option in request.options:
            eligible = self.profiles[option].eligible
            free = eligible if option.admin else eligible & ~taken
            wanted = self._count(option)
            if wanted and wanted <= free.bit_count():
                count = min(count, wanted) if parts else wanted
                parts.append((option, free))
        return DeviceNeed(count, tuple(parts)) if parts else None

    def _cannot_satisfy(self, state: State, needs: Sequence[DeviceNeed]) -> bool:
        if self._has_shortage(needs):
            return True
        options = [option for need in needs for option, _ in need.parts]
        by_rule = list(self._rule_bounds.choices(state.rules, needs))
        if not by_rule and not any(option.constraint_indexes for option in options):
            return False
        if any(
            self._lacks_distinct_values(state, about)
            for about in self._by_constraint(needs, DistinctConstraint)
        ):
            return True
        return all(
            self._has_shortage(restricted)
            for restricted in self._by_common_values(state, needs, by_rule)
        )

    def _has_shortage(self, needs: Sequence[DeviceNeed]) -> bool:
        """Return whether there are too few devices for some of the needs together."""
        self._spend(1 + len(needs))
        exclusive: dict[Bits, int] = {}
        for need in needs:
            union = need.union
            count = need.wanted - (union & self.shared).bit_count()  # each shareable device once
            if count > 0 and not need.parts[0][0].admin:
                alone = union & ~self.shared
                exclusive[alone] = exclusive.get(alone, 0) + count
            elif need.wanted > union.bit_count():
                return True
        return exceeds_supply(exclusive)

    def _by_constraint(
        self, needs: Sequence[DeviceNeed], kind: type
    ) -> Iterator[tuple[int, int, tuple[DeviceNeed, ...]]]:
        """Yield the constraints of a kind with the needs that they always apply to."""
        for claim, of_claim in sorted(_by_claim(needs).items()):
            for index, constraint in enumerate(self.demand.constraints[claim]):
                if not isinstance(constraint, kind):
                    continue
                parts = sum(len(need.parts) for need in of_claim)
                self._spend(1 + parts // _ROUNDS_PER_STEP)
                about = tuple(
                    need
                    for need in of_claim
                    if all(index in option.constraint_indexes for option, _ in need.parts)
                )
                if about:
                    yield claim, index, about

    def _lacks_distinct_values(
        self, state: State, about: tuple[int, int, tuple[DeviceNeed, ...]]
    ) -> bool:
        """Return whether the needs require more distinct values than there are."""
        claim, index, needs = about
        numbers: dict[Hashable, Bits] = {}
        used: set[Hashable] = set()
        now = state.constraints[claim][index]
        for attribute in now if isinstance(now, tuple) else ():
            used |= self.demand.constraints[claim][index].values(attribute)
        wanted: dict[Bits, int] = {}
        for need in needs:
            union = 0
            for option, bits in need.parts:
                by_value = self.profiles[option].by_value.get(index, {})
                self._spend(1 + len(by_value) // _ROUNDS_PER_STEP)
                for value, having in by_value.items():
                    if having & bits and value not in used:
                        union |= numbers.setdefault(value, 1 << len(numbers))
            wanted[union] = wanted.get(union, 0) + need.wanted
        return exceeds_supply(wanted)

    def _by_common_values(
        self, state: State, needs: Sequence[DeviceNeed], by_rule: Sequence[Sequence[Choice]]
    ) -> Iterator[Sequence[DeviceNeed]]:
        """Yield the needs once for each choice of the values that devices must have in common."""
        choices_of_values: list[Sequence[Choice]] = []
        combinations = 1
        by_claim = _by_claim(needs)
        of_constraints = (
            self._common_value_choices(state, claim, index, by_claim[claim])
            for claim, index in self._match_constraints(needs)
        )
        for choices in (*by_rule, *of_constraints):
            if combinations * len(choices) <= MAX_COMBINATIONS:
                combinations *= len(choices)
                choices_of_values.append(choices)
        for chosen in product(*choices_of_values):
            together = self._together(chosen)
            yield [restrict(need, together) for need in needs]

    def _together(self, chosen: Sequence[Choice]) -> Choice:
        """Return the candidates of each option that all choices have."""
        together: dict[Option, Bits] = {}
        for choice in chosen:
            self._spend(1 + len(choice) // _ROUNDS_PER_STEP)
            for option, bits in choice.items():
                together[option] = together.get(option, bits) & bits
        return together

    def _match_constraints(self, needs: Sequence[DeviceNeed]) -> Iterator[tuple[int, int]]:
        options = sum(len(need.parts) for need in needs)
        self._spend(1 + options)
        covered = {
            (o.claim, index)
            for need in needs
            for o, _ in need.parts
            for index in o.constraint_indexes
        }
        for claim, index in sorted(covered):
            if not isinstance(self.demand.constraints[claim][index], DistinctConstraint):
                yield claim, index

    def _common_value_choices(
        self, state: State, claim: int, index: int, needs: Sequence[DeviceNeed]
    ) -> list[Choice]:
        """Return a choice for each value that the devices of a constraint can have in common.

        A choice has, for each option that the constraint covers, the devices with the value. A
        value is no choice if a need that the constraint covers as a whole has too few of them.
        """
        by_value = {
            option: self.profiles[option].by_value.get(index, {})
            for need in needs
            for option, _ in need.parts
            if option.claim == claim and index in option.constraint_indexes
        }
        # The devices that are chosen already fix the values. Before the first one, all count.
        now = state.constraints[claim][index]
        constraint = self.demand.constraints[claim][index]
        values = constraint.values(now) if isinstance(now, Attribute) else now
        assert values is None or isinstance(values, frozenset)  # noqa: S101  # the state of a MatchConstraint
        values = values or frozenset(value for devices in by_value.values() for value in devices)
        self._spend(1 + (1 + len(values)) * len(by_value) // _ROUNDS_PER_STEP)
        choices = (
            {option: devices.get(value, 0) for option, devices in by_value.items()}
            for value in values
        )
        covered = [need for need in needs if all(option in by_value for option, _ in need.parts)]
        return [
            choice
            for choice in choices
            if all(restrict(need, choice).union.bit_count() >= need.wanted for need in covered)
        ]


def _describe(attribute: Attribute | None) -> Hashable:
    return None if attribute is None else astuple(attribute)


def _describe_groups(state: GroupState) -> Hashable:
    return state.members, None if state.groups is None else tuple(sorted(state.groups))


def _by_claim(needs: Sequence[DeviceNeed]) -> dict[int, list[DeviceNeed]]:
    by_claim: dict[int, list[DeviceNeed]] = {}
    for need in needs:
        by_claim.setdefault(need.parts[0][0].claim, []).append(need)
    return by_claim


_: type[Pruning] = SearchBounds
