"""Counts the units of device plugins that a pod uses."""

from collections.abc import Callable, Iterable, Mapping

from drawbridge.containers import most_at_once
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import valid_quantity
from drawbridge.translate.legacy.pod_view import is_device_resource

# More than any node has. Tenants write amounts.
MOST_UNITS = 100_000


def count_units(
    pod: Value, is_counted: Callable[[str], bool] = is_device_resource
) -> dict[str, int]:
    """Return the units of legacy names that containers use at the same time.

    `is_counted` selects other names.
    """
    containers = (
        (
            part == "initContainers" and as_mapping(each).get("restartPolicy") != "Always",
            as_mapping(get_value(each, ("resources", "limits"))),
        )
        for part in ("initContainers", "containers")
        for each in as_list(get_value(pod, ("spec", part)))
    )
    return sum_units(containers, is_counted)


def count_plugin_units(pod: Value) -> dict[str, int]:
    """Return the units that device plugins give to a pod, without names that a class serves to it.

    A container that has ended keeps its units until the pod ends; later containers use them.
    """
    served = served_by_class(pod)
    return {name: units for name, units in count_units(pod).items() if name not in served}


def served_by_class(pod: Value) -> frozenset[str]:
    """Return the extended resources for which the scheduler gave the pod a claim."""
    path = ("status", "extendedResourceClaimStatus", "requestMappings")
    names = (get_value(each, ("resourceName",)) for each in as_list(get_value(pod, path)))
    return frozenset(each for each in names if isinstance(each, str))


def sum_units(
    containers: Iterable[tuple[bool, Mapping[str, Value]]], is_counted: Callable[[str], bool]
) -> dict[str, int]:
    """Return the units at the same time of names that count, from the limits of containers.

    The limits come in the order in which the containers start, with whether the container ends
    before the next one starts.
    """
    units: dict[str, list[tuple[bool, int]]] = {}
    for ends, limits in containers:
        for name, amount in limits.items():
            quantity = valid_quantity(amount) if is_counted(name) else None
            number = min(quantity.value(), MOST_UNITS) if quantity else 0
            if number > 0:
                units.setdefault(name, []).append((ends, number))
    return {name: most_at_once(units[name]) for name in sorted(units)}
