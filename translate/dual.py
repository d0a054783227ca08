"""Keeps pods with claims off nodes where a device plugin hands out the same devices as well.

Such a node is labelled by the controller, and the stock scheduler knows nothing of it: so the pod
requires a node without the label. Knows no dialect, and of drivers only whose names are theirs.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from config.model import Configuration
from documents.paths import Path, get
from documents.values import Value
from dra.finding import Finding
from facts.families import families, serves
from facts.model import Facts, Name
from translate.asks import Ask
from translate.patch import Patch
from translate.podview import items, mapping
from translate.targets.plan import Said
from translate.verdicts import DUAL_ADVERTISED, DUAL_NODES_AVOIDED

LABEL: Final = "drawbridge.dev/dual"
_REQUIRED: Final[Path] = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
)
_TERMS: Final[Path] = (*_REQUIRED, "nodeSelectorTerms")
_WITHOUT: Final[Value] = {"key": LABEL, "operator": "DoesNotExist"}
_EXPRESSIONS: Final = "matchExpressions"


def advertised(
    asks: Iterable[Ask], said: Iterable[Said], facts: Facts | None, configuration: Configuration
) -> tuple[Name, ...]:
    """The names by which plugins hand out what these asks are for, or what their claims get."""
    if facts is None:
        return ()
    asked = {name for ask in asks for name in ask.resources}
    known = families(configuration)
    drivers = {driver for each in said for driver in each.drivers}
    used = [known[driver] for driver in drivers if driver in known and known[driver].legacy]
    return tuple(
        each
        for each in facts.names
        if each.nodes and (each.name in asked or any(serves(one, each.name) for one in used))
    )


def keep_off(patch: Patch, names: Iterable[Name]) -> Iterator[Finding]:
    """Require nodes without the label; raises EditError where something else is in the way."""
    listed = tuple(names)
    if not listed:
        return
    terms = get(patch.pod, _TERMS)
    if get(patch.pod, _REQUIRED) is None:
        # Down to the requirement, which others may put theirs beside.
        patch.append((*_TERMS, 0, _EXPRESSIONS), _WITHOUT)
    # The terms are alternatives; one that says nothing accepts no node, and would accept most.
    for number, term in enumerate(items(terms)):
        expressions = items(mapping(term).get(_EXPRESSIONS))
        says_something = expressions or items(mapping(term).get("matchFields"))
        if says_something and _WITHOUT not in expressions:
            patch.append((*_TERMS, number, _EXPRESSIONS), _WITHOUT)
    yield from _told(listed)


def _told(names: tuple[Name, ...]) -> Iterator[Finding]:
    """Name what is advertised twice, and what that leaves idle."""
    where = "spec.affinity.nodeAffinity"
    for each in names:
        if each.dual:
            idle = min(each.devices, each.dual * each.most)
            yield DUAL_ADVERTISED.at(
                where,
                f"{each.name} is advertised by a plugin on {_nodes(each.dual)} with slices of the "
                f"same devices; the pod keeps off them, and up to {idle} devices stay idle there",
            )
    if not any(each.dual for each in names):
        plugins = ", ".join(f"{each.name} on {_nodes(each.nodes)}" for each in names)
        yield DUAL_NODES_AVOIDED.at(
            where, f"a plugin serves {plugins}; the pod keeps off where slices do as well"
        )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
