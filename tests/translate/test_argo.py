"""Argo's workflows: what of them is a pod, and where its claims stand."""

import json
from typing import Any

import pytest

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.finding import Severity
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.argo import SPECS
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from tests.tables import YamlValue

ASKS = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
UNKNOWING = make_context(Configuration())
ELSEWHERE = "RequestNotInPod"


def workflow(*templates: YamlValue, kind: str = "Workflow", **spec: Any) -> YamlValue:  # noqa: ANN401  # YAML
    inner: YamlValue = {"entrypoint": "main", "templates": list(templates), **spec}
    for key in reversed(SPECS["argoproj.io", kind]):
        inner = {key: inner}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "w"}, **inner}


def done(value: YamlValue) -> tuple[TranslatedObject, YamlValue]:
    translated = translate_object(value, "Workflow/w", UNKNOWING)
    after: YamlValue = apply_edits(value, translated.edits)
    return translated, after


def claims(template: YamlValue) -> list[YamlValue]:
    patch: YamlValue = json.loads(template["podSpecPatch"])
    assert list(patch) == ["resourceClaims"]
    return patch["resourceClaims"]  # type: ignore[no-any-return]  # YAML


@pytest.mark.parametrize("kind", [kind for _, kind in SPECS])
def test_a_template_with_a_container_gets_its_claim_by_a_patch(kind: str) -> None:
    translated, after = done(
        workflow({"name": "main", "container": {"image": "x", **ASKS}}, kind=kind)
    )
    template = get_value(after, (*SPECS["argoproj.io", kind], "templates", 0))
    assert isinstance(template, dict)
    assert template["container"] == {
        "image": "x",
        "resources": {"claims": [{"name": "drawbridge", "request": "gpu"}]},
    }
    (claim,) = claims(template)
    (made,) = translated.templates
    assert claim["resourceClaimTemplateName"] == get_value(dict(made), ("metadata", "name"))
    assert [e.code for e in translated.findings] == ["ServerUnknown", "TolerationAdded"]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"script": {"source": "y", **ASKS}}, ("script",)),
        ({"container": {}, "sidecars": [{"name": "s", **ASKS}]}, ("sidecars", 0)),
        (
            {"containerSet": {"containers": [{"name": "a"}, {"name": "b", **ASKS}]}},
            ("containerSet", "containers", 1),
        ),
        ({"container": {}, "initContainers": [{"name": "i", **ASKS}]}, ("initContainers", 0)),
    ],
    ids=["script", "sidecar", "container set", "init container"],
)
def test_every_container_of_a_template_is_in_its_pod(
    template: YamlValue, path: tuple[str | int, ...]
) -> None:
    translated, after = done(workflow(template))
    assert ELSEWHERE not in [each.code for each in translated.findings]
    container = get_value(after["spec"]["templates"][0], path)
    assert get_value(container, ("resources", "claims", 0, "name")) == "drawbridge"
    assert get_value(container, ("resources", "limits")) is None
    assert len(claims(after["spec"]["templates"][0])) == 1


def test_translating_twice_changes_nothing() -> None:
    _, after = done(workflow({"container": dict(ASKS)}, {"script": {"source": "y", **ASKS}}))
    again, same = done(after)
    assert (again.edits, again.findings, same) == ((), (), after)


def test_selectors_and_annotations_of_a_template_are_in_its_pod() -> None:
    translated, after = done(
        workflow(
            {
                "metadata": {"annotations": {"nvidia.com/use-gputype": "A100", "mine": "x"}},
                "nodeSelector": {"nvidia.com/gpu.family": "ampere", "zone": "a"},
                "tolerations": [{"operator": "Exists"}],
                "container": dict(ASKS),
            }
        )
    )
    template = after["spec"]["templates"][0]
    assert template["nodeSelector"] == {"zone": "a"}
    assert template["tolerations"] == [{"operator": "Exists"}]
    assert set(template["metadata"]["annotations"]) == {"mine", ORIGINAL_ANNOTATION}
    assert len(translated.templates) == 1


def test_shared_fields_of_a_workflow_stay() -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    translated, after = done(workflow({"container": dict(ASKS)}, tolerations=tolerations))
    assert after["spec"]["tolerations"] == tolerations
    assert "tolerations" not in after["spec"]["templates"][0]
    assert len(translated.templates) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": "other", "operator": "Exists"}]},
        {"nodeSelector": {"nvidia.com/gpu.family": "ampere"}},
        {"schedulerName": "koord-scheduler"},
        {"podSpecPatch": '{"hostNetwork": true}'},
        {"podMetadata": {"annotations": {"nvidia.com/use-gputype": "A100"}}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_request_that_needs_a_change_of_shared_fields_is_reported_and_stays(
    spec: YamlValue,
) -> None:
    asks = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    if "schedulerName" in spec:
        asks = {"resources": {"limits": {"koordinator.sh/gpu": 100}}}
    value = workflow({"container": asks}, **spec)
    translated, after = done(value)
    assert (translated.edits, translated.templates, after) == ((), (), value)
    assert [each.code for each in translated.findings] == [ELSEWHERE]


def test_a_template_with_a_patch_is_reported_and_hides_no_other() -> None:
    patch = '{"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}'
    first = {"container": dict(ASKS), "podSpecPatch": patch}
    translated, after = done(workflow(first, {"container": dict(ASKS)}))
    assert after["spec"]["templates"][0] == first
    assert "podSpecPatch" in after["spec"]["templates"][1]
    assert [each.code for each in translated.findings].count(ELSEWHERE) == 2


def test_a_refused_template_leaves_the_workflow_unchanged() -> None:
    wrong = {"resources": {"limits": {"nvidia.com/gpumem-percentage": 120}}}
    translated, _ = done(workflow({"container": wrong}, {"container": dict(ASKS)}))
    assert translated.edits == ()
    refused = [each for each in translated.findings if each.severity is Severity.ERROR]
    assert [each.path for each in refused] == [
        "spec.templates[0].container.resources.limits[nvidia.com/gpumem-percentage]"
    ]


@pytest.mark.parametrize(
    "value",
    [
        workflow({"dag": {"tasks": []}}, {"steps": []}),
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": "x"}},
        workflow(*[None, 7, {"container": None}, {"sidecars": "x"}, {"containerSet": []}]),  # type: ignore[list-item]  # hostile
    ],
)
def test_templates_without_a_pod_are_ignored(value: YamlValue) -> None:
    assert done(value) == (TranslatedObject(), value)


def test_null_metadata_gets_annotations() -> None:
    _, after = done(workflow({"metadata": None, "container": dict(ASKS)}))
    assert ORIGINAL_ANNOTATION in after["spec"]["templates"][0]["metadata"]["annotations"]
