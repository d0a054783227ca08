"""Selectors in CEL, and percentages in amounts: what no text and no product may break."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.cel.dra import Selectors
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse
from drawbridge.facts.model import Amount, Facts, Neighbourhood, NodeShape, Product
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, Percent, TopologyScope
from drawbridge.translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    AskSelector,
    ComputeCapability,
    DeviceLabel,
    DriverVersion,
    LabelOperator,
    Memory,
    Not,
    ProductContains,
    ProductIs,
    Software,
    Uuid,
)
from drawbridge.translate.targets import nvidia
from drawbridge.translate.targets.joint import DeviceGroup, group_asks
from drawbridge.translate.targets.products import (
    KnownProperties,
    filter_products,
    fits,
    percent_amount,
)
from drawbridge.translate.targets.vocabulary import NotExpressibleError, write_cel
from tests.tables import every_row
from tests.thorough import drawn

DRIVER = "gpu.nvidia.com"
WORDS = nvidia.vocabulary(DRIVER)
SELECTORS = Selectors("1.36")
GPU = Device(
    "gpu-0",
    {
        "type": Attribute("gpu"),
        "uuid": Attribute("GPU-1"),
        "productName": Attribute("NVIDIA A100-SXM4-40GB"),
        "architecture": Attribute("Ada Lovelace"),
        "cudaComputeCapability": Attribute(version="8.9.0"),
        "driverVersion": Attribute(version="580.95.5"),
        "cudaDriverVersion": Attribute(version="13.0.0"),
        "enabled": Attribute(boolean=True),
    },
    {"memory": Capacity(parse("40Gi"))},
)
TRUE: tuple[AskSelector, ...] = (
    ProductIs(("NVIDIA-A100-SXM4-40GB",)),
    ProductIs(("NVIDIA A100-SXM4-40GB", "other")),
    ProductContains(("v100", "a100")),
    Memory(at_least=40 << 30),
    Memory(at_least=1, below=(40 << 30) + 1),
    Memory(),
    Architecture(("ada-lovelace",)),
    ComputeCapability(at_least=(8, 9), below=(9, 0)),
    DriverVersion(Software.DRIVER, at_least=580, below=581),
    DriverVersion(Software.CUDA, at_least=13),
    Uuid(("GPU-1", "GPU-2")),
    AllOf(()),
    AnyOf((Uuid(("x",)), Memory(at_least=1))),
    DeviceLabel("k", LabelOperator.EXISTS, (), f"{DRIVER}/uuid"),
    DeviceLabel("k", LabelOperator.IN, ("a", "GPU-1"), f"{DRIVER}/uuid"),
    DeviceLabel("k", LabelOperator.IN, ("true",), f"{DRIVER}/enabled"),
)
FALSE: tuple[AskSelector, ...] = (
    ProductIs(("NVIDIA-A100",)),
    ProductContains(("h100",)),
    Memory(at_least=(40 << 30) + 1),
    Memory(below=40 << 30),
    Architecture(("ada",)),
    ComputeCapability(below=(8, 9)),
    DriverVersion(Software.DRIVER, at_least=581),
    Uuid(("GPU-2",)),
    AnyOf(()),
    AllOf((Uuid(("x",)), Memory(at_least=1))),
    DeviceLabel("k", LabelOperator.EXISTS, (), f"{DRIVER}/missing"),
    DeviceLabel("k", LabelOperator.IN, ("a",), f"{DRIVER}/missing"),
)


def holds(selector: AskSelector) -> object:
    text = write_cel(selector, WORDS, {f"{DRIVER}/enabled": "bool"})
    assert SELECTORS.check_admission(text) == (True, None), text
    return SELECTORS.evaluate(text, DRIVER, GPU).result


@every_row("selector", TRUE, ids=repr)
def test_a_selector_matches_and_its_negation_does_not(selector: AskSelector) -> None:
    assert holds(selector) is True
    assert holds(Not(selector)) is False


@every_row("selector", FALSE, ids=repr)
def test_a_selector_does_not_match_and_its_negation_does(selector: AskSelector) -> None:
    assert holds(selector) is False
    assert holds(Not(selector)) is True


@settings(max_examples=drawn(40, thorough=200))
@given(st.text(max_size=20))
def test_no_text_ends_its_string_literal(text: str) -> None:
    assert holds(Uuid((text,))) is (text == "GPU-1")
    assert holds(Not(Uuid((text, "GPU-1")))) is False


def test_a_label_without_an_attribute_is_not_expressible() -> None:
    with pytest.raises(NotExpressibleError, match="not mapped"):
        write_cel(DeviceLabel("type"), WORDS)


def product(memory: str, **more: str) -> Product:
    return Product(DRIVER, name="Card A", capacity={"memory": Amount(memory, **more)})


@every_row(
    ("memory", "percent", "expected"),
    [
        ("40Gi", "50", "20Gi"),
        # Rounded down: two halves must fit on one device.
        ("81559Mi", "50", "40779Mi"),
        ("81559Mi", "33.3", "27159Mi"),
        ("81559Mi", "100", "81559Mi"),
        ("1Gi", "0.01", "1"),
        ("100", "30", "30"),
        ("7", "50", "3"),
    ],
)
def test_a_percentage_is_rounded_down(memory: str, percent: str, expected: str) -> None:
    assert percent_amount(product(memory), "memory", Percent(Decimal(percent))) == expected


def test_a_percentage_is_a_multiple_of_the_driver_step() -> None:
    row = product("40Gi", least="1Gi", step="1Gi", most="40Gi")
    assert percent_amount(row, "memory", Percent(Decimal(49))) == "19Gi"
    assert percent_amount(row, "memory", Percent(Decimal("0.1"))) == "1Gi"


def test_more_than_100_percent_is_not_expressible() -> None:
    with pytest.raises(NotExpressibleError, match="101 percent"):
        percent_amount(product("40Gi"), "memory", Percent(Decimal(101)))


def test_products_are_excluded_only_if_known_not_to_match() -> None:
    rows = [product("40Gi"), product("80Gi")]
    assert filter_products(rows, [Memory(at_least=50 << 30)], "memory") == (rows[1],)
    assert filter_products(rows, [Not(Uuid(("x",)))], "memory") == tuple(rows)
    properties = KnownProperties(product=rows[0].name)
    assert fits(AnyOf((Uuid(("x",)), ProductIs(("Card-A",)))), properties) is True
    assert fits(AllOf((Uuid(("x",)), ProductIs(("B",)))), properties) is False


def test_numa_nodes_relate_where_pcie_roots_do_not() -> None:
    gpu, nic = "gpu.nvidia.com", "example.com"
    numa = (Neighbourhood(2, 2, 2),)
    alone = (Neighbourhood(1, 0, 4), Neighbourhood(0, 1, 4))
    facts = Facts(shapes=(NodeShape(gpu, nic, gpus=4, nics=4, pcie=alone, numa=numa),))
    joint = JointAllocation("j", Kind.GPU, TopologyScope.PCIE)
    primary = Ask(name="g", kind=Kind.GPU, row="x", count=3, joint=joint)
    other = Ask(name="n", kind=Kind.NIC, row="x", joint=joint)
    cut = group_asks(primary, [other], (gpu, nic), facts)
    assert cut.groups == (DeviceGroup(2, (1,)), DeviceGroup(1, (1,)))
    assert cut.attribute == "resource.kubernetes.io/numaNode"
    assert cut.separate
    assert [finding.code for finding in cut.findings] == ["NeighbourhoodChanged"]
