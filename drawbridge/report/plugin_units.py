"""Counts the units of device plugins that a pod uses."""

from collections import Counter
from collections.abc import Iterable

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import QuantityError, from_json
from drawbridge.translate.legacy.pod_view import is_device_resource

# More than any node has. Tenants write amounts.
MOST_UNITS = 100_000


def count_units(pod: Value) -> dict[str, int]:
    """Return the units of legacy names that containers use at the same time."""
    main, init = Counter[str](), dict[str, int]()
    for part in ("containers", "initContainers"):
        for container in as_list(get_value(pod, ("spec", part))):
            is_main = part == "containers" or as_mapping(container).get("restartPolicy") == "Always"
            for name, amount in _amounts(container):
                if is_main:
                    main[name] += amount
                else:
                    init[name] = max(init.get(name, 0), amount)
    return {name: max(main[name], init.get(name, 0)) for name in sorted({*main, *init})}


def _amounts(container: Value) -> Iterable[tuple[str, int]]:
    for name, amount in as_mapping(get_value(container, ("resources", "limits"))).items():
        if is_device_resource(name):
            try:
                units = from_json(amount).value()
            except QuantityError:
                continue
            if units > 0:
                yield name, min(units, MOST_UNITS)
