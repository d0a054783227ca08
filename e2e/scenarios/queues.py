"""Scenarios: Kueue's real manager beside Drawbridge.

Each case of `queues.yaml` is a scenario: Kueue gets the mapping that `drawbridge translate` prints,
and charges a pod and a Job of one dialect. The others play a quota in use, kinds of workloads, the
default queue of a namespace, and a migration. The module imports no product package.
"""

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, Setup, installed
from e2e.installed.kubectl import CommandResult
from e2e.queues.manager import API, GROUP, LABEL, Mappings, kueue
from e2e.scenarios import translated
from e2e.scenarios.admission_dialects import configured, decided
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

CASES = Path(__file__).with_name("queues.yaml")
QUEUE = "team-a"
GPU, GPU_CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
ONE_QUOTA: Mappings = ({"name": GPU, "deviceClassNames": [GPU_CLASS]},)
SECONDS = 60.0
QUOTA = 100_000
GATE = f"{GROUP}/admission"
_MAPPINGS = re.compile(r"deviceClassMappings: (\[.*?\])\.")
MAKERS = {"deployments": "/apis/apps/v1", "statefulsets": "/apis/apps/v1", "jobs": "/apis/batch/v1"}

RIGS["kueue"] = default_options
S = TypeVar("S", bound=Stage)


class Charged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case of translated.yaml in a queue, and what Kueue charges."""

    case: str
    name: str = ""  # of the pod; else the first one
    pod: dict[str, int | str] = {}
    job: dict[str, int | str] = {}
    refused: str = ""


# --- what every scenario has ------------------------------------------------------------------


def start(stage: Stage, mappings: Mappings | None = ONE_QUOTA) -> Installation:
    """Return Drawbridge beside Kueue with these mappings, or with those that it has."""
    cluster = installed(stage, "enforce", Setup(webhooks=1, controllers=1))
    kueue(cluster).configure(mappings)
    return cluster


def releases(play: Callable[[S], None]) -> Callable[[S], None]:
    """Delete what makes pods, and what Kueue holds, when a scenario ends."""

    @functools.wraps(play)
    def play_and_release(stage: S) -> None:
        try:
            play(stage)
        finally:
            _release(stage)

    return play_and_release


def queue_scenario(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Register a scenario that releases what Kueue holds."""
    return scenario("queues", since="1.36", rig="kueue", needs=("processes",))(releases(play))


def _release(stage: Stage) -> None:
    """Delete Deployments, StatefulSets and Jobs, and the finalizers of pods.

    Kueue keeps the pods of a group until others replace them.
    """
    for plural, group in MAKERS.items():
        for each in stage.client.get(stage.path(plural, "", group))["items"]:
            stage.client.delete(stage.path(plural, each["metadata"]["name"], group), grace=None)
    for pod in stage.client.get(stage.pod_path())["items"]:
        path = stage.pod_path(pod["metadata"]["name"])
        with contextlib.suppress(ApiError):  # it has gone
            stage.client.patch(path, {"metadata": {"finalizers": None}})


def make_queue(stage: Stage, quota: Mapping[str, int], name: str = QUEUE) -> str:
    """Create a ClusterQueue with quotas and its LocalQueue, and return the name of the former."""
    own = f"{stage.namespace}-{name}"
    flavor = _object("ResourceFlavor", own)
    stage.wait("the webhooks of Kueue answer", partial(_create, stage, "resourceflavors", flavor))
    resources = [{"name": each, "nominalQuota": f"{n}"} for each, n in quota.items()]
    group = {
        "coveredResources": list(quota),
        "flavors": [{"name": own, "resources": resources}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    stage.cluster_object(f"{API}/clusterqueues", {**_object("ClusterQueue", own), "spec": spec})
    local = {**_object("LocalQueue", name), "spec": {"clusterQueue": own}}
    stage.client.create(stage.path("localqueues", "", API), local)
    return own


def _object(kind: str, name: str) -> JSON:
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "metadata": {"name": name}}


def _create(stage: Stage, plural: str, body: JSON) -> bool:
    try:
        stage.cluster_object(f"{API}/{plural}", body)
    except ApiError as problem:
        if problem.code != 500:
            raise
        return False
    return True


def apply(stage: Stage, cluster: Installation, *objects: JSON) -> CommandResult:
    """Apply objects in the namespace of the stage as a person does."""
    text = yaml.safe_dump_all(objects)
    return cluster.kubectl.inside(stage.namespace)("apply", "-f", "-", stdin=text)


def job(name: str, spec: JSON, parallelism: int = 1, queue: str = QUEUE) -> JSON:
    """Return a Job in a queue whose pods have this spec."""
    spec = {"restartPolicy": "Never", **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {LABEL: queue} if queue else {}},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"spec": spec},
        },
    }


