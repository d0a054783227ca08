"""Tests of feature gates by version."""

import pytest

from drawbridge.dra.gates import (
    DEFAULTS,
    VERSIONS,
    Gates,
    gates_of_version,
    kubelet_serves_names,
    parse_gates,
    read_gates,
    version_of_kubelets,
)
from tests.tables import every_row


def of(version: str, **overrides: bool) -> Gates:
    chosen = gates_of_version(version, overrides)
    assert isinstance(chosen, Gates), chosen
    return chosen


def refused(version: str, **overrides: bool) -> list[str]:
    chosen = gates_of_version(version, overrides)
    assert isinstance(chosen, tuple), chosen
    return [finding.code for finding in chosen]


def test_the_defaults_are_those_of_the_newest_version() -> None:
    assert of(VERSIONS[-1]) == gates_of_version() == DEFAULTS


@every_row(
    ("field", "on_from"),
    [
        ("admin_access", "1.34"),
        ("prioritized_list", "1.34"),
        ("partitionable_devices", "1.36"),
        ("device_taints", "1.36"),
        ("consumable_capacity", "1.36"),
        ("supports_binding_conditions", "1.36"),
        ("extended_resource", "1.36"),
        ("device_taint_rules", "1.37"),
        ("fractional_capacity_range", "1.37"),
        ("list_type_attributes", None),
        ("derived_attributes", None),
        ("device_compatibility_groups", None),
    ],
)
def test_a_gate_is_enabled_from_its_version(field: str, on_from: str | None) -> None:
    for version in VERSIONS:
        assert getattr(of(version), field) is (on_from is not None and version >= on_from)


def test_a_known_gate_can_be_enabled() -> None:
    assert of("1.37", DRADerivedAttributes=True).derived_attributes
    assert refused("1.36", DRADerivedAttributes=True) == ["FeatureGateUnknown"]


def test_a_gate_can_be_disabled_until_it_is_locked() -> None:
    assert not of("1.35", DRAAdminAccess=False).admin_access
    assert refused("1.36", DRAAdminAccess=False) == ["FeatureGateLocked"]
    assert of("1.36", DRAAdminAccess=True).admin_access


def test_one_gate_controls_taints_and_taint_rules_up_to_1_34() -> None:
    assert of("1.34", DRADeviceTaints=True).device_taint_rules
    assert not of("1.35", DRADeviceTaints=True).device_taint_rules


SERVED = [
    ("1.36", "", True),
    ("1.34", "", True),
    ("1.36", "DRADeviceTaintRules=false", False),
    ("1.34", "DRADeviceTaints=false", False),
]


@pytest.mark.parametrize(("version", "overrides", "obeyed"), SERVED)
def test_rules_count_if_the_api_server_serves_them(
    version: str,
    overrides: str,
    obeyed: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    unserved = read_gates(version, overrides)
    served = read_gates(version, overrides, serves_taint_rules=True)
    assert isinstance(unserved, Gates)
    assert isinstance(served, Gates)
    assert not unserved.device_taint_rules
    assert served.device_taint_rules is obeyed
    assert served.device_taints or not obeyed


def test_binding_conditions_need_two_gates() -> None:
    assert of("1.36").supports_binding_conditions
    assert not of("1.36", DRAResourceClaimDeviceStatus=False).supports_binding_conditions
    assert not of("1.36", DRADeviceBindingConditions=False).supports_binding_conditions


@pytest.mark.parametrize("version", ["v1.36.3", "1.36", "1.36.0-rc.1", "v1.36+"])
def test_a_version_may_be_written_in_full(version: str) -> None:
    assert of(version).version == "1.36"


@every_row("version", ["1.33", "1.3", "1.360", "2.36", "", "latest"])
def test_other_versions_are_rejected(version: str) -> None:
    assert refused(version) == ["KubernetesVersionUnsupported"]


@pytest.mark.parametrize(
    ("kubelets", "version"),
    [
        ([], "1.37"),
        ([""], "1.37"),
        (["v1.35.4", "v1.36.0-gke.1", ""], "1.36"),
        (["v1.34.9", "1.29.0"], "1.34"),
        (["v1.29.0"], "1.34"),
        (["v1.340.0"], "1.37"),
        (["2.0"], "1.37"),
        (["unknown"], "1.37"),
    ],
)
def test_an_api_server_has_at_least_the_version_of_its_kubelets(
    kubelets: list[str], version: str
) -> None:
    assert version_of_kubelets(kubelets) == version


@pytest.mark.parametrize(
    ("server", "kubelet", "expected"),
    [
        (of("1.37"), "v1.37.0", True),
        (of("1.37"), "v1.36.3", True),
        (of("1.37"), "v1.35.4-gke.1", False),
        (of("1.36"), "v1.33.9", False),
        (of("1.36"), "v1.360.0", True),
        # An administrator turns the gate on and off in all components of one version.
        (of("1.36", DRAExtendedResource=False), "v1.36.3", False),
        (of("1.35", DRAExtendedResource=True), "v1.35.4", True),
        (of("1.35", DRAExtendedResource=True), "v1.34.1", False),
        (of("1.36"), "", True),
        (of("1.36"), "unknown", True),
    ],
)
def test_a_kubelet_serves_names_by_the_gate_of_its_own_version(
    server: Gates,
    kubelet: str,
    expected: bool,  # noqa: FBT001  # a value of the table
) -> None:
    assert kubelet_serves_names(kubelet, server) is expected


def test_gates_are_parsed_as_in_kubernetes() -> None:
    assert parse_gates("DRADeviceTaints=true, DRAAdminAccess=False,") == {
        "DRADeviceTaints": True,
        "DRAAdminAccess": False,
    }
    assert parse_gates("") == {}


@pytest.mark.parametrize("text", ["DRADeviceTaints", "DRADeviceTaints=on", "=true", "a b=true"])
def test_malformed_gates_are_rejected(text: str) -> None:
    findings = parse_gates(text)
    assert isinstance(findings, tuple)
    assert [finding.code for finding in findings] == ["FeatureGatesUnreadable"]
