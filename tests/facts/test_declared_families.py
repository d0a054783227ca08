"""The families of drivers that only the configuration declares."""

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import DriverName, ObjectName
from drawbridge.config.target import Target
from drawbridge.dra.families import serves_name
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