def gpu_pod(stage: Stage, name: str, queue: str = QUEUE) -> JSON:
    """Return a pod in a queue that asks for a GPU by the legacy name."""
    pod = stage.pod_object(name, limits={GPU: "1"})
    pod["metadata"]["labels"] |= {LABEL: queue} if queue else {}
    return pod


def usage(stage: Stage, owner: str) -> dict[str, str] | None:
    """Return what Kueue charges for the workload of an owner; None until it is admitted."""
    for workload in stage.client.get(stage.path("workloads", "", API))["items"]:
        owners = [each["name"] for each in workload["metadata"].get("ownerReferences", ())]
        if owner in owners and "admission" in workload.get("status", {}):
            (podset,) = workload["status"]["admission"]["podSetAssignments"]
            return dict(podset.get("resourceUsage", {}))
    return None


def wait_charged(stage: Stage, owner: str) -> dict[str, str]:
    """Wait until the workload of an owner is admitted, and return what it is charged."""
    stage.wait(f"{owner} is admitted", lambda: usage(stage, owner) is not None, SECONDS)
    return usage(stage, owner) or {}


def is_gated(stage: Stage, pod: str) -> bool:
    """Return whether Kueue holds a pod back."""
    gates = stage.get_pod(pod)["spec"].get("schedulingGates", ())
    return GATE in [each["name"] for each in gates]


def conditions(stage: Stage, owner: str) -> str:
    """Return what Kueue says about the workload of an owner."""
    for workload in stage.client.get(stage.path("workloads", "", API))["items"]:
        if owner in [each["name"] for each in workload["metadata"].get("ownerReferences", ())]:
            rows = workload.get("status", {}).get("conditions", ())
            return "; ".join(row.get("message", "") for row in rows)
    return ""


def wait_job_runs(stage: Stage, name: str, pods: int) -> list[JSON]:
    """Wait until all pods of a Job run, and return them."""

    def running() -> list[JSON]:
        pods_of_job = stage.client.get(stage.pod_path(), labelSelector=f"job-name={name}")["items"]
        ready = [pod for pod in pods_of_job if pod.get("status", {}).get("phase") == "Running"]
        return ready if len(ready) == pods else []

    return stage.wait(f"{pods} pods of {name} run", running, SECONDS)


def used(stage: Stage, cluster_queue: str) -> dict[str, str]:
    """Return what a ClusterQueue has reserved, by resource."""
    status = stage.client.get(f"{API}/clusterqueues/{cluster_queue}").get("status", {})
    rows = [row for flavor in status.get("flavorsReservation", ()) for row in flavor["resources"]]
    return {row["name"]: row["total"] for row in rows if row["total"] != "0"}


# --- dialects ---------------------------------------------------------------------------------


def charged() -> list[Charged]:
    """Read the cases."""
    return msgspec.yaml.decode(CASES.read_bytes(), type=list[Charged])


