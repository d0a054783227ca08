"""The cases of `cases.yaml`: what the audit says of mixed, broken and half-migrated clusters."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.audit.model import FATE_WORDS, Fate
from tests.cli.running import command
from tests.tables import read_yaml, write_yaml

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = read_yaml((HERE / "cases.yaml").read_text())
DRIVER = "gpu.nvidia.com"
IMAGES = {
    "efa": "aws-efa-k8s-device-plugin",
    "sriov": "sriov-network-device-plugin",
    "nvidia": "nvidia/k8s-device-plugin",
    "hami": "projecthami/hami",
    "amd": "rocm/k8s-device-plugin",
    "intel": "intel/intel-gpu-plugin",
}
FOLDER = "/var/lib/kubelet/device-plugins"
ANSWERS = (
    "workloads", "groups", "steps", "leaves", "says", "fit", "reasons", "refusals", "quotas",
    "commands", "why of steps", "first line", "undo", "must leave", "drivers", "nodes left",
    "asks", "counts", "owners",
)  # fmt: skip


def objects(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a cluster."""
    if case["class"] != "none":
        yield device_class(native=case["class"] == "native")
    for node in case["nodes"]:
        yield from node_objects(node)
    for name, mode in case.get("namespaces", {}).items():
        labels = {"drawbridge.dev/translate": mode}
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
    for pod in case.get("pods", ()):
        yield pod_object(pod)
    yield from case.get("objects", ())


