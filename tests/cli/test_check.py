"""`drawbridge check`: verdicts with their lines, whose answer they are, and exit codes."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import (
    EIGHT_IN_OWNED_POOLS,
    JUDGED_POOLS,
    command,
    on_api,
    own_zone,
    read_findings,
)
from tests.tables import read_yaml, read_yaml_documents, write_yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
INVENTORY = str(EXAMPLES / "inventory")
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: ml}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu.nvidia.com}
"""
MISCONFIGURED = f"""\
{TEMPLATE}\
      config:
      - opaque:
          driver: gpu.nvidia.com
          parameters:
            apiVersion: resource.nvidia.com/v1beta1
            kind: GpuConfig
            shared: true
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml}
spec:
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers:
      - name: c
        resources: {claims: [{name: gpu, request: gpus}]}
"""
OURS = f"{TEMPLATE}---\n{DEPLOYMENT}".replace("gpus", "gpu").replace(
    "    spec:\n      res", "    spec:\n      schedulerName: drawbridge\n      res"
)
OLD_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: ml}
spec:
  containers:
  - name: c
    resources: {limits: {nvidia.com/gpu: %d}}
"""
QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: ml}
spec: {hard: {gpu.nvidia.com.deviceclass.resource.k8s.io/devices: 1}}
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c, namespace: ml}
spec:
  devices:
    requests: [{name: gpu, deviceClassName: gpu.nvidia.com, count: %d}]
"""
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %s}
spec: {extendedResourceName: e.com/gpu, selectors: [{cel: {expression: "true"}}]}
"""


def check(*arguments: str, stdin: str = "") -> tuple[int, str]:
    code, out, err = command("check", *arguments, stdin=stdin)
    assert not err
    return code, out


def findings(text: str, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, out = check("-f", "-", *arguments, "-o", "json", stdin=text)
    return code, read_findings(out)


def codes(text: str, *arguments: str) -> list[tuple[str, str]]:
    return [(each["code"], each["object"]) for each in findings(text, *arguments)[1]]


def joined(*documents: str) -> str:
    return "---\n".join(documents)


def inventory(*kinds: str) -> list[dict[str, Any]]:
    return [
        obj
        for file in sorted(Path(INVENTORY).glob("*.yaml"))
        for obj in read_yaml_documents(file.read_text("utf-8"))
        if obj and obj["kind"] in kinds
    ]


def test_text_begins_with_file_and_line_and_ends_with_the_code() -> None:
    code, out = check("-f", "-", stdin=MISCONFIGURED)
    assert code == 2
    first, remedy, last = out.splitlines()
    assert last == "looked at 1 ResourceClaimTemplate: 1 error"
    assert first == (
        "<stdin>:16: error: ResourceClaimTemplate/ml/one spec.spec.devices.config[0].opaque."
        "parameters.shared: unknown field shared; did you mean sharing? [ConfigInvalid]"
    )
    assert remedy.startswith("    Correct the configuration.")


def test_pod_template_is_judged_with_the_templates_of_the_files() -> None:
    assert codes(joined(DEPLOYMENT, TEMPLATE)) == [("RequestNotFound", "Deployment/ml/web")]
    # Without the template, and without a cluster, it may exist.
    assert codes(DEPLOYMENT) == []
    reported = codes(DEPLOYMENT, "--cluster", INVENTORY)
    assert reported == [("ClaimNotFound", "Deployment/ml/web")]


def test_claims_that_exist_in_the_cluster_are_judged_where_they_are(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(MISCONFIGURED)
    fixed = DEPLOYMENT.replace("request: gpus", "request: gpu")
    (finding,) = findings(fixed, "--cluster", str(cluster), INVENTORY)[1]
    assert (finding["code"], finding["object"]) == ("ConfigInvalid", "ResourceClaimTemplate/ml/one")


@pytest.mark.parametrize(("mebibytes", "expected"), [(3000, []), (300_000, ["CapacityNeverFits"])])
def test_pod_is_judged_as_what_its_translation_becomes(mebibytes: int, expected: list[str]) -> None:
    text = OLD_POD.replace(
        "nvidia.com/gpu: %d", f"nvidia.com/gpu: 1, nvidia.com/gpumem: {mebibytes}"
    )
    printed = findings(text, "--cluster", INVENTORY)[1]
    assert [each["code"] for each in printed] == expected
    assert all(each["object"] == "Pod/ml/old" for each in printed)
    assert all(each["path"] == "spec" for each in printed)


def test_pod_of_an_invalid_template_is_judged_without_it() -> None:
    invalid = TEMPLATE.replace("exactly: {deviceClassName: gpu.nvidia.com}", "firstAvailable: []")
    pod = DEPLOYMENT.replace("request: gpus", "request: gpu")
    reported = codes(joined(pod, invalid), "--cluster", INVENTORY)
    assert reported == [("EitherOr", "ResourceClaimTemplate/ml/one")]


def test_pod_of_a_workload_is_judged_where_the_workload_has_it() -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ml"},
        "spec": {"tasks": [{"template": {"spec": read_yaml(OLD_POD % 9)["spec"]}}]},
    }
    (finding,) = findings(write_yaml([job]), "--cluster", INVENTORY)[1]
    assert (finding["code"], finding["object"]) == ("CountNeverFits", "Job/ml/j")
    assert finding["path"] == "spec.tasks[0].template.spec"


def test_pod_that_cannot_be_translated_is_an_error() -> None:
    text = OLD_POD.replace("%d", "1, nvidia.com/gpumem: [1]")
    assert {code for code, _ in codes(text, "--cluster", INVENTORY)}
    assert findings(text, "--cluster", INVENTORY)[0] == 2


@pytest.mark.parametrize(
    "text", [OLD_POD % 2, CLAIM % 2, TEMPLATE.replace("gpu.nvidia.com", "gpu.nvidia.com, count: 2")]
)
def test_quota_of_the_files_limits_every_kind(text: str) -> None:
    (finding,) = findings(joined(text, QUOTA))[1]
    assert finding["code"] == "QuotaTooSmall"
    assert finding["message"].endswith("to 1, but the object needs 2")


DEVICE_QUOTA = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
quotas:
- name: small
  namespaceSelector: {matchLabels: {team: a}}
  single: {gpu.nvidia.com: {devices: 1}}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: ml, labels: {team: a}}
"""


