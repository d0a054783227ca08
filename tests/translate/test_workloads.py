"""Where objects keep their pod templates, and what asks for devices elsewhere."""

from typing import Any

import pytest

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.translate.manifests import workloads
from drawbridge.translate.manifests.workloads import (
    SPECS,
    TEMPLATES,
    find_other_requests,
    find_places,
    map_path,
)
from tests.tables import YamlValue, every_row

GPU = {"nvidia.com/gpu": 1}


def container(name: str = "main") -> dict[str, Any]:
    return {"name": name, "resources": {"limits": dict(GPU)}}


def at(pattern: str, leaf: YamlValue) -> YamlValue:
    """Build what a pattern of the table leads to, everywhere twice."""
    if not pattern:
        return leaf
    step, _, rest = pattern.partition(".")
    below = at(rest, leaf)
    if step.endswith("[]"):
        return {step[:-2]: [below, below]}
    if step.endswith("{}"):
        return {step[:-2]: {"Master": below, "Worker": below}}
    return {step: below}


@every_row(
    ("group", "kind", "pattern"),
    [(*key, pattern) for key, patterns in TEMPLATES.items() for pattern in patterns],
)
def test_every_pod_template_of_the_table_is_found(group: str, kind: str, pattern: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    value = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, **at(pattern, template)}
    places = find_places(value)
    assert len(places) == 2 ** (pattern.count("[]") + pattern.count("{}"))
    for place in places:
        assert get_value(place.pod, ("spec", "containers", 0)) == container()
        path = map_path(("spec", "containers", 0, "resources", "limits"), place)
        assert get_value(value, path) == GPU
        assert place.is_pod == (kind == "Pod")
    assert find_other_requests(value, places) == ()


@pytest.mark.parametrize(
    ("group", "kind", "pattern"),
    [(*key, pattern) for key, patterns in SPECS.items() for pattern in patterns],
)
def test_every_pod_spec_of_the_table_is_found_with_its_annotations(
    group: str, kind: str, pattern: str
) -> None:
    spec = {"annotations": {"a": "b"}, "containers": [container("sidecar")], "model": container()}
    value = {"apiVersion": f"{group}/v1beta1", "kind": kind, **at(pattern, spec)}
    (place,) = (each for each in find_places(value) if format_path(each.path) == pattern)
    assert get_value(place.pod, ("metadata", "annotations", "a")) == "b"
    containers = get_value(place.pod, ("spec", "containers"))
    assert containers == [container("sidecar"), container()]
    assert format_path(map_path(("spec", "containers", 0), place)) == f"{pattern}.containers[0]"
    assert format_path(map_path(("spec", "containers", 1), place)) == f"{pattern}.model"
    assert format_path(map_path(("metadata", "annotations"), place)) == f"{pattern}.annotations"
    assert find_other_requests(value, find_places(value)) == ()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v9"])
def test_the_version_of_a_kind_does_not_matter(version: str) -> None:
    value = {
        "apiVersion": f"apps/{version}",
        "kind": "Deployment",
        **at("spec.template", {"spec": {}}),
    }
    assert len(find_places(value)) == 1


@every_row(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"spec": "x"}},
        {"apiVersion": "example.com/v1", "kind": "Deployment", **at("spec.template", {"spec": {}})},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": None},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": []}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": "text"}}},
        {"apiVersion": "batch.volcano.sh/v1", "kind": "Job", "spec": {"tasks": {"template": 1}}},
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"workerGroupSpecs": [None, 7]}},
        {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "spec": {"mpiReplicaSpecs": [1]}},
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "spec": {"predictor": {}},
        },
    ],
)
def test_an_object_without_a_pod_template_has_no_places(value: YamlValue) -> None:
    assert find_places(value) == ()


def test_a_kind_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"apiVersion": "example.com/v1", "kind": "Farm", "spec": {"pods": [{"spec": {}}]}}
    table = {**TEMPLATES, ("example.com", "Farm"): ("spec.pods[]",)}
    monkeypatch.setattr(workloads, "TEMPLATES", table)
    (place,) = find_places(value)
    assert place.path == ("spec", "pods", 0)


def test_a_request_outside_a_pod_is_found() -> None:
    value = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "spec": {"trainer": {"resourcesPerNode": {"limits": {**GPU, "cpu": 1}}}},
    }
    (request,) = find_other_requests(value, find_places(value))
    assert (format_path(request.path), request.name) == (
        "spec.trainer.resourcesPerNode.limits",
        "nvidia.com/gpu",
    )


def test_a_request_beside_a_known_place_is_found() -> None:
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {
            "template": {"spec": {"containers": [container()]}},
            "more": [{"resources": {"requests": dict(GPU)}}],
        },
    }
    (request,) = find_other_requests(value, find_places(value))
    assert format_path(request.path) == "spec.more[0].resources.requests"


def test_requests_of_claims_are_ignored() -> None:
    value = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [{"capacity": {"requests": {"example.com/cpu": 1}}}]}},
    }
    assert find_other_requests(value, find_places(value)) == ()


def test_the_tables_name_no_kind_twice() -> None:
    assert not TEMPLATES.keys() & SPECS.keys()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"executor": {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}},
            ("spec", "executor", "gpu"),
        ),
        (
            {"devices": {"gpus": [{"name": "a", "deviceName": "nvidia.com/GA102GL_A10"}]}},
            ("spec", "devices", "gpus", 0),
        ),
        (
            {"gpu": {"limits": {"nvidia.com/gpu": 1}}},
            ("spec", "gpu", "limits"),
        ),
    ],
    ids=["Spark", "KubeVirt", "limits below a part of that name"],
)
def test_a_device_that_is_named_by_a_value_is_found(spec: YamlValue, path: Path) -> None:
    (request,) = find_other_requests(
        {"apiVersion": "example.com/v1", "kind": "Farm", "spec": spec}, ()
    )
    assert request.path == path
    assert request.name.startswith("nvidia.com/")


def test_a_name_that_is_not_a_device_is_ignored() -> None:
    spec = {"gpu": {"name": "fast", "quantity": 1}, "gpus": ["nvidia.com/gpu"], "hostDevices": 3}
    assert (
        find_other_requests({"apiVersion": "example.com/v1", "kind": "Farm", "spec": spec}, ())
        == ()
    )


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ServingRuntime", {"containers": [container()]}),
        ("ClusterServingRuntime", {"workerSpec": {"containers": [container()]}}),
        ("InferenceService", {"predictor": {"workerSpec": {"containers": [container()]}}}),
    ],
)
def test_a_spec_without_a_field_for_claims_is_found_but_not_a_place(
    kind: str, spec: YamlValue
) -> None:
    value = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "spec": spec}
    assert find_places(value) == ()
    assert [each.name for each in find_other_requests(value, ())] == ["nvidia.com/gpu"]


def test_node_descriptions_are_not_requests() -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"limits": dict(GPU)}}
    assert find_other_requests(pool, ()) == ()


def test_a_request_in_a_patch_text_is_found() -> None:
    patch = "spec:\n  limits:\n    nvidia.com/gpu: 2\n"
    value = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "patches": [{"patch": patch, "target": {"kind": "Pod"}}],
    }
    (request,) = find_other_requests(value, ())
    assert (format_path(request.path), request.name) == ("patches[0].patch", "nvidia.com/gpu")
