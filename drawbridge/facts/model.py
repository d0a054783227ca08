"""Facts: the aggregates of a cluster that decide how pods are translated.

Tables contain counts and do not list nodes or devices. Each table has a size limit, so that the
facts of 5,000 nodes fit into one ConfigMap.
"""

import enum
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from drawbridge.dra.classes import IMPLICIT_PREFIX, MAX_IMPLICIT_LENGTH, is_implicit_name
from drawbridge.dra.gates import NEWEST, Gates
from drawbridge.names import API_VERSION

KIND: Final = "Facts"
# The path of derived attributes in a request (KEP-6080).
DERIVED_FIELD: Final = "exactly.derivedAttributes"
# The feature gate of each optional field of a claim, by the path of the field in a request.
GATE_OF_FIELD: Final = {
    "exactly.adminAccess": "admin_access",
    "firstAvailable": "prioritized_list",
    "exactly.tolerations": "device_taints",
    "exactly.capacity": "consumable_capacity",
    "constraints.distinctAttribute": "consumable_capacity",
    DERIVED_FIELD: "derived_attributes",
}


def observe_gates(gates: Gates, stored: Collection[str]) -> Gates:
    """Return the gates as the fields of claims show them that an API server stores."""
    observed: dict[str, bool] = {}
    for field, gate in GATE_OF_FIELD.items():
        observed[gate] = observed.get(gate, False) or field in stored
    return msgspec.structs.replace(gates, **observed)


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

    @property
    def classes_serve_names(self) -> bool:
        """Whether DeviceClasses serve extended resources. The gate is locked on since 1.37."""
        return "extended_resource" in self.gates or self.version >= "1.37"

    @property
    def feature_gates(self) -> Gates:
        """The feature gates of the scheduler and the API server."""
        fields = (field for field in Gates.__struct_fields__ if field != "version")
        return Gates(self.version, **{field: field in self.gates for field in fields})


class ClassFacts(FactsPart, frozen=True):
    """A DeviceClass, and the drivers and number of the devices that it selects.

    `owned` of the devices are in owned pools, which only the Drawbridge allocator uses; None if no
    entry of `ownedPools` is for their drivers, or if it is unknown because Nodes are. `closed`
    tells that no other kinds of devices will come, so that a request that none of them satisfies
    can be refused. The devices of a `single` class are on one node of more than two with devices.
    Each unit of the extended resource takes `share` of a device; without it, a whole device. If
    `name_ignored`, a kubelet gives pods nothing for the extended resource: only claims get devices.
    """

    name: str
    extended: str = ""
    share: Mapping[str, str] = {}
    drivers: tuple[str, ...] = ()
    devices: int = 0
    owned: int | None = None
    closed: bool = False
    single: bool = False
    name_ignored: bool = False


class ResourceFacts(FactsPart, frozen=True):
    """The DeviceClasses and device plugins that serve an extended resource.

    The first class takes precedence. A device plugin advertises the resource on `nodes` nodes:
    `devices` in total and at most `most` on one node. On `dual` nodes, a DRA driver publishes the
    same devices, so that a device could be allocated twice. A `single` name is on one node of more
    than two.
    """

    name: str
    classes: tuple[str, ...] = ()
    nodes: int = 0
    devices: int = 0
    most: int = 0
    dual: int = 0
    single: bool = False


class Amount(FactsPart, frozen=True):
    """A capacity of a product, and the request policy that rounds smaller requests."""

    value: str
    default: str = ""
    least: str = ""
    most: str = ""
    step: str = ""


class Product(FactsPart, frozen=True):
    """Devices with the same properties. `most` is the largest number of them on one node.

    A `single` product is on one node, of more than two with its driver: a pod can get its devices,
    but it decides nothing about the devices of other nodes.
    """

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
    single: bool = False


