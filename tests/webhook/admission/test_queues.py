"""Pods and workloads in a namespace with a default queue of Kueue."""

import msgspec
import pytest

from drawbridge.config.model import Configuration
from drawbridge.translate.context import make_context
from tests.tables import YamlValue
from tests.translate import test_rows
from tests.webhook.admission.harness import AdmissionHarness, FakeClusterView, Response

pytestmark = pytest.mark.asyncio
WORLD = {"world": ["hgx-h100 gpu.nvidia.com"]}
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [
                        {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["hopper"]}
                    ]
                },
            }
        ]
    }
}
SPEC: YamlValue = {
    "affinity": PREFERRED,
    "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
}


def harness(queue: str = "default") -> AdmissionHarness:
    made = AdmissionHarness(FakeClusterView(queues={"team": queue} if queue else {}))
    made.cluster.context = make_context(Configuration(), test_rows.facts(WORLD))
    return made


def pod(**metadata: YamlValue) -> YamlValue:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "p-", "namespace": "team", **metadata},
        "spec": SPEC,
    }


def owner(kind: str, api_version: str = "apps/v1", **labels: str) -> YamlValue:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "o", "namespace": "team", "labels": labels},
        "spec": {"template": {"spec": SPEC}, "tasks": [{"template": {"spec": SPEC}}]},
    }


def has_alternatives(made: AdmissionHarness) -> bool:
    (template,) = made.store.stored.values()
    return "firstAvailable" in msgspec.json.encode(template).decode()


def names_queue(answer: Response) -> bool:
    return any("of Kueue refuses firstAvailable" in each for each in answer.warnings)


@pytest.mark.parametrize(
    ("queue", "metadata", "expected"),
    [
        ("", {}, True),
        ("default", {}, False),
        ("", {"labels": {"kueue.x-k8s.io/queue-name": "a"}}, False),
        ("default", {"labels": {"kueue.x-k8s.io/podset": "main"}}, True),
        ("default", {"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}}, True),
        ("default", {"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}}, False),
    ],
    ids=["no-queue", "default", "own", "of-a-job", "of-a-statefulset", "of-a-deployment"],
)
async def test_a_queue_that_charges_a_pod_gets_no_alternatives(
    queue: str, metadata: YamlValue, *, expected: bool
) -> None:
    made = harness(queue)
    await made.pod(pod(**metadata))
    assert has_alternatives(made) is expected


async def test_answers_follow_a_new_default_queue() -> None:
    made = harness("")
    assert not names_queue(await made.pod(pod()))
    made.cluster.queues["team"] = "default"
    assert names_queue(await made.pod(pod()))


@pytest.mark.parametrize(
    ("object_", "expected"),
    [
        (owner("Deployment"), True),
        (owner("ReplicaSet"), True),
        (owner("StatefulSet"), False),
        (owner("Job", "batch/v1"), False),
        (owner("StatefulSet", "apps.kruise.io/v1beta1"), True),
        (owner("Job", "batch.volcano.sh/v1alpha1"), True),
    ],
    ids=lambda value: f"{value['apiVersion']} {value['kind']}" if isinstance(value, dict) else "",
)
async def test_the_default_queue_charges_jobs_before_their_pods_exist(
    object_: YamlValue, *, expected: bool
) -> None:
    assert names_queue(await harness().workload(object_)) is expected


async def test_the_queue_of_a_deployment_charges_its_pods() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "team-a"}
    assert names_queue(await harness("").workload(owner("Deployment", **labels)))
    assert not names_queue(await harness("").workload(owner("Job", "batch/v1", **labels)))
