"""Checks whether the devices of allocated claims still satisfy their required rules.

A driver can change the attributes of allocated devices, a tenant the rules of a claim, and another
allocator does not read them.
"""

from collections.abc import Iterable, Iterator, Mapping

from dra.allocation import AllocationResult
from dra.claim import CLAIM, Claim
from dra.finding import Finding
from dra.inventory import Inventory, PoolID
from dra.rules import Rules, read_claim_rules
from ledger import codes
from ledger.allocation_mark import ALLOCATOR, Mark, read_mark
from ledger.ledger import name_of
from ledger.published_pools import find_published_pool
from solver.candidates import Candidate, CandidateCache
from solver.rules import ActiveRules, RuleDevice, compile_rules


def audit_rules(
    claims: Iterable[Claim], inventory: Inventory, candidates: CandidateCache
) -> Iterator[Finding]:
    """Report the required rules that the devices of our allocator's claims violate.

    Skips claims with devices that are not published, because their attributes are not known.
    """
    published = _PublishedDevices(inventory, candidates)
    for claim in claims:
        rules = read_claim_rules(claim)
        mark = read_mark(claim.metadata)
        ours = isinstance(mark, Mark) and mark.allocator == ALLOCATOR
        if claim.status.allocation is None or not ours or not isinstance(rules, Rules):
            continue
        for name in _broken_rules(claim, rules, published):
            message = f"the allocated devices do not satisfy {name}"
            yield codes.RULE_BROKEN.at("", message, object=f"{CLAIM}/{name_of(claim)}")


def _broken_rules(claim: Claim, rules: Rules, published: "_PublishedDevices") -> Iterator[str]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    by_request: dict[str, list[AllocationResult]] = {}
    for result in results:
        by_request.setdefault(result.request.partition("/")[0], []).append(result)
    names = [each.name for each in claim.spec.devices.requests]
    most = [len(by_request.get(name, ())) for name in names]
    indexes = {name: at for at, name in enumerate(names)}
    compiled = compile_rules([(rules, indexes)], most)
    devices: list[RuleDevice] = []
    for at, name in enumerate(names):
        for result in by_request.get(name, ()):
            device = published.find(result)
            if device is None:
                return
            devices.append(RuleDevice(at, most[at], device.find_attribute))
    alone = ActiveRules((), most)
    yield from (r.name for r in compiled.required.rules if not alone.holds(r, devices))


class _PublishedDevices:
    """The published devices, with the attributes that rules read."""

    def __init__(self, inventory: Inventory, candidates: CandidateCache) -> None:
        self._inventory = inventory
        self._candidates = candidates
        self._pools: dict[PoolID, Mapping[str, Candidate]] = {}

    def find(self, result: AllocationResult) -> Candidate | None:
        pool = PoolID(result.driver, result.pool)
        if pool not in self._pools:
            current = find_published_pool(self._inventory, pool)
            devices = (
                each
                for one in (current.slices if current else ())
                for each in self._candidates.of_slice(one)
            )
            self._pools[pool] = {each.name: each for each in devices}
        return self._pools[pool].get(result.device)
