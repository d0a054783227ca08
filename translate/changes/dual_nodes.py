"""Keeps pods with claims off nodes where a device plugin hands out the same devices as well.

Such a node is labelled by the controller, and the stock scheduler knows nothing of it: so the pod
requires a node without the label. Knows no dialect, and of drivers only whose names are theirs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from config.model import Configuration
from documents.paths import Path, get_value
from documents.values import Value
from dra.finding import Finding
from dra.names import DUAL_LABEL as LABEL
from facts.families import Family, families, served
from facts.model import Driver, Facts, Name
from translate.changes.codes import DUAL_ADVERTISED, DUAL_HELD, DUAL_NODES_AVOIDED
from translate.changes.patch import Patch
from translate.legacy.asks import Ask
from translate.legacy.pod_view import as_list, as_mapping
from translate.targets.plan import TargetResult

_REQUIRED: Final[Path] = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
)
_TERMS: Final[Path] = (*_REQUIRED, "nodeSelectorTerms")
_WITHOUT: Final[Value] = {"key": LABEL, "operator": "DoesNotExist"}
_EXPRESSIONS: Final = "matchExpressions"
DualSource: TypeAlias = Name | Driver


def find_dual_sources(
    asks: Iterable[Ask],
    said: Iterable[TargetResult],
    facts: Facts | None,
    configuration: Configuration,
) -> tuple[DualSource, ...]:
    """The names by which plugins hand out what these asks are for, or what their claims get.

    Where no plugin is left, the drivers of nodes that still bear the label: one that restarts, or
    whose last pods still run, is counted nowhere else.
    """
    if facts is None:
        return ()
    wanted = {name for ask in asks for name in ask.resources}
    known = families(configuration)
    drivers = {driver for each in said for driver in each.drivers}
    wanted.update(
        *(served(known[driver].legacy, facts.plugged) for driver in drivers if driver in known)
    )
    names = tuple(each for each in facts.names if each.nodes and each.name in wanted)
    return names or tuple(_held(drivers, facts, known))


def _held(drivers: Collection[str], facts: Facts, known: Mapping[str, Family]) -> Iterator[Driver]:
    """Give those of the drivers whose devices a plugin may have handed out as well."""
    extended = {driver for each in facts.classes if each.extended for driver in each.drivers}
    for each in facts.drivers:
        family = known.get(each.name)
        named = (family is not None and family.legacy) or each.name in extended
        if each.dual and named and each.name in drivers:
            yield each


def avoid_dual_nodes(patch: Patch) -> None:
    """Require nodes without the label; raises EditError where something else is in the way."""
    required = get_value(patch.pod, _REQUIRED)
    terms = as_mapping(required).get("nodeSelectorTerms")
    if required is None:
        # Down to the requirement, which others may put theirs beside.
        patch.append((*_TERMS, 0, _EXPRESSIONS), _WITHOUT)
    # The terms are alternatives; one that says nothing accepts no node, and would accept most.
    for number, term in enumerate(as_list(terms)):
        expressions = as_list(as_mapping(term).get(_EXPRESSIONS))
        says_something = expressions or as_list(as_mapping(term).get("matchFields"))
        if says_something and _WITHOUT not in expressions:
            patch.append((*_TERMS, number, _EXPRESSIONS), _WITHOUT)


def report_dual_sources(others: tuple[DualSource, ...]) -> Iterator[Finding]:
    """Name what is advertised twice, and what that leaves idle."""
    where = "spec.affinity.nodeAffinity"
    names = [each for each in others if isinstance(each, Name)]
    for driver in others:
        if isinstance(driver, Driver):
            yield DUAL_HELD.at(
                where,
                f"devices of {driver.name} on {_nodes(driver.dual)} may still be held by pods that "
                "a plugin gave them to; the pod keeps off there",
            )
    for each in names:
        if each.dual:
            idle = min(each.devices, each.dual * each.most)
            yield DUAL_ADVERTISED.at(
                where,
                f"{each.name} is advertised by a plugin on {_nodes(each.dual)} with slices of the "
                f"same devices; the pod keeps off them, and up to {idle} devices stay idle there",
            )
    if names and not any(each.dual for each in names):
        plugins = ", ".join(f"{each.name} on {_nodes(each.nodes)}" for each in names)
        yield DUAL_NODES_AVOIDED.at(
            where, f"a plugin serves {plugins}; the pod keeps off where slices do as well"
        )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