@pytest.mark.parametrize(
    "text", [CLAIM % 2, TEMPLATE.replace("gpu.nvidia.com", "gpu.nvidia.com, count: 2")]
)
def test_device_quota_of_the_configuration_limits_objects(text: str, tmp_path: Path) -> None:
    (config := tmp_path / "config.yaml").write_text(DEVICE_QUOTA)
    (finding,) = findings(joined(text, NAMESPACE), "--config", str(config))[1]
    assert (finding["code"], finding["severity"]) == ("DeviceQuotaTooSmall", "error")
    assert findings(text, "--config", str(config))[1] == []


def test_a_claim_that_exists_counts_once_for_a_device_quota(tmp_path: Path) -> None:
    total = DEVICE_QUOTA.replace("single:", "total:")
    (config := tmp_path / "config.yaml").write_text(total)
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}}
    arguments = ("--config", str(config), "--cluster", str(tmp_path / "cluster.yaml"))

    def reported(name: str) -> list[str]:
        existing = read_yaml(CLAIM % 1)
        existing["metadata"] |= {"name": name, "uid": "u", "resourceVersion": "5"}
        existing["status"] = {"allocation": allocation}
        written = write_yaml([existing, read_yaml(NAMESPACE), *inventory("DeviceClass")])
        (tmp_path / "cluster.yaml").write_text(written)
        return [each["code"] for each in findings(CLAIM % 1, *arguments)[1]]

    assert "DeviceQuotaUsedUp" not in reported("c")
    assert "DeviceQuotaUsedUp" in reported("another")


def test_request_that_a_class_serves_is_judged_as_the_claim_of_the_scheduler() -> None:
    # In the sample cluster, class gpu.nvidia.com serves the name, and no node has more than 8.
    for count, found in ((8, []), (9, [("CountNeverFits", "Pod/ml/old")])):
        assert codes(OLD_POD % count, "--cluster", INVENTORY) == found