def device_class(*, native: bool) -> dict[str, Any]:
    """Return the class of the driver."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if native:
        spec["extendedResourceName"] = "nvidia.com/gpu"
    metadata = {"name": DRIVER}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": spec,
    }


def node_objects(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node, the pods of its plugins, and the slice of its driver."""
    name, units = node["name"], node.get("units", {})
    labels = {"kubernetes.io/hostname": name, **node.get("labels", {})}
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if notes := node.get("annotations"):
        metadata["annotations"] = notes
    if gpus := node.get("hami"):
        listed = [{"id": f"{n}", "index": n, "devmem": 40960, "type": "A100"} for n in range(gpus)]
        metadata["annotations"] = {"hami.io/node-nvidia-register": json.dumps(listed)}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"unschedulable": node.get("cordoned", False), "taints": node.get("taints", [])},
        "status": {"allocatable": allocatable | {key: f"{n}" for key, n in units.items()}},
    }
    plugins = node.get("plugin", [])
    for plugin in [plugins] if isinstance(plugins, str) else plugins:
        daemon = pod_object(
            {"name": f"kube-system/{plugin}-{name}", "node": name, "owner": f"DaemonSet/{plugin}"}
        )
        daemon["spec"]["containers"][0]["image"] = IMAGES[plugin.partition("-")[0]]
        daemon["spec"]["volumes"] = [{"name": "plugins", "hostPath": {"path": FOLDER}}]
        yield daemon
    if number := node.get("publishes"):
        devices = [
            {
                "name": f"gpu-{n}",
                "attributes": {"type": {"string": "gpu"}},
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for n in range(number)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        metadata = {"name": f"{name}-{DRIVER}"}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": spec,
        }


def pod_object(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a running pod."""
    namespace, _, name = pod["name"].partition("/")
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": pod.get("labels", {}),
        "annotations": pod.get("annotations", {}),
    }
    if owner := pod.get("owner"):
        kind, _, owned_by = owner.partition("/")
        metadata["ownerReferences"] = [{"kind": kind, "name": owned_by, "controller": True}]
        metadata["labels"] = {"app": owned_by, **metadata["labels"]}
    spec: dict[str, Any] = {
        "nodeName": pod["node"],
        "containers": [
            {"name": "main", "image": "x", "resources": {"limits": pod.get("limits", {})}}
        ],
        **pod.get("spec", {}),
    }
    if claims := pod.get("claims"):
        spec["resourceClaims"] = claims
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    status: dict[str, Any] = {"phase": pod.get("phase", "Running")}
    if "ready" in pod:
        status["conditions"] = [{"type": "Ready", "status": f"{pod['ready']}"}]
    if pod.get("by class"):
        name = next(iter(pod["limits"]))
        mapping = {"containerName": "main", "resourceName": name, "requestName": "x"}
        status["extendedResourceClaimStatus"] = {
            "resourceClaimName": "generated",
            "requestMappings": [mapping],
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def answer(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Audit the cluster of a case."""
    dump = folder / "cluster.yaml"
    dump.write_text(write_yaml([*objects(case)]))
    words = ["audit", "--cluster", str(dump), "-o", "json"]
    if configuration := case.get("configuration"):
        header = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
        file = folder / "configuration.yaml"
        file.write_text(write_yaml([{**header, **configuration}]))
        words += ["--config", str(file)]
    if version := case.get("version"):
        words += ["--kubernetes-version", version]
    printed = command(*words)
    assert printed.code == case.get("code", 0), printed
    audit: dict[str, Any] = json.loads(printed.out)
    return told(audit)


def told(audit: dict[str, Any]) -> dict[str, Any]:
    """Return an audit in the words of the cases."""
    namespaces, groups = audit["namespaces"], audit["nodeGroups"]
    notes = [note for part in (*groups, *audit["steps"]) for note in part["notes"]]
    fit = audit["fit"]
    return {
        "workloads": {
            f"{namespace['namespace']}/{each['owner']}": workload_text(each)
            for namespace in namespaces
            for each in namespace["workloads"]
        },
        "counts": counts(namespaces),
        "owners": {e["namespace"]: e["owners"] for e in namespaces}
        | {"all": audit["summary"]["workloads"]},
        "groups": {each["name"]: group_text(each) for each in groups},
        "drivers": {each["name"]: each["driver"] for each in groups},
        "steps": [each["title"] for each in audit["steps"]],
        "leaves": {e["title"]: leaves_text(e["expected"]) for e in audit["steps"] if e["expected"]},
        "nodes left": {
            each["title"]: "{pluginNodes} plugin, {driverNodes} driver".format_map(each["expected"])
            for each in audit["steps"]
            if each["expected"]
        },
        "says": [*notes, *audit["notes"]],
        "fit": {key: fit[key] for key in ("pods", "inPlace", "packed", "withoutDevices")},
        "must leave": {each["pod"]: each["why"] for each in fit["notInPlace"]},
        "reasons": {
            f"{namespace['namespace']}/{each['owner']}": each["reasons"]
            for namespace in namespaces
            for each in namespace["workloads"]
            if each["reasons"]
        },
        "asks": {
            f"{namespace['namespace']}/{each['owner']}": each["asks"]
            for namespace in namespaces
            for each in namespace["workloads"]
        },
        "refusals": {
            f"{e['namespace']}/{o}": text for e in namespaces for o, text in e["refusals"].items()
        },
        "quotas": {each["namespace"]: each["quotas"] for each in namespaces},
        "commands": [command for each in audit["steps"] for command in each["commands"]],
        "undo": [command for each in audit["steps"] for command in each["undo"]],
        "first line": {e["title"]: e["why"] for e in audit["steps"]},
        "why of steps": {e["title"]: e["why"] for e in audit["steps"] if e["loses"]},
    }


def counts(namespaces: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what the pods of each owner ask, their outcome and their number."""
    counted: dict[str, list[str]] = {}
    for namespace in namespaces:
        for load in namespace["workloads"]:
            text = f"{', '.join(load['asks'])}: {workload_text(load).rpartition(', ')[0]}"
            counted.setdefault(f"{namespace['namespace']}/{load['owner']}", []).append(text)
    return counted


def workload_text(workload: dict[str, Any]) -> str:
    """Return the outcome, the pods, and who serves them."""
    wanted = workload["wanted"]
    more = "" if wanted in (None, workload["pods"]) else f" of {wanted}"
    pods = f"{workload['running']} of {workload['pods']}{more}"
    return f"{FATE_WORDS[Fate(workload['fate'])]}, {pods}, {workload['servedBy']}"


def group_text(group: dict[str, Any]) -> str:
    """Return the state of a group, and what it offers before and after."""
    before, after = (capacities_text(group[part]) for part in ("before", "after"))
    return f"{group['state']}, {before} -> {after}"


def leaves_text(expected: dict[str, int]) -> str:
    """Return the pods with devices of plugins, of drivers, of either, and those that wait."""
    told = "{onPlugins} plugin, {onDrivers} driver, {waiting} waiting".format_map(expected)
    return f"{told}, {expected['either']} either" if expected["either"] else told


def capacities_text(capacities: list[dict[str, Any]]) -> str:
    """Return what is held of what is offered."""
    texts = (f"{each['name']} {each['held']:g} of {each['offered']:g}" for each in capacities)
    return " + ".join(texts) or "nothing"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_audit_says_what_the_objects_show(case: dict[str, Any], tmp_path: Path) -> None:
    given = answer(case, tmp_path)
    expected = {key: case[key] for key in ANSWERS if key in case}
    for part in ("says", "commands", "undo"):
        expected_texts = expected.pop(part, [])
        assert [text for text in expected_texts if text not in given[part]] == [], given[part]
    said = "\n".join(given["says"])
    assert [text for text in case.get("never says", ()) if text in said] == []
    moves = "\n".join(given["commands"])
    assert [text for text in case.get("never moves with", ()) if text in moves] == []
    typed = "\n".join((moves, *given["undo"]))
    assert [text for text in case.get("never types", ()) if text in typed] == []
    for part in ("first line", "leaves", "nodes left"):
        lines = expected.pop(part, {})
        assert {title: given[part].get(title) for title in lines} == lines
    assert {key: given[key] for key in expected} == expected


def test_there_are_at_least_twelve_cases_with_a_reason() -> None:
    assert len(CASES) >= 12
    assert all(case["why"] for case in CASES)
