"""Keeps pods with claims off nodes where a device plugin allocates the same devices.

The controller labels such nodes. The default scheduler does not consider the plugin's devices, so
the pod gets a required node affinity that excludes the label.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.dra.families import served_names
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Driver, Facts, ResourceFacts
from drawbridge.finding import Finding
from drawbridge.names import DUAL_LABEL as LABEL
from drawbridge.translate.changes.codes import (
    DUAL_ADVERTISED,
    DUAL_DEVICES_HELD,
    DUAL_NODES_AVOIDED,
)
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.targets.plan import TargetResult

_REQUIRED: Final[Path] = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
)
_TERMS: Final[Path] = (*_REQUIRED, "nodeSelectorTerms")
_WITHOUT_LABEL: Final[Value] = {"key": LABEL, "operator": "DoesNotExist"}
_EXPRESSIONS: Final = "matchExpressions"
DualSource: TypeAlias = ResourceFacts | Driver


def find_dual_sources(
    asks: Iterable[Ask],
    results: Iterable[TargetResult],
    facts: Facts | None,
    configuration: Configuration,
) -> tuple[DualSource, ...]:
    """Find the resources by which device plugins allocate the devices of these asks or claims.

    If no plugin is left, return the drivers of nodes that still have the label: the facts do not
    count a plugin that restarts, or whose last pods still run.
    """
    if facts is None:
        return ()
    wanted = {name for ask in asks for name in ask.resources}
    families = known_families(configuration)
    drivers = {driver for each in results for driver in each.drivers}
    wanted.update(
        *(
            served_names(families[driver].plugin_names, facts.plugin_resources)
            for driver in drivers
            if driver in families
        )
    )
    names = tuple(each for each in facts.names if each.nodes and each.name in wanted)
    return names or tuple(each for each in facts.drivers if each.dual and each.name in drivers)


def avoid_dual_nodes(patch: Patch) -> None:
    """Require nodes without the label; raises EditError if a field has the wrong type."""
    required = get_value(patch.pod, _REQUIRED)
    terms = as_mapping(required).get("nodeSelectorTerms")
    if required is None:
        # Add a single expression, so that others can add theirs to the same term.
        patch.append((*_TERMS, 0, _EXPRESSIONS), _WITHOUT_LABEL)
    # The terms are alternatives. An empty term matches no node; with the expression it would match.
    for number, term in enumerate(as_list(terms)):
        expressions = as_list(as_mapping(term).get(_EXPRESSIONS))
        has_expressions = expressions or as_list(as_mapping(term).get("matchFields"))
        if has_expressions and _WITHOUT_LABEL not in expressions:
            patch.append((*_TERMS, number, _EXPRESSIONS), _WITHOUT_LABEL)


def report_dual_sources(sources: tuple[DualSource, ...]) -> Iterator[Finding]:
    """Report the resources that nodes offer twice, and the devices that stay idle."""
    where = "spec.affinity.nodeAffinity"
    names = [each for each in sources if isinstance(each, ResourceFacts)]
    for driver in sources:
        if isinstance(driver, Driver):
            yield DUAL_DEVICES_HELD.at(
                where,
                f"pods may still hold devices of {driver.name} from a device plugin on "
                f"{count_noun(driver.dual, 'node')}; the pod avoids {_these(driver.dual)}",
            )
    for name in names:
        if name.dual:
            idle = min(name.devices, name.dual * name.most)
            yield DUAL_ADVERTISED.at(
                where,
                f"a device plugin advertises {name.name} on {_also_publishing(name.dual)}; the pod "
                f"avoids {_these(name.dual)}, which leaves up to "
                f"{count_noun(idle, 'device')} idle",
            )
    if names and not any(each.dual for each in names):
        plugins = ", ".join(f"{each.name} on {count_noun(each.nodes, 'node')}" for each in names)
        yield DUAL_NODES_AVOIDED.at(
            where,
            f"a device plugin serves {plugins}; the pod avoids nodes that also publish the devices "
            "in ResourceSlices",
        )


def report_left(asks: Iterable[Ask], facts: Facts | None) -> Iterator[Finding]:
    """Report the resources of untranslated asks that nodes offer twice."""
    by_name = {name: ask for ask in asks for name in ask.plugin_names}
    for name, ask in by_name.items():
        resource = facts.find_resource(name) if facts else None
        if resource and resource.dual:
            yield DUAL_ADVERTISED.at(
                format_path(ask.users[0].path) if ask.users else "",
                f"a device plugin advertises {name} on {_also_publishing(resource.dual)}, so the "
                "pod and a claim may get the same device",
            )


def _also_publishing(count: int) -> str:
    nodes = "1 node that also publishes" if count == 1 else f"{count:,} nodes that also publish"
    return f"{nodes} the same devices in ResourceSlices"


def _these(count: int) -> str:
    return "this node" if count == 1 else "these nodes"
