"""Custom resources whose CustomResourceDefinition lacks fields that the translation writes."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.translate.changes.patch import Original
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.definitions import find_definitions
from drawbridge.translate.manifests.custom_fields import (
    CUSTOM_KINDS,
    name_definition,
)
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds
from tests.translate.test_claim_entries import TOGETHER

CASES = load_cases(Path(__file__).parent / "cases" / "custom_fields.yaml")
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
TEMPLATE = {"spec": {"containers": [{"name": "a", **GPU}, {"name": "b", **GPU}]}}
SPECS: dict[str, dict[str, Any]] = {
    "Notebook": {"template": TEMPLATE},
    "MPIJob": {"mpiReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
}
KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
CODES = ("ClaimsDropped", "OriginalMissing")


def define(kind: str, spec: YamlValue, **others: YamlValue) -> YamlValue:
    """Return the definition of a kind whose `spec` has this schema."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.kubeflow.org"},
        "spec": {"group": "kubeflow.org", "names": names, "versions": [version], **others},
    }


def translated(
    kind: str, definition: YamlValue, original: Original = Original.FULL
) -> TranslatedObject:
    value: YamlValue = {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": SPECS[kind]}
    definitions = find_definitions([("", definition)])
    context = TranslationContext(original=original, definitions=definitions)
    return translate_object(value, kind, context)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_what_the_api_server_drops_is_told(case: YamlValue) -> None:
    kind = case.get("kind", "Notebook")
    done = translated(kind, define(kind, case["spec"], **case.get("definition", {})))
    told = [each for each in done.findings if each.code in CODES]
    drops = (each.message.removeprefix("the API server drops ").split(", which ") for each in told)
    lines = [f"{one.code} {one.path}: {what[0]}" for one, what in zip(told, drops, strict=True)]
    assert lines == case["found"]
    # Half of a translation would start the pods without their devices.
    assert bool(done.edits) == bool(done.templates) == ("ClaimsDropped" not in "".join(lines))


def test_the_finding_names_the_definition_and_the_version() -> None:
    (finding,) = [
        each
        for each in translated("Notebook", define("Notebook", {"type": "object"})).findings
        if each.code in CODES
    ]
    assert finding.message.endswith(
        "which CustomResourceDefinition notebooks.kubeflow.org lacks in v1"
    )
    assert (finding.object, finding.path) == ("Notebook", "spec.template")


def test_the_claims_of_a_workflow_are_text() -> None:
    """A translation writes them into a patch, which older definitions have as well."""
    claims = '{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu"}]}'
    container = {"resources": {"claims": [{"name": "gpu"}]}}
    template = {"name": "t", "podSpecPatch": claims, "container": container}
    spec = {"templates": [template]}
    value: YamlValue = {"apiVersion": "argoproj.io/v1", "kind": "Workflow", "spec": spec}
    schema = {"properties": {"templates": {"items": {"properties": {"container": KEEPS}}}}}
    definition = define("Workflow", schema)
    definition["spec"]["group"] = "argoproj.io"
    done = translate_object(
        value, "w", TranslationContext(definitions=find_definitions([("", definition)]))
    )
    assert [(each.code, each.path) for each in done.findings] == [
        ("ClaimsDropped", "spec.templates[0].podSpecPatch")
    ]


@pytest.mark.parametrize("role", ["Worker", "0", "9" * 5000], ids=["word", "index", "number"])
@every_row("keys", [["name"], ["name", "request"], None])
def test_a_definition_that_allows_one_entry_for_a_claim_refuses_two(
    keys: YamlValue, role: str
) -> None:
    """The driver keeps the devices of each container in one claim."""
    claims = {"items": KEEPS, **({"x-kubernetes-list-map-keys": keys} if keys else {})}
    container = {**KEEPS, "properties": {"resources": {**KEEPS, "properties": {"claims": claims}}}}
    pod = {**KEEPS, "properties": {"containers": {"items": container}}}
    template = {**KEEPS, "properties": {"spec": pod}}
    value: YamlValue = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {}}
    containers = [
        {"name": "a", "resources": {"limits": {"koordinator.sh/gpu": 300}}},
        {"name": "b", "resources": {"limits": {"koordinator.sh/rdma": 100}}},
    ]
    made = {"metadata": {"annotations": TOGETHER}, "spec": {"containers": containers}}
    value["spec"] = {"mpiReplicaSpecs": {role: {"template": made}}}
    roles = {"additionalProperties": {"properties": {"template": template}}}
    definition = define("MPIJob", {"properties": {"mpiReplicaSpecs": roles}})
    facts = worlds.facts(("dgx-a100 gpu.nvidia.com", "dgx-a100 dra.net"))
    context = make_context(Configuration(), facts)
    definitions = find_definitions([("f.yaml", definition)])
    done = translate_object(value, "n", replace(context, definitions=definitions))
    is_refused = keys == ["name"]
    told = [each for each in done.findings if each.code == "ClaimNamedTwice"]
    assert {each.severity for each in told} == {"error" if is_refused else "warning"}
    names = {"mpijobs.kubeflow.org (f.yaml) allows one" in each.message for each in told}
    assert names == {"server-side" not in each.remedy for each in told} == {is_refused}
    assert bool(done.edits) is not is_refused


def test_annotations_that_are_not_written_are_not_missed() -> None:
    spec = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"metadata": {}}}
    definition = define("Notebook", {"properties": {"template": spec}})
    told = [
        {each.code for each in translated("Notebook", definition, original).findings} & {*CODES}
        for original in (Original.FULL, Original.NONE)
    ]
    assert told == [{"OriginalMissing"}, set()]


def test_the_names_of_definitions_are_those_of_the_projects() -> None:
    names = {name_definition(kind) for kind in CUSTOM_KINDS}
    assert {
        "notebooks.kubeflow.org",
        "jobs.batch.volcano.sh",
        "jobsets.jobset.x-k8s.io",
        "workflows.argoproj.io",
        "inferenceservices.serving.kserve.io",
        "podcliquesets.grove.io",
    } <= names
    assert not {"pods.", "deployments.apps", "jobs.batch"} & names
