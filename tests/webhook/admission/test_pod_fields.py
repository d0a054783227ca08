"""A response from the cache equals a new response, whatever field two pods differ in."""

import asyncio
import copy
import itertools
from pathlib import Path

import pytest

from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import THOROUGH
from tests.webhook.admission.harness import AdmissionHarness

FACTS = {
    "classes": [
        {"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8},
        {"name": "mig.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8},
    ]
}
CASES = {
    case["name"]: case for case in load_cases(Path(__file__).parent / "cases" / "pod_fields.yaml")
}
OWNERS: dict[str, YamlValue] = {
    "no owner": None,
    "ReplicaSet": [{"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}],
    "Job": [{"kind": "Job", "name": "train", "uid": "1", "controller": True}],
}
LEGACY: dict[str, YamlValue] = {
    "whole": {"nvidia.com/gpu": "1"},
    "mig": {"nvidia.com/mig-1g.5gb": "1"},
}
INSTASLICE = "org.instaslice/accelarator"


def build_pod(owner: str, limits: YamlValue) -> YamlValue:
    """Return a pod that has a value in each part that a case changes."""
    metadata: YamlValue = {
        "name": "a",
        "labels": {"app": "a"},
        "annotations": {"note": "a"},
        "finalizers": ["example.com/a", INSTASLICE],
    }
    if OWNERS[owner] is not None:
        metadata["ownerReferences"] = OWNERS[owner]
    main = {"name": "main", "image": "a", "resources": {"limits": limits, "requests": limits}}
    init = {"name": "init", "image": "a"}
    spec = {
        "containers": [main],
        "initContainers": [init],
        "schedulingGates": [{"name": "example.com/a"}, {"name": INSTASLICE}],
        "volumes": [{"name": "kube-api-access-abcde", "projected": {"sources": []}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def change(pod: YamlValue, path: str, value: YamlValue) -> YamlValue:
    """Return the pod with another value at a path."""
    changed = copy.deepcopy(pod)
    target = changed
    *parents, last = path.split("/")
    for token in parents:
        target = target[int(token)] if isinstance(target, list) else target.setdefault(token, {})
    target[last] = value
    return changed


# Each field of pods with every owner and every kind of limits; otherwise with one of them in turn.
PODS = [*itertools.product(OWNERS, LEGACY)]
ROWS = [
    pytest.param(case, owner, limits, id=f"{name} {owner} {limits}")
    for number, (name, case) in enumerate(CASES.items())
    for owner, limits in (PODS if THOROUGH else [PODS[number % len(PODS)]])
]


@every_row("case, owner, limits", ROWS)
def test_pods_that_differ_in_one_field_get_their_own_response(
    case: YamlValue, owner: str, limits: str
) -> None:
    pod = build_pod(owner, LEGACY[limits])
    variants = [pod, *(change(pod, case["path"], value) for value in case["values"])]

    async def compare() -> None:
        harness = AdmissionHarness()
        harness.configure({}, FACTS)
        from_new_caches = []
        for variant in variants:
            fresh = AdmissionHarness()
            fresh.configure({}, FACTS)
            from_new_caches.append(await fresh.pod(variant))
        for _ in range(2):
            assert [await harness.pod(variant) for variant in variants] == from_new_caches

    asyncio.run(compare())


def test_the_pod_of_a_job_keeps_its_finalizer_for_tracking() -> None:
    pod = build_pod("Job", LEGACY["mig"])
    tracked = change(pod, "metadata/finalizers", ["batch.kubernetes.io/job-tracking", INSTASLICE])

    async def ask() -> YamlValue:
        harness = AdmissionHarness()
        harness.configure({}, FACTS)
        await harness.pod(change(pod, "metadata/finalizers", [INSTASLICE]))
        return (await harness.pod(tracked)).after

    assert asyncio.run(ask())["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
