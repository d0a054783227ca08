"""What one node publishes decides nothing about the devices of others."""

import random
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Driver, Facts, PartitionPolicy
from tests.facts import clusters
from tests.thorough import drawn

GPU: Final = "gpu.nvidia.com"
HONOR: Final = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
PRODUCTS: Final = {"NVIDIA L4": "23034Mi", "NVIDIA A100-SXM4-80GB": "80Gi", "NVIDIA T4": "15Gi"}


def _honest(index: int, product: str, labels: dict[str, str]) -> tuple[Slice, Node]:
    name = f"n{index:02}"
    located = {clusters.NUMA: Attribute(integer=0), "uuid": Attribute(f"GPU-{index}")}
    devices = [clusters.gpu(f"gpu-{i}", product, PRODUCTS[product], **located) for i in range(4)]
    return clusters.slice_of(GPU, name, devices), clusters.node(name, {"cpu": "8"}, labels)


def _cluster(rng: random.Random) -> FactsInput:
    """Draw a cluster in which at least two nodes have each product."""
    kinds = rng.sample(sorted(PRODUCTS), rng.randint(1, 3))
    labels = HONOR if rng.random() < 0.5 else {}
    made = [
        _honest(index, kinds[index % len(kinds)], labels)
        for index in range(rng.randint(2, 6) * len(kinds) + 1)
    ]
    classes = (clusters.device_class(GPU, cel=f'device.driver == "{GPU}"'),)
    return FactsInput(tuple(s for s, _ in made), classes, tuple(n for _, n in made))


def _odd_attributes(rng: random.Random) -> list[Device]:
    names = [f"a{i:03}" for i in range(rng.randint(1, 232))] + ["partition4", "partition2"]
    return [
        Device(f"gpu-{i}", {name: Attribute(f"{i}") for name in names[at : at + 30]}, {})
        for i, at in enumerate(range(0, len(names), 30))
    ]


def _odd_types(rng: random.Random) -> list[Device]:
    wrong = {"type": Attribute("gpu"), "productName": Attribute(integer=7)}
    number = rng.randint(1, 8)
    return [Device(f"gpu-{i}", {**wrong, clusters.NUMA: Attribute("zero")}) for i in range(number)]


def _odd_products(rng: random.Random) -> list[Device]:
    return [
        clusters.gpu(f"gpu-{i}", f"AAAA {rng.random()} {'x' * 40}", f"{i + 1}Gi")
        for i in range(rng.randint(100, 600))
    ]


def _other_mode(rng: random.Random) -> list[Device]:
    shares = {"shares": Capacity(parse(f"{rng.randint(2, 9)}"))}
    attributes = {"type": Attribute("gpu"), "productName": Attribute("NVIDIA L4")}
    return [Device("gpu-0", attributes, shares, allow_multiple_allocations=True)]


def _nothing(_: random.Random) -> list[Device]:
    return []


WORDS: Final[Mapping[str, Callable[[random.Random], list[Device]]]] = {
    each.__name__.strip("_"): each
    for each in (_odd_attributes, _odd_types, _odd_products, _other_mode, _nothing)
}


def _with_hostile(objects: FactsInput, devices: list[Device], rng: random.Random) -> FactsInput:
    labels = {} if rng.random() < 0.5 else HONOR
    names: dict[str, object] = {
        f"aaa.example/{'n' * 40}-{rng.random()}-{i}": "1" for i in range(rng.randint(0, 500))
    }
    slices = [
        clusters.slice_of(GPU, "hostile", devices[at : at + 100])
        for at in range(0, len(devices), 100)
    ]
    split = tuple(
        replace(each, name=f"{each.name}-{number}", slice_count=len(slices))
        for number, each in enumerate(slices)
    )
    return FactsInput(
        (*objects.slices, *split),
        objects.classes,
        (*objects.nodes, clusters.node("hostile", names, labels)),
    )


def _driver(facts: Facts) -> Driver:
    driver = facts.find_driver(GPU)
    assert driver is not None
    return driver


@pytest.mark.parametrize("word", sorted(WORDS))
def test_facts_about_other_nodes_are_those_without_a_hostile_node(word: str) -> None:
    for seed in range(drawn(20, thorough=1000)):
        rng = random.Random(seed)
        honest = _cluster(rng)
        before = gather_facts(honest).facts
        after = gather_facts(_with_hostile(honest, WORDS[word](rng), rng)).facts
        own = {(each.name, tuple(each.capacity.items())) for each in before.products}
        assert own <= {(each.name, tuple(each.capacity.items())) for each in after.products}
        assert not any(each.single for each in before.products)
        kept = {each.name for each in before.products}
        assert all(each.single for each in after.products if each.name not in kept)
        assert {each.name for each in before.names} <= {each.name for each in after.names}
        assert _driver(before).common_attributes == _driver(after).common_attributes, seed
        assert _driver(before).partition_policy == _driver(after).partition_policy, seed


