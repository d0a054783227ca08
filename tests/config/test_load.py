"""Tests of loading: a Configuration is accepted, or all of its errors are reported."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.config.accept import accept_configuration
from drawbridge.config.load import configuration_to_plain
from drawbridge.config.model import KIND, Configuration
from drawbridge.config.policy import apply_policies, compatibility_declarations
from drawbridge.config.schema import ROWS
from drawbridge.dra.compatibility import Declaration
from drawbridge.finding import Finding, Severity
from drawbridge.names import API_VERSION
from tests.tables import every_row, read_yaml

KNOWN = ("PoolIncomplete", "NameTwice")
HEAD = {"apiVersion": API_VERSION, "kind": KIND}
PLACES = frozenset(row.place for row in ROWS)
CASES = read_yaml(
    (Path(__file__).parent / "cases" / "load.yaml")
    .read_text("utf-8")
    .replace("LONGEST", f"device.driver == '{'x' * 10221}'")
    .replace("LONGER", f"device.driver == '{'x' * 10222}'")
)


def answer(result: Configuration | tuple[Finding, ...]) -> list[str]:
    return (
        [] if isinstance(result, Configuration) else [f"{f.code} {f.path}".strip() for f in result]
    )


@every_row("case", CASES, ids=lambda case: case["name"])
def test_table(case: dict[str, Any]) -> None:
    value = case["input"] if case.get("whole") else {**HEAD, **case["input"]}
    result = accept_configuration(value, KNOWN)
    assert sorted(answer(result)) == sorted(case["findings"])
    if "says" in case:
        assert [each.message for each in result] == case["says"]  # type: ignore[union-attr]  # findings
    if "remedies" in case:
        assert [each.remedy for each in result] == case["remedies"]  # type: ignore[union-attr]  # findings
    if isinstance(result, Configuration):
        assert accept_configuration(configuration_to_plain(result), KNOWN) == result


@pytest.mark.parametrize(
    ("selector", "remedy"),
    [
        ({"pool": "bridge"}, "Write it in matchLabels: {matchLabels: {pool: bridge}}."),
        ({"matchLabel": {"pool": "bridge"}}, "Correct the spelling or remove the field."),
        ({"pool": ["bridge"]}, "Correct the spelling or remove the field."),
    ],
)
def test_labels_beside_match_labels_are_told_where_they_belong(
    selector: dict[str, Any], remedy: str
) -> None:
    pools = [{"driver": "gpu.nvidia.com", "nodeSelector": selector}]
    findings = accept_configuration({**HEAD, "placement": "bridge", "ownedPools": pools}, KNOWN)
    assert [each.remedy for each in findings if each.code == "FieldUnknown"] == [remedy]  # type: ignore[union-attr]  # findings


def test_an_empty_file_has_the_defaults() -> None:
    assert accept_configuration(HEAD, {}) == Configuration()
    assert configuration_to_plain(Configuration()) == {
        **HEAD,
        "placement": "native",
        "bridge": {"forcedDeletionSeconds": 30},
        "scope": {"excludeNamespaces": ["kube-system"], "rollout": {"percent": 100}},
        "legacy": {"renames": {}, "units": {}, "defaults": {}, "networks": {}, "labels": {}},
        "targets": [],
        "fleet": [],
        "decisions": {
            "allowLossOf": [],
            "nativeExtendedNames": "leave",
            "nativeShares": "translate",
            "adminAccess": "refuse",
        },
        "admission": {"everyPod": False},
        "findings": {},
        "compatibility": [],
        "unsetGroups": "alone",
        "partitions": [],
        "quotas": [],
        "strategy": {"default": "usable", "classes": {}, "weights": {}, "classWeights": {}},
        "preemption": {"delaySeconds": 0},
        "ownedPools": [],
    }


def test_every_finding_names_the_remedy_and_the_object() -> None:
    configuration = accept_configuration(
        {"strategy": {"default": 9}, "placment": 1, "compatibility": [{"driver": "a"}]}, {}
    )
    assert not isinstance(configuration, Configuration)
    assert len(configuration) == 5
    assert all(f.remedy and f.message and f.object == KIND for f in configuration)
    assert all(f.severity is Severity.ERROR for f in configuration)


@pytest.mark.parametrize(
    ("value", "near"),
    [
        ({"placment": "native"}, "placement"),
        (
            {"compatibility": [{"driver": "a", "groups": ["a"], "physicaldevice": "u"}]},
            "physicalDevice",
        ),
        ({"findings": {"PoolIncomplet": "warn"}}, "PoolIncomplete"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(value: dict[str, Any], near: str) -> None:
    (problem,) = accept_configuration({**HEAD, **value}, KNOWN)  # type: ignore[misc]  # a Configuration would fail here too
    assert f"did you mean {near}?" in problem.message


@pytest.mark.parametrize(
    "value",
    [
        {"scope": {"rollout": {"percent": "9" * 5000}}},
        {"scope": {"namespaceSelector": {"team": "a" * 5000}}},
        {"scope": {"rollout": "9" * 5000}},
    ],
)
def test_no_message_and_no_remedy_repeats_a_long_value(value: dict[str, Any]) -> None:
    findings = accept_configuration({**HEAD, **value}, KNOWN)
    assert not isinstance(findings, Configuration)
    assert all(len(each.message) + len(each.remedy) < 300 for each in findings)


def test_a_name_unlike_all_known_names_gets_no_suggestion() -> None:
    (problem,) = accept_configuration({**HEAD, "zzz": 1}, KNOWN)  # type: ignore[misc]  # a Configuration would fail here too
    assert "did you mean" not in problem.message


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(sorted({re.split(r"[.\[{]", p)[-1].strip("]}") or "x" for p in PLACES}))
            | st.text(max_size=5)
            | st.integers(),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(TREES)
def test_any_value_is_loaded_or_has_findings(value: object) -> None:
    result = accept_configuration(value, KNOWN)
    assert isinstance(result, Configuration) or result


@given(st.dictionaries(st.sampled_from(sorted(PLACES)), TREES, max_size=6))
def test_any_object_is_loaded_or_has_findings(value: dict[str, object]) -> None:
    result = accept_configuration({**HEAD, **value}, KNOWN)
    if isinstance(result, Configuration):
        assert accept_configuration(configuration_to_plain(result), KNOWN) == result
    else:
        assert result


def test_policies_raise_lower_and_remove_findings() -> None:
    configuration = accept_configuration(
        {**HEAD, "findings": {"PoolIncomplete": "off", "NameTwice": "warn"}}, KNOWN
    )
    assert isinstance(configuration, Configuration)
    findings = [
        Finding(code=code, severity=Severity.ERROR, message="", remedy="")
        for code in ("PoolIncomplete", "NameTwice", "Other")
    ]
    after = list(apply_policies(findings, configuration.findings))
    assert [(f.code, f.severity) for f in after] == [
        ("NameTwice", Severity.WARNING),
        ("Other", Severity.ERROR),
    ]


def test_enforce_makes_a_warning_an_error() -> None:
    configuration = accept_configuration({**HEAD, "findings": {"NameTwice": "enforce"}}, KNOWN)
    assert isinstance(configuration, Configuration)
    told = Finding(code="NameTwice", severity=Severity.INFO, message="", remedy="")
    (after,) = apply_policies([told], configuration.findings)
    assert after.severity is Severity.ERROR


def test_declarations_are_converted_for_the_compatibility_check() -> None:
    entries = [
        {"driver": "a", "selector": "true", "physicalDevice": "u", "compatibleOnlyWith": "false"},
        {"driver": "b", "groups": []},
    ]
    configuration = accept_configuration({**HEAD, "compatibility": entries}, KNOWN)
    assert isinstance(configuration, Configuration)
    assert compatibility_declarations(configuration) == (
        Declaration("a", "true", "u", "false"),
        Declaration("b", groups=()),
    )
