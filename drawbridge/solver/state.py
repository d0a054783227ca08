"""State of a search: the devices chosen so far, and whether one more device can be chosen.

`check_device` runs all checks of a candidate in the scheduler's order and changes nothing. `take`
applies its result, and `undo` reverts the last `take`. All parts are immutable values, so `undo`
restores the previous ones.
"""

from typing import NamedTuple, TypeAlias

from drawbridge.dra.attributes import find_attribute
from drawbridge.dra.capacity import Amounts, find_shortfall
from drawbridge.dra.compatibility import GroupStates, add_device, find_incompatibility
from drawbridge.dra.counters import ConsumedCounters, Counters, Shortage, charge
from drawbridge.dra.device import Attribute
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import NodeSelectorError
from drawbridge.dra.taints import first_untolerated
from drawbridge.solver.candidates import Candidate, rule_evaluator
from drawbridge.solver.constraints import AttributeConstraint
from drawbridge.solver.demand import Abort, Cause, Demand, Option, claim_name
from drawbridge.solver.deviations import relevant_overdrafts
from drawbridge.solver.eligibility import SELECTED, CapacityNeed, SelectorVerdict, Stage
from drawbridge.solver.expressions import EvaluationFailure, WorkRefusal
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.rules import ActiveRules, GroupRule, RuleDevice, RuleState


class Rejection(NamedTuple):
    """The stage at which a device was rejected, and stage-specific details."""

    stage: Stage
    detail: object = None


# What a chosen device changes, as it was before: counters, groups, constraints and rules.
_Before: TypeAlias = tuple[
    Counters | None, GroupStates | None, tuple[object, ...], tuple[RuleState, ...]
]


class UnmetConstraint(NamedTuple):
    """A constraint that a device does not satisfy, and the device's attribute for it."""

    constraint: AttributeConstraint
    attribute: Attribute | None


class ChosenDevice(NamedTuple):
    """A chosen device with the state that results from it."""

    option: Option
    candidate: Candidate
    amounts: Amounts | None
    counters: Counters | None
    group_states: GroupStates | None
    constraints: tuple[object, ...]
    rules: tuple[RuleState, ...]


class _HardwareState(NamedTuple):
    """The groups and free counters with one more device; None if the device uses none."""

    group_states: GroupStates | None
    counters: Counters | None


# As many take about as long as one step: constraints, and devices that are chosen already.
CONSTRAINTS_PER_STEP = 2
_PEERS_PER_STEP = 8
HELD = Rejection(Stage.HELD)
HELD_BY_POD = Rejection(Stage.HELD, "this pod")
OTHER_NODE = Rejection(Stage.NODE)
NO_SHARES: tuple[Amounts, ...] = ()


