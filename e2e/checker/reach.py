"""Checks the node selector of an allocation."""

from collections.abc import Iterator

from e2e.checker.chosen import Chosen
from e2e.checker.pools import listed, name_of, section
from e2e.checker.quantities import Json
from e2e.checker.violation import BrokenRule


def expected(node: Json, devices: list[Chosen]) -> Json | None:
    """One node when anything is local to it, else all that the devices' selectors require."""
    local: Json = {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name_of(node)]}]
    }
    required: dict[str, list[Json]] = {"matchFields": [], "matchExpressions": []}
    for chosen in devices:
        where = chosen.device if chosen.spec.get("perDeviceNodeSelection") else chosen.spec
        terms = listed(section(where, "nodeSelector"), "nodeSelectorTerms")
        # Several terms cannot be said of several devices in one; the node at hand can.
        if where.get("nodeName") or chosen.device.get("bindsToNode") or len(terms) > 1:
            return local
        for name, into in required.items():
            for term in terms:
                into += [
                    new for new in listed(term, name) if not any(same(new, old) for old in into)
                ]
    filled = {name: requirements for name, requirements in required.items() if requirements}
    return dict(filled) or None


def same(expression: Json, other: Json) -> bool:
    """The same requirement, whatever the order of its values."""
    keys = ("key", "operator")
    values = [frozenset(listed(each, "values")) for each in (expression, other)]
    return all(expression[key] == other[key] for key in keys) and values[0] == values[1]


def check_reach(node: Json, allocation: Json, devices: list[Chosen]) -> Iterator[BrokenRule]:
    """The selector is the one that the devices imply."""
    wanted = expected(node, devices)
    terms = listed(section(allocation, "nodeSelector"), "nodeSelectorTerms")
    term = terms[0] if len(terms) == 1 else None
    if len(terms) > 1 or term != wanted:
        yield BrokenRule("WrongNodeSelector", f"{terms} instead of {wanted}")
