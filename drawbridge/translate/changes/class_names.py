"""Reports the extended resources of a pod that only the default scheduler can allocate.

For a name that a DeviceClass serves, its plugin DynamicResources makes a claim. The scheduler of
Drawbridge runs without that plugin.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.classes import is_implicit_name
from drawbridge.dra.codes import CLASS_NAME_UNSERVED
from drawbridge.dra.counted import list_some
from drawbridge.dra.quantity import valid_quantity
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.changes.codes import CLASS_NAME_MIXED
from drawbridge.translate.changes.scheduler import DEFAULT, OURS, SCHEDULER
from drawbridge.translate.legacy.pod_view import list_containers

_MAX_NAMES: Final = 3
_OURS: Final = f"the scheduler {OURS}"


def report_kept(pod: Value, facts: Facts | None) -> tuple[Finding, ...]:
    """Report the names for which a pod keeps the default scheduler."""
    return _report(pod, facts, f"the pod keeps {DEFAULT}, because {_OURS} does not allocate {{}}")


def report_pending(pod: Value, facts: Facts | None) -> tuple[Finding, ...]:
    """Report the names for which a pod of our scheduler waits for ever."""
    if get_value(pod, SCHEDULER) != OURS:
        return ()
    return _report(pod, facts, f"{_OURS} does not allocate {{}}, so the pod stays pending")


def report_translated(pod: Value, facts: Facts | None) -> tuple[Finding, ...]:
    """Refuse a translated pod of our scheduler with an implicit name: no scheduler serves both.

    A plugin can serve any other name later, such as on a node that an autoscaler adds for the pod.
    """
    places = dict(_list_requests(pod)) if get_value(pod, SCHEDULER) == OURS else {}
    implicit = [*filter(is_implicit_name, places)]
    if not implicit:
        return report_pending(pod, facts)
    message = f"{_OURS} serves the translated requests, and does not allocate {_list(implicit)}"
    return (CLASS_NAME_MIXED.at(format_path(places[implicit[0]]), message),)


def _report(pod: Value, facts: Facts | None, text: str) -> tuple[Finding, ...]:
    """Report the names that a class serves and no plugin; without facts, the implicit ones."""
    places = dict(_list_requests(pod))
    names = (facts or Facts()).left_to_classes(places)
    if not names:
        return ()
    message = text.format(_list(names))
    return (CLASS_NAME_UNSERVED.at(format_path(places[names[0]]), message),)


def _list(names: Sequence[str]) -> str:
    return f"{list_some(names, _MAX_NAMES, 'name')} (of a DeviceClass)"


def _list_requests(pod: Value) -> Iterator[tuple[str, Path]]:
    """Yield the names with a domain that containers request, and where."""
    for path, container, _ in list_containers(as_mapping(get_value(pod, ("spec",)))):
        resources = as_mapping(container.get("resources"))
        for kind in ("requests", "limits"):
            for name, amount in as_mapping(resources.get(kind)).items():
                quantity = valid_quantity(amount) if "/" in name else None
                if quantity is not None and quantity.sign() > 0:
                    yield name, (*path, "resources", kind, name)
