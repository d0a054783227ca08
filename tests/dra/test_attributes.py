"""Tests of attribute lookup by name."""

import pytest

from drawbridge.dra.attributes import attribute_value, find_attribute, group_by_domain
from drawbridge.dra.device import Attribute, Device
from tests.tables import every_row

DRIVER = "gpu.example.com"


def text(value: str) -> Attribute:
    return Attribute(string=value)


def test_a_selector_sees_unqualified_names_under_the_driver() -> None:
    published = {"model": text("A"), "resource.kubernetes.io/pcieRoot": text("pci0000:0b")}
    assert group_by_domain(published, DRIVER) == {
        DRIVER: {"model": text("A")},
        "resource.kubernetes.io": {"pcieRoot": text("pci0000:0b")},
    }


def test_a_name_is_split_at_its_first_slash() -> None:
    assert group_by_domain({"a/b/c": 1}, DRIVER) == {"a": {"b/c": 1}}


@pytest.mark.parametrize("names", [["x", f"{DRIVER}/x"], [f"{DRIVER}/x", "x"]])
def test_the_full_name_takes_precedence_over_the_bare_name(names: list[str]) -> None:
    published = {name: text(name) for name in names}
    assert group_by_domain(published, DRIVER) == {DRIVER: {"x": text(f"{DRIVER}/x")}}
    assert find_attribute(Device("d", attributes=published), DRIVER, f"{DRIVER}/x") == text(
        f"{DRIVER}/x"
    )


def test_a_constraint_finds_the_drivers_own_bare_name() -> None:
    device = Device("d", attributes={"model": text("A")})
    assert find_attribute(device, DRIVER, f"{DRIVER}/model") == text("A")
    assert find_attribute(device, DRIVER, "other.example.com/model") is None


def test_a_constraint_finds_a_foreign_name_only_in_full() -> None:
    device = Device("d", attributes={"resource.kubernetes.io/pcieRoot": text("r")})
    assert find_attribute(device, DRIVER, "resource.kubernetes.io/pcieRoot") == text("r")
    assert find_attribute(device, DRIVER, f"{DRIVER}/pcieRoot") is None


@every_row(
    ("attribute", "expected"),
    [
        (text(""), ""),
        (Attribute(integer=0), 0),
        (Attribute(boolean=False), False),
        (Attribute(version="1.2.3"), "1.2.3"),
        (Attribute(integers=(1, 2)), (1, 2)),
        (Attribute(versions=("1.0.0",)), ("1.0.0",)),
        (Attribute(), None),
    ],
)
def test_attribute_value_returns_the_field_that_is_set(
    attribute: Attribute, expected: object
) -> None:
    assert attribute_value(attribute) == expected
