"""Facts: the aggregates of a cluster that decide how pods are translated.

Tables contain counts and do not list nodes or devices. Each table has a size limit, so that the
facts of 5,000 nodes fit into one ConfigMap.
"""

import functools
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from dra.classes import IMPLICIT_PREFIX
from dra.gates import NEWEST
from dra.names import API_VERSION

KIND: Final = "Facts"


class FactsPart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """An object of the facts file. Fields with their default value are omitted."""


class Cluster(FactsPart, frozen=True):
    """Version and feature gates of the API server, and the optional claim fields that it stores."""

    version: str = NEWEST
    api: str = "v1"
    gates: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()


class ClassFacts(FactsPart, frozen=True):
    """A DeviceClass, and the drivers and number of the devices that it selects."""

    name: str
    extended: str = ""
    drivers: tuple[str, ...] = ()
    devices: int = 0


class ResourceFacts(FactsPart, frozen=True):
    """The DeviceClasses and device plugins that serve an extended resource.

    The first class takes precedence. A device plugin advertises the resource on `nodes` nodes:
    `devices` in total and at most `most` on one node. On `dual` nodes, a DRA driver publishes the
    same devices, so that a device could be allocated twice.
    """

    name: str
    classes: tuple[str, ...] = ()
    nodes: int = 0
    devices: int = 0
    most: int = 0
    dual: int = 0


class Amount(FactsPart, frozen=True):
    """A capacity of a product, and the request policy that rounds smaller requests."""

    value: str
    default: str = ""
    least: str = ""
    most: str = ""
    step: str = ""


class Product(FactsPart, frozen=True):
    """Devices with the same properties. `most` is the largest number of them on one node."""

    driver: str
    type: str = ""
    name: str = ""
    profile: str = ""
    architecture: str = ""
    shared: bool = False
    capacity: Mapping[str, Amount] = {}
    classes: tuple[str, ...] = ()
    devices: int = 0
    nodes: int = 0
    most: int = 0


class Driver(FactsPart, frozen=True):
    """The attributes (full name and type) and capacities that a driver publishes.

    `dual` of its nodes have the dual label: a device plugin allocates the same devices there, or
    did, and pods may still use them.
    """

    name: str
    kind: str = ""
    devices: int = 0
    nodes: int = 0
    dual: int = 0
    attributes: Mapping[str, str] = {}
    capacities: tuple[str, ...] = ()


class Neighbourhood(FactsPart, frozen=True):
    """Devices that share one PCIe root or NUMA node, and how often a node has this group."""

    gpus: int
    nics: int
    times: int = 1


class NodeShape(FactsPart, frozen=True):
    """The topology of the GPUs of one driver and the NICs of another, equal on `nodes` nodes.

    Only devices that publish the standard attribute belong to a neighbourhood.
    """

    gpu: str
    nic: str = ""
    gpus: int = 0
    nics: int = 0
    pcie: tuple[Neighbourhood, ...] = ()
    numa: tuple[Neighbourhood, ...] = ()
    nodes: int = 1

    @property
    def pcie_relates(self) -> bool:
        """Tell whether any GPU shares its PCIe root with a NIC."""
        return any(each.gpus and each.nics for each in self.pcie)

    @property
    def numa_relates(self) -> bool:
        """Tell whether any GPU shares its NUMA node with a NIC."""
        return any(each.gpus and each.nics for each in self.numa)


class Facts(FactsPart, frozen=True, dict=True):  # for the cached properties
    """All facts of a cluster. `omitted` counts the rows dropped from each table."""

    api_version: Literal["drawbridge.dev/v1alpha1"] = API_VERSION
    kind: Literal["Facts"] = KIND
    cluster: Cluster = Cluster()
    classes: tuple[ClassFacts, ...] = ()
    names: tuple[ResourceFacts, ...] = ()
    products: tuple[Product, ...] = ()
    drivers: tuple[Driver, ...] = ()
    shapes: tuple[NodeShape, ...] = ()
    omitted: Mapping[str, int] = {}

    def keeps_field(self, field: str) -> bool:
        """Tell whether the API server stores a claim field that older API servers drop."""
        return field in self.cluster.keeps

    def find_class(self, name: str) -> ClassFacts | None:
        """Return the class with this name."""
        return self._classes.get(name)

    def find_driver(self, name: str) -> Driver | None:
        """Return the driver with this name."""
        return self._drivers.get(name)

    def products_of(self, driver: str) -> tuple[Product, ...]:
        """Return the products of a driver."""
        return self._products.get(driver, ())

    def find_resource(self, name: str) -> ResourceFacts:
        """Return the servers of an extended resource.

        A class serves its implicit extended resource name.
        """
        found = self._names.get(name) or ResourceFacts(name)
        implied = name.removeprefix(IMPLICIT_PREFIX)
        if implied != name and self.find_class(implied) and not found.classes:
            return msgspec.structs.replace(found, classes=(implied,))
        return found

    @functools.cached_property
    def plugin_resources(self) -> tuple[str, ...]:
        """Return the extended resources that a device plugin advertises on any node."""
        return tuple(each.name for each in self.names if each.nodes)

    @functools.cached_property
    def _classes(self) -> Mapping[str, ClassFacts]:
        return {each.name: each for each in reversed(self.classes)}

    @functools.cached_property
    def _drivers(self) -> Mapping[str, Driver]:
        return {each.name: each for each in reversed(self.drivers)}

    @functools.cached_property
    def _names(self) -> Mapping[str, ResourceFacts]:
        return {each.name: each for each in reversed(self.names)}

    @functools.cached_property
    def _products(self) -> Mapping[str, tuple[Product, ...]]:
        found: dict[str, list[Product]] = {}
        for each in self.products:
            found.setdefault(each.driver, []).append(each)
        return {driver: tuple(rows) for driver, rows in found.items()}
