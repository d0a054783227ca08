"""Devices as candidates: the facts about a device that do not depend on requests or allocations.

A candidate lives as long as its slice. Filters cache their results on it, so the results are
dropped with the slice. Results that no request asked for in two generations are dropped as well: a
generation ends once it has so many results that two of them are all that may be kept.

What the driver of a node declares is evaluated for a device when a search needs it, so that a claim
for other devices of the node never waits for it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.brief import whole
from drawbridge.dra.attributes import find_attribute
from drawbridge.dra.compatibility import (
    Declaration,
    Evaluate,
    ExpressionEvaluationError,
    Peer,
    Rule,
    effective_counter_uses,
    find_rule,
    read_declarations,
)
from drawbridge.dra.counters import ConsumedCounters, consumed_counters
from drawbridge.dra.device import Attribute, CounterUse, Device
from drawbridge.dra.inventory import Pool, PoolID
from drawbridge.dra.partitions import partition_attributes
from drawbridge.dra.slices import Slice
from drawbridge.solver.expressions import EvaluationFailure, ExpressionEvaluator
from drawbridge.solver.world import World

# The results of filters on all devices, in two generations; on few devices, so many filters have
# them.
MAX_FILTER_RESULTS = 2_000_000
MAX_FILTERS = 256
# What it selects, and what it consumes.
_RESULTS_OF_FILTER: Final = 2
_NO_RESULTS: Final[Mapping[bytes, object]] = {}


class _Groups(NamedTuple):
    """What a device consumes with its groups, or why its groups are unknown."""

    counter_uses: tuple[CounterUse, ...]
    error: str = ""


class _Declarations:
    """Evaluates the declarations for the devices of a slice."""

    def __init__(
        self,
        evaluate: Evaluate,
        configured: Sequence[Declaration] = (),
        annotated: Sequence[Declaration] = (),
    ) -> None:
        self._evaluate = evaluate
        self._configured = configured
        # Each device looks at those that count only.
        self._rules = tuple(each for each in annotated if each.compatible_only_with)
        self._groups = tuple(each for each in annotated if each.groups is not None)

    def may_rule(self, peer: Peer) -> bool:
        """Return whether a device may have a rule, without an evaluation for its driver."""
        if self._rules or peer.device.compatible_only_with is not None:
            return True
        return self.find_rule(peer) is not None

    def find_rule(self, peer: Peer) -> Rule | None:
        """Return the `compatibleOnlyWith` rule of a device."""
        return find_rule(peer, self._configured, self._rules, self._evaluate)

    def find_groups(self, peer: Peer) -> _Groups:
        """Return what a device consumes, with its groups."""
        try:
            return _Groups(
                effective_counter_uses(peer, self._configured, self._groups, self._evaluate)
            )
        except ExpressionEvaluationError as error:
            # Without its groups, the device cannot be allocated safely.
            text = f"cannot evaluate its compatibility groups: {error}"
            return _Groups(peer.device.consumes_counters, text)


class Candidate:
    """One device of a slice; compared by identity."""

    __slots__ = (
        "_declarations", "_groups", "_rule", "device", "draw", "name", "needs", "older_needs",
        "older_verdicts", "partitions", "pool", "shared", "slice", "verdicts",
    )  # fmt: skip

    def __init__(
        self,
        resource_slice: Slice,
        pool: PoolID,
        device: Device,
        declarations: _Declarations,
        *,
        sharing: bool,
    ) -> None:
        self.slice = resource_slice
        self.device = device
        self.name = device.name
        self.pool = pool
        self.shared = sharing and device.allow_multiple_allocations
        self.draw: ConsumedCounters = consumed_counters(device) if device.consumes_counters else {}
        self._declarations = declarations
        # None until they are known.
        is_declared = declarations is not _NOTHING
        self._rule: tuple[Rule | None] | None = None if is_declared else (None,)
        has_groups = is_declared and device.consumes_counters
        self._groups = None if has_groups else _Groups(device.consumes_counters)
        # By the keys of filters.
        self.verdicts: dict[bytes, object] = {}
        self.needs: dict[bytes, object] = {}
        self.older_verdicts = self.older_needs = _NO_RESULTS
        # The attributes that the Configuration declares for partitions of a fabric.
        self.partitions: Mapping[str, Attribute] = {}

    def begin_generation(self) -> None:
        """Keep the results of this generation as the older ones, instead of those before."""
        self.older_verdicts, self.older_needs = self.verdicts, self.needs
        self.verdicts, self.needs = {}, {}

    @property
    def peer(self) -> Peer:
        """The device with its pool."""
        return Peer(self.pool, self.device)

    @property
    def may_rule(self) -> bool:
        """Whether it may have a rule: so without an evaluation of what its driver declares."""
        return self.rule is not None if self._rule else self._declarations.may_rule(self.peer)

    @property
    def rule(self) -> Rule | None:
        """Its `compatibleOnlyWith` rule."""
        if self._rule is None:
            self._rule = (self._declarations.find_rule(self.peer),)
        return self._rule[0]

    @property
    def counter_uses(self) -> tuple[CounterUse, ...]:
        """The counters that it consumes, with its effective groups."""
        return self._known_groups().counter_uses

    @property
    def group_error(self) -> str:
        """Why its groups are unknown."""
        return self._known_groups().error

    def _known_groups(self) -> _Groups:
        if self._groups is None:
            self._groups = self._declarations.find_groups(self.peer)
        return self._groups

    def find_attribute(self, name: str) -> Attribute | None:
        """Return an attribute as rules of claims see it: published, or else declared."""
        published = find_attribute(self.device, self.pool.driver, name)
        return published if published is not None else self.partitions.get(name)

    def __repr__(self) -> str:
        return f"{self.pool.driver}/{self.pool.name}/{self.name}"


class CandidateCache:
    """Creates the candidates of each slice once."""

    def __init__(self, world: World, expressions: ExpressionEvaluator) -> None:
        self._expressions = expressions
        self._declarations = world.compatibility
        self._partition_tables = world.partitions
        self._sharing = world.gates.consumable_capacity
        # Keyed by id(); the entry holds the slice, so that its id is not reused.
        self._by_slice: dict[int, tuple[Slice, tuple[Candidate, ...]]] = {}
        self._devices = 0
        self._results = 0  # of this generation

    def of_slice(self, resource_slice: Slice) -> tuple[Candidate, ...]:
        """Return the devices of a slice as candidates, in listed order."""
        cached = self._by_slice.get(id(resource_slice))
        if cached is None:
            pool = PoolID(resource_slice.driver, resource_slice.pool)
            declarations = self._find_declarations(resource_slice)
            candidates = tuple(
                [
                    Candidate(resource_slice, pool, device, declarations, sharing=self._sharing)
                    for device in resource_slice.devices
                ]
            )
            if self._partition_tables:
                evaluate = rule_evaluator(self._expressions)
                for candidate in candidates:
                    candidate.partitions = partition_attributes(
                        candidate.peer, self._partition_tables, evaluate
                    )
            cached = self._by_slice[id(resource_slice)] = (resource_slice, candidates)
            self._devices += len(candidates)
        return cached[1]

    def in_pool(self, pool: Pool) -> tuple[Candidate, ...]:
        """Return the candidates of a pool in search order."""
        return tuple(candidate for each in pool.slices for candidate in self.of_slice(each))

    def drop(self, resource_slice: Slice) -> None:
        """Drop the candidates of a slice."""
        if (dropped := self._by_slice.pop(id(resource_slice), None)) is not None:
            self._devices -= len(dropped[1])

    @whole
    def count_result(self) -> None:
        """Count a result that a device gets now. What is dropped with a slice stays counted."""
        self._results += 1
        of_filters = self._devices * MAX_FILTERS * _RESULTS_OF_FILTER
        if self._results > min(MAX_FILTER_RESULTS, of_filters) // 2:
            self._results = 1
            for _, candidates in self._by_slice.values():
                for candidate in candidates:
                    candidate.begin_generation()

    def _find_declarations(self, resource_slice: Slice) -> _Declarations:
        """Return the declarations for a slice: its annotation, and the configuration."""
        configured = self._declarations
        if configured is None:
            return _NOTHING
        annotated, _ = read_declarations(resource_slice)
        has_rules = any(device.compatible_only_with for device in resource_slice.devices)
        if not (annotated or configured or has_rules):
            return _NOTHING
        return _Declarations(rule_evaluator(self._expressions), configured, annotated)


def _evaluate_nothing(_expression: str, _peer: Peer) -> bool:
    return False


_NOTHING: Final = _Declarations(_evaluate_nothing)


def rule_evaluator(expressions: ExpressionEvaluator) -> Evaluate:
    """Return the function that evaluates `compatibleOnlyWith` expressions."""

    def evaluate(expression: str, peer: Peer) -> bool:
        outcome = expressions.selects(expression, peer.pool.driver, peer.device)
        if isinstance(outcome, EvaluationFailure):
            raise ExpressionEvaluationError(str(outcome))
        return outcome

    return evaluate
