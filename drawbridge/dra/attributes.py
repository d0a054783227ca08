"""Look up attributes and capacities by name, as selectors and as constraints do.

A name without a domain belongs to the driver that publishes it.
"""

from collections.abc import Mapping
from typing import TypeVar

from drawbridge.dra.device import Attribute, Device, Scalar

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

T = TypeVar("T")


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a name into domain and identifier. The default domain is the driver name."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def group_by_domain(published: Mapping[str, T], driver: str) -> dict[str, dict[str, T]]:
    """Return attributes or capacities as selectors read them: by domain, then by identifier.

    If a driver publishes both `x` and `<driver>/x`, Kubernetes uses one of them at random. This
    function returns the value of the full name, as constraints do.
    """
    domains: dict[str, dict[str, T]] = {}
    for name, value in published.items():
        domain, identifier = split_name(name, driver)
        of_domain = domains.setdefault(domain, {})
        if "/" in name or identifier not in of_domain:
            of_domain[identifier] = value
    return domains


def find_attribute(device: Device, driver: str, name: str) -> Attribute | None:
    """Find an attribute for a constraint: by full name, then by name in the driver's domain."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == driver:
            attribute = device.attributes.get(identifier)
    return attribute


def attribute_value(attribute: Attribute) -> Scalar | tuple[Scalar, ...] | None:
    """Return the value of an attribute. Versions are strings."""
    for name in Attribute.__struct_fields__:
        typed: Scalar | tuple[Scalar, ...] | None = getattr(attribute, name)
        if typed is not None:
            return typed
    return None
