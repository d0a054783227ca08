"""Tests of the checks of a Configuration that need more than the file."""

from pathlib import Path

import pytest

from drawbridge.agreement.configuration import read_configuration, report_not_published
from drawbridge.config.model import KIND, Configuration
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse
from drawbridge.names import API_VERSION
from tests.facts import clusters
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "configuration.yaml")
PUBLISHED = load_cases(Path(__file__).parent / "cases" / "published.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_table(case: YamlValue) -> None:
    fields = {name: case[name] for name in ("targets", "legacy", "fleet") if name in case}
    loaded = read_configuration({"apiVersion": API_VERSION, "kind": KIND, **fields})
    findings = () if isinstance(loaded, Configuration) else loaded
    assert [f"{each.code} {each.path}" for each in findings] == case["findings"]
    text = " ".join(each.sentences for each in findings)
    assert [words for words in case.get("says", []) if words not in text] == []


def test_what_does_not_load_is_not_checked_further() -> None:
    findings = read_configuration({"apiVersion": API_VERSION, "kind": KIND, "targets": [{}]})
    assert not isinstance(findings, Configuration)
    assert {each.code for each in findings} == {"FieldMissing"}


def device(name: str, described: YamlValue) -> Device:
    return Device(
        name,
        {attribute: Attribute("x") for attribute in described.get("attributes", ())},
        {capacity: Capacity(parse("1")) for capacity in described.get("capacity", ())},
        allow_multiple_allocations=described.get("shared", False),
    )


@every_row("case", PUBLISHED, ids=lambda case: case["name"])
def test_what_a_target_reads_and_no_device_has_is_reported(case: YamlValue) -> None:
    value = {"apiVersion": API_VERSION, "kind": KIND, "targets": [case["target"]]}
    configuration = read_configuration(value)
    assert isinstance(configuration, Configuration), configuration
    devices = [device(f"d{i}", each) for i, each in enumerate(case["devices"])]
    slices = [clusters.slice_of("fpga.example.com", "n", devices)]
    reported = report_not_published(configuration, slices)
    assert [(each.path, each.message) for each in reported] == [
        (f"targets[0].{path}", f"no device of fpga.example.com publishes {message}")
        for path, message in case.get("lacks", {}).items()
    ]
