"""Checks whether the devices of allocated claims still satisfy their required rules.

A driver can change the attributes of allocated devices, a tenant the rules of a claim, and another
allocator does not read them.
"""

from collections.abc import Iterable, Iterator, Mapping

from dra.allocation import AllocationResult
from dra.attributes import find_attribute
from dra.claim import CLAIM, Claim
from dra.device import Device
from dra.finding import Finding
from dra.inventory import Inventory, PoolID
from dra.rules import Rules, read_claim_rules
from ledger import codes
from ledger.allocation_mark import ALLOCATOR, Mark, read_mark
from ledger.ledger import name_of
from ledger.published_pools import find_published_pool
from solver.rules import ActiveRules, RuleDevice, compile_rules


def audit_rules(claims: Iterable[Claim], inventory: Inventory) -> Iterator[Finding]:
    """Report the required rules that the devices of our allocator's claims violate.

    Skips claims with devices that are not published, because their attributes are not known.
    """
    for claim in claims:
        rules = read_claim_rules(claim)
        mark = read_mark(claim.metadata)
        ours = isinstance(mark, Mark) and mark.allocator == ALLOCATOR
        if claim.status.allocation is None or not ours or not isinstance(rules, Rules):
            continue
        for name in _broken_rules(claim, rules, inventory):
            message = f"the allocated devices do not satisfy {name}"
            yield codes.RULE_BROKEN.at("", message, object=f"{CLAIM}/{name_of(claim)}")


def _broken_rules(claim: Claim, rules: Rules, inventory: Inventory) -> Iterator[str]:
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
    published: dict[PoolID, Mapping[str, Device]] = {}
    for at, name in enumerate(names):
        for result in by_request.get(name, ()):
            device = _find_device(result, inventory, published)
            if device is None:
                return
            devices.append(_rule_device(at, most[at], result.driver, device))
    alone = ActiveRules((), most)
    yield from (r.name for r in compiled.required.rules if not alone.holds(r, devices))


def _find_device(
    result: AllocationResult, inventory: Inventory, published: dict[PoolID, Mapping[str, Device]]
) -> Device | None:
    pool = PoolID(result.driver, result.pool)
    if pool not in published:
        current = find_published_pool(inventory, pool)
        published[pool] = current.devices if current else {}
    return published[pool].get(result.device)


def _rule_device(at: int, count: int, driver: str, device: Device) -> RuleDevice:
    return RuleDevice(at, count, lambda name: find_attribute(device, driver, name))
