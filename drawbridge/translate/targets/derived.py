"""Lets a constraint compare NUMA nodes that a driver publishes under a name of its own.

The request derives the attribute that drivers share (KEP-6080). If a server drops the field, the
constraint stays, and no device of the driver satisfies it.
"""

from msgspec.structs import replace

from drawbridge.dra.attributes import NUMA_NODE
from drawbridge.translate.legacy.selectors import RawCEL
from drawbridge.translate.targets.requests import (
    MAX_SELECTORS,
    ChosenTarget,
    DeviceAlternative,
)
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    attribute_access,
    check_length,
    guard_attribute,
    join_expressions,
)


def derive_numa(chosen: ChosenTarget) -> ChosenTarget:
    """Let requests derive the shared attribute, if the driver publishes only one of its own."""
    own, expanded = chosen.target.own_numa, chosen.expanded
    if not own:
        return chosen
    vocabulary = expanded.plan.vocabulary or chosen.target.vocabulary
    alternatives = tuple(_derive(each, own, vocabulary) for each in expanded.alternatives)
    return chosen._replace(expanded=replace(expanded, alternatives=alternatives))


def _derive(
    alternative: DeviceAlternative, own: str, vocabulary: DriverVocabulary
) -> DeviceAlternative:
    """Derive the attribute, and keep devices away that have none.

    An expression that fails on a device ends the scheduling of the pod. A negative number stands
    for no NUMA node.
    """
    read = attribute_access(own)
    text = guard_attribute(own, "int", f"{read} >= 0")
    selectors = (*alternative.selectors, Expression(text, RawCEL(text), vocabulary))
    if len(selectors) > MAX_SELECTORS:
        selectors = (check_length(join_expressions(selectors, vocabulary)),)
    return replace(alternative, selectors=selectors, derived={NUMA_NODE: read})
