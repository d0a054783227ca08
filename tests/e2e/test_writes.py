"""What Drawbridge writes is read from objects, and compared with what GitOps tools ignore."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.audit.writes import (
    Write,
    changed_paths,
    compare,
    covers,
    find_writes,
    read_argo,
    read_flux,
    read_paths,
    read_pointer,
)

ROOT = Path(__file__).parents[2]
GITOPS = ROOT / "examples" / "gitops"
HOOK = 'k:{"name":"pods.drawbridge.dev"}'


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((GITOPS / name).read_text("utf-8"))
    return loaded


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "apiVersion": "v1", "fieldsV1": fields, **more}


def test_the_paths_of_fields_are_those_of_jq_without_keys_and_status() -> None:
    fields = {
        "f:metadata": {
            "f:annotations": {".": {}, "f:drawbridge.dev/allocation": {}},
            "f:finalizers": {".": {}, 'v:"a"': {}},
        },
        "f:webhooks": {
            HOOK: {".": {}, "f:name": {}, "f:clientConfig": {"f:caBundle": {}}},
            'k:{"name":"other"}': {".": {}, "f:name": {}},
        },
        "f:spec": {"f:variables": {'k:{"name":"pools"}': {}}},
        "f:status": {"f:phase": {}},
    }
    assert list(read_paths(fields)) == [
        '.metadata.annotations["drawbridge.dev/allocation"]',
        ".metadata.finalizers[]",
        ".webhooks[].clientConfig.caBundle",
        ".spec.variables[]",
    ]


@pytest.mark.parametrize(
    ("managers", "paths"),
    [
        ([entry("drawbridge", {"f:data": {"f:a": {}}})], []),
        (
            [entry("kubectl", {"f:data": {}}), entry("drawbridge-x", {"f:data": {"f:a": {}}})],
            [".data.a"],
        ),
        ([entry("kubectl", {"f:data": {"f:a": {}}})], []),
        (
            [
                entry("drawbridge", {"f:spec": {"f:a": {}}}),
                entry("kcm", {"f:status": {"f:b": {}}}, subresource="status"),
            ],
            [],
        ),
    ],
)
def test_only_fields_of_ours_in_objects_of_others_count(
    managers: list[dict[str, Any]], paths: list[str]
) -> None:
    obj = {"metadata": {"managedFields": managers}}
    assert [each.path for each in find_writes("Thing", [obj])] == paths


def test_what_is_written_and_not_ignored_is_named_and_what_is_ignored_needlessly() -> None:
    ignored = {Write("", "Node", ".spec.taints[]"), Write("", "Node", ".metadata.labels")}
    written = {Write("", "Node", ".spec.taints"), Write("", "Pod", ".spec.taints")}
    differences = compare(ignored, written)
    assert differences.uncovered == [Write("", "Pod", ".spec.taints")]
    assert differences.needless == [Write("", "Node", ".metadata.labels")]
    assert not covers(Write("", "A", ".spec.a"), Write("", "A", ".spec.ab"))
    assert covers(Write("", "A", ".spec.a"), Write("", "A", ".spec.a[].b"))


def test_changed_values_are_found_at_the_deepest_common_path() -> None:
    before = {"spec": {"a": [{"x": 1}], "b": [1]}}
    after = {"spec": {"a": [{"x": 2}], "b": [1, 2], "c": {"d": 1}}}
    assert list(changed_paths(before, after)) == [".spec.a[].x", ".spec.b", ".spec.c"]


def test_argo_cd_and_flux_ignore_the_same() -> None:
    assert read_pointer("/metadata/annotations/a.b~1c") == '.metadata.annotations["a.b/c"]'
    argo, flux = read_argo(load("argocd/ignored.yaml")), read_flux(load("flux/ignored.yaml"))
    assert {each._replace(path=each.path.removesuffix("[]")) for each in argo} == flux
    assert len(argo) > 15


def test_flux_ignores_the_fields_of_each_webhook_by_its_number() -> None:
    """Its pointers know no wildcard."""
    objects = [
        obj
        for path in [
            *(ROOT / "manifests" / "base").glob("admission-*.yaml"),
            ROOT / "manifests" / "components" / "judge" / "judge-webhooks.yaml",
        ]
        for obj in yaml.safe_load_all(path.read_text("utf-8"))
    ]
    for obj in objects:
        pointers = {
            pointer
            for each in load("flux/ignored.yaml")["spec"]["driftDetection"]["ignore"]
            if (each["target"]["kind"], each["target"].get("name"))
            == (obj["kind"], obj["metadata"]["name"])
            for pointer in each["paths"]
        }
        bundles = {
            f"/webhooks/{number}/clientConfig/caBundle" for number in range(len(obj["webhooks"]))
        }
        assert bundles <= pointers, json.dumps(sorted(bundles - pointers))
        assert len(pointers) % len(bundles) == 0
