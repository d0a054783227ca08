"""Tests of facts: counts, size limits and encoding."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from drawbridge.config.model import Configuration, LabelSelector, Legacy, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue, ResourceName
from drawbridge.dra.claim import Selector
from drawbridge.dra.device import Attribute, CELExpression
from drawbridge.dra.gates import VERSIONS, gates_of_version
from drawbridge.facts import serialized
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import (
    Amount,
    ClassFacts,
    Driver,
    Facts,
    Neighbourhood,
    NodeOffer,
    NodeShape,
    Product,
    ResourceFacts,
)
from tests.facts import clusters
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn

TABLES = Path(__file__).parent / "cases"
ROOM = 256 * 1024


def objects_of(case: YamlValue) -> FactsInput:
    return FactsInput(
        tuple(
            clusters.slice_of("gpu.nvidia.com", name, [clusters.gpu("gpu-0")])
            for name in case.get("slices", [])
        ),
        tuple(clusters.device_class(**each) for each in case.get("classes", [])),
        tuple(clusters.node(**each) for each in case.get("nodes", [])),
    )


@every_row("case", load_cases(TABLES / "names.yaml"), ids=lambda case: case["name"])
def test_an_extended_resource_has_the_expected_servers(case: YamlValue) -> None:
    objects = objects_of(case)
    expected = case["expected"]
    assert gather_facts(objects).facts.names == (
        () if expected is None else (msgspec.convert(expected, ResourceFacts),)
    )


@every_row("case", load_cases(TABLES / "shapes.yaml"), ids=lambda case: case["name"])
def test_node_shapes_count_devices_with_a_common_root_or_numa_node(case: YamlValue) -> None:
    words = case["devices"]
    slices = (*clusters.machine("n1", words), *clusters.machine("n2", list(reversed(words))))
    shapes = [
        shape
        for shape in gather_facts(FactsInput(slices)).facts.shapes
        if shape.nic or not case["nics"]
    ]
    (shape,) = shapes
    assert (shape.gpus, shape.nics, shape.nodes) == (case["gpus"], case["nics"], 2)
    assert shape.pcie == tuple(Neighbourhood(*each) for each in case["pcie"])
    assert shape.numa == tuple(Neighbourhood(*each) for each in case["numa"])
    assert shape.pcie_relates != case.get("unrelated", False)


def test_a_class_serves_its_implicit_name() -> None:
    facts = Facts(classes=(ClassFacts("gpu.nvidia.com"),))
    prefix = "deviceclass.resource.kubernetes.io"
    assert facts.find_resource(f"{prefix}/gpu.nvidia.com").classes == ("gpu.nvidia.com",)
    assert facts.find_resource(f"{prefix}/other").classes == ()


@every_row(
    ("version", "gates", "served"),
    [
        ("1.34", {}, False),
        ("1.34", {"DRAExtendedResource": True}, True),
        ("1.35", {}, False),
        ("1.35", {"DRAExtendedResource": True}, True),
        ("1.36", {}, True),
        ("1.36", {"DRAExtendedResource": False}, False),
        ("1.37", {}, True),
    ],
)
def test_a_class_serves_names_only_where_version_and_gates_say_so(
    version: str, gates: dict[str, bool], *, served: bool
) -> None:
    turned = gates_of_version(version, gates)
    assert not isinstance(turned, tuple)
    objects = FactsInput(
        (clusters.slice_of("gpu.nvidia.com", "n1", [clusters.gpu("gpu-0")]),),
        (clusters.device_class("gpu.nvidia.com", "nvidia.com/gpu"),),
    )
    facts = gather_facts(objects, gates=turned).facts
    expected = ("gpu.nvidia.com",) if served else ()
    assert [each.classes for each in facts.names] == [expected] * served
    for name in ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"):
        assert facts.find_resource(name).classes == expected
    # An earlier version of Drawbridge listed the classes of every version.
    older = msgspec.structs.replace(
        facts, names=(ResourceFacts("nvidia.com/gpu", classes=("gpu.nvidia.com",)),)
    )
    assert older.find_resource("nvidia.com/gpu").classes == expected


def test_a_class_with_a_long_name_has_no_implicit_name() -> None:
    short, long = "c" * 63, "c" * 64
    facts = Facts(classes=(ClassFacts(short), ClassFacts(long)))
    prefix = "deviceclass.resource.kubernetes.io"
    assert facts.find_resource(f"{prefix}/{short}").classes == (short,)
    assert facts.find_resource(f"{prefix}/{long}").classes == ()


@every_row("case", load_cases(TABLES / "offers.yaml"), ids=lambda case: case["name"])
def test_offers_are_what_nodes_have_together(case: YamlValue) -> None:
    objects = objects_of(case)
    renames = {ResourceName(k): ResourceName(v) for k, v in case.get("renames", {}).items()}
    configuration = Configuration(legacy=Legacy(renames=renames))
    expected = msgspec.convert(case["expected"], tuple[NodeOffer, ...])
    assert gather_facts(objects, configuration).facts.offers == expected


def test_a_file_that_overrides_names_drops_the_counted_offers() -> None:
    facts = gather_facts(clusters.fleet(4)).facts
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Facts"}
    kept = serialized.read_facts({**head, "shapes": []}, facts)
    dropped = serialized.read_facts({**head, "names": [{"name": "a/b", "nodes": 1}]}, facts)
    assert isinstance(kept, Facts)
    assert isinstance(dropped, Facts)
    assert (kept.offers, dropped.offers) == (facts.offers, ())
    assert dropped.plugins_serve(["a/b"])


def test_a_class_counts_the_devices_that_it_selects() -> None:
    cel = 'device.attributes["gpu.nvidia.com"].uuid in ["a", "b"]'
    devices = [clusters.gpu(f"gpu-{i}", uuid=Attribute(i)) for i in "abc"]
    two = clusters.device_class("two", cel=cel)
    broken = clusters.device_class("broken", cel="device.")
    # Each of its selectors matches two devices, and both of them match one.
    both = clusters.device_class("both", cel=cel)
    other = Selector(CELExpression(cel.replace('"a"', '"c"')))
    both = replace(both, spec=replace(both.spec, selectors=(*both.spec.selectors, other)))
    objects = FactsInput((clusters.slice_of("gpu.nvidia.com", "n1", devices),), (two, broken, both))
    assert gather_facts(objects).facts.classes == (
        ClassFacts("both", drivers=("gpu.nvidia.com",), devices=1, closed=True),
        ClassFacts("broken"),
        ClassFacts("two", drivers=("gpu.nvidia.com",), devices=2, closed=True),
    )


def test_a_class_counts_the_devices_of_owned_pools() -> None:
    fleet = clusters.fleet(4)
    driver, first = fleet.slices[0].driver, fleet.slices[0].node_name
    named = LabelSelector(match_labels={LabelKey("own"): LabelValue("yes")})
    nodes = tuple(
        replace(each, labels={"own": "yes"} if each.name == first else {}) for each in fleet.nodes
    )
    owning = Configuration(
        placement=Placement.BRIDGE, owned_pools=(OwnedPool(DriverName(driver), named),)
    )
    given = fleet._replace(nodes=nodes)
    rows = [each for each in gather_facts(given, owning).facts.classes if driver in each.drivers]
    local = (each for each in fleet.slices if (each.driver, each.node_name) == (driver, first))
    published = sum(len(each.devices) for each in local)
    assert {each.owned for each in rows} == {published}
    native = replace(owning, placement=Placement.NATIVE)
    assert {each.owned for each in gather_facts(given, native).facts.classes} == {None}


def test_no_device_is_owned_only_where_all_nodes_are_known() -> None:
    fleet = clusters.fleet(4)
    driver = DriverName(fleet.slices[0].driver)
    named = LabelSelector(match_labels={LabelKey("own"): LabelValue("yes")})
    owning = Configuration(placement=Placement.BRIDGE, owned_pools=(OwnedPool(driver, named),))
    for nodes, owned in ((fleet.nodes, 0), (fleet.nodes[1:], None), ((), None)):
        facts = gather_facts(fleet._replace(nodes=nodes), owning).facts
        assert {each.owned for each in facts.classes if driver in each.drivers} == {owned}
        others = {each.owned for each in facts.classes if driver not in each.drivers}
        assert others <= {None}


def test_kept_fields_come_from_gates_or_probes() -> None:
    old, new = gates_of_version("1.34"), gates_of_version("1.37")
    assert not isinstance(old, tuple)
    assert not isinstance(new, tuple)
    field = "constraints.distinctAttribute"
    assert not gather_facts(FactsInput(), gates=old).facts.keeps_field(field)
    assert gather_facts(FactsInput(), gates=new).facts.keeps_field(field)
    assert gather_facts(FactsInput(), gates=old, keeps=[field]).facts.keeps_field(field)


def test_facts_do_not_depend_on_the_order_of_objects() -> None:
    objects = clusters.fleet(8)
    parts = objects[: FactsInput._fields.index("left_out")]
    mixed: list[Any] = [tuple(random.Random(1).sample(each, len(each))) for each in parts]
    shuffled = FactsInput(*mixed)
    assert serialized.encode_facts(gather_facts(objects).facts) == serialized.encode_facts(
        gather_facts(shuffled).facts
    )


def test_nodes_with_the_dual_label_are_counted_by_driver() -> None:
    devices = [clusters.gpu("gpu-0")]
    slices = tuple(clusters.slice_of("gpu.nvidia.com", name, devices) for name in ("n1", "n2"))
    labels = {"drawbridge.dev/dual": "true"}
    nodes = tuple(clusters.node(name, {}, labels) for name in ("n1", "n3"))
    facts = gather_facts(FactsInput(slices, nodes=nodes)).facts
    (driver,) = facts.drivers
    assert (driver.nodes, driver.dual, facts.names) == (2, 1, ())


def test_a_further_node_like_the_others_keeps_the_hash_and_changes_the_counts() -> None:
    fewer, more = (gather_facts(clusters.fleet(count)).facts for count in (16, 20))
    assert serialized.facts_hash(fewer) == serialized.facts_hash(more)
    assert serialized.encode_facts(fewer) != serialized.encode_facts(more)


HASHED: dict[str, tuple[Facts, Facts, bool]] = {
    "more of the devices are owned": (
        Facts(classes=(ClassFacts("c", devices=9, owned=1),)),
        Facts(classes=(ClassFacts("c", devices=9, owned=8),)),
        True,
    ),
    "some devices are owned": (
        Facts(classes=(ClassFacts("c", devices=9),)),
        Facts(classes=(ClassFacts("c", devices=9, owned=1),)),
        False,
    ),
    "all devices are owned": (
        Facts(classes=(ClassFacts("c", devices=9, owned=8),)),
        Facts(classes=(ClassFacts("c", devices=9, owned=9),)),
        False,
    ),
    "no scheduler of bridge placement": (Facts(), Facts(scheduler=False), False),
    "more devices of a product": (
        Facts(products=(Product("d", devices=1, nodes=1, most=1),)),
        Facts(products=(Product("d", devices=9, nodes=2, most=8),)),
        True,
    ),
    "another memory of a product": (
        Facts(products=(Product("d", capacity={"memory": Amount("1Gi")}),)),
        Facts(products=(Product("d", capacity={"memory": Amount("2Gi")}),)),
        False,
    ),
    "more nodes of a plugin": (
        Facts(names=(ResourceFacts("a/b", nodes=1, devices=4, most=4),)),
        Facts(names=(ResourceFacts("a/b", nodes=2, devices=12, most=8),)),
        True,
    ),
    "the last node of a plugin": (
        Facts(names=(ResourceFacts("a/b", classes=("c",), nodes=1),)),
        Facts(names=(ResourceFacts("a/b", classes=("c",)),)),
        False,
    ),
    "the first dual node": (
        Facts(names=(ResourceFacts("a/b", nodes=2),)),
        Facts(names=(ResourceFacts("a/b", nodes=2, dual=1),)),
        False,
    ),
    "more dual nodes of a driver": (
        Facts(drivers=(Driver("d", devices=3, nodes=3, dual=1),)),
        Facts(drivers=(Driver("d", devices=4, nodes=4, dual=2),)),
        True,
    ),
    "more nodes of a shape that keeps its place": (
        Facts(shapes=(NodeShape("g", gpus=1, nodes=3), NodeShape("g", gpus=2, nodes=1))),
        Facts(shapes=(NodeShape("g", gpus=1, nodes=3), NodeShape("g", gpus=2, nodes=2))),
        True,
    ),
    "more nodes of a shape that takes the first place": (
        Facts(shapes=(NodeShape("g", gpus=1, nodes=3), NodeShape("g", gpus=2, nodes=1))),
        Facts(shapes=(NodeShape("g", gpus=1, nodes=3), NodeShape("g", gpus=2, nodes=4))),
        False,
    ),
    "more nodes with an offer": (
        Facts(offers=(NodeOffer(("c",), ("a/b",), nodes=1),)),
        Facts(offers=(NodeOffer(("c",), ("a/b",), nodes=2),)),
        True,
    ),
    "nodes that offer more": (
        Facts(offers=(NodeOffer(("c",)),)),
        Facts(offers=(NodeOffer(("c",), ("a/b",)),)),
        False,
    ),
    "a class that lost its devices": (
        Facts(classes=(ClassFacts("c", drivers=("d",), devices=1),)),
        Facts(classes=(ClassFacts("c"),)),
        False,
    ),
    "more omitted rows of a table": (
        Facts(omitted={"offers": 1}),
        Facts(omitted={"offers": 2}),
        True,
    ),
}


@every_row("name", HASHED)
def test_the_hash_covers_what_decisions_read(name: str) -> None:
    before, after, equal = HASHED[name]
    assert (serialized.facts_hash(before) == serialized.facts_hash(after)) == equal


def test_the_facts_of_thousands_of_nodes_fit_into_a_config_map() -> None:
    nodes = drawn(1000, thorough=5000)
    facts = gather_facts(clusters.fleet(nodes, devices_each=2)).facts
    assert len(serialized.encode_facts(facts)) < ROOM
    assert facts.omitted == {}
    (name,) = facts.names
    assert (name.nodes, name.devices, name.dual) == (nodes // 2, 4 * nodes, nodes // 2)
    assert sum(each.nodes for each in facts.shapes) == nodes
    assert sum(each.devices for each in facts.products) == 4 * nodes


def test_a_driver_with_a_product_name_per_device_does_not_exceed_the_limit() -> None:
    slices = tuple(
        clusters.slice_of("gpu.nvidia.com", f"n{i}", [clusters.gpu("gpu-0", f"{i:05}" + "x" * 59)])
        for i in range(2000)
    )
    nodes = tuple(clusters.node(f"n{i}", {f"example.com/{i}": 1}) for i in range(2000))
    gathered = gather_facts(FactsInput(slices, nodes=nodes))
    assert len(serialized.encode_facts(gathered.facts)) < ROOM
    assert gathered.facts.omitted.keys() == {"names", "offers", "products"}
    assert not gathered.facts.knows_offers
    assert {each.code for each in gathered.findings} == {"FactsCut"}
    assert len(gathered.facts.products) + gathered.facts.omitted["products"] == 2000


def test_encoded_facts_decode_to_the_same_facts() -> None:
    facts = gather_facts(clusters.fleet(4)).facts
    back = serialized.read_facts(serialized.facts_to_plain(facts))
    assert back == facts
    assert isinstance(back, Facts)
    assert serialized.facts_hash(back) == serialized.facts_hash(facts)


def test_a_file_with_one_table_overrides_that_table() -> None:
    facts = gather_facts(clusters.fleet(4)).facts
    own = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Facts", "shapes": []}
    back = serialized.read_facts(own, facts)
    assert isinstance(back, Facts)
    assert back.shapes == ()
    assert back.products == facts.products


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"shapez": []}, "FieldUnknown"),
        ({"classes": [{"name": 1}]}, "WrongType"),
        ({"hash": "sha256:0"}, "FactsHashDiffers"),
        ([], "WrongType"),
        (None, "WrongType"),
    ],
)
def test_a_file_is_decoded_strictly(wrong: object, code: str) -> None:
    facts = serialized.read_facts(wrong)
    assert isinstance(facts, tuple)
    assert [each.code for each in facts] == [code]


def test_facts_of_an_earlier_version_are_decoded_with_their_hash() -> None:
    """Fields that are new have defaults that are not written, and the hash covered all counts."""
    older = msgspec.json.decode((TABLES / "older.json").read_bytes())
    facts = serialized.read_facts(older)
    assert isinstance(facts, Facts)
    assert serialized.facts_hash(facts) != older["hash"]
    assert serialized.has_hash(facts, older["hash"])
    assert not serialized.has_hash(facts, f"{older['hash'][:-1]}x")
    assert not facts.knows_offers


def test_whether_a_class_is_closed_is_not_part_of_the_hash() -> None:
    """Pods note the hash, and a node group of an autoscaler translates nothing differently."""
    rows = [Facts(classes=(ClassFacts("gpu", closed=closed),)) for closed in (False, True)]
    assert serialized.facts_hash(rows[0]) == serialized.facts_hash(rows[1])
    assert serialized.encode_facts(rows[0]) != serialized.encode_facts(rows[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_facts_count_slices_with_groups_whoever_gathers_them(version: str) -> None:
    gates = gates_of_version(version)
    assert not isinstance(gates, tuple)
    slices = (clusters.slice_of("gpu.nvidia.com", "n1", [clusters.gpu("gpu-0")]),)
    ours, theirs = (
        gather_facts(FactsInput(slices), gates=each).facts for each in (gates, gates.with_groups())
    )
    assert serialized.facts_hash(ours) == serialized.facts_hash(theirs)