class PartitionPolicy(enum.StrEnum):
    """Koordinator's policy for the GPU partitions of nodes, by their labels."""

    PREFER = ""
    HONOR = "Honor"  # on all nodes
    MIXED = "mixed"  # Honor on some of the nodes


class Driver(FactsPart, frozen=True):
    """The attributes (full name and type) and capacities that a driver publishes.

    More than a few nodes lack the `partial` attributes, or have them with another type.
    `dual` of its nodes have the dual label: a device plugin allocates the same devices there, or
    did, and pods may still use them. A `single` driver is on one node of more than two with devices
    of its kind, and no other driver's place is its own.
    """

    name: str
    kind: str = ""
    devices: int = 0
    nodes: int = 0
    dual: int = 0
    attributes: Mapping[str, str] = {}
    partial: tuple[str, ...] = ()
    capacities: tuple[str, ...] = ()
    partition_policy: PartitionPolicy = PartitionPolicy.PREFER
    single: bool = False

    @property
    def common_attributes(self) -> Mapping[str, str]:
        """The attributes that a claim can require without leaving out more than a few nodes."""
        return {name: each for name, each in self.attributes.items() if name not in self.partial}


class Neighbourhood(FactsPart, frozen=True):
    """Devices that share one PCIe root or NUMA node, and how often a node has this group."""

    gpus: int
    nics: int
    times: int = 1


class NodeShape(FactsPart, frozen=True):
    """The topology of the GPUs of one driver and the NICs of another, equal on `nodes` nodes.

    Only devices that publish the standard attribute belong to a neighbourhood. In `derived`, the
    NUMA node of a driver without it is that of the driver's own attribute, which a claim can
    compare only where the API server stores derived attributes. A `single` shape is on one node of
    more than two with the GPU driver, and decides nothing about the others.
    """

    gpu: str
    nic: str = ""
    gpus: int = 0
    nics: int = 0
    pcie: tuple[Neighbourhood, ...] = ()
    numa: tuple[Neighbourhood, ...] = ()
    derived: tuple[Neighbourhood, ...] = ()
    nodes: int = 1
    single: bool = False

    @property
    def pcie_relates(self) -> bool:
        """Tell whether any GPU shares its PCIe root with a NIC."""
        return any(each.gpus and each.nics for each in self.pcie)

    @property
    def numa_relates(self) -> bool:
        """Tell whether any GPU shares its NUMA node with a NIC."""
        return any(each.gpus and each.nics for each in self.numa)

    @property
    def derived_relates(self) -> bool:
        """Tell whether any GPU shares its NUMA node with a NIC by a derived attribute."""
        return any(each.gpus and each.nics for each in self.derived)


class NodeOffer(FactsPart, frozen=True):
    """What alike nodes offer together: the DeviceClasses with devices, and the plugins' names.

    On `dual` nodes, a device plugin and a DRA driver offer the same devices, and translated pods
    avoid them. `names` includes the names that a plugin reads without advertising them.
    """

    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    dual: bool = False
    nodes: int = 1


class NetworkFacts(FactsPart, frozen=True):
    """A secondary network, as namespace/name, and the resource that provides its interfaces."""

    name: str
    resource: str


_Row = TypeVar("_Row", ResourceFacts, Product, Driver, NodeShape)


def of_several(rows: Iterable[_Row]) -> Sequence[_Row]:
    """Return the rows of several nodes; if there are none, all."""
    listed = list(rows)
    return [each for each in listed if not each.single] or listed


