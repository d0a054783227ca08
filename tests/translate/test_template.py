"""Templates are named by what they say, as the API server would store it."""

import pytest

from drawbridge.documents.values import Value
from drawbridge.dra.claim import Template as Read
from drawbridge.dra.claim import read_template
from drawbridge.dra.validation import validate_devices
from drawbridge.names import USED_ANNOTATION
from drawbridge.translate.changes.template import (
    ClaimTemplate,
    has_same_content,
    make_template,
    normalize_spec,
)
from tests.tables import every_row


def spec(**exactly: Value) -> dict[str, Value]:
    wanted: dict[str, Value] = {"deviceClassName": "gpu.nvidia.com", **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}}


FULL = spec(allocationMode="ExactCount", count=1)


@every_row(
    "same",
    [
        spec(),
        spec(count=1),
        spec(allocationMode="ExactCount"),
        spec(selectors=[]),
        spec(count=None),
        spec(allocationMode=""),
    ],
)
def test_equal_stored_specs_have_one_name(same: dict[str, Value]) -> None:
    assert make_template(same) == make_template(FULL)


@pytest.mark.parametrize(
    "other",
    [
        spec(count=2),
        spec(allocationMode="All"),
        spec(adminAccess=True),
        spec(capacity={"requests": {"memory": "1Gi"}}),
    ],
)
def test_a_different_spec_has_another_name(other: dict[str, Value]) -> None:
    assert make_template(other).name != make_template(FULL).name


def test_an_amount_is_stored_in_canonical_form() -> None:
    first, other = (spec(capacity={"requests": {"memory": text}}) for text in ("1Gi", "1024Mi"))
    assert make_template(first) == make_template(other)


def test_all_has_no_count() -> None:
    whole = normalize_spec(spec(allocationMode="All"))
    assert whole == spec(allocationMode="All")


def test_subrequests_get_their_defaults() -> None:
    ways: list[Value] = [{"name": "a", "deviceClassName": "x", "tolerations": [{"key": "k"}]}]
    whole: dict[str, Value] = {"devices": {"requests": [{"name": "r", "firstAvailable": ways}]}}
    filled: list[Value] = [
        {
            "name": "a",
            "deviceClassName": "x",
            "tolerations": [{"key": "k", "operator": "Equal"}],
            "allocationMode": "ExactCount",
            "count": 1,
        }
    ]
    assert normalize_spec(whole) == {
        "devices": {"requests": [{"name": "r", "firstAvailable": filled}]}
    }


def test_driver_parameters_are_not_changed() -> None:
    opaque: Value = {"driver": "d", "parameters": {"empty": [], "text": "", "none": None}}
    whole: dict[str, Value] = {"devices": {"config": [{"requests": [], "opaque": opaque}]}}
    assert normalize_spec(whole) == {"devices": {"config": [{"opaque": opaque}]}}


def test_metadata_is_part_of_the_name() -> None:
    names = {
        make_template(FULL).name,
        make_template(FULL, labels={"a": "b"}).name,
        make_template(FULL, annotations={"a": "b"}).name,
        make_template(FULL, claim_labels={"a": "b"}).name,
        make_template(FULL, claim_annotations={"a": "b"}).name,
    }
    assert len(names) == 5


def test_the_api_server_accepts_the_claim() -> None:
    made = make_template(FULL, labels={"a": "b"}, claim_annotations={"c": "d"})
    read = read_template(made.object)
    assert isinstance(read, Read)
    assert validate_devices(read.spec.spec.devices, "spec.spec.devices", "") == ()
    assert read.metadata.name == made.name
    assert made.name.startswith("drawbridge-")
    assert len(made.name) <= 63


def test_the_template_name_is_stable() -> None:
    # Once released, a name means this content: another one would orphan templates.
    assert make_template(FULL).name == "drawbridge-242c94947da28f4d6c26438ddad50c0e"


def as_stored(made: ClaimTemplate, **metadata: Value) -> dict[str, Value]:
    """Give a template as an API server would, that fills metadata in."""
    given = made.object["metadata"]
    assert isinstance(given, dict)
    filled: dict[str, Value] = {"uid": "1", "resourceVersion": "7", "namespace": "team"}
    return {**made.object, "metadata": {**given, **filled, **metadata}}


MADE = make_template(FULL, labels={"a": "b"}, claim_annotations={"c": "d"})


def changed(inner: str, value: Value) -> dict[str, Value]:
    spec = MADE.object["spec"]
    assert isinstance(spec, dict)
    return {**MADE.object, "spec": {**spec, inner: value}}


@every_row(
    ("stored", "same"),
    [
        (as_stored(MADE), True),
        (as_stored(MADE, annotations={USED_ANNOTATION: "2026-01-01T00:00:00Z"}), True),
        (as_stored(MADE, labels={"a": "b", "of": "others"}), True),
        (as_stored(MADE, labels={"a": "other"}), False),
        (as_stored(MADE, labels=None), False),
        (changed("spec", FULL), True),
        (changed("spec", spec()), True),  # defaults not filled in are the same
        (changed("spec", spec(count=2)), False),
        (changed("spec", {}), False),
        (changed("spec", None), False),
        (changed("metadata", {"annotations": {"c": "other"}}), False),
        (changed("metadata", {"annotations": {"c": "d"}, "labels": {}}), True),
        (changed("metadata", {"annotations": {"c": "d", "more": "e"}}), False),
        (changed("metadata", None), False),
        ({}, False),
    ],
)
def test_templates_that_make_the_same_claims_have_the_same_content(
    stored: dict[str, Value], *, same: bool
) -> None:
    assert has_same_content(stored, MADE) is same
