"""What `drawbridge doctor` says of objects that an uninstallation has left."""

from pathlib import Path

import pytest

from cli.diagnosis.left_objects import INSTALLED
from drawbridge.agreement.device_fence import policy_spec
from drawbridge.dra.inventory import PoolID
from drawbridge.names import CONTROLLER_POLICIES
from tests.cli.installed_api import SYSTEM
from tests.cli.test_doctor import doctor, uninstall
from tests.cluster.fake.api import FakeApi
from tests.manifests.rendering import render_chart

POOL = PoolID("gpu.nvidia.com", "node-a")
LIMIT = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
LABEL = "app.kubernetes.io/part-of"
OURS = {"app.kubernetes.io/managed-by": "drawbridge"}
LEFT = {
    "ValidatingAdmissionPolicy drawbridge-owned-devices, drawbridge-controller-webhooks": (
        "kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings "
        "drawbridge-owned-devices drawbridge-controller-webhooks"
    ),
    "ResourceQuota team-a/drawbridge-quota": (
        "kubectl delete resourcequotas -A -l app.kubernetes.io/managed-by=drawbridge "
        "--field-selector metadata.name=drawbridge-quota"
    ),
    "DeviceTaintRule drawbridge-1": "kubectl delete devicetaintrules -l drawbridge.dev/owned=pool",
    "ClusterRole drawbridge-left": f"kubectl delete clusterroles -l {LABEL}=drawbridge",
    "ClusterRoleBinding drawbridge-left": (
        f"kubectl delete clusterrolebindings -l {LABEL}=drawbridge"
    ),
    "FlowSchema drawbridge-left": f"kubectl delete flowschemas -l {LABEL}=drawbridge",
    "PriorityLevelConfiguration drawbridge-left": (
        f"kubectl delete prioritylevelconfigurations -l {LABEL}=drawbridge"
    ),
    "Namespace drawbridge-left": f"kubectl delete namespaces -l {LABEL}=drawbridge",
    "ConfigMap drawbridge-system/drawbridge-facts": (
        "kubectl -n drawbridge-system delete configmaps drawbridge-facts"
    ),
    "Lease drawbridge-system/drawbridge-controller, other/drawbridge-controller, other/": (
        "kubectl -n drawbridge-system delete leases drawbridge-controller && "
        "kubectl -n other delete leases drawbridge-controller drawbridge-scheduler"
    ),
    "Secret drawbridge-system/drawbridge-ca, drawbridge-system/drawbridge-allocator-tls": (
        "kubectl -n drawbridge-system delete secrets drawbridge-ca drawbridge-allocator-tls"
    ),
    "taint drawbridge.dev/owned of ": "kubectl taint nodes --all drawbridge.dev/owned-",
    "label drawbridge.dev/dual of ": (
        "kubectl label nodes -l drawbridge.dev/dual drawbridge.dev/dual-"
    ),
}


def leave(api: FakeApi) -> None:
    """Uninstall all but what the controller has written outside its namespace."""
    uninstall(api)
    for group, kind, metadata, spec in (
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            {"name": "drawbridge-owned-devices"},
            policy_spec([POOL], SYSTEM),
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            {"name": "drawbridge-controller-webhooks"},
            {},
        ),
        (
            "resource.k8s.io/v1",
            "DeviceTaintRule",
            {"name": "drawbridge-1", "labels": {"drawbridge.dev/owned": "pool"}},
            {"taint": {"key": "drawbridge.dev/owned", "effect": "NoSchedule"}},
        ),
        ("v1", "ResourceQuota", {"name": "drawbridge-quota", "namespace": "team-a",
         "labels": OURS}, {"hard": {LIMIT: "0"}}),
        ("v1", "ResourceQuota", {"name": "drawbridge-quota", "namespace": "of-others"}, {}),
    ):  # fmt: skip
        api.put({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec})
    for kind in INSTALLED:
        for name, part_of in (("drawbridge-left", "drawbridge"), ("of-another", "other")):
            metadata = {"name": name, "labels": {LABEL: part_of}}
            api.put({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
    for api_version, kind, name, namespace, labels in (
        ("v1", "ConfigMap", "drawbridge-facts", SYSTEM, {}),
        ("v1", "ConfigMap", "of-another", SYSTEM, {}),
        ("coordination.k8s.io/v1", "Lease", "drawbridge-controller", SYSTEM, {}),
        ("coordination.k8s.io/v1", "Lease", "drawbridge-controller", "other", {}),
        ("coordination.k8s.io/v1", "Lease", "drawbridge-scheduler", "other", {}),
        ("v1", "Secret", "drawbridge-allocator-tls", SYSTEM, OURS),
        ("v1", "Secret", "drawbridge-ca", SYSTEM, OURS),
        ("v1", "Secret", "drawbridge-ca", "of-another", {}),
    ):
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        api.put({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    for node in api.all("Node"):
        node["metadata"].setdefault("labels", {})["drawbridge.dev/dual"] = "true"
        node.setdefault("spec", {})["taints"] = [
            {"key": "drawbridge.dev/owned", "effect": "NoSchedule"}
        ]
        api.put(node)


def test_each_remaining_object_has_the_command_that_removes_it(tmp_path: Path) -> None:
    lines = doctor(tmp_path, "-o", "json", change=leave).of("remains")
    assert {each["code"] for each in lines} == {"LeftBehind"}
    assert len(lines) == len(LEFT)
    for line, (what, command) in zip(lines, LEFT.items(), strict=True):
        assert line["message"].startswith(f"an installation that is gone left {what}")
        assert "of-another" not in line["message"]
        assert line["remedy"] == f"Run: {command}"


def test_nothing_is_left_after_a_complete_uninstallation(tmp_path: Path) -> None:
    (line,) = doctor(tmp_path, "-o", "json", change=uninstall).of("remains")
    assert (line["status"], line["message"]) == ("ok", "nothing of an earlier installation")


def test_an_installation_leaves_nothing(tmp_path: Path) -> None:
    assert not doctor(tmp_path, "-o", "json").of("remains")


def test_all_that_the_chart_installs_is_found_without_it(tmp_path: Path) -> None:
    values = {"judge": {"enabled": True}, "scheduler": {"enabled": True}}
    installed = render_chart(values, tmp_path)
    unlabelled = [
        (each["kind"], each["metadata"]["name"])
        for each in installed
        if each["metadata"].get("labels", {}).get(LABEL) != "drawbridge"
    ]
    assert unlabelled == []
    listed = {each.kind for each in INSTALLED}
    outside = {
        (each["kind"], each["metadata"]["name"])
        for each in installed
        if "namespace" not in each["metadata"]
    }
    by_name = {name for kind, name in outside if kind.startswith("ValidatingAdmissionPolicy")}
    assert by_name == set(CONTROLLER_POLICIES)
    by_label = {kind for kind, name in outside if name not in by_name}
    assert {each for each in by_label if not each.endswith("WebhookConfiguration")} <= listed


@pytest.mark.parametrize(
    "part", ["validatingadmissionpolicies", "resourcequotas", "clusterroles", "flowschemas"]
)
def test_what_may_not_be_read_of_the_remains_is_named(tmp_path: Path, part: str) -> None:
    def close(api: FakeApi) -> None:
        uninstall(api)
        api.fail(403, part=part, times=99)

    lines = doctor(tmp_path, "-o", "json", change=close).lines
    (unread,) = (each for each in lines if each["code"] == "NotChecked")
    assert unread["message"] == f"remains: you may not list {part}"
