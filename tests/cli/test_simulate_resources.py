"""`drawbridge simulate` with CPU, memory, taints, and the pods that run on the nodes."""

from operator import itemgetter
from pathlib import Path

import pytest

from tests.cli.simulating import Run
from tests.tables import YamlValue, load_cases, write_yaml

CASES = load_cases(Path(__file__).parent / "cases" / "simulate_resources.yaml")
PLUGIN = "nvidia.com/gpu"
DRA = "resource.k8s.io/v1"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def node_of(name: str, case: YamlValue) -> list[YamlValue]:
    allocatable = {"cpu": case["cpu"]} | ({PLUGIN: case["plugin"]} if "plugin" in case else {})
    taints = [{"key": case["taint"], "effect": "NoSchedule"}] if "taint" in case else []
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable},
    }
    published = {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{name}"},
        "spec": {
            "driver": "d.io",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x"}],
        },
    }
    return [node, published]


def pod_of(name: str, case: YamlValue) -> YamlValue:
    resources: YamlValue = {"requests": {"cpu": case["cpu"]}}
    if "plugin" in case:
        resources["limits"] = {PLUGIN: case["plugin"]}
    spec: YamlValue = {"containers": [{"name": "main", "resources": resources}]}
    if "node" in case:
        spec["nodeName"] = case["node"]
    if "priority" in case:
        spec["priority"] = case["priority"]
    if "tolerates" in case:
        spec["tolerations"] = [{"key": case["tolerates"], "operator": "Exists"}]
    if "gpu" in case:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    if "holds" in case:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"of-{name}"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"phase": case.get("phase", "Running" if "node" in case else "Pending")},
    }


def held_claim(name: str, case: YamlValue) -> YamlValue:
    result = {"request": "r", "driver": "d.io", "pool": case["node"], "device": case["holds"]}
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": f"of-{name}", "namespace": "default"},
        "spec": request(),
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        },
    }


def request() -> YamlValue:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def cluster_of(case: YamlValue) -> list[YamlValue]:
    template = {
        "apiVersion": DRA,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"spec": request()},
    }
    device_class = {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    running = case.get("running", {})
    return [
        template,
        {**device_class, "spec": {}},
        *(each for name, node in case["nodes"].items() for each in node_of(name, node)),
        *(pod_of(name, pod) for name, pod in running.items()),
        *(held_claim(name, pod) for name, pod in running.items() if "holds" in pod),
    ]


def workload_of(case: YamlValue) -> YamlValue:
    template = {"spec": pod_of("w", case)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"replicas": case["replicas"], "template": template},
    }


@pytest.mark.parametrize("case", CASES, ids=itemgetter("name"))
def test_pods_are_placed_where_their_requests_fit(run: Run, case: YamlValue) -> None:
    given = [pod_of(name, pod) for name, pod in case.get("pods", {}).items()]
    given += [workload_of(case["workload"])] if "workload" in case else []
    cluster = write_yaml(cluster_of(case))
    code, printed, _ = run(write_yaml(given), *case.get("options", ()), cluster=cluster)
    placed = {
        each["pod"].removeprefix("default/"): each["node"] or [r["code"] for r in each["reasons"]]
        for each in printed["pods"]
    }
    assert placed == case["placed"]
    assert code == any(isinstance(each, list) for each in case["placed"].values())
    evicted = {e["pod"].removeprefix("default/"): e["preempted"] for e in printed["pods"]}
    assert {name: each for name, each in evicted.items() if each} == case.get("evicted", {})


def test_rules_that_are_not_simulated_are_named(run: Run) -> None:
    given = pod_of("a", {"cpu": "1"})
    given["spec"]["topologySpreadConstraints"] = [{"whenUnsatisfiable": "DoNotSchedule"}]
    cluster = write_yaml(cluster_of({"nodes": {"n1": {"cpu": "1"}}}))
    code, _, err = run(write_yaml([given]), cluster=cluster)
    assert code == 0
    assert "the simulation ignores topologySpreadConstraints" in err
    assert "[RuleNotSimulated]" in err


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        ({"limits": {PLUGIN: "500m"}}, "AmountRefused"),
        ({"limits": {PLUGIN: "1.5"}}, "AmountRefused"),
        ({"limits": {PLUGIN: "-1"}}, "AmountRefused"),
        ({"requests": {PLUGIN: 1}}, "LimitMissing"),
        ({"limits": {PLUGIN: 2}, "requests": {PLUGIN: 1}}, "AmountsDisagree"),
    ],
    ids=str,
)
def test_a_pod_that_the_api_server_rejects_is_not_placed(
    run: Run, resources: YamlValue, code: str
) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "template": template},
    }
    cluster = write_yaml(node_of("n1", {"cpu": "4", "plugin": "8"}))
    exit_code, printed, errors = run(write_yaml([pod, deployment]), cluster=cluster)
    assert exit_code == 2
    assert printed["pods"] == []
    told = [line for line in errors.splitlines() if f"[{code}]" in line]
    for part in ("Pod/p spec.containers[0]", "Deployment/d spec.template.spec.containers[0]"):
        assert any(part in line for line in told), (part, errors)