def test_request_that_a_plugin_serves_is_not_judged_as_a_claim(tmp_path: Path) -> None:
    nodes = inventory("Node")
    for node in nodes:
        node.setdefault("status", {})["allocatable"] = {"nvidia.com/gpu": "16"}
    served = tmp_path / "nodes.yaml"
    served.write_text(write_yaml([*inventory("DeviceClass", "ResourceSlice"), *nodes]))
    # The nodes also publish the devices, so they serve the name twice.
    (finding,) = findings(OLD_POD % 9, "--cluster", str(served))[1]
    assert finding["code"] == "DualNodes"
    assert "advertise nvidia.com/gpu although" in finding["message"]


def test_unreadable_document_does_not_stop_the_others() -> None:
    broken = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: b}\nspec: 5\n"
    code, reported = findings(joined(broken, MISCONFIGURED))
    assert code == 2
    assert [each["code"] for each in reported] == ["WrongType", "ConfigInvalid"]


def test_warnings_change_the_exit_code_only_with_strict() -> None:
    arguments = ("-f", "-", "--cluster", INVENTORY)
    assert check(*arguments, stdin=DEPLOYMENT)[0] == 0
    assert check(*arguments, "--strict", stdin=DEPLOYMENT)[0] == 1
    assert check("-f", "-", "--strict", stdin=TEMPLATE)[0] == 0


def test_the_last_line_says_what_was_looked_at() -> None:
    text = joined(DEPLOYMENT.replace("gpus", "gpu"), TEMPLATE, OLD_POD % 1, QUOTA)
    expected = "looked at 1 ResourceClaimTemplate, 1 Pod, 1 workload: no findings\n"
    assert check("-f", "-", stdin=text)[1] == expected
    assert check("-f", "-", "-q", stdin=text)[1] == ""


def test_input_without_anything_to_judge_is_an_info() -> None:
    code, reported = findings("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "--strict")
    assert (code, [each["code"] for each in reported]) == (0, ["NothingToJudge"])


def test_policy_of_the_configuration_applies(tmp_path: Path) -> None:
    configuration = tmp_path / "config.yaml"
    configuration.write_text(
        "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nfindings: {ConfigInvalid: off}\n"
    )
    assert findings(MISCONFIGURED, "--config", str(configuration)) == (0, [])


def test_answer_is_that_of_the_kubernetes_version() -> None:
    code, reported = findings(CLAIM % 1, "--kubernetes-version", "1.20")
    assert (code, [each["code"] for each in reported]) == (2, ["KubernetesVersionUnsupported"])


def test_classes_and_slices_are_judged_with_those_of_the_cluster(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLASS % "a")
    assert codes(CLASS % "b", "--cluster", str(cluster)) == [
        ("ExtendedNameShared", "DeviceClass/b")
    ]
    # An update of the class is no second class.
    assert codes(CLASS % "a", "--cluster", str(cluster)) == []


def test_examples_of_pods_have_no_errors() -> None:
    legacy = [
        str(EXAMPLES / "legacy" / "nvidia.yaml"),
        str(EXAMPLES / "legacy" / "koordinator.yaml"),
    ]
    code, out = check("-f", legacy[0], "-f", legacy[1], "--cluster", INVENTORY)
    assert code == 0, out


def test_live_cluster_gives_the_answer_of_its_files(tmp_path: Path) -> None:
    objects = inventory("DeviceClass", "ResourceSlice", "Node")
    quota = read_yaml(QUOTA)
    text = joined(CLAIM % 9, DEPLOYMENT)
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml([*objects, quota]))

    words = ("check", "-f", "-", "-o", "json")
    live = on_api(tmp_path, [*objects, quota], *words, "--context", stdin=text)
    files = ("--cluster", str(dump), "--kubernetes-version", "1.36")
    assert live == command(*words, *files, stdin=text)
    codes_ = {each["code"] for each in read_findings(live.out)}
    assert codes_ == {"CountNeverFits", "QuotaTooSmall", "ClaimNotFound"}