class Facts(FactsPart, frozen=True, dict=True):  # for the cached properties
    """All facts of a cluster. `omitted` counts the rows dropped from each table.

    `scheduler` is false while bridge placement is configured and its scheduler does not run.
    """

    api_version: Literal["drawbridge.dev/v1alpha1"] = API_VERSION
    kind: Literal["Facts"] = KIND
    cluster: Cluster = Cluster()
    classes: tuple[ClassFacts, ...] = ()
    names: tuple[ResourceFacts, ...] = ()
    products: tuple[Product, ...] = ()
    drivers: tuple[Driver, ...] = ()
    shapes: tuple[NodeShape, ...] = ()
    offers: tuple[NodeOffer, ...] = ()
    networks: tuple[NetworkFacts, ...] = ()
    omitted: Mapping[str, int] = {}
    scheduler: bool = True

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

        Classes serve nothing if the version or the gates of the cluster say so. A class also serves
        its implicit extended resource name.
        """
        resource = self._names.get(name) or ResourceFacts(name)
        if not self.cluster.classes_serve_names:
            return msgspec.structs.replace(resource, classes=())
        implied = name.removeprefix(IMPLICIT_PREFIX)
        if implied == name or resource.classes or len(implied) > MAX_IMPLICIT_LENGTH:
            return resource
        exists = self.find_class(implied)
        return msgspec.structs.replace(resource, classes=(implied,)) if exists else resource

    def names_of_classes(self) -> Mapping[str, str]:
        """Return the extended resource of each class, to which its devices are charged as well.

        Several classes can have the same one, and each of them is charged to it.
        """
        serving = self.classes if self.cluster.classes_serve_names else ()
        return {each.name: each.extended for each in serving}

    def left_to_classes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the extended resources of a DeviceClass that no device plugin serves.

        Only the default scheduler makes claims for them. No plugin serves an implicit name.
        """
        rows = {name: self.find_resource(name) for name in names}
        return tuple(
            name
            for name, row in rows.items()
            if is_implicit_name(name) or (row.classes and not row.nodes)
        )

    @property
    def knows_offers(self) -> bool:
        """Whether `offers` lists every kind of node that has devices; earlier versions do not."""
        return bool(self.offers) and "offers" not in self.omitted

    @functools.cached_property
    def offers_by_frequency(self) -> tuple[NodeOffer, ...]:
        """The offers, those of most nodes first."""
        return tuple(sorted(self.offers, key=lambda each: -each.nodes))

    @functools.cached_property
    def shapes_by_frequency(self) -> tuple[NodeShape, ...]:
        """The shapes, those of most nodes first. Decisions read this order and not the counts."""
        return tuple(sorted(self.shapes, key=lambda each: (-each.nodes, -each.gpus)))

    def shapes_of(self, gpu: str, nic: str) -> tuple[NodeShape, ...]:
        """Return the shapes of two drivers by frequency; single ones only if all are."""
        rows = [each for each in self.shapes_by_frequency if (each.gpu, each.nic) == (gpu, nic)]
        return tuple(of_several(rows))

    def plugins_serve(self, names: Collection[str]) -> bool:
        """Tell whether the device plugins of one node serve all of these names."""
        if self.offers and any(set(names) <= set(each.names) for each in self.offers):
            return bool(names)
        if self.knows_offers or not names:
            return False
        return all(self.find_resource(name).nodes for name in names)

    def offers_classes(self, classes: Collection[str]) -> bool:
        """Tell whether one node that is not dual has devices of all of these classes."""
        if not self.knows_offers:
            return True
        return any(not each.dual and set(classes) <= set(each.classes) for each in self.offers)

    def narrowed(self, offer: NodeOffer) -> "Facts":
        """Return the facts of a cluster that has only nodes with this offer."""
        return msgspec.structs.replace(
            self,
            classes=tuple(each for each in self.classes if each.name in offer.classes),
            names=tuple(
                msgspec.structs.replace(
                    name,
                    # The class that takes precedence serves the name on every node, or none does.
                    classes=name.classes if set(name.classes[:1]) <= set(offer.classes) else (),
                    nodes=name.nodes if name.name in offer.names else 0,
                )
                for name in self.names
            ),
            offers=(offer,),
        )

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
        products: dict[str, list[Product]] = {}
        for product in self.products:
            products.setdefault(product.driver, []).append(product)
        return {driver: tuple(rows) for driver, rows in products.items()}