def play(case: Charged, stage: Stage) -> None:
    """Let Kueue charge a pod and a Job of a dialect, with the mapping that is printed."""
    manifest = next(each for each in translated.cases() if each.name == case.case)
    translated.build(manifest, stage)
    pod = find_pod(translated.manifest(stage, manifest), case.name)
    pod["metadata"] = {**pod["metadata"], "name": "single", "namespace": stage.namespace}
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), LABEL: QUEUE}
    cluster = start(stage, None)
    if manifest.configuration:
        stage.enter(configured(stage, cluster, manifest.configuration))
    decided(stage, cluster)
    if case.refused:
        _refused(case, stage, cluster, pod)
        return
    mappings = printed_mappings(cluster, pod)
    kueue(cluster).configure(mappings)
    names = [*(each["name"] for each in mappings), *case.pod, *case.job]
    queue = make_queue(stage, dict.fromkeys(names, QUOTA))
    apply(stage, cluster, pod).check()
    assert _amounts(wait_charged(stage, "single")) == _amounts(case.pod)
    stage.wait_running("single")
    stage.wait("the pod is charged once", lambda: _uses(stage, queue, case.pod))
    stage.delete_pod("single")
    stage.wait("nothing is charged", lambda: _uses(stage, queue, {}), SECONDS)
    made = job("train", pod["spec"])
    made["spec"]["template"]["metadata"] = {"annotations": pod["metadata"].get("annotations", {})}
    apply(stage, cluster, made).check()
    assert _amounts(wait_charged(stage, "train")) == _amounts(case.job)
    (of_job,) = wait_job_runs(stage, "train", 1)
    assert of_job["spec"].get("resourceClaims"), "the pod of the Job is translated"
    stage.wait("the Job is charged once", lambda: _uses(stage, queue, case.job))


def _uses(stage: Stage, queue: str, amounts: Mapping[str, int | str]) -> bool:
    return _amounts(used(stage, queue)) == _amounts(amounts)


def _refused(case: Charged, stage: Stage, cluster: Installation, pod: JSON) -> None:
    """Check what a person reads when a pod is refused."""

    def refused() -> CommandResult | None:
        ran = apply(stage, cluster, pod)
        return ran if ran.code else None

    ran = stage.wait("the pod is refused", refused)
    assert ran
    assert "QueueRefusesRequest" in ran.err, ran
    assert case.refused in ran.err, ran
    assert f"queue {QUEUE} " in ran.err, ran


def find_pod(text: str, name: str) -> JSON:
    """Return a pod of a manifest by its name, else the first one, alone or of a template."""
    for document in yaml.safe_load_all(text):
        if document["kind"] == "Pod" and name in ("", document["metadata"]["name"]):
            return {**document}
        if document["kind"] in ("Job", "Deployment"):
            template = document["spec"]["template"]
            base = {"apiVersion": "v1", "kind": "Pod", "metadata": template.get("metadata", {})}
            return {**base, "spec": template["spec"]}
    raise LookupError(f"the manifest has no pod {name}")


def printed_mappings(cluster: Installation, pod: JSON, *, of_shares: bool = False) -> Mappings:
    """Return the mapping that `drawbridge translate` prints for a pod in a queue.

    With `of_shares`, it is the second one, which charges what the shares take.
    """
    ran = cluster.drawbridge(
        "translate", "-f", "-", "--context", "-o", "report", stdin=yaml.safe_dump(pod)
    )
    printed = _MAPPINGS.findall(ran.out + ran.err)
    assert len(printed) > of_shares, ran
    rows: list[JSON] = yaml.safe_load(printed[of_shares])
    return [{**row, "name": _chosen_name(row)} for row in rows]


def _chosen_name(row: JSON) -> str:
    """Return the name of a mapping, which the administrator chooses where NAME is printed."""
    name: str = row["name"]
    return f"example.com/{row['deviceClassNames'][0]}" if name == "NAME" else name


def _amounts(usage: Mapping[str, int | str]) -> Counter[str]:
    units = {"k": 1000}
    return Counter(
        {
            name: int(text.rstrip("k")) * units.get(text[-1], 1)
            for name, text in ((name, f"{amount}") for name, amount in usage.items())
        }
    )


def _register(case: Charged) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage)

    verb = "refused" if case.refused else "charged"
    play_it.__name__ = f"queue_{case.case}_{verb}".replace("-", "_")
    queue_scenario(play_it)


for _case in charged():
    _register(_case)