class State:
    """The devices chosen so far in one search on one node."""

    def __init__(
        self, demand: Demand, node_view: NodeView, active_rules: ActiveRules | None = None
    ) -> None:
        self.demand = demand
        self.node_view = node_view
        self.active_rules = demand.rules.required if active_rules is None else active_rules
        self.rules = self.active_rules.empty
        self._meter = node_view.meter
        self._requests_with_rules = self.active_rules.by_request
        self.trail: list[ChosenDevice] = []
        self.counts = [0] * len(demand.claims)
        self._before: list[_Before] = []
        self._chosen_by: dict[Candidate, list[int]] = {}
        self._shares: dict[Candidate, tuple[Amounts, ...]] = {}
        # The number of shares that were charged to counters.
        self._charges: dict[Candidate, int] = {}
        self._counters: dict[PoolID, Counters] = {}
        self._group_states: GroupStates | None = None
        self._derived: dict[tuple[Candidate, str], Attribute | EvaluationFailure] = {}
        self.constraints = list(demand.without_devices)
        self._gates = node_view.gates
        self._deviations = node_view.world.deviations
        self._errors_reject = node_view.world.errors_reject

    def take(self, option: Option, candidate: Candidate) -> Rejection | None:
        """Choose a device, or return the stage that rejects it; raises Abort."""
        chosen = self.check_device(option, candidate)
        if isinstance(chosen, Rejection):
            return chosen
        claim = option.claim
        counters = self._counters.get(candidate.pool)
        self._before.append((counters, self._group_states, self.constraints[claim], self.rules))
        self.trail.append(chosen)
        self.counts[claim] += 1
        self.constraints[claim] = chosen.constraints
        self.rules = chosen.rules
        self._group_states = chosen.group_states
        if chosen.counters is not None:
            self._counters[candidate.pool] = chosen.counters
        if candidate.shared:
            taken = chosen.amounts or {}
            self._shares[candidate] = (*self._shares.get(candidate, ()), taken)
            self._charges[candidate] = self._charges.get(candidate, 0) + self._draws_counters(
                option
            )
        else:
            self._chosen_by.setdefault(candidate, []).append(claim)
        return None

    def undo(self) -> None:
        """Revert the last `take`."""
        option, candidate, *_ = self.trail.pop()
        counters, self._group_states, constraints, self.rules = self._before.pop()
        self.constraints[option.claim] = constraints
        self.counts[option.claim] -= 1
        if counters is not None:
            self._counters[candidate.pool] = counters
        else:
            self._counters.pop(candidate.pool, None)
        if not candidate.shared:
            self._chosen_by[candidate].pop()
            return
        self._charges[candidate] -= self._draws_counters(option)
        if len(shares := self._shares.pop(candidate)) > 1:
            self._shares[candidate] = shares[:-1]

    def check_device(self, option: Option, candidate: Candidate) -> Rejection | ChosenDevice:
        """Run all checks of a device; raises Abort for an error that ends the search."""
        rejection = self._check_use(option, candidate)
        if rejection is None and not option.all_mode:
            rejection = self.check_selectors(option, candidate) or self._check_capacity(
                option, candidate
            )
        return rejection or self._check_allocatable(option, candidate)

    def check_selectors(self, option: Option, candidate: Candidate) -> Rejection | None:
        """Check the selectors, then whether the device is available to the node."""
        verdict = option.request_filter.check_selectors(candidate)
        if verdict is not SELECTED:
            if verdict.failed is not None and self._ends(verdict.failed):
                raise self._selector_error(option, candidate, verdict)
            return Rejection(verdict.stage or Stage.SUPPORT, verdict)
        try:
            return None if self.node_view.is_on_node(candidate) else OTHER_NODE
        except NodeSelectorError as error:
            if self._errors_reject:
                return OTHER_NODE
            raise selector_abort(error, f"{candidate}: ") from None

    def required_capacity(self, option: Option, candidate: Candidate) -> CapacityNeed:
        """Return the amounts an option consumes; raises Abort if they cannot be computed."""
        need = option.request_filter.required_capacity(candidate)
        if need.error is not None and not self._errors_reject:
            where = self._describe_request(option)
            raise Abort(Cause.CAPACITY, f"{where}: a device: {need.error}", str(candidate))
        return need

    def _check_use(self, option: Option, candidate: Candidate) -> Rejection | None:
        claims_choosing = self._chosen_by.get(candidate)
        if option.admin:
            return HELD_BY_POD if claims_choosing and option.claim in claims_choosing else None
        if candidate.name in self.node_view.uses[candidate.pool].dedicated:
            return HELD
        if not candidate.shared and self._has_former_shares(candidate):
            return HELD
        return HELD_BY_POD if claims_choosing else None

    def _has_former_shares(self, candidate: Candidate) -> bool:
        """Return whether claims have shares of a device that is allocated as a whole now.

        Upstream counts each share as the whole device while DRAConsumableCapacity is disabled.
        """
        holds = self._deviations.shares_hold_device or not self._gates.consumable_capacity
        return holds and candidate.name in self.node_view.uses[candidate.pool].shares

    def _check_capacity(self, option: Option, candidate: Candidate) -> Rejection | None:
        if not self._gates.consumable_capacity:
            return None
        need = self.required_capacity(option, candidate)
        if need.unsuitable:
            return Rejection(Stage.CAPACITY, need.misfit)
        held = self.node_view.uses[candidate.pool].shares.get(candidate.name)
        mine = self._shares.get(candidate, NO_SHARES)
        if not held and not mine:
            return None
        used = (*mine, held) if held else mine
        misfit = find_shortfall(candidate.device.capacity, need.amounts, *used)
        return Rejection(Stage.CAPACITY, misfit) if misfit else None

    def _check_allocatable(self, option: Option, candidate: Candidate) -> Rejection | ChosenDevice:
        """Check features, groups, rules, counters, taints and the claim's constraints."""
        hardware = self._check_hardware(option, candidate)
        if isinstance(hardware, Rejection):
            return hardware
        if candidate.device.taints and self._gates.device_taints:
            taint = first_untolerated(candidate.device.taints, option.wanted.tolerations)
            if taint is not None:
                return Rejection(Stage.TAINT, taint)
        constraints = self._check_constraints(option, candidate)
        if isinstance(constraints, Rejection):
            return constraints
        rules = self.rules
        if option.request_index in self._requests_with_rules:
            self._meter.spend(self.active_rules.step_cost(option.request_index) - 1)
            extended = self.active_rules.extend(rules, self.rule_device(option, candidate))
            if isinstance(extended, GroupRule):
                return Rejection(Stage.RULE, extended)
            rules = extended
        if option.all_mode and (rejection := self._check_capacity(option, candidate)):
            return rejection
        amounts = (
            option.request_filter.required_capacity(candidate).amounts if candidate.shared else None
        )
        return ChosenDevice(
            option, candidate, amounts, hardware.counters, hardware.group_states, constraints, rules
        )

    def _check_hardware(self, option: Option, candidate: Candidate) -> Rejection | _HardwareState:
        """Check features, groups, rules and counters; only the first share uses counters."""
        rejection = self._check_features(candidate)
        if rejection is not None:
            return rejection
        first = not self._is_further_share(candidate)
        group_states = self._group_states
        if first and candidate.counter_uses:
            placed = self._place_groups(candidate, group_states or {})
            if isinstance(placed, Rejection):
                return placed
            group_states = placed
        rejection = self._check_rules(option, candidate)
        if rejection is not None:
            return rejection
        is_counted = first or self._deviations.overdraft_blocks_shares
        if not (is_counted and candidate.device.consumes_counters):
            return _HardwareState(group_states, None)
        left = self._charge_counters(option, candidate, candidate.draw if first else {})
        if isinstance(left, Shortage):
            return Rejection(Stage.COUNTERS, left)
        return _HardwareState(group_states, left)

    def _check_features(self, candidate: Candidate) -> Rejection | None:
        if not self.node_view.supports_node_operations(candidate):
            return Rejection(Stage.SUPPORT, "DRAOptionalNodeOperations")
        if candidate.device.consumes_counters and not self._gates.partitionable_devices:
            return Rejection(Stage.SUPPORT, "DRAPartitionableDevices")
        return None

    def _is_further_share(self, candidate: Candidate) -> bool:
        """Return whether another share of the device already uses its counters."""
        if not candidate.shared:
            return False
        shares = self.node_view.uses[candidate.pool].shares
        return candidate.name in shares or self._charges.get(candidate, 0) > 0

    def _draws_counters(self, option: Option) -> bool:
        """Return whether devices of an option consume counters."""
        return not (option.admin and self._deviations.admin_draws_nothing)

    def _place_groups(
        self, candidate: Candidate, group_states: GroupStates
    ) -> GroupStates | Rejection:
        if candidate.group_error:
            return Rejection(Stage.GROUPS, candidate.group_error)
        unset, pool = self.node_view.world.unset_groups, candidate.pool
        states = {**self.node_view.group_states(pool), **group_states}
        placed = add_device(states, pool, candidate.counter_uses, unset)
        return Rejection(Stage.GROUPS) if placed is None else placed

    def _check_rules(self, option: Option, candidate: Candidate) -> Rejection | None:
        """Check the `compatibleOnlyWith` rules in both directions."""
        if candidate.pool.driver not in self.node_view.drivers_with_rules:
            return None
        node_view = self.node_view
        mine = (
            node_view.placed_device(step.candidate, admin=step.option.admin) for step in self.trail
        )
        taken = (*node_view.allocated_devices(candidate.pool.driver), *mine)
        self._meter.spend(len(taken) // _PEERS_PER_STEP)
        placed = node_view.placed_device(candidate, admin=option.admin)
        evaluate = rule_evaluator(node_view.memo.expressions)
        clash = find_incompatibility(placed, taken, evaluate)
        return Rejection(Stage.COMPANY, clash) if clash else None

    def _charge_counters(
        self, option: Option, candidate: Candidate, draw: ConsumedCounters
    ) -> Counters | Shortage | None:
        if not self._draws_counters(option):
            return None
        counters = self._counters.get(candidate.pool) or self.node_view.counters(candidate.pool)
        if self._deviations.overdraft_stays_in_its_set:
            relevant = relevant_overdrafts(counters, candidate.draw)
            left = charge(relevant, draw)
            if isinstance(left, Shortage) or relevant is counters:
                return left
            return Counters(left.remaining, counters.over_committed)
        return charge(counters, draw)

    def _check_constraints(
        self, option: Option, candidate: Candidate
    ) -> tuple[object, ...] | Rejection:
        states = self.constraints[option.claim]
        if not option.constraint_indexes:
            return states
        new = list(states)
        if len(option.constraint_indexes) > 1:
            self._meter.spend(len(option.constraint_indexes) // CONSTRAINTS_PER_STEP)
        for index in option.constraint_indexes:
            constraint = self.demand.constraints[option.claim][index]
            attribute = self.attribute(option, candidate, constraint.name)
            extended = None
            if attribute is not None:
                state = states[index]
                if type(state) is tuple:
                    self._meter.spend(len(state) // _PEERS_PER_STEP)
                extended = constraint.extend(state, attribute)
            if extended is None:
                if option.all_mode and not self._deviations.all_goes_back:
                    text = "mode All needs a device that violates a constraint"
                    where = self._describe_request(option)
                    raise Abort(Cause.REFUSED, f"{where}: {text}", str(candidate))
                return Rejection(Stage.CONSTRAINT, UnmetConstraint(constraint, attribute))
            new[index] = extended
        return tuple(new)

    def rule_device(self, option: Option, candidate: Candidate) -> RuleDevice:
        """Return a device as rules see it: an attribute that fails counts as not published."""

        def find(name: str) -> Attribute | None:
            if name not in option.derived_attributes:
                return candidate.find_attribute(name)
            value = self._find_attribute(option, candidate, name)
            return None if isinstance(value, EvaluationFailure) else value

        return RuleDevice(option.request_index, option.wanted.count, find)

    def attribute(self, option: Option, candidate: Candidate, name: str) -> Attribute | None:
        """Return the attribute of a constraint: derived by the request, else the device's."""
        value = self._find_attribute(option, candidate, name)
        if isinstance(value, EvaluationFailure):
            if not self._ends(value):
                return None
            where = f"{self._describe_request(option)}: derived attribute {name} on a device"
            raise Abort(_cause(value, Cause.DERIVED), f"{where}: {value}", str(candidate))
        return value

    def _find_attribute(
        self, option: Option, candidate: Candidate, name: str
    ) -> Attribute | EvaluationFailure | None:
        source = option.derived_attributes.get(name)
        if source is None:
            return find_attribute(candidate.device, candidate.pool.driver, name)
        expressions = self.node_view.memo.expressions
        derived = self._derived.get((candidate, source))
        if derived is None:
            derived = expressions.derive(source, candidate.pool.driver, candidate.device)
            self._derived[candidate, source] = derived
        return derived

    def _describe_request(self, option: Option) -> str:
        return f"claim {claim_name(self.demand.claims[option.claim])}, request {option.name}"

    def _selector_error(
        self, option: Option, candidate: Candidate, verdict: SelectorVerdict
    ) -> Abort:
        if verdict.stage is Stage.CLASS:
            where = f"class {option.device_class.metadata.name}"
        else:
            where = self._describe_request(option)
        text = f"{where}: selector #{verdict.number} on a device: {verdict.failed}"
        return Abort(_cause(verdict.failed, Cause.SELECTOR), text, str(candidate))

    def _ends(self, failure: EvaluationFailure) -> bool:
        """Tell whether a failure ends the search; our own refusal says nothing about a device."""
        return not self._errors_reject or isinstance(failure, WorkRefusal)


def selector_abort(error: NodeSelectorError, where: str = "") -> Abort:
    """Return the error for a node selector that cannot be parsed; it can name nodes itself."""
    text = "the node selector of a ResourceSlice or device cannot be parsed"
    return Abort(Cause.NODE_SELECTOR, text, f"{where}{error}")


def _cause(failure: EvaluationFailure | None, cause: Cause) -> Cause:
    return Cause.WORK if isinstance(failure, WorkRefusal) else cause
