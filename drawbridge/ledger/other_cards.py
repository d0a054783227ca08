"""The devices of other drivers that pods take beside those of the first one, such as NICs.

A kind is a driver, and the attribute in which these devices must equal those of the first driver,
such as the PCIe root, if the claims say so. Strategies follow the kinds that are most typical.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from drawbridge.choice.amounts import OtherDevices, Task
from drawbridge.choice.typical import TypicalTasks
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import Pool
from drawbridge.dra.rules import Rules, find_rules
from drawbridge.ledger.cards import Card, driver_of, find_cards, near_attribute
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import typed_values

# So many kinds are followed beside the devices of a driver.
_MAX_KINDS: Final = 2


class OtherCards(NamedTuple):
    """The cards of one kind on a node, and their groups."""

    devices: OtherDevices
    cards: tuple[Card, ...]


def find_near(claims: Iterable[Claim], allocations: Sequence[Allocation]) -> Mapping[str, str]:
    """Return the attributes that claims require to be equal with the first driver's, by driver."""
    results = [*chain.from_iterable(each.devices.results for each in allocations)]
    drivers: dict[str, set[str]] = {}  # by request
    for each in results:
        drivers.setdefault(each.request.partition("/")[0], set()).add(each.driver)
    near: dict[str, str] = {}
    for names, attribute in _relations(claims) if len({e.driver for e in results}) > 1 else ():
        related = {
            driver for name, of in drivers.items() if not names or name in names for driver in of
        }
        if results[0].driver in related:
            for driver in related - {results[0].driver}:
                near.setdefault(driver, attribute)
    return near


def _relations(claims: Iterable[Claim]) -> Iterable[tuple[Sequence[str], str]]:
    """Yield the requests that an attribute relates; none for all requests."""
    for claim in claims:
        for constraint in claim.spec.devices.constraints:
            if constraint.match_attribute:
                names = [each.partition("/")[0] for each in constraint.requests]
                yield names, constraint.match_attribute
        rules = find_rules(claim.metadata.annotations)
        if isinstance(rules, Rules):
            for joint in rules.joint:
                yield (*joint.primary, *joint.others), joint.attributes[0]
            for group in rules.near:
                yield group.requests, group.attributes[0]


def find_other_cards(
    pools: Iterable[tuple[Pool, Sequence[Candidate]]], cards: Sequence[Card], kinds: Iterable[str]
) -> tuple[OtherCards, ...]:
    """Return the cards of each kind on a node, with the groups of its `cards`."""
    pools = list(pools)
    return tuple(_of_kind(pools, cards, kind) for kind in kinds)


def _of_kind(
    pools: Iterable[tuple[Pool, Sequence[Candidate]]], cards: Sequence[Card], kind: str
) -> OtherCards:
    others, attribute = find_cards(pools, driver_of(kind)), near_attribute(kind)
    numbers: dict[Hashable, int] = {}

    def group(card: Card) -> int:
        published = card.devices[0].find_attribute(attribute) if attribute else None
        values = typed_values(published) if published is not None else None
        return numbers.setdefault(values, len(numbers)) if values else -1

    of_devices = tuple(map(group, cards))
    return OtherCards(OtherDevices(kind, tuple(map(group, others)), of_devices), others)


def most_typical_kinds(typical: TypicalTasks) -> tuple[str, ...]:
    """Return the kinds that typical tasks take most often beside their devices."""
    weights = Counter[str]()
    for task, weight in typical.weights.items():
        weights.update({each.kind: weight * task.devices for each in task.others})
    return tuple(sorted(sorted(weights), key=lambda kind: -weights[kind])[:_MAX_KINDS])


def with_kinds(typical: TypicalTasks, kinds: Iterable[str]) -> TypicalTasks:
    """Return typical tasks without what they take of other kinds than these."""
    followed, weights = frozenset(kinds), Counter[Task]()
    for task, weight in typical.weights.items():
        others = tuple(each for each in task.others if each.kind in followed)
        weights[task._replace(others=others)] += weight
    return TypicalTasks(dict(weights), typical.total)
