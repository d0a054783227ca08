"""How much a pod holds or asks: units of legacy names, and devices or shares of them by class."""

from collections.abc import Iterable, Mapping

from drawbridge.audit.model import PodDemand
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import QuantityError, from_json, parse, to_int64
from drawbridge.facts.model import Facts
from drawbridge.report.plugin_units import MOST_UNITS

# The largest capacity of a device, by DeviceClass and name of the capacity.
Sizes = Mapping[str, Mapping[str, int]]


def find_sizes(facts: Facts) -> Sizes:
    """Return the largest capacities of the devices of each class."""
    sizes: dict[str, dict[str, int]] = {}
    for product in facts.products:
        for name in product.classes:
            capacities = sizes.setdefault(name, {})
            for capacity, amount in product.capacity.items():
                size = to_int64(parse(amount.value).value())
                capacities[capacity] = max(capacities.get(capacity, 0), size)
    return sizes


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
            share = find_share(_read_amounts(option), sizes.get(name, {}))
            devices[name] = devices.get(name, 0) + min(number, MOST_UNITS) * share
    return devices


def find_share(amounts: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """Return the largest fraction that amounts are of a device; a whole one without amounts."""
    shares = [
        min(1.0, max(0, to_int64(number)) / sizes[name])
        for name, number in amounts.items()
        if sizes.get(name)
    ]
    return max(shares, default=1.0)


def _read_amounts(option: Mapping[str, Value]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, amount in as_mapping(get_value(option.get("capacity"), ("requests",))).items():
        try:
            amounts[name] = from_json(amount).value()
        except QuantityError:
            continue
    return amounts


def times(demand: PodDemand, number: int) -> PodDemand:
    """Return the demand of several alike pods."""
    return PodDemand(
        {name: units * number for name, units in demand.units.items()},
        {name: devices * number for name, devices in demand.devices.items()},
    )
