"""`drawbridge check` of a Configuration among the manifests, alone or in a ConfigMap."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.names import OWNED_TAINT
from tests.cli.running import command, read_findings
from tests.cli.test_check_published import WARNED

HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
OFF = f"{HEAD}findings: {{NameTwice: off}}\n"
WRONG = f"{HEAD}placement: nativ\n"


def in_config_map(text: str) -> str:
    data = "".join(f"    {line}\n" for line in text.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
    return f"{head}  config.yaml: |\n{data}"


@pytest.mark.parametrize(
    ("text", "line"), [(WRONG, 3), (in_config_map(WRONG), 8)], ids=["alone", "in a ConfigMap"]
)
def test_an_error_in_a_configuration_has_its_line(text: str, line: int) -> None:
    code, out, _ = command("check", "-f", "-", stdin=text)
    assert code == 2
    assert out.startswith(f"<stdin>:{line}: error: Configuration")
    assert out.endswith("looked at 1 Configuration: 1 error\n")


def codes(*words: str, stdin: str) -> list[str]:
    out = command("check", "-f", "-", "-o", "json", *words, stdin=stdin).out
    return [each["code"] for each in read_findings(out)]


@pytest.mark.parametrize("text", [OFF, in_config_map(OFF)], ids=["alone", "in a ConfigMap"])
def test_the_only_configuration_of_the_input_decides(text: str, tmp_path: Path) -> None:
    assert codes(stdin=f"{WARNED}---\n{text}") == []
    assert codes(stdin=WARNED) == ["NameTwice"]
    chosen = tmp_path / "config.yaml"
    chosen.write_text(HEAD)
    assert codes("--config", str(chosen), stdin=f"{WARNED}---\n{text}") == ["NameTwice"]


def test_several_configurations_are_checked_and_none_decides() -> None:
    assert codes(stdin=f"{WARNED}---\n{OFF}---\n{OFF}") == ["NameTwice"]
    assert len(codes(stdin=f"{WARNED}---\n{OFF}---\n{WRONG}")) == 2


@pytest.mark.parametrize("place", [str, in_config_map], ids=["alone", "in a ConfigMap"])
@pytest.mark.parametrize("kind", ["Config", "configuration", "Rules"])
def test_an_object_of_our_api_with_another_kind_is_an_error(
    kind: str, place: Callable[[str], str]
) -> None:
    text = place(HEAD.replace("Configuration", kind))
    code, out, _ = command("check", "-f", "-", stdin=text)
    assert code == 2
    assert f'kind: kind must be Configuration, not "{kind}"' in out


def test_the_facts_of_a_cluster_are_no_configuration() -> None:
    assert codes(stdin=HEAD.replace("Configuration", "Facts")) == ["NothingToJudge"]


@pytest.mark.parametrize("kind", [str, in_config_map], ids=["alone", "in a ConfigMap"])
def test_a_configuration_of_another_program_is_not_judged(kind: Callable[[str], str]) -> None:
    other = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Configuration\nany: 1\n"
    assert codes(stdin=kind(other)) == ["NothingToJudge"]


def test_what_the_configuration_reads_and_no_device_publishes_is_reported() -> None:
    target = "{kind: gpu, driver: d.io, class: gpu, attributes: {product: d.io/nuna}}"
    text = f"{WARNED}---\n{HEAD}targets: [{target}]\n"
    assert "TargetNotPublished" in codes(stdin=text)


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {pool: bridge, a: b}}\n"
DISAGREE = "select node n1, and only some of these entries set unfenced: true, so the taint stays"
OTHER_NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\n"


@pytest.mark.parametrize(
    ("entries", "reported"),
    [
        (["{driver: d.io, nodeSelector: {matchLabels: {pool: bridge}}}"], []),
        (
            ["{driver: d.oi, nodeSelector: {matchLabels: {pool: bridge}}}"],
            ["ownedPools[0].driver: no ResourceSlice is of driver d.oi; did you mean d.io?"],
        ),
        (
            ["{driver: d.io, nodeSelector: {matchLabels: {pool: brigde}}}"],
            ["ownedPools[0]: ownedPools[0] selects no node"],
        ),
        (
            ["{driver: d.io, nodeSelector: {}}"],
            [f"ownedPools: every node of the cluster needs the taint {OWNED_TAINT}:NoSchedule"],
        ),
        (["{driver: d.io, nodeSelector: {}, fence: rules}"], []),
        (
            [
                "{driver: d.io, nodeSelector: {matchLabels: {pool: bridge}}}",
                "{driver: d.io, unfenced: true, nodeSelector: {matchLabels: {pool: bridge, a: b}}}",
            ],
            [f"ownedPools: ownedPools[0] and ownedPools[1] {DISAGREE}"],
        ),
    ],
)
def test_owned_pools_are_compared_with_the_nodes_and_drivers_of_the_cluster(
    entries: list[str], reported: list[str], tmp_path: Path
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(f"{WARNED}---\n{NODE}---\n{OTHER_NODE}")
    text = f"{HEAD}placement: bridge\nownedPools: [{', '.join(entries)}]\n"
    out = command("check", "-f", "-", "-o", "json", "--cluster", str(cluster), stdin=text).out
    assert [f"{each['path']}: {each['message']}" for each in read_findings(out)] == reported
    assert codes(stdin=text) == []
    native = text.replace("placement: bridge", "placement: native")
    assert codes("--cluster", str(cluster), stdin=native) == ["BridgeNotUsed"]


@pytest.mark.parametrize(
    ("part", "reported"),
    [
        ("bridge: {forcedDeletionSeconds: 60}", ["bridge has no effect with placement native"]),
        ("preemption: {delaySeconds: 5}", ["preemption has no effect with placement native"]),
        ("bridge: {}", []),
        ("placement: native", []),
    ],
)
def test_fields_of_bridge_placement_without_it_are_named(part: str, reported: list[str]) -> None:
    out = command("check", "-f", "-", "-o", "json", stdin=f"{HEAD}{part}\n").out
    assert [each["message"] for each in read_findings(out)] == reported


CLUSTER = f"""\
{WARNED}    capacity:
      memory: {{value: 80Gi}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: all}}
