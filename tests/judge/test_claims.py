"""Claims that no device can satisfy, or that the API server rejects, in all API versions."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dra.claim import Claim, read_claim
from judge.context import ObjectLookups
from judge.judgement import judge_file
from judge.subject import claim_subject
from tests.judge.contexts import class_context
from tests.tables import YamlValue, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "claims.yaml")


def newer_request(name: str, spec: YamlValue) -> YamlValue:
    if isinstance(spec, list):
        return {"name": name, "firstAvailable": [{"deviceClassName": "a"} | one for one in spec]}
    return {"name": name, "exactly": {"deviceClassName": "a"} | spec}


def oldest_request(name: str, spec: YamlValue) -> YamlValue:
    newer = newer_request(name, spec)
    return newer if isinstance(spec, list) else {"name": name} | newer["exactly"]


FORMS = {"v1": newer_request, "v1beta2": newer_request, "v1beta1": oldest_request}


@pytest.mark.parametrize("version", FORMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_claim_in_a_file(case: YamlValue, version: str) -> None:
    requests = [FORMS[version](name, spec) for name, spec in case["requests"].items()]
    claim = read_claim(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"devices": {"requests": requests, "constraints": case.get("constraints", [])}},
        }
    )
    assert isinstance(claim, Claim), claim
    labels = case.get("labels")
    lookups = ObjectLookups(find_namespace_labels=lambda _: labels)
    context = replace(class_context({}), lookups=lookups)
    # Other questions find nothing: the class is not in the cluster, and no cluster is known.
    found = judge_file(claim_subject(claim), context)
    expected = [(code, f"spec.devices.{path}") for code, path in case["found"]]
    assert [(each.code, each.path) for each in found] == expected
    assert all(each.object == "ResourceClaim/ns/c" for each in found)
    if "says" in case:
        assert found[0].message == case["says"]
