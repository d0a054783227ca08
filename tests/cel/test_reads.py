"""Tests of the reads of an expression, and that its projection determines the result."""

import functools
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.cel import CompileError, EvaluationError, Program
from drawbridge.cel.dra import device_environment, device_variables, find_reads
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn

TABLE = load_cases(Path(__file__).parent / "cases" / "reads.yaml")
GOLDEN = Path(__file__).parent / "golden" / "cel_device.json"
ENVIRONMENT = device_environment(list_attributes=True)

ATTRIBUTES = st.one_of(
    st.sampled_from(["gpu", "a", "", "1.2.3", "1"]).map(lambda text: Attribute(string=text)),
    st.integers(-1, 2).map(lambda number: Attribute(integer=number)),
    st.booleans().map(lambda truth: Attribute(boolean=truth)),
    st.sampled_from(["1.2.3", "1.2.3+b", "2.0.0"]).map(lambda text: Attribute(version=text)),
    st.sampled_from([("a",), ("a", "b"), ()]).map(lambda texts: Attribute(strings=texts)),
)

NAMES = st.sampled_from(["s", "i", "t", "v", "x", "two.example.com/a", "l", "only"])
AMOUNTS = st.sampled_from(["40Gi", "1", "1.0", "1000m", "0"]).map(lambda q: Capacity(parse(q)))
DEVICES = st.builds(
    Device,
    name=st.just("device"),
    attributes=st.dictionaries(NAMES, ATTRIBUTES, max_size=6),
    capacity=st.dictionaries(st.sampled_from(["mem", "cores"]), AMOUNTS),
    allow_multiple_allocations=st.booleans(),
)


@functools.cache
def _programs() -> list[Program]:
    """Return every golden expression about the driver `d`, and some with other domains."""
    programs = []
    for case in json.loads(GOLDEN.read_text())["cases"]:
        if "device." in case["expression"] and case["device"] in ("plain", "multi", "lists"):
            try:
                programs.append(ENVIRONMENT.compile(case["expression"]))
            except CompileError:
                continue
    return programs


def _outcome(program: Program, device: Device) -> tuple[object, ...]:
    try:
        result = program.evaluate(device_variables("d", device, list_attributes=True))
    except EvaluationError as error:
        return ("error", error.kind, error.cost)
    return (result.value, result.cost)


@every_row("case", TABLE, ids=lambda case: case["expression"])
def test_table(case: YamlValue) -> None:
    reads = find_reads(ENVIRONMENT.compile(case["expression"]))

    shown = {
        ".".join(access.path) or "device": {
            word
            for word, present in (("guarded", access.guarded), ("presence", access.presence))
            if present
        }
        for access in reads.accesses
    }
    assert {path: set(words) for path, words in case["reads"].items()} == shown


@settings(max_examples=drawn(30, thorough=150))
@given(st.deferred(lambda: st.sampled_from(_programs())), DEVICES, DEVICES)
def test_devices_with_equal_projections_have_equal_results(
    program: Program, given_device: Device, other: Device
) -> None:
    reads = find_reads(program)
    mixed = Device(
        name="mixed",
        attributes={**other.attributes, **given_device.attributes},
        capacity=given_device.capacity,
        allow_multiple_allocations=given_device.allow_multiple_allocations,
    )
    keys = {
        device.name: reads.projection(device_variables("d", device, list_attributes=True))
        for device in (given_device, mixed)
    }
    if keys["device"] == keys["mixed"]:
        assert _outcome(program, given_device) == _outcome(program, mixed)


def test_values_of_different_kinds_that_are_equal_in_python_have_different_projections() -> None:
    reads = find_reads(ENVIRONMENT.compile('device.attributes["d"].x == 1'))
    values = [
        Attribute(integer=1),
        Attribute(boolean=True),
        Attribute(string="1"),
        Attribute(strings=("1",)),
    ]
    devices = [Device(name="x", attributes={"x": value}) for value in values]

    keys = {reads.projection(device_variables("d", each, list_attributes=True)) for each in devices}

    assert len(keys) == len(values)


def test_an_attribute_that_is_not_read_is_not_in_the_projection() -> None:
    reads = find_reads(ENVIRONMENT.compile('device.attributes["d"].x == 1'))
    device = Device(name="x", attributes={"x": Attribute(integer=1), "y": Attribute(integer=1)})
    other = Device(name="x", attributes={"x": Attribute(integer=1), "y": Attribute(integer=2)})

    assert reads.projection(device_variables("d", device)) == reads.projection(
        device_variables("d", other)
    )
    assert reads.attributes() == {("d", "x")}
    assert reads.required() == {("attributes", "d", "x")}
    assert not reads.reads_whole_map()
