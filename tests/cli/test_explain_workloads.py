"""`drawbridge explain TYPE/NAME` on files and on an API server."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from drawbridge.report.workloads import KINDS, find_pods, parse_reference
from tests.cli.running import command, on_api
from tests.cli.test_effective_configuration import registered, settings
from tests.cli.test_explain import LEGACY, NAMESPACE, SCOPE, files, running, translated
from tests.tables import YamlValue, every_row

LABELS = {"app": "train"}
JOB_LABEL = "batch.kubernetes.io/job-name"


def deployment(replicas: int = 2) -> Any:  # noqa: ANN401  # JSON
    template = translated()[0]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": template["spec"]},
        },
    }


def labelled(objects: list[Any], **labels: str) -> list[Any]:
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["metadata"]["labels"] = labels or LABELS
    return objects


def waiting(name: str) -> Any:  # noqa: ANN401  # JSON
    """Return a translated pod that the scheduler cannot place."""
    pod = copy.deepcopy(labelled(translated()[:1])[0])
    pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pod["status"] = {"phase": "Pending", "conditions": [condition]}
    return pod


def event(kind: str, name: str, note: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"e-{name}", "namespace": "team-a"},
        "regarding": {"kind": kind, "name": name, "namespace": "team-a"},
        "reason": "FailedCreate",
        "note": note,
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }


def explain(folder: Path, objects: list[Any], *words: str) -> tuple[int, str, str]:
    return command("explain", *(words or ("deploy/train",)), "-f", files(folder, objects))


def test_a_complete_workload_shows_one_of_its_pods(tmp_path: Path) -> None:
    code, out, _ = explain(tmp_path, [deployment(1), *labelled(running())])
    assert code == 0
    first, *rest = out.splitlines()
    assert first == "Deployment/team-a/train: 1 pod: 1 with node and devices"
    assert "team-a/train: Running on n1" in rest


def test_a_pod_that_lacks_devices_is_shown_with_its_reason(tmp_path: Path) -> None:
    objects = [deployment(2), *labelled(running()), waiting("train-b")]
    code, out, _ = explain(tmp_path, objects)
    assert code == 1
    assert "Deployment/team-a/train: 2 pods: 1 with node and devices" in out
    assert "  without: team-a/train-b" in out
    assert "team-a/train-b: Pending" in out
    assert "0/3 nodes are available [PodPending]" in out
    assert "team-a/train: Running" not in out


def test_a_workload_without_pods_shows_its_template_and_why_there_are_none(tmp_path: Path) -> None:
    told = event("ReplicaSet", "train-7f", "denied the request: NoDeviceMatches")
    objects = [deployment(3), translated()[1], NAMESPACE, told]
    code, out, _ = explain(tmp_path, objects)
    assert code == 1
    assert "Deployment/team-a/train: no pods, 3 wanted" in out
    assert "ago: FailedCreate: denied the request: NoDeviceMatches" in out
    assert "template spec.template: no pod" in out
    assert "claim drawbridge from template drawbridge-" in out
    assert "[PodPending]" not in out


def test_the_allocator_is_not_asked_about_a_template(tmp_path: Path) -> None:
    words = ("deploy/train", "--allocator-url", "http://127.0.0.1:1", "-o", "json")
    code, out, err = explain(tmp_path, [deployment(3), translated()[1], NAMESPACE], *words)
    assert (code, err) == (1, "")
    assert [each["allocator"] for each in json.loads(out)["explained"]] == [None]


def test_a_legacy_template_is_no_problem_where_pods_are_translated(tmp_path: Path) -> None:
    legacy = deployment(1)
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"limits": limits}}
    legacy["spec"]["template"]["spec"] = {"containers": [container]}
    assert "nvidia.com/gpu" in LEGACY
    off = {**NAMESPACE, "metadata": {"name": "team-a"}}
    assert "[NotTranslated]" in explain(tmp_path, [legacy, off])[1]
    assert "[NotTranslated]" not in explain(tmp_path, [legacy, NAMESPACE])[1]


def test_amounts_that_yaml_reads_as_floats_are_shown_as_quantities(tmp_path: Path) -> None:
    pod, _ = translated()
    pod["metadata"].pop("annotations", None)
    limits = {"nvidia.com/gpu": 10**23}
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": limits}}]
    _, out, _ = explain(tmp_path, [pod, NAMESPACE], "train", "-n", "team-a")
    assert "main  nvidia.com/gpu  100e21\n" in out


def test_missing_pods_make_a_workload_incomplete(tmp_path: Path) -> None:
    code, out, _ = explain(tmp_path, [deployment(3), *labelled(running())])
    assert code == 1
    assert "1 pod of 3 wanted: 1 with node and devices" in out


def test_finished_pods_need_no_devices(tmp_path: Path) -> None:
    done = waiting("train-b")
    done["status"] = {"phase": "Succeeded"}
    job = {**deployment(), "apiVersion": "batch/v1", "kind": "Job"}
    job["spec"] = {"parallelism": 1, "template": job["spec"]["template"]}
    code, out, _ = explain(tmp_path, [job, *labelled([done], **{JOB_LABEL: "train"})], "job/train")
    assert code == 0
    assert "Job/team-a/train: 1 pod: 0 with node and devices, 1 finished" in out


def test_a_missing_workload_exits_with_2(tmp_path: Path) -> None:
    code, _, err = explain(tmp_path, [deployment()], "deploy/other")
    assert code == 2
    assert "Deployment other not found in the input [PodUnknown]" in err


def test_a_kind_of_another_group_is_not_found(tmp_path: Path) -> None:
    other = {**deployment(), "apiVersion": "example.com/v1"}
    assert explain(tmp_path, [other])[0] == 2


def test_json_has_the_counts(tmp_path: Path) -> None:
    objects = [deployment(2), *labelled(running()), waiting("train-b")]
    _, out, _ = explain(tmp_path, objects, "deployments/train", "-o", "json")
    decoded = json.loads(out)
    assert (decoded["wanted"], decoded["pods"], decoded["placed"], decoded["finished"]) == (
        2,
        2,
        1,
        0,
    )
    assert decoded["not_placed"] == ["team-a/train-b"]
    assert [each["pod"] for each in decoded["explained"]] == ["team-a/train-b"]


def test_a_live_cluster_gives_the_same_explanation_as_its_files(tmp_path: Path) -> None:
    objects = [deployment(1), *labelled(translated()), NAMESPACE, waiting("other")]
    objects[-1]["metadata"]["labels"] = {"app": "other"}

    installed = [*objects, registered(), settings(SCOPE)]
    live = on_api(tmp_path, installed, "explain", "deploy/train", "-n", "team-a")
    code, out, err = explain(tmp_path, objects)
    # A live cluster knows when the pod was created, and simulates where it could go.
    lines = re.sub(r", created \d+s ago", "", live[1]).splitlines()
    at = lines.index("  simulation: no node can take the pod (upstream)")
    assert lines[at + 1] == "    there are no nodes [NodeUnfit]"
    assert (live[0], [*lines[:at], *lines[at + 2 :]], live[2]) == (code, out.splitlines(), err)
    assert "1 pod: 0 with node and devices" in live[1]


@every_row(
    ("text", "kind"),
    [
        ("deploy/a", "Deployment"),
        ("Deployment/a", "Deployment"),
        ("deployments.apps/a", "Deployment"),
        ("sts/a", "StatefulSet"),
        ("jobset/a", "JobSet"),
        ("cj/a", "CronJob"),
        ("vcjob/a", "Job"),
        ("rayclusters/a", "RayCluster"),
    ],
)
def test_types_are_named_as_in_kubectl(text: str, kind: str) -> None:
    reference = parse_reference(text)
    assert reference is not None
    assert (reference.kind.kind, reference.name) == (kind, "a")


@pytest.mark.parametrize("text", ["a", "team-a/a", "pod/a", "deploy"])
def test_other_names_are_those_of_pods(text: str) -> None:
    assert parse_reference(text) is None


@pytest.mark.parametrize(
    ("word", "workload", "labels"),
    [
        ("rc", {"spec": {"selector": {"app": "a"}}}, {"app": "a"}),
        ("cj", {}, {JOB_LABEL: "w-29384756"}),
        ("job", {}, {JOB_LABEL: "w"}),
        ("jobset", {}, {"jobset.sigs.k8s.io/jobset-name": "w"}),
        ("rayjob", {"status": {"rayClusterName": "w-x"}}, {"ray.io/cluster": "w-x"}),
    ],
)
def test_pods_are_found_by_the_labels_of_their_controller(
    word: str,
    workload: dict[str, Any],
    labels: dict[str, str],
) -> None:
    reference = parse_reference(f"{word}/w")
    assert reference is not None
    value = {"metadata": {"name": "w"}, **workload}
    own: YamlValue = {"metadata": {"name": "own", "labels": labels}}
    other: YamlValue = {"metadata": {"name": "other", "labels": dict.fromkeys(labels, "other")}}
    bare: YamlValue = {"metadata": {"name": "bare"}}
    assert list(find_pods(value, reference.kind, [own, other, bare])) == [own]


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, True),
        ({"apiVersion": "batch.volcano.sh/v1alpha1"}, False),
        ({"kind": "ReplicaSet"}, False),
        ({"name": "other"}, False),
        ({"controller": False}, False),
    ],
)
def test_a_pod_without_labels_is_found_by_its_controller(
    changes: dict[str, YamlValue], *, is_found: bool
) -> None:
    reference = parse_reference("job/w")
    assert reference is not None
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "controller": True, **changes}
    own: YamlValue = {"metadata": {"name": "own", "ownerReferences": [owner]}}
    value = {"metadata": {"name": "w"}}
    assert list(find_pods(value, reference.kind, [own])) == ([own] if is_found else [])


def test_a_workload_without_a_selector_has_no_pods() -> None:
    for kind in KINDS:
        assert not list(find_pods({"metadata": {}}, kind, [{"metadata": {"labels": {}}}]))


GPU = "resources: {limits: {nvidia.com/gpu: 1}}"
POD_SPEC = f"{{containers: [{{name: c, {GPU}}}]}}"
FILES = {
    "Pod/p": f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {POD_SPEC}}}",
    "InferenceService/llm": (
        "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: llm}, "
        f"spec: {{predictor: {{model: {{name: m, {GPU}}}}}}}}}"
    ),
    "Workflow/wf": (
        "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf}, "
        f"spec: {{templates: [{{name: t, container: {{image: x, {GPU}}}}}]}}}}"
    ),
    "PaddleJob/pj": (
        "{apiVersion: kubeflow.org/v1, kind: PaddleJob, metadata: {name: pj}, "
        f"spec: {{paddleReplicaSpecs: {{Worker: {{template: {{spec: {POD_SPEC}}}}}}}}}}}"
    ),
}


@every_row(
    ("named", "about"),
    [
        ("p", "Pod/p"),
        ("llm", "InferenceService/llm"),
        ("inferenceservice/llm", "InferenceService/llm"),
        ("inferenceservices.serving.kserve.io/llm", "InferenceService/llm"),
        ("wf", "Workflow/wf"),
        ("PaddleJob/pj", "PaddleJob/pj"),
        ("pj", "PaddleJob/pj"),
    ],
)
def test_a_manifest_of_any_kind_is_explained_without_a_pod_that_does_not_exist(
    named: str, about: str
) -> None:
    code, out, _ = command("explain", named, "-f", "-", stdin="\n---\n".join(FILES.values()))
    lines = out.splitlines()
    assert code == 1
    assert [line for line in lines if line.startswith(("info: ", "warning: "))] == [
        f"info: {about}{PATHS.get(about, '')}: requests nvidia.com/gpu [NotTranslated]"
    ]
    assert "    Run `drawbridge translate -f FILE`, or label the namespace" in out
    assert ("Pod/" in out) == (about == "Pod/p")
    assert "Pending" not in out


PATHS = {"PaddleJob/pj": " spec.paddleReplicaSpecs.Worker.template"}


@pytest.mark.parametrize("named", ["none", "service/llm", "inferenceservice/p"])
def test_a_manifest_that_is_not_there_exits_with_2(named: str) -> None:
    code, _, err = command("explain", named, "-f", "-", stdin="\n---\n".join(FILES.values()))
    assert (code, "[PodUnknown]" in err) == (2, True)
