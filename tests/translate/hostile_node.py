"""Clusters with one hostile node, and what translations give on the devices of all others.

The honest nodes have the hardware and the drivers of the worlds, each on several nodes. The hostile
node publishes whatever its drivers can: odd attributes, types, products, amounts, numbers and
drivers, advertises names of device plugins, and has labels.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drawbridge.cel.dra import Selectors
from drawbridge.dra.device import Attribute, Capacity, Device, RequestPolicy, ValidRange
from drawbridge.dra.families import FAMILIES
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.translate.context import Translation
from e2e.nodes.family import CLASSES
from tests.facts import clusters
from tests.tables import YamlValue
from tests.translate import worlds

HOSTILE: Final = "hostile"
LABELS: Final = (
    ("node.koordinator.sh/gpu-partition-policy", "Honor"),
    ("drawbridge.dev/dual", "true"),
    ("nvidia.com/gpu.product", "Odd"),
)
_TEXTS: Final = ("", "x", "NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", "gpu", "mig", "A" * 60)
_AMOUNTS: Final = ("1", "1Mi", "5Gi", "80Gi", "1Ti", "7", "100", "1e400", "-1e400", "1n", "0")


class Cluster(NamedTuple):
    """The honest objects, with one device of each kind for what they match."""

    objects: FactsInput
    devices: tuple[tuple[str, Device], ...]


def draw_cluster(words: Sequence[str], rng: random.Random) -> Cluster:
    """Give the hardware of each word, `shape driver mode`, to several nodes."""
    slices: list[Slice] = []
    nodes: dict[str, Node] = {}
    devices: dict[tuple[str, str], tuple[str, Device]] = {}
    # A node has one pool of each driver.
    modes = {tuple(word.split()[:2]): word.split()[2:] for word in reversed(words)}
    for (shape, driver), mode in modes.items():
        for number in range(rng.randint(2, 4)):
            name = f"{shape}-{number}"
            nodes[name] = Node(name)
            of_node = worlds.slices_of_node(name, shape, driver, *mode)
            slices += of_node
            for published in of_node:
                for device in published.devices:
                    devices.setdefault((driver, f"{shape}/{device.name}"), (driver, device))
    classes = tuple(clusters.device_class(name, cel=cel) for name, cel in CLASSES.items())
    objects = FactsInput(tuple(slices), classes, tuple(nodes.values()))
    return Cluster(objects, tuple(devices.values()))


def add_hostile(cluster: Cluster, rng: random.Random, plugins: Sequence[str] = ()) -> FactsInput:
    """Add one node whose devices, names and labels are drawn."""
    copied = [each for _, each in cluster.devices]
    drivers = [each.driver for each in FAMILIES if rng.random() < 0.5] or [FAMILIES[0].driver]
    slices = []
    for driver in drivers:
        number = rng.choice((1, 3, 20, 128))
        made = [_draw_device(f"odd-{i}", driver, copied, rng) for i in range(number)]
        slices.append(clusters.slice_of(driver, HOSTILE, made))
    if rng.random() < 0.2:
        slices = [*slices[:-1], slices[-1].__class__(**{**_fields(slices[-1]), "slice_count": 3})]
    names: dict[str, object] = {
        name: rng.choice(("1", "8", "1000", "1e400", "-1"))
        for name in plugins
        if rng.random() < 0.5
    }
    if rng.random() < 0.3:
        names |= {f"aaa.example/{'n' * 40}{i}": "1" for i in range(500)}
    labels = {key: value for key, value in LABELS if rng.random() < 0.5}
    objects = cluster.objects
    node = clusters.node(HOSTILE, names, labels)
    return FactsInput((*objects.slices, *slices), objects.classes, (*objects.nodes, node))


def _fields(value: Slice) -> dict[str, Any]:
    return {name: getattr(value, name) for name in Slice.__struct_fields__}


def _draw_device(name: str, driver: str, copied: Sequence[Device], rng: random.Random) -> Device:
    """Copy a device of somebody, and change, remove and add what it publishes."""
    source = rng.choice(copied)
    attributes = {
        f"{driver}/{key.partition('/')[2]}" if rng.random() < 0.1 else key: value
        for key, value in source.attributes.items()
        if rng.random() < 0.8
    }
    for key in (*list(attributes), "productName", "profile", "type", "uuid", "partition4"):
        if rng.random() < 0.3:
            attributes[key] = _draw_attribute(rng)
    for number in range(rng.choice((0, 0, 3, 25))):
        attributes[f"a{number:03}{rng.random()}"[:20]] = _draw_attribute(rng)
    capacity = {
        key: _draw_capacity(rng) if rng.random() < 0.4 else value
        for key, value in source.capacity.items()
        if rng.random() < 0.8
    }
    for key in ("memory", f"{driver}/memory", "cores", "shares"):
        if rng.random() < 0.2:
            capacity[key] = _draw_capacity(rng)
    return Device(name, attributes, capacity, allow_multiple_allocations=rng.random() < 0.4)


def _draw_attribute(rng: random.Random) -> Attribute:
    kind = rng.randrange(5)
    text = rng.choice(_TEXTS) or f"Odd {rng.random()}"
    if kind == 0:
        return Attribute(integer=rng.choice((-1, 0, 7)))
    if kind == 1:
        return Attribute(boolean=rng.random() < 0.5)
    return Attribute(version="1.2.3") if kind == 2 else Attribute(text)


def _draw_capacity(rng: random.Random) -> Capacity:
    value = parse(rng.choice(_AMOUNTS))
    if rng.random() < 0.5:
        return Capacity(value)
    bounds = ValidRange(parse(rng.choice(_AMOUNTS)), value, parse(rng.choice(_AMOUNTS)))
    return Capacity(value, RequestPolicy(parse(rng.choice(_AMOUNTS)), valid_range=bounds))


def facts_of(objects: FactsInput) -> Facts:
    """Compute the facts."""
    return gather_facts(objects).facts


class Reach:
    """What translations can get of the devices that are not the hostile node's."""

    def __init__(self, devices: Sequence[tuple[str, Device]]) -> None:
        self._devices = devices
        self._selectors = Selectors("1.37")
        self._matched: dict[tuple[str, ...], frozenset[int]] = {}

    def of(self, translated: Translation) -> object:
        """Return the claims with the devices that each alternative matches, or the verdict.

        An alternative that matches none of them concerns the hostile node only, and so does a pod
        with such a request, and one that stays with a device plugin.
        """
        if any(f"{each.severity}" == "error" for each in translated.findings):
            return "refused"
        claims = [
            self._claim(each.object["spec"]["spec"]["devices"])  # type: ignore[index,call-overload]
            for each in translated.templates
        ]
        if not claims or any(not ways for requests, *_ in claims for _, ways in requests):
            return "not on other nodes"
        return claims

    def _claim(self, devices: YamlValue) -> tuple[list[tuple[str, list[object]]], object, object]:
        requests: list[tuple[str, list[object]]] = []
        for request in devices["requests"]:
            wanted = [request["exactly"]] if "exactly" in request else request["firstAvailable"]
            ways = [way for each in wanted if (way := self._way(each))]
            requests.append((request["name"], ways))
        return requests, devices.get("constraints", []), devices.get("config", [])

    def _way(self, wanted: YamlValue) -> object:
        texts = tuple(each["cel"]["expression"] for each in wanted.get("selectors", ()))
        matched = self._match((CLASSES[wanted["deviceClassName"]], *texts))
        told = {key: value for key, value in wanted.items() if key not in ("name", "selectors")}
        return (matched, told) if matched else None

    def _match(self, texts: tuple[str, ...]) -> frozenset[int]:
        if texts not in self._matched:
            self._matched[texts] = frozenset(
                number
                for number, (driver, device) in enumerate(self._devices)
                if all(
                    self._selectors.evaluate(text, driver, device).result is True for text in texts
                )
            )
        return self._matched[texts]


def list_tables(
    facts: Facts, others: Facts | None = None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what facts say about the devices of several nodes, by table.

    With `others`, only about their drivers.
    """
    drivers = {each.name for each in (others or facts).drivers}
    yield (
        "products",
        {
            f"{(row.driver, row.type, row.name, row.profile, row.shared, row.capacity)}": (
                row.classes
            )
            for row in facts.products
            if not row.single and row.driver in drivers
        },
    )
    # Of two nodes, each says as much as the other.
    nodes: Counter[tuple[str, str]] = Counter()
    for shape in (others or facts).shapes:
        nodes[shape.gpu, shape.nic] += shape.nodes
    pairs = {pair for pair, count in nodes.items() if count > 1}
    yield (
        "shapes",
        {
            f"{(row.gpu, row.nic, row.pcie, row.numa, row.derived)}": row.gpus
            for row in facts.shapes
            if not row.single and (row.gpu, row.nic) in pairs
        },
    )
    yield (
        "drivers",
        {
            each.name: (each.kind, each.common_attributes, each.partition_policy)
            for each in facts.drivers
            if each.name in drivers
        },
    )
