"""`drawbridge check`: what is said if the allocator owns no device of the class of a request."""

from pathlib import Path

import pytest

from tests.cli.running import command, own_zone, read_findings
from tests.tables import YamlValue, write_yaml

POD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: ml}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: ml}
spec:
  schedulerName: drawbridge
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers: [{name: c, image: x, resources: {claims: [{name: gpu}]}}]
"""
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
NO_ENTRY = f"ownedPools has no entry for driver {NVIDIA}"
ELSEWHERE = "or request the devices in pods of the default scheduler."


def judge(folder: Path, selectors: list[str], zone: str = "b") -> tuple[str, str, str]:
    """Judge a pod of ours where AMD pools are owned, and a node in zone b has an NVIDIA device."""
    configuration, cluster = own_zone(folder, zone), folder / "cluster.yaml"
    text = configuration.read_text("utf-8").replace(NVIDIA, AMD)
    configuration.write_text(f"{text}fleet: [{{class: gpu, closed: false}}]\n", "utf-8")
    chosen: list[YamlValue] = [{"cel": {"expression": each}} for each in selectors]
    api = "resource.k8s.io/v1"
    objects: list[YamlValue] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "b"}},
        },
        {
            "apiVersion": api,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": chosen},
        },
        {
            "apiVersion": api,
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {
                "driver": NVIDIA,
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n1",
                "devices": [{"name": "a", "attributes": {"vendor": {"string": "x"}}}],
            },
        },
    ]
    cluster.write_text(write_yaml(objects), "utf-8")
    words = ("--cluster", str(cluster), "--config", str(configuration))
    (finding,) = read_findings(command("check", "-f", "-", *words, "-o", "json", stdin=POD).out)
    return finding["severity"], finding["message"], finding["remedy"]


@pytest.mark.parametrize(
    "selectors",
    [
        [],
        [f'device.driver in ["{NVIDIA}", "{AMD}"]'],
        ['device.driver.startsWith("gpu.")'],
        # What a device of the other driver has is not known.
        [f'device.attributes["{NVIDIA}"].vendor == "x"'],
        [f'"vendor" in device.attributes["{NVIDIA}"]'],
        [f'device.driver == "{NVIDIA}" || device.attributes["{AMD}"].vendor == "x"'],
    ],
)
def test_nodes_may_come_with_another_driver_that_the_class_selects(
    selectors: list[str], tmp_path: Path
) -> None:
    severity, message, _ = judge(tmp_path, selectors)
    assert severity == "warning"
    assert "1 gpu device requested, but no node has any (not refused" in message


@pytest.mark.parametrize(
    "selectors",
    [
        [f'device.driver == "{NVIDIA}"'],
        [f'device.attributes["{NVIDIA}"].vendor == "x" && device.driver == "{NVIDIA}"'],
        ["true", f'device.driver != "{AMD}"'],
    ],
)
def test_no_node_that_comes_has_a_driver_that_the_class_excludes(
    selectors: list[str], tmp_path: Path
) -> None:
    severity, message, _ = judge(tmp_path, selectors)
    assert (severity, message.endswith(NO_ENTRY)) == ("error", True)


@pytest.mark.parametrize(("zone", "helps"), [("b", False), ("a", True)])
def test_the_default_scheduler_helps_only_where_no_entry_selects_the_node(
    zone: str, tmp_path: Path, *, helps: bool
) -> None:
    remedy = judge(tmp_path, [f'device.driver == "{NVIDIA}"'], zone)[2]
    assert remedy.startswith(f"Add an entry for driver {NVIDIA} to ownedPools")
    assert remedy.endswith(ELSEWHERE) is helps
