"""Tests that the schema, the reference page and the loader agree."""

from typing import Any

import jsonschema

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.config.schema import (
    ROWS,
    configuration_schema,
    render_page,
)
from tests.config.test_load import CASES, HEAD
from tests.tables import every_row

# What JSON Schema does not say: relations between fields, and which codes there are. Nor does it
# know that null is absent and that a bare `off` was read as false.
BEYOND = {
    "null is the same as absent",
    "off without quotes",
    "a code that no finding has",
    "a driver of one's own in words that nobody asks for",
    "an entry that rules nothing",
    "names that stand for names that are renamed",
    "entries behind others for the same",
    "a physical device without an expression",
    "a contradictory selector of namespaces",
    "a fence of rules for nodes without a fence",
    "a device in two partitions of one size",
    "a device twice in a partition",
    "a partition without devices",
    "partitions whose selector does not compile",
    "operators and their values",
    "quotas without effect",
    "a weight of something that no device can have",
    "more weights than anybody needs",
    "limits without effect",
    "limits that count devices and are no whole numbers",
    "an expression that does not compile",
    "expressions of another type",
    "an expected node with a property twice",
    "bridge placement without pools",
    "bridge placement with an empty list of pools",
    "owned pools without bridge placement",
    "the same nodes with and without a fence",
    "a target for nothing",
    "a family or a vendor of names",
    "one name in two entries",
    "one name in two fields of an entry, and twice in one",
    "a renamed name",
    "a resource name that stands for itself",
    "a selector that does not compile",
    "amounts that no API object can hold",
}


def described(node: object, path: str = "") -> list[str]:
    """The paths of all properties without a description."""
    if isinstance(node, list):
        return [hit for each in node for hit in described(each, path)]
    if not isinstance(node, dict):
        return []
    bare = [
        f"{path}.{name}"
        for name, field in node.get("properties", {}).items()
        if not field.get("description")
    ]
    return bare + [hit for name, each in node.items() for hit in described(each, f"{path}.{name}")]


def test_the_schema_is_valid_and_every_field_is_described() -> None:
    jsonschema.Draft202012Validator.check_schema(configuration_schema())
    assert described(configuration_schema()) == []
    assert all(row.description.endswith(".") for row in ROWS)


@every_row(
    "case", [case for case in CASES if case["name"] not in BEYOND], ids=lambda case: case["name"]
)
def test_the_schema_accepts_what_the_loader_accepts(case: dict[str, Any]) -> None:
    value = case["input"] if case.get("whole") else {**HEAD, **case["input"]}
    if isinstance(value, dict):
        value = {str(key): item for key, item in value.items()}
    validator = jsonschema.Draft202012Validator(configuration_schema())
    accepted = isinstance(
        accept_configuration(value, {name: name for name in ("PoolIncomplete", "NameTwice")}),
        Configuration,
    )
    assert validator.is_valid(value) == accepted


# Of numbers that are no whole ones, too large or 0, only the loader knows it in every notation.
AMOUNTS = (
    *("0", "-0", "8", " 1.5Gi ", "Gi", "+5", "2k", "1e3", "20e-1", "7Ei", "1e30", "2.5", "2500m"),
    *("1000000u", "5000000000n", 0, 8, 2.5, 2**63 - 1, 10**30, "x", "5 Gi", "141GB", -1, None),
)
FIELDS: dict[str, Any] = {
    "units": lambda amount: {"legacy": {"units": {"a.io/a": amount}}},
    "defaults": lambda amount: {"legacy": {"defaults": {"a.io/a": amount}}},
    "limits": lambda amount: {"quotas": [{"name": "a", "total": {"a": {"memory": amount}}}]},
}


@every_row("field", FIELDS)
def test_the_schema_accepts_every_amount_that_the_loader_accepts(field: str) -> None:
    validator = jsonschema.Draft202012Validator(configuration_schema())
    refused = []
    for amount in AMOUNTS:
        value = {**HEAD, **FIELDS[field](amount)}
        loaded = accept_configuration(value, ())
        assert not isinstance(loaded, Configuration) or validator.is_valid(value), amount
        if not validator.is_valid(value):
            refused.append(amount)
    parts = ("2500m", "1000000u", "5000000000n", 2.5, 10**30) if field != "limits" else ()
    zero = (0,) if field == "units" else ()
    assert set(refused) == {*parts, *zero, "x", "5 Gi", "141GB", -1, None}


def test_the_page_has_every_field_once() -> None:
    lines = render_page().splitlines()
    for place in (row.place for row in ROWS):
        listed = place.partition("elector.")[2] or place
        assert sum(line.startswith(f"| `{listed}` |") for line in lines) == 1
