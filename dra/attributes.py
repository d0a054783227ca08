"""Names of attributes and capacities: standard ones, and how an unqualified one is found.

A name without a domain belongs to the driver that publishes it. Selectors and constraints look
names up in two ways, and both are here. What an attribute's value means is not known here.
"""

from collections.abc import Mapping
from typing import TypeVar

from dra.device import Attribute, Device, Scalar

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

T = TypeVar("T")


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a name at its first slash into domain and identifier; the driver's domain if none."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def group_by_domain(published: Mapping[str, T], driver: str) -> dict[str, dict[str, T]]:
    """Give attributes or capacities as a selector sees them: domain, then identifier.

    Where a driver publishes both `x` and `<driver>/x`, upstream shows either by chance; this shows
    the full name's, as constraints do.
    """
    domains: dict[str, dict[str, T]] = {}
    for name, value in published.items():
        domain, identifier = split_name(name, driver)
        known = domains.setdefault(domain, {})
        if "/" in name or identifier not in known:
            known[identifier] = value
    return domains


def find_attribute(device: Device, driver: str, name: str) -> Attribute | None:
    """Find the attribute of a constraint: the full name, else the driver's own bare one."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == driver:
            attribute = device.attributes.get(identifier)
    return attribute


def attribute_value(attribute: Attribute) -> Scalar | tuple[Scalar, ...] | None:
    """Give the value an attribute holds, of whichever type; versions as text."""
    for name in Attribute.__struct_fields__:
        held: Scalar | tuple[Scalar, ...] | None = getattr(attribute, name)
        if held is not None:
            return held
    return None