def test_a_full_table_keeps_the_first_rows_of_each_node() -> None:
    objects = _cluster(random.Random(3))
    alone = _honest(90, "NVIDIA T4", {})
    memory = clusters.gpu("gpu-0", "The only one of its kind", "1Ti")
    alone = (clusters.slice_of(GPU, "n90", [memory]), alone[1])
    objects = FactsInput((*objects.slices, alone[0]), objects.classes, (*objects.nodes, alone[1]))
    rng = random.Random(5)
    facts = gather_facts(_with_hostile(objects, _odd_products(rng), rng)).facts
    assert "products" in facts.omitted
    assert "The only one of its kind" in {each.name for each in facts.products}


def test_nearly_all_nodes_decide_the_partition_policy() -> None:
    def policy(honoring: int, others: int) -> PartitionPolicy:
        made = [
            _honest(i, "NVIDIA L4", HONOR if i < honoring else {}) for i in range(honoring + others)
        ]
        objects = FactsInput(tuple(s for s, _ in made), nodes=tuple(n for _, n in made))
        return _driver(gather_facts(objects).facts).partition_policy

    assert policy(0, 3) is PartitionPolicy.PREFER
    assert policy(1, 9) is PartitionPolicy.PREFER
    assert policy(2, 8) is PartitionPolicy.MIXED
    assert policy(8, 2) is PartitionPolicy.MIXED
    assert policy(9, 1) is PartitionPolicy.HONOR
    assert policy(1, 0) is PartitionPolicy.HONOR
    assert policy(1, 1) is PartitionPolicy.MIXED


def test_an_attribute_of_some_nodes_is_published_but_not_common() -> None:
    objects = _cluster(random.Random(1))
    attributes = {f"extra{i}": Attribute("x") for i in range(3)}
    odd = clusters.slice_of(GPU, "n00", [clusters.gpu("gpu-0", **attributes)])
    facts = gather_facts(FactsInput((odd, *objects.slices[1:]), nodes=objects.nodes)).facts
    assert {f"{GPU}/extra{i}" for i in range(3)} <= set(_driver(facts).partial)
    assert f"{GPU}/extra0" in _driver(facts).attributes


def _several(count: int, *extra: tuple[Slice, Node]) -> FactsInput:
    made = [*(_honest(i, "NVIDIA L4", {}) for i in range(count)), *extra]
    return FactsInput(tuple(s for s, _ in made), nodes=tuple(n for _, n in made))


def test_devices_that_differ_in_their_amounts_only_are_counted() -> None:
    sizes = [clusters.gpu(f"gpu-{i}", "NVIDIA L4", f"{i + 1}Gi") for i in range(4)]
    odd = clusters.slice_of(GPU, "odd", sizes), clusters.node("odd", {})
    facts = gather_facts(_several(3, odd)).facts
    assert sum(each.devices for each in facts.products) == 16


def test_one_node_lists_a_few_attributes_of_its_own() -> None:
    devices = [
        Device(f"gpu-{i}", {f"a{i}x{j}": Attribute("x") for j in range(30)}) for i in range(10)
    ]
    odd = clusters.slice_of(GPU, "odd", devices), clusters.node("odd", {})
    gathered = gather_facts(_several(3, odd))
    names = _driver(gathered.facts).attributes
    assert sum("/a" in each for each in names) == 32
    assert gathered.facts.omitted["attributes"] == 300 - 32
    assert set(_driver(gather_facts(_several(3)).facts).attributes) <= set(names)


def test_one_node_with_many_names_leaves_room_for_the_offers_of_others() -> None:
    names: dict[str, object] = {f"aaa.example/{'n' * 50}{i}": "1" for i in range(500)}
    odd = clusters.slice_of(GPU, "odd", []), clusters.node("odd", names)
    assert gather_facts(_several(3, odd)).facts.knows_offers


def test_the_topology_of_one_of_many_nodes_is_single() -> None:
    near = [clusters.placed(0, "gpu", "pci0", 0), clusters.placed(1, "gpu", "pci0", 0)]
    odd = clusters.slice_of(GPU, "odd", near), clusters.node("odd", {})
    facts = gather_facts(_several(3, odd)).facts
    assert [each.single for each in facts.shapes_by_frequency] == [False, True]
    assert len(facts.shapes_of(GPU, "")) == 1
    alone = gather_facts(_several(0, odd)).facts
    assert len(alone.shapes_of(GPU, "")) == 1
