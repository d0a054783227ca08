"""Tests of the finding that KubeRay no longer knows the number of GPUs of a group."""

from typing import Any

import pytest

from drawbridge.config.model import Configuration
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue

CONTEXT = make_context(Configuration())
GPUS = {"nvidia.com/gpu": 2}


def build_group(
    limits: YamlValue, *others: YamlValue, params: YamlValue = None, **fields: YamlValue
) -> dict[str, Any]:
    listed = [{"name": "ray", "resources": {"limits": limits}}]
    listed += [{"name": f"c{i}", "resources": {"limits": each}} for i, each in enumerate(others)]
    return {"rayStartParams": params or {}, "template": {"spec": {"containers": listed}}, **fields}


def build_cluster(head: YamlValue, *workers: YamlValue) -> dict[str, Any]:
    spec = {"headGroupSpec": head, "workerGroupSpecs": list(workers)}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}


def find_lost(value: YamlValue) -> list[tuple[str, str]]:
    translated = translate_object(value, "RayCluster/r", CONTEXT)
    assert translated.edits
    return [(each.path, each.remedy) for each in translated.findings if each.code == "RayGpusLost"]


def test_each_group_without_its_own_number_is_reported_with_the_number_to_set() -> None:
    value = build_cluster(
        build_group({"cpu": 1, "nvidia.com/gpu": 1}),
        build_group({"cpu": 1}),
        build_group(GPUS),
        build_group({"nvidia.com/mig-1g.5gb": 3}),
        build_group({"nvidia.com/gpu": 4, "rdma/hca": 1}, params={"num-cpus": "8"}),
    )
    assert find_lost(value) == [
        (
            "spec.headGroupSpec.rayStartParams",
            'Set `rayStartParams.num-gpus: "1"` in the group.',
        ),
        (
            "spec.workerGroupSpecs[1].rayStartParams",
            'Set `rayStartParams.num-gpus: "2"` in the group.',
        ),
        (
            "spec.workerGroupSpecs[2].rayStartParams",
            'Set `rayStartParams.num-gpus: "3"` in the group.',
        ),
        (
            "spec.workerGroupSpecs[3].rayStartParams",
            'Set `rayStartParams.num-gpus: "4"` in the group.',
        ),
    ]


@pytest.mark.parametrize(
    "group",
    [
        build_group(GPUS, params={"num-gpus": "2"}),
        build_group(GPUS, params={"num-gpus": 0}),
        build_group(GPUS, resources={"GPU": "2"}),
        build_group({"cpu": 1}, GPUS),
    ],
)
def test_a_group_that_keeps_its_number_is_not_reported(group: YamlValue) -> None:
    assert find_lost(build_cluster(group)) == []


@pytest.mark.parametrize(
    ("kind", "key", "path"),
    [
        ("RayJob", "rayClusterSpec", "spec.rayClusterSpec.headGroupSpec.rayStartParams"),
        ("RayService", "rayClusterConfig", "spec.rayClusterConfig.headGroupSpec.rayStartParams"),
    ],
)
def test_groups_of_jobs_and_services_are_reported(kind: str, key: str, path: str) -> None:
    inner = build_cluster(build_group(GPUS))["spec"]
    value = {"apiVersion": "ray.io/v1", "kind": kind, "spec": {key: inner}}
    assert [each for each, _ in find_lost(value)] == [path]


def test_the_submitter_of_a_job_is_no_ray_group() -> None:
    spec = {"submitterPodTemplate": build_group(GPUS)["template"]}
    assert find_lost({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec}) == []


def test_a_pod_that_is_not_of_ray_is_not_reported() -> None:
    template = build_group(GPUS)["template"]
    value = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}
    assert find_lost(value) == []


def test_a_group_whose_request_stays_is_not_reported() -> None:
    value = build_cluster(build_group({"nvidia.com/gpu": "$GPUS"}))
    assert translate_object(value, "RayCluster/r", CONTEXT).edits == ()
