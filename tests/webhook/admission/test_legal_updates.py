"""Which updates of a pod the API server accepts, in the fields that translations change."""

from pathlib import Path

import pytest

from tests.tables import YamlValue, load_cases
from webhook.admission.legal_updates import is_legal_update

CASES = load_cases(Path(__file__).parent / "cases" / "legal_updates.yaml")


def build_pod(case: YamlValue, spec: YamlValue) -> YamlValue:
    """Return a pod with one container and the gate of the case."""
    gates = {"schedulingGates": [{"name": "queue"}]} if case.get("gated") else {}
    return {"spec": {"containers": [{"name": "main", "image": "x"}], **gates, **spec}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_update_is_legal_if_the_api_server_accepts_it(case: YamlValue) -> None:
    old, new = (build_pod(case, case[which]) for which in ("old", "new"))
    assert is_legal_update(old, new) == case["legal"]


@pytest.mark.parametrize("spec", [None, 1, [], {"containers": 1}, {"tolerations": [[{}], 2]}])
def test_malformed_pods_cause_no_exception(spec: YamlValue) -> None:
    is_legal_update({"spec": spec}, {"spec": {"schedulingGates": {"a": 1}}})
    is_legal_update({"spec": {"schedulingGates": [{"name": []}]}}, {"spec": spec})
