"""Tests of the finding that Kubeflow Trainer no longer knows the number of GPUs of a node."""

from typing import Any

import pytest

from drawbridge.config.model import Configuration
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue

CONTEXT = make_context(Configuration())
GPUS = {"cpu": 48, "nvidia.com/gpu": 4}
WEBHOOK = "Let the webhook translate the pods, after Trainer has counted"
SET = f"{WEBHOOK}, or set `spec.trainer.numProcPerNode: 4` in each TrainJob."


def build_job(
    limits: YamlValue, *, name: str = "node", step: str = "", container: str = "node"
) -> dict[str, Any]:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    containers = [{"name": "side"}, {"name": container, "resources": {"limits": limits}}]
    pod = {"template": {"spec": {"containers": containers}}}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": pod}}


def find_lost(policy: YamlValue, *jobs: YamlValue, kind: str = "TrainingRuntime") -> list[Any]:
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    value = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "spec": spec}
    translated = translate_object(value, f"{kind}/r", CONTEXT)
    assert translated.edits
    return [each for each in translated.findings if each.code == "TrainerGpusLost"]


@pytest.mark.parametrize(
    ("policy", "remedy", "says"),
    [
        ({"torch": {}}, SET, "a process for each CPU"),
        ({"torch": {"numProcPerNode": "auto"}, "numNodes": 2}, SET, "a process for each CPU"),
        ({"torch": {"numProcPerNode": "gpu"}}, SET, "a process for each CPU"),
        ({"mpi": {}}, SET, "one process for each node"),
        ({"mpi": {"numProcPerNode": 1}}, SET, "one process for each node"),
        ({"xgboost": {}}, WEBHOOK, "one worker for each node"),
        ({"flux": {}}, WEBHOOK, "no GPUs from Flux"),
    ],
)
@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_a_policy_that_counts_gpus_is_reported(
    policy: YamlValue, remedy: str, says: str, kind: str
) -> None:
    (finding,) = find_lost(policy, build_job(GPUS), kind=kind)
    assert finding.path == f"spec.mlPolicy.{next(iter(policy))}"
    assert finding.remedy.startswith(remedy)
    assert "from nvidia.com/gpu: 4, which" in finding.message
    assert says in finding.message


def test_the_label_selects_the_trainer_as_well() -> None:
    jobs = [build_job(GPUS, name="main", step="trainer"), build_job(GPUS, name="data", step="data")]
    assert len(find_lost({"torch": {}}, *jobs)) == 1


@pytest.mark.parametrize(
    ("policy", "job"),
    [
        ({}, build_job(GPUS)),
        ({"jax": {}}, build_job(GPUS)),
        ({"mpi": {"numProcPerNode": 8}}, build_job(GPUS)),
        ({"torch": {"numProcPerNode": 4}}, build_job(GPUS)),
        ({"torch": {"numProcPerNode": 1}}, build_job(GPUS)),
        ({"torch": {"numProcPerNode": "cpu"}}, build_job(GPUS)),
        ({"mpi": {}}, build_job({"nvidia.com/gpu": 1})),
        ({"torch": {}}, build_job(GPUS, container="main")),
        ({"torch": {}}, build_job({"nvidia.com/mig-1g.5gb": 4})),
        ({"torch": {}}, build_job(GPUS, name="launcher")),
    ],
)
def test_a_number_of_processes_that_stays_is_not_reported(policy: YamlValue, job: Any) -> None:  # noqa: ANN401  # JSON
    assert find_lost(policy, job) == []
