"""Facts: what of a cluster decides a translation, in aggregates.

Every table counts; none lists nodes or devices, and each has a bound on its size, so that the
facts of five thousand nodes fit in one ConfigMap. Knows nothing of how they are gathered.
"""

import functools
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from dra.classes import IMPLICIT_PREFIX
from dra.gates import NEWEST
from dra.names import API_VERSION

KIND: Final = "Facts"
# The label of nodes where a plugin hands out what slices show as well.


class FactsPart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """An object of the file; what has its default is not written."""


class Cluster(FactsPart, frozen=True):
    """What the API server is and keeps."""

    version: str = NEWEST
    api: str = "v1"
    gates: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()


class ClassFacts(FactsPart, frozen=True):
    """A DeviceClass, and how many devices of which drivers it selects."""

    name: str
    extended: str = ""
    drivers: tuple[str, ...] = ()
    devices: int = 0


class ResourceFacts(FactsPart, frozen=True):
    """Who serves an extended resource: classes, of which the first one wins, and plugins.

    `nodes` have it allocatable, `devices` in all and at most `most` on one of them; `dual` nodes
    also see devices of a driver that serves the same name, so that one device may go out twice.
    """

    name: str
    classes: tuple[str, ...] = ()
    nodes: int = 0
    devices: int = 0
    most: int = 0
    dual: int = 0


class Amount(FactsPart, frozen=True):
    """A capacity of each device of a product, and what a request for less is rounded to."""

    value: str
    default: str = ""
    least: str = ""
    most: str = ""
    step: str = ""


class Product(FactsPart, frozen=True):
    """Devices that are alike in what a translation looks at; `most` is on one node."""

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
    """What a driver publishes: attributes by full name with their types, and capacities.

    `dual` of its nodes are labelled: a plugin hands out the same devices there, or did, and what it
    gave away may still be held.
    """

    name: str
    kind: str = ""
    devices: int = 0
    nodes: int = 0
    dual: int = 0
    attributes: Mapping[str, str] = {}
    capacities: tuple[str, ...] = ()


class Neighbourhood(FactsPart, frozen=True):
    """Devices that share one PCIe root or NUMA node, and how often a node has just that."""

    gpus: int
    nics: int
    times: int = 1


class NodeShape(FactsPart, frozen=True):
    """How the GPUs of one driver and the NICs of another lie to each other on alike nodes.

    Only devices that publish the standard attribute are in a neighbourhood.
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
        """Whether any GPU shares its PCIe root with a NIC."""
        return any(each.gpus and each.nics for each in self.pcie)

    @property
    def numa_relates(self) -> bool:
        """Whether any GPU shares its NUMA node with a NIC."""
        return any(each.gpus and each.nics for each in self.numa)


class Facts(FactsPart, frozen=True, dict=True):  # for what is looked up
    """All of it; `omitted` counts the rows that found no place in a table."""

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
        """Whether this API server keeps a field of a claim that older ones drop."""
        return field in self.cluster.keeps

    def find_class(self, name: str) -> ClassFacts | None:
        """The class of this name."""
        return self._classes.get(name)

    def find_driver(self, name: str) -> Driver | None:
        """What the driver of this name publishes."""
        return self._drivers.get(name)

    def products_of(self, driver: str) -> tuple[Product, ...]:
        """The products of a driver."""
        return self._products.get(driver, ())

    def find_resource(self, name: str) -> ResourceFacts:
        """Who serves an extended resource; the implicit name of a class is served by that class."""
        found = self._names.get(name) or ResourceFacts(name)
        implied = name.removeprefix(IMPLICIT_PREFIX)
        if implied != name and self.find_class(implied) and not found.classes:
            return msgspec.structs.replace(found, classes=(implied,))
        return found

    @functools.cached_property
    def plugin_resources(self) -> tuple[str, ...]:
        """The names that a plugin hands out somewhere."""
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
