"""Tests of tolerations and DeviceTaintRules."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.dra.device import Device, Taint
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import (
    DeviceTaintRule,
    TaintSelector,
    Toleration,
    find_ignored_fields,
    first_untolerated,
    taint_rule_reader,
)
from tests.tables import every_row, read_yaml

TABLE = read_yaml((Path(__file__).parent / "cases" / "taints.yaml").read_text("utf-8"))


@every_row("case", TABLE["tolerations"], ids=lambda case: case["name"])
def test_an_untolerated_taint_excludes_the_device(case: dict[str, Any]) -> None:
    taints = msgspec.convert(case["taints"], tuple[Taint, ...])
    kept = first_untolerated(taints, msgspec.convert(case["tolerations"], tuple[Toleration, ...]))
    assert (kept.key if kept else None) == case["kept_off_by"]


def rule(name: str, key: str, selector: object) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": key, "effect": "NoExecute"}},
    }


SLICES = [
    Slice("1", "a", "p", 1, 1, all_nodes=True, devices=(Device("x"), Device("y"))),
    Slice("2", "a", "q", 1, 1, all_nodes=True, devices=(Device("x"),)),
    Slice("3", "b", "p", 1, 1, all_nodes=True, devices=(Device("x"),)),
]


def read_rule(raw: object) -> DeviceTaintRule:
    read = taint_rule_reader().read(raw)
    assert isinstance(read, DeviceTaintRule), read
    return read


@every_row("case", TABLE["rules"], ids=lambda case: case["name"])
def test_a_rule_taints_the_devices_it_selects(case: dict[str, Any]) -> None:
    read = read_rule(rule("r", "k", case["selector"]))
    assert not find_ignored_fields(read)
    built = build_inventory(SLICES, taint_rules=[read])
    tainted = [
        f"{slice_.driver}/{slice_.pool}/{device.name}"
        for slice_ in built.slices
        for device in slice_.devices
        if device.taints
    ]
    assert tainted == case["tainted"]


def test_taints_of_rules_follow_the_taints_of_the_device_by_rule_name() -> None:
    own = Taint("own", "NoSchedule")
    slices = [Slice("1", "a", "p", 1, 1, all_nodes=True, devices=(Device("x", taints=(own,)),))]
    rules = [
        DeviceTaintRule(name, Taint(name, "None"), TaintSelector()) for name in ("b", "a", "B")
    ]
    built = build_inventory(slices, taint_rules=rules)
    assert [taint.key for taint in built.slices[0].devices[0].taints] == ["own", "B", "a", "b"]
    assert slices[0].devices[0].taints == (own,)


def test_slices_without_a_matching_rule_are_unchanged() -> None:
    only_b = DeviceTaintRule("r", Taint("k", "None"), TaintSelector(driver="b"))
    built = build_inventory(SLICES, taint_rules=[only_b])
    assert built.slices[0] is SLICES[0]
    assert built.slices[2] is not SLICES[2]


def test_rules_have_no_effect_if_the_gate_is_disabled() -> None:
    everything = DeviceTaintRule("r", Taint("k", "NoExecute"), TaintSelector())
    built = build_inventory(SLICES, taint_rules=[everything], gates=Gates(device_taint_rules=False))
    assert list(built.slices) == SLICES


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_rules_of_every_version_are_decoded(version: str) -> None:
    raw = rule("r", "k", {"driver": "a"}) | {"apiVersion": f"resource.k8s.io/{version}"}
    for form in (raw, json.dumps(raw).encode()):
        expected = DeviceTaintRule("r", Taint("k", "NoExecute"), TaintSelector(driver="a"))
        assert read_rule(form) == expected


def test_alpha_fields_of_a_rule_are_reported() -> None:
    selector = {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]}
    ignored = find_ignored_fields(read_rule(rule("r", "k", selector)))
    assert [(finding.code, finding.path) for finding in ignored] == [
        ("TaintRuleNarrowed", "spec.deviceSelector.deviceClassName"),
        ("TaintRuleNarrowed", "spec.deviceSelector.selectors"),
    ]


def test_a_rule_without_a_taint_is_a_finding() -> None:
    raw = rule("r", "k", {})
    del raw["spec"]["taint"]["effect"]
    read = taint_rule_reader().read(raw)
    assert isinstance(read, tuple)
    assert [(finding.path, finding.object) for finding in read] == [
        ("spec.taint.effect", "DeviceTaintRule/r")
    ]
