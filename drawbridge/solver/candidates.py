"""Devices as candidates: the facts about a device that do not depend on requests or allocations.

A candidate lives as long as its slice. Filters cache their results on it, so the results are
dropped with the slice.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from drawbridge.brief import CutShort
from drawbridge.dra.attributes import find_attribute
from drawbridge.dra.compatibility import (
    Declaration,
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

# For the selectors in the annotation of one slice on all of its devices, in units of
# `drawbridge.cel.meter`: about 20 ms.
DECLARED_WORK: Final = 400_000
_COMPILATION_OF_BYTE: Final = 40
TOO_MUCH_DECLARED: Final = (
    "the selectors in the annotation of the ResourceSlice take more work on its devices than "
    "Drawbridge spends on one slice"
)


class Candidate:
    """One device of a slice; compared by identity."""

    __slots__ = (
        "counter_uses", "derived_values", "device", "draw", "group_error", "name", "needs",
        "partitions", "pool", "rule", "shared", "slice", "verdicts",
    )  # fmt: skip

    def __init__(
        self, resource_slice: Slice, pool: PoolID, device: Device, *, sharing: bool
    ) -> None:
        self.slice = resource_slice
        self.device = device
        self.name = device.name
        self.pool = pool
        self.shared = sharing and device.allow_multiple_allocations
        self.counter_uses: tuple[CounterUse, ...] = device.consumes_counters
        self.draw: ConsumedCounters = consumed_counters(device) if device.consumes_counters else {}
        self.rule: Rule | None = None
        self.group_error = ""
        self.verdicts: dict[object, object] = {}
        self.needs: dict[object, object] = {}
        # The attributes that the Configuration declares for partitions of a fabric.
        self.partitions: Mapping[str, Attribute] = {}
        self.derived_values: dict[str, Attribute | EvaluationFailure] = {}

    def find_attribute(self, name: str) -> Attribute | None:
        """Return an attribute as rules of claims see it: published, or else declared."""
        published = find_attribute(self.device, self.pool.driver, name)
        return published if published is not None else self.partitions.get(name)

    def __repr__(self) -> str:
        return f"{self.pool.driver}/{self.pool.name}/{self.name}"


class CutByNode(CutShort):  # not an error, see there
    """A computation was interrupted within what the driver of a node declares."""


class CandidateCache:
    """Creates the candidates of each slice once."""

    def __init__(self, world: World, expressions: ExpressionEvaluator) -> None:
        self._expressions = expressions
        self._declarations = world.compatibility
        self._partition_tables = world.partitions
        self._sharing = world.gates.consumable_capacity
        # Keyed by id(); the entry holds the slice, so that its id is not reused.
        self._by_slice: dict[int, tuple[Slice, tuple[Candidate, ...]]] = {}

    def of_slice(self, resource_slice: Slice) -> tuple[Candidate, ...]:
        """Return the devices of a slice as candidates, in listed order."""
        cached = self._by_slice.get(id(resource_slice))
        if cached is None:
            pool = PoolID(resource_slice.driver, resource_slice.pool)
            candidates = tuple(
                [
                    Candidate(resource_slice, pool, device, sharing=self._sharing)
                    for device in resource_slice.devices
                ]
            )
            try:
                self._declare(resource_slice, candidates)
            except CutShort as cut:
                raise CutByNode from cut
            if self._partition_tables:
                evaluate = rule_evaluator(self._expressions)
                for candidate in candidates:
                    peer = Peer(pool, candidate.device)
                    candidate.partitions = partition_attributes(
                        peer, self._partition_tables, evaluate
                    )
            cached = self._by_slice[id(resource_slice)] = (resource_slice, candidates)
        return cached[1]

    def in_pool(self, pool: Pool) -> tuple[Candidate, ...]:
        """Return the candidates of a pool in search order."""
        return tuple(candidate for each in pool.slices for candidate in self.of_slice(each))

    def drop(self, resource_slice: Slice) -> None:
        """Drop the candidates of a slice."""
        self._by_slice.pop(id(resource_slice), None)

    def clear(self) -> None:
        """Drop all candidates."""
        self._by_slice.clear()

    def _declare(self, resource_slice: Slice, candidates: tuple[Candidate, ...]) -> None:
        """Apply compatibility declarations of the slice annotation and the configuration."""
        if self._declarations is None:
            return
        annotated, _ = read_declarations(resource_slice)
        has_rules = any(device.compatible_only_with for device in resource_slice.devices)
        if not (annotated or self._declarations or has_rules):
            return
        configured = self._declarations
        # Each device looks at those that count only.
        rules = tuple(each for each in annotated if each.compatible_only_with)
        groups = tuple(each for each in annotated if each.groups is not None)
        declared = _DeclaredSelectors(self._expressions, (each.selector for each in configured))
        for candidate in candidates:
            peer = Peer(candidate.pool, candidate.device)
            candidate.rule = find_rule(peer, configured, rules, declared.selects)
            self._declare_groups(candidate, peer, groups, declared)

    def _declare_groups(
        self,
        candidate: Candidate,
        peer: Peer,
        annotated: tuple[Declaration, ...],
        declared: "_DeclaredSelectors",
    ) -> None:
        try:
            candidate.counter_uses = effective_counter_uses(
                peer, self._declarations or (), annotated, declared.selects
            )
        except ExpressionEvaluationError as error:
            # Without its groups, the device cannot be allocated safely.
            candidate.group_error = f"cannot evaluate its compatibility groups: {error}"


class _DeclaredSelectors:
    """Evaluates the selectors of declarations on the devices of one slice.

    Whoever writes the slice decides how many there are and what they take. Beyond the limit none is
    evaluated, so the devices that are left are compatible with no others. Those of the
    Configuration have no limit.
    """

    def __init__(self, expressions: ExpressionEvaluator, configured: Iterable[str]) -> None:
        self._expressions = expressions
        self._configured = frozenset(configured)
        self._compiled: set[str] = set()
        self._left = DECLARED_WORK

    def selects(self, selector: str, peer: Peer) -> bool:
        """Evaluate a selector on a device; raises ExpressionEvaluationError."""
        driver, device = peer.pool.driver, peer.device
        if selector in self._configured:
            return _answer(self._expressions.selects(selector, driver, device))
        if selector not in self._compiled:
            # Whether another slice has the same selector makes no difference.
            self._spend(len(selector) * _COMPILATION_OF_BYTE)
            self._compiled.add(selector)
        return _answer(self._expressions.selects_briefly(selector, driver, device, self._spend))

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise ExpressionEvaluationError(TOO_MUCH_DECLARED)


def rule_evaluator(
    expressions: ExpressionEvaluator, spend: Callable[[int], None] | None = None
) -> Callable[[str, Peer], bool]:
    """Return the function that evaluates `compatibleOnlyWith` expressions.

    With `spend`, which is told the work and may raise, only short evaluations are done.
    """

    def evaluate(expression: str, peer: Peer) -> bool:
        driver, device = peer.pool.driver, peer.device
        if spend is None:
            return _answer(expressions.selects(expression, driver, device))
        return _answer(expressions.selects_briefly(expression, driver, device, spend))

    return evaluate


def _answer(outcome: bool | EvaluationFailure) -> bool:  # noqa: FBT001  # a result
    if isinstance(outcome, EvaluationFailure):
        raise ExpressionEvaluationError(str(outcome))
    return outcome
