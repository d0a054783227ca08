"""The families of drivers that only the configuration declares."""

import msgspec
import pytest

from drawbridge.config.model import Configuration, Legacy, Placement
from drawbridge.config.string_formats import DriverName, ObjectName, ResourceName
from drawbridge.config.target import Target
from drawbridge.dra.families import BY_DRIVER, allocates_by, serves_name
from drawbridge.facts import families
from drawbridge.facts.families import known_families

DRIVER = "gpu.example.com"


def declare(vendor: str) -> Configuration:
    target = Target(kind="gpu", driver=DriverName(DRIVER), class_=ObjectName(DRIVER), vendor=vendor)
    return Configuration(targets=(target,))


def test_the_plugin_of_a_vendor_without_a_known_driver_serves_the_same_devices() -> None:
    family = known_families(declare("metax"))[DRIVER]
    assert serves_name(family, "metax-tech.com/gpu")
    assert serves_name(family, "metax-tech.com/sgpu")
    assert not serves_name(family, "metax-tech.com/vmemory")


def test_the_plugin_of_a_vendor_with_a_driver_is_replaced_by_that_one() -> None:
    assert known_families(declare("intel"))[DRIVER].legacy_names == ()


def test_the_families_of_a_configuration_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With renames, each name of each node would make all of them."""
    made: list[str] = []
    with_own_names = families._with_own_names  # noqa: SLF001

    def note(family: families.Family, legacy: Legacy) -> families.Family:
        made.append(family.driver)
        return with_own_names(family, legacy)

    monkeypatch.setattr(families, "_with_own_names", note)
    for own in ("example.com/a", "example.com/b"):
        legacy = Legacy(renames={ResourceName(own): ResourceName("nvidia.com/gpu")})
        configuration = Configuration(legacy=legacy)
        other = msgspec.structs.replace(configuration, placement=Placement.BRIDGE)
        for each in (configuration, other) * 100:
            assert allocates_by(known_families(each)["gpu.nvidia.com"], own)
    assert sorted(made) == sorted([*BY_DRIVER, *BY_DRIVER])
