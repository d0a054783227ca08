"""Which quotas are told of, because translated pods no longer ask for what they count."""

from typing import Any

from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Cluster, Facts, ResourceFacts
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.manifests.quotas import report_quotas
from tests.tables import every_row

QUOTA = ("v1", "ResourceQuota")
COVERED = {"coveredResources": ["cpu", "nvidia.com/gpu", 7], "flavors": []}


def paths(version: str, kind: str, spec: Any) -> list[str]:  # noqa: ANN401  # YAML
    return [
        quota.path for quota in report_quotas({"apiVersion": version, "kind": kind, "spec": spec})
    ]


@every_row(
    ("kind", "spec", "expected"),
    [
        (QUOTA, {"hard": {"requests.nvidia.com/gpu": 4}}, ["spec.hard[requests.nvidia.com/gpu]"]),
        (QUOTA, {"hard": {"limits.nvidia.com/gpumem": 9}}, ["spec.hard[limits.nvidia.com/gpumem]"]),
        (QUOTA, {"hard": {"nvidia.com/gpu": 4, "pods": 3}}, ["spec.hard[nvidia.com/gpu]"]),
        (
            ("kueue.x-k8s.io/v1beta1", "ClusterQueue"),
            {"resourceGroups": [{}, COVERED]},
            ["spec.resourceGroups[1].coveredResources[1]"],
        ),
        (
            ("kueue.x-k8s.io/v1beta2", "Cohort"),
            {"resourceGroups": [COVERED]},
            ["spec.resourceGroups[0].coveredResources[1]"],
        ),
        (
            ("scheduling.volcano.sh/v1beta1", "Queue"),
            {"capability": {"cpu": 1, "volcano.sh/vgpu-number": 8}},
            ["spec.capability[volcano.sh/vgpu-number]"],
        ),
    ],
)
def test_a_quota_on_a_device_is_reported(
    kind: tuple[str, str], spec: dict[str, Any], expected: list[str]
) -> None:
    assert paths(*kind, spec) == expected


@every_row(
    ("kind", "spec"),
    [
        (QUOTA, {"hard": {"requests.cpu": 1, "limits.memory": "1Gi", "pods": 2}}),
        (QUOTA, {"hard": {"count/deployments.apps": 1}}),
        (QUOTA, {"hard": {"gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}}),
        (QUOTA, {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 2}}),
        (QUOTA, {"hard": {"requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}}),
        (QUOTA, {"hard": None}),
        (QUOTA, []),
        (("example.com/v1", "ResourceQuota"), {"hard": {"requests.nvidia.com/gpu": 4}}),
        (("kueue.x-k8s.io/v1beta1", "ClusterQueue"), {"resourceGroups": "x"}),
    ],
)
def test_other_quotas_are_ignored(kind: tuple[str, str], spec: Any) -> None:  # noqa: ANN401  # YAML
    assert paths(*kind, spec) == []


@every_row(
    ("version", "name", "expected"),
    [
        ("1.36", "requests.nvidia.com/gpu", "counts claims of gpu.nvidia.com only"),
        ("1.35", "requests.nvidia.com/gpu", "does not count translated pods"),
        ("1.36", "requests.amd.com/gpu", "does not count translated pods"),
        ("1.36", "nvidia.com/gpu", "does not count translated pods"),
    ],
)
def test_a_quota_counts_claims_of_a_class_that_has_its_name(
    version: str, name: str, expected: str
) -> None:
    cluster = Cluster(version, gates=("extended_resource",) if version == "1.36" else ())
    facts = Facts(
        cluster=cluster,
        classes=(ClassFacts("gpu.nvidia.com", "nvidia.com/gpu"),),
        names=(ResourceFacts("nvidia.com/gpu", classes=("gpu.nvidia.com",)),),
    )
    value = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {name: "8"}}}
    assert [each.message for each in report_quotas(value, facts)] == [f"{name} {expected}"]


def test_a_quota_is_not_changed() -> None:
    spec = {"hard": {"requests.nvidia.com/gpu": 4}}
    value = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    done = translate_object(value, "ResourceQuota/q", make_context(Configuration()))
    assert done.edits == ()
    assert [(each.code, each.object) for each in done.findings] == [
        ("QuotaCountsNames", "ResourceQuota/q")
    ]