EXCLUSIVE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.nvidia.com
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  nodeName: n1
  devices:
  - {name: a, compatibleOnlyWith: {expression: "false"}}
  - {name: b, compatibleOnlyWith: {expression: "false"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
"""


@pytest.mark.parametrize(("allocator", "severities"), [("upstream", []), ("drawbridge", ["error"])])
def test_answer_is_that_of_the_allocator_in_charge(
    allocator: str, severities: list[str], tmp_path: Path
) -> None:
    # kube-scheduler does not read compatibleOnlyWith, the allocator of Drawbridge does.
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(EXCLUSIVE)
    reported = findings(CLAIM % 2, "--cluster", str(cluster), "--allocator", allocator)[1]
    assert [each["severity"] for each in reported] == severities


@pytest.mark.parametrize(("scheduler", "zone", "expected"), EIGHT_IN_OWNED_POOLS)
def test_a_pod_is_judged_by_the_pools_that_its_scheduler_uses(
    scheduler: str, zone: str, expected: list[str], tmp_path: Path
) -> None:
    configuration = own_zone(tmp_path, zone)
    pod = DEPLOYMENT.replace("gpus", "gpu").replace(
        "spec:\n      res", f"spec:\n      schedulerName: {scheduler}\n      res"
    )
    text = TEMPLATE.replace("gpu.nvidia.com}", "gpu.nvidia.com, count: 8}") + f"---\n{pod}"
    reported = findings(text, "--cluster", INVENTORY, "--config", str(configuration))[1]
    assert [each["code"] for each in reported] == expected
    assert all(each["message"].startswith(JUDGED_POOLS[scheduler]) for each in reported)


@pytest.mark.parametrize(
    ("label", "with_nodes", "expected"),
    [
        ("rack", True, ["error: 1 gpu.nvidia.com device requested, but no node has any"]),
        ("karpenter.sh/nodepool", True, ["warning: 1 gpu.nvidia.com device requested, but no"]),
        ("rack", False, []),  # nobody knows the labels of the nodes
    ],
)
def test_a_pod_is_reported_if_no_node_is_owned(
    label: str, expected: list[str], tmp_path: Path, *, with_nodes: bool
) -> None:
    configuration = own_zone(tmp_path, "none")
    node = f"\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1, labels: {{{label}: a}}}}\n"
    cluster = tmp_path / "cluster.yaml"
    published = EXCLUSIVE.partition("---\napiVersion: v1\nkind: Node")[0]
    cluster.write_text(f"{published}{node if with_nodes else ''}", "utf-8")
    words = ("--cluster", str(cluster), "--config", str(configuration))
    reported = findings(OURS, *words)[1]
    said = [f"{e['severity']}: {e['message']}" for e in reported]
    assert len(said) == len(expected)
    for text, start in zip(said, expected, strict=True):
        assert text.replace("in the pools of ownedPools: ", "", 1).startswith(start)


def test_a_driver_without_an_entry_is_named_whatever_of_it_may_come(tmp_path: Path) -> None:
    configuration = own_zone(tmp_path, "a")
    owned = configuration.read_text("utf-8").replace("gpu.nvidia.com", "dra.net")
    configuration.write_text(f"{owned}fleet: [{{class: gpu.nvidia.com, closed: false}}]\n", "utf-8")
    words = ("--cluster", INVENTORY, "--config", str(configuration))
    (reported,) = findings(OURS, *words)[1]
    assert (reported["code"], reported["severity"]) == ("CountNeverFits", "error")
    assert reported["message"].endswith("but ownedPools has no entry for driver gpu.nvidia.com")
    assert reported["remedy"] == (
        "Add an entry for driver gpu.nvidia.com to ownedPools, or request the devices in pods of "
        "the default scheduler."
    )


@pytest.mark.parametrize(
    ("scheduler", "expected"), [("drawbridge", []), ("volcano", ["CountNeverFits"])]
)
def test_a_fence_of_rules_keeps_devices_from_others_and_not_from_the_allocator(
    scheduler: str, expected: list[str], tmp_path: Path
) -> None:
    configuration = own_zone(tmp_path, "a")
    fenced = configuration.read_text("utf-8")
    configuration.write_text(f"{fenced.rstrip()}\n  fence: rules\n", "utf-8")
    taint = {"key": "drawbridge.dev/owned", "effect": "NoSchedule"}
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "fence"},
        "spec": {"deviceSelector": {"driver": "gpu.nvidia.com"}, "taint": taint},
    }
    path = tmp_path / "rule.yaml"
    path.write_text(write_yaml([rule]), "utf-8")
    pod = DEPLOYMENT.replace("gpus", "gpu").replace(
        "spec:\n      res", f"spec:\n      schedulerName: {scheduler}\n      res"
    )
    text = TEMPLATE.replace("gpu.nvidia.com}", "gpu.nvidia.com, count: 8}") + f"---\n{pod}"
    cluster = ("--cluster", INVENTORY, str(path))
    reported = findings(text, *cluster, "--config", str(configuration))[1]
    assert [each["code"] for each in reported] == expected


def test_pools_without_a_fence_count_for_pods_of_every_scheduler(tmp_path: Path) -> None:
    configuration = own_zone(tmp_path, "a")
    fenced = configuration.read_text("utf-8")
    configuration.write_text(f"{fenced.rstrip()}\n  unfenced: true\n", "utf-8")
    pod = DEPLOYMENT.replace("gpus", "gpu").replace(
        "spec:\n      res", "spec:\n      schedulerName: volcano\n      res"
    )
    text = TEMPLATE.replace("gpu.nvidia.com}", "gpu.nvidia.com, count: 8}") + f"---\n{pod}"
    assert findings(text, "--cluster", INVENTORY, "--config", str(configuration))[1] == []


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ("default-scheduler", [("ClaimsLeftToScheduler", "spec.template.spec.schedulerName")]),
        ("drawbridge", []),
    ],
)
def test_a_pod_whose_claims_stay_with_the_default_scheduler_is_named(
    scheduler: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    configuration = own_zone(tmp_path, "a")
    pod = DEPLOYMENT.replace("gpus", "gpu").replace(
        "spec:\n      res", f"spec:\n      schedulerName: {scheduler}\n      res"
    )
    text = f"{TEMPLATE}---\n{pod}"
    reported = findings(text, "--cluster", INVENTORY, "--config", str(configuration))[1]
    assert [(each["code"], each["path"]) for each in reported] == expected


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [("drawbridge", "ClassNameUnserved"), ("default-scheduler", "TooManyDevices")],
)
def test_our_scheduler_makes_no_claim_for_the_name_of_a_class(
    scheduler: str, expected: str, tmp_path: Path
) -> None:
    limits = {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1000"}
    containers = [{"name": "a", "image": "b", "resources": {"limits": limits}}]
    spec = {"schedulerName": scheduler, "containers": containers}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    files = ("--cluster", INVENTORY, "--config", str(own_zone(tmp_path, "a")))
    reported = findings(write_yaml([pod]), *files)[1]
    assert [each["code"] for each in reported] == [expected]


def test_a_pool_of_an_owned_driver_that_spans_nodes_is_reported(tmp_path: Path) -> None:
    configuration = own_zone(tmp_path, "a")
    slices = EXCLUSIVE.replace("nodeName: n1", "allNodes: true")
    out = command("check", "-f", "-", "--config", str(configuration), stdin=slices).out
    assert "<stdin>:4: warning: ResourceSlice/s spec: pool n1 of driver" in out
    assert "[PoolNotLocal]" in out


def test_a_node_with_too_many_slices_of_an_owned_driver_is_reported(tmp_path: Path) -> None:
    configuration = own_zone(tmp_path, "a")
    published = EXCLUSIVE.partition("---")[0]
    slices = "---\n".join(
        published.replace("name: s}", f"name: s{each}}}").replace("name: n1,", f"name: p{each},")
        for each in range(65)
    )
    out = command("check", "-f", "-", "--config", str(configuration), stdin=slices).out
    assert "Node/n1 metadata.name: node n1 has more than 64 ResourceSlices of driver" in out
    assert "[TooManySlices]" in out
