"""Checks whether the devices of allocated claims still satisfy their required rules.

A driver can change the attributes of allocated devices, a tenant the rules of a claim, and another
allocator does not read them. Attributes are those that the search reads, so that the audit and the
search agree: published, derived by the request, or declared for partitions of a fabric.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.claim import CLAIM, Claim, request_choices
from drawbridge.dra.device import Attribute
from drawbridge.dra.inventory import PoolID, find_published_pool
from drawbridge.dra.rules import Distinct, Rules, read_claim_rules
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.allocation_mark import is_allocated_by_us
from drawbridge.solver.candidates import Candidate, CandidateCache
from drawbridge.solver.constraints import TypedValues, typed_values
from drawbridge.solver.expressions import EvaluationFailure, ExpressionEvaluator
from drawbridge.solver.rules import ActiveRules, FindAttribute, RuleDevice, compile_rules
from drawbridge.solver.world import World

# The results of each request of a claim, and how to find attributes of the devices there.
_Devices: TypeAlias = Mapping[str, Sequence[FindAttribute]]


class RuleAudit:
    """The audit of claims against what a world publishes and declares."""

    def __init__(
        self, world: World, candidates: CandidateCache, expressions: ExpressionEvaluator
    ) -> None:
        self._inventory = world.inventory
        self._candidates = candidates
        self._expressions = expressions
        self._published: dict[PoolID, Mapping[str, Candidate]] = {}

    def check(self, claims: Iterable[Claim]) -> Iterator[Finding]:
        """Report the required rules that the devices of our allocator's claims violate.

        Skips claims with devices that are not published, because their attributes are not known.
        """
        for claim in claims:
            rules = read_claim_rules(claim)
            if not isinstance(rules, Rules) or not is_allocated_by_us(claim):
                continue
            devices = self._find_devices(claim)
            for name in _broken_rules(claim, rules, devices) if devices is not None else ():
                message = f"the allocated devices do not satisfy {name}"
                name_of_claim = format_object_name(CLAIM, claim.metadata)
                yield codes.RULE_BROKEN.at("", message, object=name_of_claim)

    def _find_devices(self, claim: Claim) -> _Devices | None:
        """Return the devices of a claim by request; None if they are not known."""
        allocation = claim.status.allocation
        derived = {
            choice.name: {
                derived_attribute.name: derived_attribute.expression
                for derived_attribute in choice.requested.derived_attributes
            }
            for request in claim.spec.devices.requests
            for choice in request_choices(request)
        }
        by_request: dict[str, list[FindAttribute]] = {}
        for result in allocation.devices.results if allocation is not None else ():
            candidate = self._find_candidate(result)
            if candidate is None:
                return None
            finder = self._finder(candidate, derived.get(result.request, {}))
            by_request.setdefault(result.request.partition("/")[0], []).append(finder)
        return by_request or None

    def _find_candidate(self, result: AllocationResult) -> Candidate | None:
        pool = PoolID(result.driver, result.pool)
        if pool not in self._published:
            current = find_published_pool(self._inventory, pool)
            candidates: dict[str, Candidate] = {}
            for slice_ in current.slices if current is not None else ():
                for candidate in self._candidates.of_slice(slice_):
                    candidates.setdefault(candidate.name, candidate)
            self._published[pool] = candidates
        return self._published[pool].get(result.device)

    def _finder(self, candidate: Candidate, derived: Mapping[str, str]) -> FindAttribute:
        def find(name: str) -> Attribute | None:
            source = derived.get(name)
            if source is None:
                return candidate.find_attribute(name)
            value = self._expressions.derive(source, candidate.pool.driver, candidate.device)
            return None if isinstance(value, EvaluationFailure) else value

        return find


def _broken_rules(claim: Claim, rules: Rules, devices: _Devices) -> Iterator[str]:
    """Yield the names of the required rules of a claim that its devices violate."""
    names = [request.name for request in claim.spec.devices.requests]
    counts = [len(devices.get(name, ())) for name in names]
    compiled = compile_rules([(rules, {name: index for index, name in enumerate(names)})], counts)
    allocated = [
        RuleDevice(index, counts[index], find)
        for index, name in enumerate(names)
        for find in devices.get(name, ())
    ]
    # Each rule is checked alone: no other rules are active.
    no_rules = ActiveRules((), counts)
    for rule in compiled.required.rules:
        if not no_rules.holds(rule, allocated):
            yield rule.name
    for number, distinct in enumerate(rules.distinct):
        if not _is_distinct(distinct, devices):
            yield f"distinct[{number}]"


def _is_distinct(rule: Distinct, devices: _Devices) -> bool:
    """Return whether all devices of a rule publish its attribute, no two with a common value."""
    seen: TypedValues = frozenset()
    for find in (find for name in rule.requests for find in devices.get(name, ())):
        attribute = find(rule.attribute)
        values = typed_values(attribute) if attribute is not None else frozenset()
        if not values or values & seen:
            return False
        seen |= values
    return True
