"""The results equal those of Kubernetes, field by field and version by version.

All cases are compared for the newest version, and for the others those whose results differ
between versions or from Kubernetes. Only these are compared with both settings of the list gate
where the recorded results are equal. THOROUGH=1 compares all, with both.
"""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.thorough import THOROUGH
from tools.agreement import VERSIONS, Difference, compare, varying

Differences = tuple[Difference, ...]


@cache
def _differences(version: str) -> Differences:
    names = None if THOROUGH or version == VERSIONS[-1] else SOME
    both = None if THOROUGH else SOME
    return tuple(each for _, apart in compare(version, names, both) for each in apart)


EXPECTED = json.loads((Path(__file__).parent / "cases" / "differences.json").read_text())
SOME = varying() | {name.split()[1] for entry in EXPECTED for name in entry["differences"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_results_differ_from_kubernetes_only_where_expected(version: str) -> None:
    differences = _differences(version)

    unexpected = [f"{each.name}: {each.expected!r}, not {each.actual!r}" for each in differences]
    expected = {name for entry in EXPECTED for name in entry["differences"]}

    assert [line for line in unexpected if line.partition(":")[0] not in expected] == []


def test_every_expected_difference_exists_and_has_a_reason() -> None:
    differences = {each.name for version in VERSIONS for each in _differences(version)}

    for entry in EXPECTED:
        assert entry["reason"]
        assert set(entry["differences"]) <= differences


def test_a_difference_names_version_case_and_field() -> None:
    case = {"id": "x", "list_attributes": "on"}

    assert Difference("1.36", case, "cost", 1, 2).name == "1.36 x on cost"
