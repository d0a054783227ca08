"""Tests that the published values that an expression names determine its result."""

import itertools
from collections.abc import Iterator
from typing import TypeVar

import pytest

from drawbridge.cel import EvaluationError, Program
from drawbridge.cel.dra import device_environment, device_variables, find_reads
from drawbridge.cel.dra.projections import PublishedProjection, is_readable, published_projection
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse
from tests.tables import every_row

ENVIRONMENT = device_environment(list_attributes=True)
DRIVER = "d"
T = TypeVar("T")
EXPRESSIONS = (
    'device.driver == "d"',
    "device.allowMultipleAllocations",
    'device.attributes["d"].x == 1',
    'device.attributes["d"].x == true',
    'device.attributes["d"].x == "1"',
    'device.attributes["d"]["a/x"] == 1',
    'device.attributes["a"].x == 1 || device.attributes["a"]["x/y"] == 1',
    'has(device.attributes["d"].x) && device.attributes["d"].x == 1',
    '"x" in device.attributes["d"]',
    '"a" in device.attributes',
    'device.attributes["d"].?x.orValue(2) == 2',
    'device.attributes["d"].x.isGreaterThan(semver("1.0.0"))',
    'device.attributes["d"].exists(k, v, k == "x")',
    'device.capacity["d"].m.isGreaterThan(quantity("1"))',
    'device.capacity["d"].m.isInteger()',
    'cel.bind(of, device.attributes["d"], of.x == 1)',
)
PROGRAMS = [ENVIRONMENT.compile(each) for each in EXPRESSIONS]
WHOLE_MAPS = ('"a" in device.attributes', 'device.attributes["d"].exists(k, v, k == "x")')
VALUES = (
    Attribute(integer=1),
    Attribute(boolean=True),
    Attribute(string="1"),
    Attribute(strings=("1",)),
    Attribute(version="1.2.3"),
    Attribute(version="1.2.3-a+b"),
    Attribute(version="1.2"),
    Attribute(versions=("1.2.3",)),
    Attribute(versions=("1",)),
    Attribute(),
)
NAMES = ("x", "d/x", "a/x", "d/a/x", "a/x/y", "y")
CAPACITY_NAMES = ("m", "d/m", "a/m")
AMOUNTS = tuple(Capacity(parse(text)) for text in ("1", "1.0", "1500m", "2"))


def pairs(names: tuple[str, ...], values: tuple[T, ...]) -> Iterator[dict[str, T]]:
    """All mappings with at most two of the names."""
    yield {}
    yield from ({name: value} for name in names for value in values)
    for two in itertools.combinations(names, 2):
        yield from (dict(zip(two, of, strict=True)) for of in itertools.product(values, repeat=2))


DEVICES = (
    *(Device("x", attributes=each) for each in pairs(NAMES, VALUES)),
    *(Device("x", capacity=each) for each in pairs(CAPACITY_NAMES, AMOUNTS)),
    Device("x", allow_multiple_allocations=True),
)


def projected(program: Program) -> PublishedProjection | None:
    return published_projection(find_reads(program))


def outcome(program: Program, device: Device, *, lists: bool) -> tuple[object, ...]:
    try:
        result = program.evaluate(device_variables(DRIVER, device, list_attributes=lists))
    except EvaluationError as error:
        return ("error", error.kind, error.message)
    return (result.value,)


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=EXPRESSIONS)
def test_readable_devices_with_equal_published_values_have_equal_results(
    program: Program, *, lists: bool
) -> None:
    projection = projected(program)
    outcomes: dict[object, set[object]] = {}
    for device in DEVICES if projection else ():
        if is_readable(device, lists=lists):
            key = projection(DRIVER, device)
            outcomes.setdefault(key, set()).add(outcome(program, device, lists=lists))
    assert all(len(each) == 1 for each in outcomes.values())


@pytest.mark.parametrize("lists", [True, False])
def test_a_readable_device_fails_no_program(*, lists: bool) -> None:
    readable = [each for each in DEVICES if is_readable(each, lists=lists)]
    assert {outcome(PROGRAMS[0], each, lists=lists) for each in readable} == {(True,)}


@every_row("value", VALUES, ids=repr)
def test_a_device_with_one_usual_value_is_readable(value: Attribute) -> None:
    usual = value in {*VALUES[:3], VALUES[4]}
    device = Device(name="x", attributes={"x": value})
    assert is_readable(device, lists=False) is usual
    assert is_readable(device, lists=True) is (usual or value.strings is not None)


@every_row("expression", EXPRESSIONS)
def test_only_an_expression_that_reads_a_whole_map_has_no_published_projection(
    expression: str,
) -> None:
    projection = projected(ENVIRONMENT.compile(expression))
    assert (projection is None) is (expression in WHOLE_MAPS)


def test_an_attribute_that_is_not_read_is_not_in_the_projection() -> None:
    projection = projected(ENVIRONMENT.compile('device.attributes["d"].x == 1'))
    assert projection is not None
    device, other = (
        Device(name="x", attributes={"x": VALUES[0], "y": value}) for value in VALUES[:2]
    )
    assert projection(DRIVER, device) == projection(DRIVER, other)


def test_a_test_for_presence_does_not_read_the_value() -> None:
    projection = projected(ENVIRONMENT.compile('"x" in device.attributes["d"]'))
    assert projection is not None
    keys = [
        projection(DRIVER, Device("x", attributes=attributes))
        for attributes in ({"x": VALUES[0]}, {"d/x": VALUES[1]}, {"y": VALUES[0]})
    ]
    assert keys[0] == keys[1] != keys[2]
