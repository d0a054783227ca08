"""How much a pod holds or asks: units of legacy names, and devices or shares of them by class."""

from collections import Counter
from collections.abc import Iterable, Mapping

from drawbridge.audit.model import PodDemand
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import QuantityError, from_json, parse
from drawbridge.facts.model import Facts
from drawbridge.translate.legacy.pod_view import is_device_resource

# More than any node has. Tenants write amounts.
_MOST = 100_000
# The largest capacity of a device, by DeviceClass and name of the capacity.
Sizes = Mapping[str, Mapping[str, int]]


def find_sizes(facts: Facts) -> Sizes:
    """Return the largest capacities of the devices of each class."""
    sizes: dict[str, dict[str, int]] = {}
    for product in facts.products:
        for name in product.classes:
            capacities = sizes.setdefault(name, {})
            for capacity, amount in product.capacity.items():
                capacities[capacity] = max(capacities.get(capacity, 0), parse(amount.value).value())
    return sizes


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
                yield name, min(units, _MOST)


def count_devices(specs: Iterable[Value], sizes: Sizes) -> dict[str, float]:
    """Return the devices that claims ask, by class; a share counts as its largest fraction.

    Of alternatives, the first one counts. `All` counts as one device.
    """
    devices: dict[str, float] = {}
    for spec in specs:
        for request in map(as_mapping, as_list(get_value(spec, ("devices", "requests")))):
            options = as_list(request.get("firstAvailable"))
            first = as_mapping(options[0]) if options else request
            option = as_mapping(request.get("exactly")) or first
            if option.get("adminAccess") is True:
                continue
            name, count = f"{option.get('deviceClassName', '')}", option.get("count")
            number = count if isinstance(count, int) else 1
            share = _share(option, sizes.get(name, {}))
            devices[name] = devices.get(name, 0) + min(number, _MOST) * share
    return devices


def _share(option: Mapping[str, Value], sizes: Mapping[str, int]) -> float:
    asked = as_mapping(get_value(option.get("capacity"), ("requests",)))
    shares = []
    for name, amount in asked.items():
        try:
            units = from_json(amount).value()
        except QuantityError:
            continue
        if sizes.get(name):
            shares.append(min(1.0, units / sizes[name]))
    return max(shares, default=1.0)


def times(demand: PodDemand, number: int) -> PodDemand:
    """Return the demand of several alike pods."""
    return PodDemand(
        {name: units * number for name, units in demand.units.items()},
        {name: devices * number for name, devices in demand.devices.items()},
    )
