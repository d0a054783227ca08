"""Simulates Volcano's controller: its Job kind and the pods of a Job."""

from collections.abc import Iterator

from e2e.controlplane.client import ApiError
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/batch.volcano.sh/v1alpha1"
NOT_YET = (404, 429)  # unknown; known, and its storage is being made
# Without a schema of its own the API server keeps every field as it was sent.
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: JSON = {
    "metadata": {"name": "jobs.batch.volcano.sh"},
    "spec": {
        "group": "batch.volcano.sh",
        "scope": "Namespaced",
        "names": {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": ANYTHING},
            }
        ],
    },
}


def define(stage: Stage) -> None:
    """Make the kind known, until the stage is left."""
    stage.cluster_object(DEFINITIONS, DEFINITION)
    stage.wait("Jobs of Volcano are served", lambda: is_served(stage, _jobs(stage)))


def make_pods(stage: Stage) -> None:
    """Make the pods of all Jobs there are, named as Volcano names them."""
    for job in stage.client.get(_jobs(stage))["items"]:
        for pod in _pods(job):
            stage.client.create(stage.pod_path(), pod)


def is_served(stage: Stage, path: str) -> bool:
    """Return whether the API server has a kind by now."""
    try:
        stage.client.get(path)
    except ApiError as problem:
        if problem.code not in NOT_YET:
            raise
        return False
    return True


def _jobs(stage: Stage) -> str:
    return stage.path("jobs", group=JOBS)


def _pods(job: JSON) -> Iterator[JSON]:
    for task in job["spec"]["tasks"]:
        for number in range(task["replicas"]):
            name = f"{job['metadata']['name']}-{task['name']}-{number}"
            metadata = {**task["template"].get("metadata", {}), "name": name}
            yield {**task["template"], "metadata": metadata}
