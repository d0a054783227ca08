"""The report of `drawbridge translate`, and the differences that a person reads."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.running import command
from tests.tables import YamlValue, read_yaml

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml}
spec:
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: 1}}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def run(text: str, *options: str) -> tuple[str, str]:
    return command("translate", "-f", "-", *options, stdin=text)[1:]


def report(text: str, *options: str) -> list[str]:
    out, err = run(text, "-o", "report", *options)
    assert err == ""
    return out.splitlines()


CLUSTER = ("--cluster", str(Path(__file__).parents[2] / "examples" / "inventory"))


def test_a_report_says_what_was_asked_and_what_it_became() -> None:
    lines = report(f"{POD}---\n{OTHER}")
    assert lines[0] == "Pod/ml/p: nvidia.com/gpu 1 -> 1 device of class gpu.nvidia.com"
    assert lines[1].startswith("<stdin>:4: warning: Pod/ml/p spec: ")
    assert lines[-2:] == [
        "1 workload: 1 translated; 1 claim template added",
        "1 of 1 workload needs attention: ServerUnknown in 1",
    ]


@pytest.mark.parametrize(
    ("text", "became", "fits"),
    [
        (POD, "stays as it is, because DeviceClass gpu.nvidia.com serves it", "on edge-1: gpu-0"),
        (POD.replace("nvidia", "amd"), "1 device of class gpu.amd.com", "on amd-1: gpu-0-128"),
        (POD.replace("nvidia.com/gpu: 1", "amd.com/gpu: 30"), "30 devices", "not placed: "),
    ],
)
def test_a_report_with_a_cluster_says_where_it_fits(text: str, became: str, fits: str) -> None:
    outcome = " ".join(report(text, *CLUSTER)[:4])
    assert became in outcome
    assert f"-> {fits}" in outcome


@pytest.mark.parametrize(
    ("count", "fits"),
    [
        (2, "on n: no DRA devices"),
        (3, "not placed: 1 node: insufficient nvidia.com/gpu: 3 of nvidia.com/gpu requested"),
    ],
)
def test_a_report_counts_what_device_plugins_serve(count: int, fits: str, tmp_path: Path) -> None:
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "9", "nvidia.com/gpu": "2"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": allocatable},
    }
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(node), "utf-8")
    text = POD.replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: {count}")
    assert f"-> {fits}" in " ".join(run(text, "-o", "report", "--cluster", str(cluster))[0].split())


@pytest.mark.parametrize(
    ("scheduler", "fits"),
    [("default-scheduler", "on edge-1: gpu-0"), ("volcano", "on hgx-1: gpu-0")],
)
def test_a_workload_fits_where_its_scheduler_allocates(
    scheduler: str, fits: str, tmp_path: Path
) -> None:
    owned = (
        "{driver: gpu.nvidia.com, nodeSelector: {matchLabels: {topology.kubernetes.io/zone: b}}}"
    )
    configuration = tmp_path / "configuration.yaml"
    head = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
    configuration.write_text(f"{head}placement: bridge\nownedPools: [{owned}]\n", "utf-8")
    text = POD.replace("spec:", f"spec:\n  schedulerName: {scheduler}")
    assert f"-> {fits}" in " ".join(report(text, *CLUSTER, "--config", str(configuration)))


def test_a_refused_workload_is_named_with_its_codes() -> None:
    lines = report(POD.replace("nvidia.com/gpu", "huawei.com/Ascend910B4"), *CLUSTER)
    assert lines[0] == "Pod/ml/p: huawei.com/Ascend910B4 1 -> refused [NotExpressible]"
    assert lines[-2].startswith("1 workload: 1 refused;")


def test_equal_outcomes_are_one_line_and_equal_findings_are_counted() -> None:
    pods = [POD.replace("name: p,", f"name: p{number},") for number in range(5)]
    other = POD.replace("gpu: 1", "gpu: 2")
    lines = report("---\n".join([*pods, other]))
    assert lines[:2] == [
        "5 workloads: nvidia.com/gpu 1 -> 1 device of class gpu.nvidia.com",
        "Pod/ml/p: nvidia.com/gpu 2 -> 2 devices of class gpu.nvidia.com",
    ]
    (warning,) = (line for line in lines if "warning" in line)
    assert "(the same in 5 other places) [ServerUnknown]" in warning
    verbose = report("---\n".join([*pods, other]), "-v")
    assert [line.strip() for line in verbose[1:6]] == [f"Pod/ml/p{number}" for number in range(5)]
    assert sum("warning" in line for line in verbose) == 6


def test_info_findings_are_in_the_report_on_request_only() -> None:
    text = POD.replace("nvidia", "amd")
    assert not [line for line in report(text, *CLUSTER) if ": info: " in line]
    assert [line for line in report(text, *CLUSTER, "-v") if ": info: " in line]
    assert not [line for line in report(text, "-q") if "warning: " in line]


@pytest.mark.parametrize(
    "text", [POD, POD.replace("{name: p, namespace: ml}", "\n  name: p"), read_yaml(POD)]
)
def test_a_diff_shortens_the_annotation_unless_it_is_verbose(text: YamlValue) -> None:
    text = text if isinstance(text, str) else json.dumps(text, indent=2)
    short, whole = run(text, "-o", "diff")[0], run(text, "-o", "diff", "-v")[0]
    assert re.search(r'^\+.*drawbridge.dev/original"?: <[\d,]+ bytes, -v', short, re.MULTILINE)
    assert "/spec/containers/0/resources" not in short
    assert "/spec/containers/0/resources" in whole


def test_a_second_translation_says_that_the_workload_was_translated_before() -> None:
    translated, _ = run(POD, "-o", "yaml")
    assert report(translated)[-1] == "1 workload: 1 translated before; 0 claim templates added"


GPU = "{name: a, resources: {limits: {nvidia.com/gpu: %s}}}"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = "{key: nvidia.com/gpu.product, operator: In, values: [A100]}"
TERMS = f"{{nodeSelectorTerms: [{{matchExpressions: [{TERM}]}}]}}"
CONTAINER = "{name: %s, resources: {limits: {nvidia.com/gpu: %s, nvidia.com/gpumem: %s}}}"
RAY = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: r}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: c, resources: {limits: {GPU: 1}}}]}}}
  workerGroupSpecs:
  - groupName: big
    template:
      spec:
        containers:
        - {name: c, resources: {limits: {GPU: 4}}}
        - {name: d, resources: {limits: {GPU: 2}, requests: {GPU: 2}}}
""".replace("GPU", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        (f"containers: [{CONTAINER % ('a', 1, 9)}, {CONTAINER % ('b', 2, 9)}]", "gpu 3, gpumem 9"),
        (
            f"containers: [{CONTAINER % ('a', 1, 9)}, {CONTAINER % ('b', 2, 8)}]",
            "gpu 3, gpumem 9, 8",
        ),
        (
            f"{{initContainers: [{GPU % 4}], containers: [{GPU % 2}]}}",
            "gpu 4",
        ),
    ],
    ids=["the sum of all containers", "an amount of each device is no sum", "or an init container"],
)
def test_the_report_counts_what_the_whole_pod_requests(fields: str, asked: str) -> None:
    lines = report(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  {fields}\n")
    assert lines[0].partition(" -> ")[0].replace("nvidia.com/", "") == f"Pod/p: {asked}"


def test_the_report_names_the_roles_of_the_pods() -> None:
    assert report(RAY)[:5] == [
        "RayCluster/r: head: nvidia.com/gpu 1",
        "    big: nvidia.com/gpu 6",
        "    -> head: 1 device of class gpu.nvidia.com",
        "       big: gpu-0: 4 devices of class gpu.nvidia.com",
        "       big: gpu-1: 2 devices of class gpu.nvidia.com",
    ]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ("schedulerName: volcano", "scheduler volcano"),
        (
            f"affinity: {{nodeAffinity: {{{REQUIRED}: {TERMS}}}}}",
            "node affinity",
        ),
    ],
)
def test_the_report_names_fields_as_people_do(fields: str, shown: str) -> None:
    text = POD.replace(
        "nvidia.com/gpu: 1",
        "volcano.sh/vgpu-number: 1" if "volcano" in fields else "nvidia.com/gpu: 1",
    )
    text = text.replace("spec:", f"spec:\n  {fields}")
    assert f", {shown}" in report(text)[0]


def test_a_workload_whose_text_cannot_be_edited_is_no_claim() -> None:
    lines = report(POD.replace("\n", "\r"))
    assert lines[0] == "Pod/ml/p: nvidia.com/gpu 1 -> not written"
    assert next(line for line in lines if "error: " in line).endswith("[EditRefused]")


def test_an_error_of_several_roles_is_printed_once_for_each_object() -> None:
    wrong = RAY.replace("nvidia.com/gpu: 1", "GPU: 1").replace("GPU", "huawei.com/Ascend910B4")
    wrong = wrong.replace("{nvidia.com/gpu: 4}", "{huawei.com/Ascend910B4: 1}")
    text = f"{wrong}---\n{wrong.replace('name: r', 'name: s')}"
    err = run(text, "-q", *CLUSTER)[1]
    assert err.count("[NotExpressible]") == 2
    assert err.count("(the same in 1 other place) [NotExpressible]") == 2
    assert run(text, "-v", *CLUSTER)[1].count("[NotExpressible]") == 4
