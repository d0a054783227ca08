"""Tests of decoding ResourceSlices: the case table, lists, arbitrary bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.decode_errors import MAX_FINDINGS as MAX_IN_ONE
from drawbridge.dra.device import Capacity, Counter, Device
from drawbridge.dra.quantity import Quantity, parse
from drawbridge.dra.slices import Slice, read_slice, slice_reader
from drawbridge.finding import Finding
from tests.tables import every_row, read_yaml

CASES = read_yaml((Path(__file__).parent / "cases" / "reading.yaml").read_text("utf-8"))


def good(name: str = "s", **spec: object) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": "d.example.com", "pool": pool, "nodeName": "n1"} | spec,
    }


def written(case: dict[str, Any]) -> object:
    if "object" in case:
        return case["object"]
    whole = good(**case["spec"])
    whole["apiVersion"] = case.get("version", whole["apiVersion"])
    return whole


def amounts_of(device: Device) -> list[Capacity | Counter]:
    used = (each for use in device.consumes_counters for each in use.counters.values())
    return [*device.capacity.values(), *used]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
@pytest.mark.parametrize("form", ["dict", "bytes"])
def test_a_slice_is_decoded_or_every_error_is_reported(case: dict[str, Any], form: str) -> None:
    raw = written(case)
    read = read_slice(json.dumps(raw).encode() if form == "bytes" else raw)
    if "errors" in case:
        assert isinstance(read, tuple), read
        assert {finding.path: finding.code for finding in read} == case["errors"]
        return
    assert isinstance(read, Slice), read
    shown: dict[str, Any] = {
        "devices": len(read.devices),
        "node_name": read.node_name,
        "generation": read.generation,
        "slice_count": read.slice_count,
        "capacities": [name for device in read.devices for name in device.capacity],
        "amounts": [f"{each.value}" for device in read.devices for each in amounts_of(device)],
    }
    assert {key: shown[key] for key in case["reads"]} == case["reads"]


def test_all_api_versions_decode_to_the_same_slice() -> None:
    inside = {
        "attributes": {"model": {"string": "A"}, "list": {"ints": [1, 2]}},
        "capacity": {"memory": {"value": "40Gi"}},
        "consumesCounters": [{"counterSet": "g", "counters": {"m": {"value": "1"}}}],
        "nodeName": "n1",
        "taints": [{"key": "k", "effect": "NoExecute"}],
        "bindsToNode": True,
        "bindingConditions": ["a"],
        "bindingFailureConditions": ["b"],
        "allowMultipleAllocations": True,
    }
    v1 = good(devices=[{"name": "x", **inside}])
    v1beta2 = v1 | {"apiVersion": "resource.k8s.io/v1beta2"}
    v1beta1 = good(devices=[{"name": "x", "basic": inside}])
    v1beta1["apiVersion"] = "resource.k8s.io/v1beta1"
    first, second, third = (
        read_slice(json.dumps(value).encode()) for value in (v1, v1beta2, v1beta1)
    )
    assert isinstance(first, Slice)
    assert first == second == third == read_slice(v1beta1)
    (device,) = first.devices
    assert device.binds_to_node
    assert device.capacity["memory"].value == parse("40Gi")


def test_a_finding_names_the_slice_the_field_and_the_remedy() -> None:
    (finding,) = told(good("s-1", devices=[{"name": "x", "attributes": {"model": {"int": "A"}}}]))
    assert finding.object == "ResourceSlice/s-1"
    assert finding.path == "spec.devices[0].attributes[model].int"
    assert finding.message == 'int must be an integer, not "A"'
    assert finding.remedy


def told(raw: object) -> tuple[Finding, ...]:
    read = read_slice(raw)
    assert isinstance(read, tuple), read
    return read


def test_annotations_are_kept() -> None:
    raw = good()
    raw["metadata"]["annotations"] = {"drawbridge.dev/compatibility": "{}"}
    read = read_slice(raw)
    assert isinstance(read, Slice)
    assert read.annotations == {"drawbridge.dev/compatibility": "{}"}


def test_equal_quantities_are_one_object_within_a_reader() -> None:
    devices = [{"name": n, "capacity": {"memory": {"value": "81559Mi"}}} for n in ("x", "y")]
    read = read_slice(json.dumps(good(devices=devices)).encode())
    assert isinstance(read, Slice)
    first, second = (device.capacity["memory"].value for device in read.devices)
    assert isinstance(first, Quantity)
    assert first is second


# --- anything else

MALFORMED = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "no UTF-8 in a name": b'{"metadata":{"name":"\xff"}}',
    "half a surrogate": b'{"metadata":{"name":"\\ud800"}}',
    "cut short": b'{"apiVersion":"resource.k8s.io/v1","kind":"Reso',
    "nested deeply": b"[" * 200_000,
    "nested deeply where nobody looks": b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "an infinite number": b'{"spec":1e999}',
    "a number of a million digits": b'{"spec":' + b"9" * 1_000_000 + b"}",
    "two documents": b"{}{}",
    "a list": b"[]",
    "text": b'"x"',
    "null": b"null",
    "items that are none": b'{"kind":"ResourceSliceList","items":{}}',
}


@every_row("raw", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_bytes_result_in_findings(raw: bytes) -> None:
    assert told(raw)


@given(st.binary(max_size=60))
def test_any_bytes_result_in_slices_or_findings(raw: bytes) -> None:
    read = read_slice(raw)
    assert isinstance(read, Slice) or read


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
PLACES = (
    ("metadata",),
    ("spec",),
    ("kind",),
    ("apiVersion",),
    ("spec", "pool"),
    ("spec", "devices"),
    ("spec", "nodeSelector"),
    ("spec", "sharedCounters"),
    ("spec", "allNodes"),
    ("spec", "devices", 0),
    ("spec", "devices", 0, "taints"),
    ("spec", "devices", 0, "attributes"),
    ("spec", "devices", 0, "attributes", "a"),
    ("spec", "devices", 0, "capacity", "c"),
    ("spec", "devices", 0, "capacity", "c", "value"),
)


@given(st.sampled_from(PLACES), odd)
def test_any_value_in_any_field_results_in_a_slice_or_findings(
    place: tuple[Any, ...], value: object
) -> None:
    raw = good(
        devices=[{"name": "x", "attributes": {"a": {"int": 1}}, "capacity": {"c": {"value": 1}}}]
    )
    at: Any = raw
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    read = read_slice(raw)
    assert isinstance(read, Slice) or read
    assert all(
        isinstance(finding, Finding) for finding in (() if isinstance(read, Slice) else read)
    )


def test_findings_of_a_hostile_object_are_limited() -> None:
    findings = told(good(devices=[1] * 100_000))
    assert len(findings) == MAX_IN_ONE + 1
    assert findings[-1].code == "MoreErrors"


def test_an_object_without_a_name_is_named_by_its_place() -> None:
    reader = slice_reader()
    places = [reader.read({"metadata": {}}, ordinal=3), reader.read({"metadata": {"name": "b"}})]
    named = [each[0].object for each in places if isinstance(each, tuple)]
    assert named == ["ResourceSlice#3", "ResourceSlice/b"]


def test_a_slice_without_a_version_has_that_of_the_reading() -> None:
    item = good(devices=[{"name": "x", "basic": {"bindsToNode": True}}])
    del item["apiVersion"]
    for form in (item, json.dumps(item).encode()):
        read = slice_reader().read(form, version="resource.k8s.io/v1beta1")
        assert isinstance(read, Slice)
        assert read.devices[0].binds_to_node


def test_a_reader_can_be_reused() -> None:
    reader = slice_reader()
    for i in range(3):
        read = reader.read(json.dumps(good(f"s{i}")).encode())
        assert isinstance(read, Slice)
        assert read.name == f"s{i}"
        assert isinstance(reader.read(b"{"), tuple)