spec:
  extendedResourceName: d.io/gpu
  selectors: [{{cel: {{expression: "device.driver == 'd.io'"}}}}]
---
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{allocatable: {{e.io/fast: 2}}}}
"""


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        (["targets: [{kind: gpu, driver: d.io, class: gone}]"], ["TargetClassMissing"]),
        (["targets: [{kind: gpu, driver: e.io, class: all}]"], ["TargetOfOtherDriver"]),
        (
            ["targets: [{kind: gpu, driver: d.io, class: all, attributes: {product: numa}}]"],
            ["TargetNotPublished"],
        ),
        (["targets: [{kind: gpu, driver: d.io, class: all}]"], []),
        (["legacy: {units: {nobody.io/mem: 2Mi}}"], ["UnitWithoutUse"]),
        (["legacy: {defaults: {nobody.io/mem: '1'}}"], ["UnitWithoutUse"]),
        (["legacy: {renames: {e.io/gpu: nvidia.com/gpuu}}"], ["UnitWithoutUse"]),
        (["legacy: {renames: {nvidia.com/gpu: e.io/nothing}}"], ["UnitWithoutUse"]),
        (["legacy: {renames: {nvidia.com/gpu: d.io/gpu}}"], []),
        (["legacy: {renames: {e.io/a: e.io/b, e.io/b: e.io/a}}"], ["EntryWithoutEffect"] * 2),
        (["legacy: {renames: {e.io/a: nvidia.com/mig-1g.5gb, e.io/b: google.com/tpu}}"], []),
        (["legacy: {renames: {e.io/a: d.io/gpu}}"], []),
        (
            [
                "legacy: {renames: {e.io/a: e.io/b}}",
                "targets: [{driver: d.io, class: all, resources: [e.io/b]}]",
            ],
            [],
        ),
        (["legacy: {networks: {default/a: e.io/fsat}}"], ["UnitWithoutUse"]),
        (["legacy: {networks: {default/a: e.io/fast}}"], []),
        (["legacy: {networks: {default/a: d.io/gpu}}"], []),
        (["strategy: {weights: {memroy: 5}}"], ["WeightNotPublished"]),
        (["strategy: {weights: {memory: 5, d.io/memory: 1, devices: 1, node.cpu: 2}}"], []),
        (["strategy: {classWeights: {all: {foo: 5}}}"], ["WeightNotPublished"]),
        (["strategy: {classes: {gone: packed}}"], ["TargetClassMissing"]),
        (["strategy: {classWeights: {gone: {memory: 5}}}"], ["TargetClassMissing"]),
        (["strategy: {classes: {all: packed}, classWeights: {all: {memory: 5}}}"], []),
        (["legacy: {units: {nvidia.com/gpumem: 2Mi, volcano.sh/gpu-memory: 10Mi}}"], []),
        (["legacy: {units: {nvidia.com/gpu: 2, nvidia.com/gpucores: 2}}"], ["UnitWithoutUse"] * 2),
        (["legacy: {defaults: {aliyun.com/gpu-mem: 2, amd.com/gpu: 2}}"], ["UnitWithoutUse"] * 2),
        (["legacy: {defaults: {nvidia.com/gpu: 1, volcano.sh/vgpu-cores: 50}}"], []),
        (
            ["legacy: {renames: {e.io/a: nvidia.com/gpumem}, units: {e.io/a: 2Mi}}"],
            ["UnitWithoutUse"],
        ),
        (
            [
                "legacy: {units: {e.io/mem: 2Mi}}",
                "targets: [{driver: d.io, class: all, amounts: {e.io/mem: mem}}]",
            ],
            ["TargetNotPublished"],
        ),
        (["quotas: [{name: q, total: {gone: {devices: 1, memory: 1Gi}}}]"], ["TargetClassMissing"]),
        (["quotas: [{name: q, total: {all: {devices: 1, memroy: 1Gi}}}]"], ["QuotaNotPublished"]),
        (["quotas: [{name: q, single: {all: {e.io/memory: 1Gi}}}]"], ["QuotaNotPublished"]),
        (["quotas: [{name: q, single: {all: {memory: 1Gi}}}]"], []),
        (["fleet: [{class: all, expectedShapes: ['8x memroy=1Gi']}]"], ["ShapeNotPublished"]),
        (["fleet: [{class: all, expectedShapes: ['8x e.io/memory=1Gi']}]"], ["ShapeNotPublished"]),
        (["fleet: [{class: all, expectedShapes: ['8x memory=1GB']}]"], ["ShapeNotPublished"]),
        (["fleet: [{class: all, expectedShapes: ['8x memory=1.5Gi, numa=1GB']}]"], []),
        (["fleet: [{class: all, expectedShapes: [8x, '8x memory=1Gi, d.io/numa=1']}]"], []),
        (["quotas: [{name: q, total: {all: {d.io/memory: 1Gi}}}]"], []),
    ],
)
def test_a_configuration_is_compared_with_the_cluster(
    parts: list[str], reported: list[str], tmp_path: Path
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    text = HEAD + "".join(f"{each}\n" for each in parts)
    assert codes("--cluster", str(cluster), stdin=text) == reported
