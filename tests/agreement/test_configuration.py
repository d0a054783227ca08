"""Tests of the checks of a Configuration that need more than the file."""

from pathlib import Path

import pytest

from drawbridge.agreement.configuration import read_configuration
from drawbridge.config.model import KIND, Configuration
from drawbridge.names import API_VERSION
from tests.tables import YamlValue, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "configuration.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_table(case: YamlValue) -> None:
    loaded = read_configuration(
        {"apiVersion": API_VERSION, "kind": KIND, "targets": case["targets"]}, {}
    )
    findings = () if isinstance(loaded, Configuration) else loaded
    assert [f"{each.code} {each.path}" for each in findings] == case["findings"]
    text = " ".join(each.message for each in findings)
    assert [words for words in case.get("says", []) if words not in text] == []


def test_what_does_not_load_is_not_checked_further() -> None:
    findings = read_configuration({"apiVersion": API_VERSION, "kind": KIND, "targets": [{}]}, {})
    assert not isinstance(findings, Configuration)
    assert {each.code for each in findings} == {"FieldMissing"}
