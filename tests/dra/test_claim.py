"""Tests of claims, templates and classes: decoding, defaults, names, limits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.claim import (
    Claim,
    Devices,
    ExactRequest,
    Request,
    SubRequest,
    read_claim,
    refers_to,
    request_choices,
    request_names,
)
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.decode_errors import MAX_FINDINGS
from drawbridge.dra.validation import validate_class, validate_devices
from drawbridge.finding import Finding
from tests.tables import YamlValue, every_row, load_cases

TABLES = Path(__file__).parent / "cases"
CLAIM_LIMITS = load_cases(TABLES / "claim_limits.yaml")
COVERAGE = load_cases(TABLES / "coverage.yaml")
CLASS_LIMITS = load_cases(TABLES / "class_limits.yaml")


def of(kind: str, spec: YamlValue, version: str = "v1", **more: YamlValue) -> YamlValue:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": spec,
    } | more


def claim(devices: YamlValue, version: str = "v1", **more: YamlValue) -> YamlValue:
    read = read_claim(of("ResourceClaim", {"devices": devices}, version, **more))
    assert isinstance(read, Claim), read
    return read


def validate(claim: Claim) -> tuple[Finding, ...]:
    return validate_devices(claim.spec.devices, "spec.devices", "ResourceClaim/ns/c")


def told(findings: YamlValue) -> YamlValue:
    return [(finding.code, finding.path) for finding in findings]


@every_row("case", CLAIM_LIMITS, ids=lambda case: case["name"])
def test_limits_of_a_claim(case: YamlValue) -> None:
    findings = validate(claim(case["devices"]))
    assert told(findings) == [(code, f"spec.devices.{path}") for code, path in case["refused"]]
    assert all(finding.object == "ResourceClaim/ns/c" for finding in findings)


@every_row("case", CLASS_LIMITS, ids=lambda case: case["name"])
def test_limits_of_a_class(case: YamlValue) -> None:
    raw = of("DeviceClass", case["spec"])
    raw["metadata"] = {"name": case.get("metadata_name", "c")}
    read = read_class(raw)
    assert isinstance(read, DeviceClass), read
    assert told(validate_class(read)) == [tuple(each) for each in case["refused"]]


@every_row("case", COVERAGE, ids=lambda case: case["name"])
def test_a_list_of_names_refers_to_requests(case: YamlValue) -> None:
    assert refers_to(case["entries"], case["request"]) is case["covered"]


def test_defaults_are_set_as_by_the_api_server() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "a", "tolerations": [{"key": "k"}]}}
    exactly = claim({"requests": [request]}).spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)
    assert exactly.tolerations[0].operator == "Equal"
    assert not exactly.admin_access


def test_mode_all_has_no_default_count() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "a", "allocationMode": "All"}}
    assert claim({"requests": [request]}).spec.devices.requests[0].exactly.count == 0


def test_a_null_is_an_absent_field() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "a", "count": None, "selectors": None}}
    assert claim({"requests": [request], "config": None}) == claim(
        {"requests": [{"name": "r", "exactly": {"deviceClassName": "a"}}]}
    )


def test_unknown_fields_are_ignored() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "a", "inTheFuture": 1}}
    assert claim({"requests": [request]}, later={"x": []}).spec.devices.requests[0].name == "r"


def test_flat_requests_of_v1beta1_become_exact_ones() -> None:
    wish = {
        "deviceClassName": "a",
        "selectors": [{"cel": {"expression": "true"}}],
        "allocationMode": "ExactCount",
        "count": 3,
        "adminAccess": True,
        "tolerations": [{"operator": "Exists"}],
        "capacity": {"requests": {"memory": "1Gi"}},
        "derivedAttributes": [{"name": "d.io/x", "expression": "1"}],
    }
    assert len(wish) == len(ExactRequest.__struct_fields__)
    old = claim({"requests": [{"name": "r"} | wish]}, "v1beta1")
    for version in ("v1", "v1beta2"):
        new = claim({"requests": [{"name": "r", "exactly": wish}]}, version)
        assert old.spec == new.spec


@pytest.mark.parametrize(
    "field", [{"count": 2}, {"adminAccess": False}, {"selectors": []}, {"deviceClassName": "a"}]
)
def test_any_field_of_a_flat_request_makes_it_exact(field: YamlValue) -> None:
    assert claim({"requests": [{"name": "r"} | field]}, "v1beta1").spec.devices.requests[0].exactly


@pytest.mark.parametrize("field", [{}, {"count": 0}, {"deviceClassName": ""}, {"selectors": None}])
def test_an_empty_flat_request_has_no_exact_request(field: YamlValue) -> None:
    read = claim({"requests": [{"name": "r"} | field]}, "v1beta1")
    assert read.spec.devices.requests[0].exactly is None
    assert told(validate(read)) == [("EitherOr", "spec.devices.requests[0]")]


def test_sub_requests_of_v1beta1_are_those_of_v1() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "a", "count": 2}]}
    assert claim({"requests": [request]}, "v1beta1").spec == claim({"requests": [request]}).spec


def test_v1_does_not_know_flat_requests() -> None:
    read = claim({"requests": [{"name": "r", "deviceClassName": "a"}]})
    assert told(validate(read)) == [("EitherOr", "spec.devices.requests[0]")]


def test_every_error_of_a_claim_is_reported_with_its_path() -> None:
    spec = {
        "devices": {
            "requests": [{"exactly": {"count": "1"}}, {"name": 3}],
            "constraints": {},
            "config": [{"opaque": {"parameters": {}}}],
        }
    }
    claim = read_claim(of("ResourceClaim", spec))
    assert isinstance(claim, tuple)
    assert sorted(told(claim)) == [
        ("FieldMissing", "spec.devices.config[0].opaque.driver"),
        ("FieldMissing", "spec.devices.requests[0].exactly.deviceClassName"),
        ("FieldMissing", "spec.devices.requests[0].name"),
        ("WrongType", "spec.devices.constraints"),
        ("WrongType", "spec.devices.requests[0].exactly.count"),
        ("WrongType", "spec.devices.requests[1].name"),
    ]


def test_an_invalid_quantity_is_reported_with_its_path() -> None:
    exactly = {"deviceClassName": "a", "capacity": {"requests": {"memory": "80GB"}}}
    claim = read_claim(
        of("ResourceClaim", {"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
    )
    path = "spec.devices.requests[0].exactly.capacity.requests[memory]"
    assert told(claim) == [("WrongValue", path)]


def test_a_class_with_a_generated_name_is_valid() -> None:
    raw = of("DeviceClass", {})
    for metadata, expected in (
        ({"generateName": "c-"}, []),
        ({}, [("FieldMissing", "metadata.name")]),
    ):
        raw["metadata"] = metadata
        read = read_class(raw)
        assert isinstance(read, DeviceClass), read
        assert told(validate_class(read)) == expected


def test_parameters_that_are_nested_too_deeply_are_a_finding() -> None:
    deep: object = {}
    for _ in range(100_000):
        deep = {"a": deep}
    read = read_claim(
        of(
            "ResourceClaim",
            {"devices": {"config": [{"opaque": {"driver": "d", "parameters": deep}}]}},
        )
    )
    findings = read if isinstance(read, tuple) else validate(read)
    assert findings


def test_the_number_of_findings_of_a_claim_is_limited() -> None:
    findings = validate(claim({"config": [{"requests": [f"r{i}" for i in range(32)]}] * 32}))
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1].code == "MoreErrors"
    assert findings[-1].message.startswith(f"{32 * 33 - MAX_FINDINGS} more")


def test_an_allocation_is_decoded() -> None:
    status = {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpu/big",
                        "driver": "d.io",
                        "pool": "p",
                        "device": "g",
                        "shareID": "s",
                        "consumedCapacity": {"memory": "1Gi"},
                        "adminAccess": True,
                    }
                ]
            },
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"apiGroup": "", "resource": "pods", "name": "p", "uid": "u"}],
    }
    read = claim({}, "v1beta1", status=status)
    assert read.status.allocation is not None
    result = read.status.allocation.devices.results[0]
    assert (result.request, result.share_id, result.admin_access) == ("gpu/big", "s", True)
    assert str(result.consumed_capacity["memory"]) == "1Gi"
    assert read.status.reserved_for[0].uid == "u"


ONE = Request("one", ExactRequest(device_class_name="a", count=2, admin_access=True))
TWO = Request(
    "two",
    first_available=(
        SubRequest(name="big", device_class_name="a", count=4),
        SubRequest(name="all", device_class_name="a", allocation_mode="All"),
    ),
)


def test_choices_have_the_names_of_results() -> None:
    assert [(each.name, each.admin_access) for each in request_choices(ONE)] == [("one", True)]
    assert [each.name for each in request_choices(TWO)] == ["two/big", "two/all"]
    assert list(request_names(Devices((ONE, TWO)))) == ["one", "two", "two/big", "two/all"]


LEAVES = st.sampled_from([None, True, 0, -1, 2**70, 1.5, "", "a", "A/b", "1Gi"])
FIELDS = st.sampled_from(
    ["devices", "requests", "name", "exactly", "firstAvailable", "count", "selectors", "cel",
     "tolerations", "capacity", "config", "opaque", "parameters", "allocation", "results"]
)  # fmt: skip
LIKELY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(spec=LIKELY, status=LIKELY, version=st.sampled_from(["v1", "v1beta1"]))
def test_any_input_results_in_findings_or_a_claim_that_can_be_validated(
    spec: YamlValue, status: YamlValue, version: str
) -> None:
    raw = of("ResourceClaim", spec, version, status=status)
    read = read_claim(raw)
    findings = read if isinstance(read, tuple) else validate(read)
    assert all(isinstance(each, Finding) for each in findings)
