"""`drawbridge translate --context` reads the workloads of a namespace, for `kubectl replace`."""

from pathlib import Path
from typing import Any

import yaml

from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import OBJECTS

RENAMED = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
legacy: {renames: {example.com/mig-1g.10gb: nvidia.com/mig-1g.10gb}}
"""


def workload(kind: str, name: str, limits: dict[str, int]) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    metadata = {"name": name, "namespace": "ml", "uid": "1", "resourceVersion": "7"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": template},
        "status": {"replicas": 1},
    }


def bare_pod(name: str) -> dict[str, Any]:
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": spec,
    }


def job_set(name: str, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    template = workload("Job", name, {resource: 1})["spec"]["template"]
    job = {"name": "a", "template": {"spec": {"template": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicatedJobs": [job]},
    }


def run(folder: Path, *words: str) -> Printed:
    cluster = (
        *OBJECTS,
        workload("Deployment", "shared", {"nvidia.com/gpu": 1}),
        workload("StatefulSet", "plain", {}),
        bare_pod("alone"),
    )
    return on_api(folder, cluster, "translate", "--context", "-n", "ml", *words)


def test_the_workloads_that_ask_for_devices_are_printed_as_manifests(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path)
    first = next(iter(yaml.safe_load_all(out)))
    assert (code, first["kind"], first["metadata"]["name"]) == (0, "Deployment", "shared")
    assert {"status", "uid", "resourceVersion"} & {*first, *first["metadata"]} == set()
    assert not {"plain", "alone"} & {each["metadata"]["name"] for each in yaml.safe_load_all(out)}


def test_the_report_names_them(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "-o", "report")
    assert (code, "Deployment/ml/shared" in out) == (0, True)


def test_workloads_of_all_kinds_are_read_as_far_as_the_cluster_has_them(tmp_path: Path) -> None:
    controller = workload("ReplicationController", "old", {"nvidia.com/gpu": 1})
    cluster = (*OBJECTS, {**controller, "apiVersion": "v1"}, job_set("many"))
    code, out, _ = on_api(tmp_path, cluster, "translate", "--context", "-n", "ml")
    kinds = [each["kind"] for each in yaml.safe_load_all(out)]
    assert (code, kinds[:2]) == (0, ["ReplicationController", "JobSet"])


def test_names_that_only_the_configuration_reads_are_read(tmp_path: Path) -> None:
    (config := tmp_path / "configuration.yaml").write_text(RENAMED)
    cluster = (*OBJECTS, workload("Deployment", "renamed", {"example.com/mig-1g.10gb": 1}))
    words = ("translate", "--context", "-n", "ml", "-o", "report")
    assert (
        "1 workload: 1 translated" in on_api(tmp_path, cluster, *words, "--config", str(config)).out
    )
    assert "1 workload: 1 unchanged" in on_api(tmp_path, cluster, *words).out


def test_nothing_to_read_is_wrong_usage() -> None:
    code, out, err = command("translate")
    assert (code, out) == (2, "")
    assert "pass manifests with -f" in err


def test_workloads_of_a_chart_or_a_gitops_tool_are_named_if_they_change(tmp_path: Path) -> None:
    partition = {"nvidia.com/mig-1g.10gb": 1}
    applied = workload("Deployment", "applied", partition)
    applied["metadata"]["labels"] = {"argocd.argoproj.io/instance": "serving"}
    chart = workload("Deployment", "chart", partition)
    chart["metadata"]["annotations"] = {"meta.helm.sh/release-name": "anna"}
    own = workload("Deployment", "own", partition)
    left = workload("Deployment", "left", {"nvidia.com/gpu": 1})  # to the class that serves it
    left["metadata"]["labels"] = {"argocd.argoproj.io/instance": "serving"}
    cluster = (*OBJECTS, applied, chart, own, left)
    code, out, err = on_api(tmp_path, cluster, "translate", "--context", "-n", "ml")
    assert code == 0
    said = [line.partition(": warning: ")[2] for line in err.splitlines()]
    assert [each for each in said if each.endswith("[ManagedElsewhere]")] == [
        f"Deployment/ml/{what} applies this object again [ManagedElsewhere]"
        for what in ("applied: Argo CD's application serving", "chart: the Helm release anna")
    ]
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(out)]
    assert names[:4] == ["applied", "chart", "left", "own"]


def test_a_folder_gets_a_file_with_the_workloads(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(tmp_path, "--output-dir", str(out))[0] == 0
    assert [each.name for each in out.iterdir()] == ["cluster.yaml"]
