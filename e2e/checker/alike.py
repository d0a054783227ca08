"""Checks constraints: attributes that must match, or differ, within one claim."""

from collections.abc import Iterator

from e2e.checker.asked import names
from e2e.checker.chosen import Chosen, Cluster, question
from e2e.checker.expressions import ExpressionError
from e2e.checker.pools import listed, section
from e2e.checker.quantities import Json
from e2e.checker.violation import BrokenRule

Values = tuple[str, frozenset[object]]
UNKNOWN: Values = ("unknown", frozenset())
SCALARS = ("int", "bool", "string", "version")


def attribute(cluster: Cluster, chosen: Chosen, name: str) -> Json | None:
    """What a constraint reads: derived, else by full name, else by the driver's own short name."""
    for derived in listed(chosen.asked.spec, "derivedAttributes"):
        if derived["name"] == name:
            asking = question(
                cluster, chosen.pool.driver, chosen.device, str(derived["expression"])
            )
            answer = cluster.expressions.value(asking | {"derived": True})
            assert answer is None or isinstance(answer, dict)
            return answer
    attributes = section(chosen.device, "attributes")
    domain, _, short = name.partition("/")
    if name not in attributes and domain == chosen.pool.driver:
        name = short
    return section(attributes, name) if name in attributes else None


def values(attribute: Json | None, *, lists: bool) -> Values | None:
    """Type and set of values; a scalar is a list of one. Lists are only known with their gate."""
    if attribute and not lists and not any(attribute.get(kind) is not None for kind in SCALARS):
        return UNKNOWN
    for kind in SCALARS:
        if attribute and attribute.get(kind) is not None:
            return kind, frozenset([attribute[kind]])
        if attribute and attribute.get(f"{kind}s"):
            return kind, frozenset(listed(attribute, f"{kind}s"))
    return None


def check_constraints(
    cluster: Cluster, constraints: list[Json], devices: list[Chosen]
) -> Iterator[BrokenRule]:
    """Every constraint over the devices of the requests that it names."""
    lists = cluster.gates["DRAListTypeAttributes"]
    for constraint in constraints:
        match = constraint.get("matchAttribute")
        name = str(match or constraint["distinctAttribute"])
        covered = [one for one in devices if names(constraint.get("requests"), one.asked)]
        published: list[Values] = []
        for chosen in covered:
            try:
                value = values(attribute(cluster, chosen, name), lists=lists)
            except ExpressionError as error:
                yield BrokenRule("ConstraintBroken", f"{chosen.label}: {name}: {error}")
                continue
            if value is None:
                yield BrokenRule("ConstraintBroken", f"{chosen.label} has no {name}")
            else:
                published.append(value)
        if not (alike(published) if match else distinct(published)):
            yield BrokenRule("ConstraintBroken", f"{'match' if match else 'distinct'} {name}")


def alike(published: list[Values]) -> bool:
    """All of one type with a value in common."""
    if len(published) < 2:
        return True
    common = frozenset.intersection(*(values for _, values in published))
    return len({kind for kind, _ in published}) == 1 and bool(common)


def distinct(published: list[Values]) -> bool:
    """No value twice; values of different types are different."""
    seen: set[tuple[str, object]] = set()
    for number, (kind, values) in enumerate(published):
        if number and (kind, values) == UNKNOWN:
            return False
        marked = {(kind, value) for value in values}
        if seen & marked:
            return False
        seen |= marked
    return True
