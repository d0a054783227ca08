"""`drawbridge doctor` names what is wrong in a cluster, and what it may not read."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drawbridge.finding import EXPLAINED
from tests.cli.installed_api import (
    CONFIGURATION,
    DAY,
    SYSTEM,
    bundle,
    config_map,
    deployment,
    healthy,
    lease,
    namespace,
    register_all,
    registration,
    translating,
)
from tests.cli.running import on_api
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON
from tests.cluster.fake.status import RefusedError

DENIAL = (
    'admission webhook "pods.drawbridge.dev" denied the request: RequestIncomplete: cores alone'
)
UNREACHABLE = 'Internal error: failed calling webhook "pods.drawbridge.dev": connection refused'
Line = dict[str, str]
QUOTA_OF_TWO = (
    "quotas: [{name: q, namespaces: [team-a, missing], total: {gpu.nvidia.com: {devices: 1}}}]\n"
)


class Doctor(NamedTuple):
    """What the command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Line]:
        """The lines of the JSON output."""
        checks: list[Line] = json.loads(self.out)["checks"]
        return checks

    def of(self, check: str) -> list[Line]:
        """The lines of one check."""
        return [each for each in self.lines if each["check"] == check]

    @property
    def codes(self) -> list[str]:
        """The codes of all problems."""
        return [each["code"] for each in self.lines if each["code"]]


def refusing(message: str, *, only: str = "") -> Callable[[str, JSON], JSON]:
    """Refuse pods that contain `only`."""

    def on_write(plural: str, value: JSON) -> JSON:
        if plural == "pods" and only in json.dumps(value):
            raise RefusedError(500 if "failed calling" in message else 403, message)
        return value

    return on_write


def doctor(
    folder: Path, *words: str, change: Callable[[FakeApi], object] = lambda _: None
) -> Doctor:
    """Run the command on a healthy cluster that `change` has changed."""

    def prepare(api: FakeApi) -> None:
        healthy(api)
        change(api)

    return Doctor(*on_api(folder, (), "doctor", *words, prepare=prepare, check=check_unchanged))


def check_unchanged(api: FakeApi) -> None:
    for request in api.requests:
        reviewed = request.path.endswith("/selfsubjectaccessreviews")
        assert request.method == "GET" or reviewed or request.query.get("dryRun") == "All", request


def test_a_healthy_cluster_has_only_ok_lines(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, "-o", "json", "--strict")
    assert [each for each in diagnosis.lines if each["status"] != "ok"] == []
    assert (diagnosis.code, diagnosis.err) == (0, "")
    told = {each["check"]: each["message"] for each in diagnosis.lines}
    assert "gpu.nvidia.com" in told["drivers"]
    assert told["webhook"].startswith("namespace team-a: translates a pod that requests")
    assert told["webhook registration"].endswith("match conditions are those of the configuration")
    assert told["webhook certificate"].startswith("caBundle has 1 valid certificate until ")
    assert told["namespaces"].startswith("1 of ")
    assert told["controller"] == "controller-0 leads"
    assert "drawbridge-system/drawbridge-facts: 0 classes" in told["facts"]


def test_text_has_a_remedy_below_each_problem_and_a_summary(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, change=lambda api: api.put(lease(7200)))
    assert diagnosis.code == 1
    lines = diagnosis.out.splitlines()
    (number,) = (i for i, line in enumerate(lines) if line.startswith("error"))
    assert (
        "Lease drawbridge-system/drawbridge-controller was last renewed 2 hours ago"
        in lines[number]
    )
    assert lines[number].endswith("[LeaderMissing]")
    assert lines[number + 1] == f"    {EXPLAINED['LeaderMissing'].remedy}"
    assert lines[-1].endswith("ok, 1 error")


def with_condition(value: JSON, expression: str) -> JSON:
    for webhook in value["webhooks"]:
        webhook["matchConditions"] = [{"name": "asks-for-devices", "expression": expression}]
    return value


def switch_off(webhook: str) -> Callable[[FakeApi], None]:
    """Switch one webhook off, in the webhook configuration that has it."""

    def change(api: FakeApi) -> None:
        register_all(api)
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            for live in api.all(kind):
                for entry in live["webhooks"]:
                    if entry["name"] == webhook:
                        entry.setdefault("matchConditions", []).append(
                            {"name": "switched-off", "expression": "false"}
                        )
                api.put(live)

    return change


def without(api: FakeApi, kind: str) -> None:
    for value in api.all(kind):
        api.remove(kind, value["metadata"]["name"])


def lose_a_slice(api: FakeApi) -> None:
    first = api.all("ResourceSlice")[0]
    first["spec"]["pool"]["resourceSliceCount"] += 1
    api.put(first)


def uninstall(api: FakeApi) -> None:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        api.remove(kind, "drawbridge")
    api.remove("Lease", "drawbridge-controller", SYSTEM)
    for name in ("drawbridge-config", "drawbridge-facts"):
        api.remove("ConfigMap", name, SYSTEM)
    for name in ("drawbridge-webhook", "drawbridge-controller"):
        api.remove("Deployment", name, SYSTEM)


def configure(text: str) -> Callable[[FakeApi], object]:
    return lambda api: api.put(config_map("drawbridge-config", {"config.yaml": text}))


def own(value: str, fence: str = "taint") -> Callable[[FakeApi], None]:
    """Own the nodes with a label of this value; the first node has it with an empty value."""

    def change(api: FakeApi) -> None:
        selector = f"nodeSelector: {{matchLabels: {{owned: '{value}'}}}}"
        entry = f"ownedPools: [{{driver: gpu.nvidia.com, {selector}, fence: {fence}}}]"
        text = f"{CONFIGURATION}placement: bridge\n{entry}\n"
        api.put(config_map("drawbridge-config", {"config.yaml": text}))
        node = api.all("Node")[0]
        node["metadata"].setdefault("labels", {})["owned"] = ""
        api.put(node)
        api.put(lease(-DAY, "host-1_0d3f", "drawbridge-scheduler"))

    return change


def own_with_taint(fence: str, api: FakeApi) -> None:
    """Own the first node, which has the taint."""
    own("", fence)(api)
    node = api.all("Node")[0]
    taints = [{"key": "drawbridge.dev/owned", "effect": "NoSchedule"}]
    node.setdefault("spec", {})["taints"] = taints
    api.put(node)


def test_doctor_names_the_namespaces_whose_pods_can_use_a_part_of_the_devices(
    tmp_path: Path,
) -> None:
    def change(api: FakeApi) -> None:
        own("")(api)
        slices = api.all("ResourceSlice")
        ours = next(each for each in slices if each["spec"]["driver"] == "gpu.nvidia.com")
        node: Any = api.get("Node", ours["spec"]["nodeName"])
        node["metadata"].setdefault("labels", {})["owned"] = ""
        api.put(node)
        for name, placement in (("team-b", "native"), ("team-c", "brigde")):
            labelled = namespace(name, "report")
            labelled["metadata"]["labels"]["drawbridge.dev/placement"] = placement
            api.put(labelled)

    lines = doctor(tmp_path, "-o", "json", change=change).of("placement")
    told = {each["code"]: each["message"] for each in lines}
    assert (
        "team-c has the label drawbridge.dev/placement with the value brigde"
        in told["PlacementLabelUnknown"]
    )
    assert told[""] == "bridge placement in 2 namespaces, native in 1 namespace"
    divided = [each["message"] for each in lines if each["code"] == "DevicesDivided"]
    assert [each.partition(" can use ")[0] for each in divided] == [
        "with native placement, pods of team-b",
        "with bridge placement, pods of team-a, team-c",
        "with bridge placement, pods of team-a, team-c",
    ]
    assert any("can use 0 of " in each for each in divided)  # a class with no owned device


def own_without_scheduler(api: FakeApi) -> None:
    own("")(api)
    api.remove("Lease", "drawbridge-scheduler", SYSTEM)


def advertise(api: FakeApi) -> None:
    """Let a device plugin advertise the GPUs of the first node of NVIDIA's driver."""
    slices = api.all("ResourceSlice")
    name = next(
        slice_["spec"]["nodeName"]
        for slice_ in slices
        if slice_["spec"]["driver"] == "gpu.nvidia.com"
    )
    node = api.get("Node", name)
    assert node is not None
    node.setdefault("status", {}).setdefault("allocatable", {})["nvidia.com/gpu"] = "8"
    api.put(node)


def leave_kubelet(api: FakeApi) -> None:
    """Leave the kubelet of a node with NVIDIA's driver at a version before that of the server."""
    slices = api.all("ResourceSlice")
    names = (e["spec"]["nodeName"] for e in slices if e["spec"]["driver"] == "gpu.nvidia.com")
    node = api.get("Node", next(names))
    assert node is not None
    node.setdefault("status", {})["nodeInfo"] = {"kubeletVersion": "v1.35.4"}
    api.put(node)


def hold(api: FakeApi, label: str = "drawbridge.dev/dual") -> None:
    """Let a pod hold a device of a plugin on a node that has no plugin any more."""
    node = api.all("Node")[0]
    node["metadata"].setdefault("labels", {})[label] = "true"
    node.setdefault("status", {})["allocatable"] = {"nvidia.com/gpu": "0"}
    api.put(node)
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"nodeName": node["metadata"]["name"], "containers": [{"resources": limits}]}
    metadata = {"name": "old", "namespace": "team-a"}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


CASES: dict[str, tuple[str, str, int, Callable[[FakeApi], object]]] = {
    "not installed": ("installation", "NotInstalled", 0, uninstall),
    "configuration that is refused": (
        "configuration", "WrongValue", 1, configure(f"{CONFIGURATION}placement: natve\n"),
    ),
    "replica that is not ready": (
        "replicas", "ReplicasNotReady", 0, lambda api: api.put(deployment("drawbridge-webhook", 1)),
    ),
    "judge that is not ready": (
        "replicas", "ReplicasNotReady", 0, lambda api: api.put(deployment("drawbridge-judge", 0)),
    ),
    "missing registration": (
        "webhook registration", "NameNotActive", 1,
        lambda api: api.remove("MutatingWebhookConfiguration", "drawbridge"),
    ),
    "match conditions of an older configuration": (
        "webhook registration", "NameNotActive", 0,
        lambda api: api.put(with_condition(registration(bundle(300)), "false")),
    ),
    "webhook for pods that is switched off": (
        "webhook registration", "SwitchedOff", 0, switch_off("pods.drawbridge.dev"),
    ),
    "guard that is switched off": (
        "webhook registration", "SwitchedOff", 0, switch_off("guard.drawbridge.dev"),
    ),
    "judge that is switched off": (
        "webhook registration", "SwitchedOff", 0, switch_off("claims.judge.drawbridge.dev"),
    ),
    "no certificate": (
        "webhook certificate", "CertificateUnusable", 1, lambda api: api.put(registration("")),
    ),
    "expired certificate": (
        "webhook certificate", "CertificateUnusable", 1,
        lambda api: api.put(registration(bundle(-2))),
    ),
    "unreadable certificate": (
        "webhook certificate", "CertificateUnusable", 1, lambda api: api.put(registration("AAAA")),
    ),
    "certificate that expires soon": (
        "webhook certificate", "CertificateExpires", 0,
        lambda api: api.put(registration(bundle(3.5))),
    ),
    "no namespace": (
        "namespaces", "NothingInScope", 0, lambda api: api.put(namespace("team-a", "off")),
    ),
    "unknown mode": (
        "namespaces", "ScopeLabelUnknown", 0, lambda api: api.put(namespace("team-b", "yes")),
    ),
    "webhook that does not answer": (
        "webhook", "WebhookUnreachable", 1,
        lambda api: setattr(api, "on_write", refusing(UNREACHABLE)),
    ),
    "webhook that is not called": (
        "webhook", "WebhookNotCalled", 1, lambda api: setattr(api, "on_write", None),
    ),
    "webhook that only the guard stands in for": (
        "webhook", "WebhookNotCalled", 1,
        lambda api: setattr(api, "on_write", refusing(DENIAL.replace("pods.", "guard."))),
    ),
    "pod refused by a policy": (
        "webhook", "WebhookNotTried", 0,
        lambda api: setattr(api, "on_write", refusing("exceeded quota: pods=0")),
    ),
    "no facts": (
        "facts", "FactsMissing", 1, lambda api: api.remove("ConfigMap", "drawbridge-facts", SYSTEM),
    ),
    "forged facts": (
        "facts", "FactsMissing", 1,
        lambda api: api.put(config_map("drawbridge-facts", {"current": "sha256:1"})),
    ),
    "no leader": ("controller", "LeaderMissing", 1, lambda api: api.put(lease(3600))),
    "released lease": ("controller", "LeaderMissing", 1, lambda api: api.put(lease(1, ""))),
    "no driver": ("drivers", "NoDriverPublishes", 0, lambda api: without(api, "ResourceSlice")),
    "kubelet that ignores the name of a class": (
        "DeviceClasses", "ClassNameIgnored", 0, leave_kubelet,
    ),
    "class without devices": (
        "DeviceClasses", "ClassSelectsNothing", 0,
        lambda api: api.put(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "new"},
             "spec": {"selectors": [{"cel": {"expression": 'device.driver == "new"'}}]}}
        ),
    ),
    "incomplete pool": ("ResourceSlices", "PoolIncomplete", 1, lose_a_slice),
    "dual node that is still held": ("nodes", "DualNodesHeld", 0, hold),
    "pod that outlives its plugin": ("nodes", "DualNodesHeld", 0, partial(hold, label="other")),
    "class of the configuration that does not exist": (
        "configured classes", "TargetClassMissing", 0,
        configure(f"{CONFIGURATION}fleet: [{{class: missing, closed: true}}]\n"),
    ),
    "class of a quota that does not exist": (
        "configured classes", "TargetClassMissing", 0,
        configure(f"{CONFIGURATION}quotas: [{{name: q, total: {{missing: {{devices: 1}}}}}}]\n"),
    ),
    "namespace of a quota that does not exist": (
        "quotas", "QuotaNamespaceMissing", 0,
        configure(f"{CONFIGURATION}{QUOTA_OF_TWO}"),
    ),
    "dual node": ("nodes", "DualNodes", 0, advertise),
    "owned nodes without the taint": ("owned nodes", "FenceMissing", 1, own("")),
    "bridge placement without its scheduler": (
        "scheduler", "SchedulerMissing", 1, own_without_scheduler,
    ),
    "taint of a node with fence: rules": (
        "owned nodes", "FenceWithoutRules", 0, partial(own_with_taint, "rules"),
    ),
    "entry that selects no node": ("owned nodes", "OwnedNodesMissing", 0, own("no")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_problem_has_a_line_with_its_code(tmp_path: Path, name: str) -> None:
    check, expected, exit_code, change = CASES[name]
    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    assert expected in [each["code"] for each in diagnosis.of(check)], diagnosis.lines
    assert diagnosis.code == exit_code
    if not exit_code:
        assert doctor(tmp_path, "--strict", change=change).code == 1


def test_a_webhook_that_leaves_or_denies_the_pod_answers(tmp_path: Path) -> None:
    def leave(api: FakeApi) -> None:
        api.on_write = refusing(DENIAL, only="koordinator.sh")

    def deny(api: FakeApi) -> None:
        api.on_write = refusing(DENIAL)

    assert "answers, and leaves" in doctor(tmp_path, change=leave).out
    assert "answers, and denies" in doctor(tmp_path, change=deny).out


def test_a_field_that_the_server_drops_is_named_with_its_gate(tmp_path: Path) -> None:
    def drop(api: FakeApi) -> None:
        def on_write(plural: str, value: JSON) -> JSON:
            text = json.dumps(translating(plural, value))
            return json.loads(text.replace('"capacity"', '"dropped"'))  # type: ignore[no-any-return]

        api.on_write = on_write

    diagnosis = doctor(tmp_path, "-o", "json", change=drop)
    (dropped,) = (each for each in diagnosis.of("claim fields") if each["code"])
    assert "drops exactly.capacity" in dropped["message"]
    assert "DRAConsumableCapacity" in dropped["remedy"]


def test_a_cluster_without_an_installation_has_no_lines_about_its_parts(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, "-o", "json", change=uninstall)
    assert diagnosis.codes == ["NotInstalled"]
    assert diagnosis.of("drivers")
    assert not diagnosis.of("replicas") + diagnosis.of("controller") + diagnosis.of("webhook")


def test_a_refused_configuration_does_not_hide_what_else_is_wrong(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        configure(f"{CONFIGURATION}placement: natve\n")(api)
        api.put(lease(7200))

    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    assert diagnosis.codes == ["WrongValue", "LeaderMissing"]
    refused, note = diagnosis.of("configuration")
    assert refused["message"].startswith("drawbridge-system/drawbridge-config:3: placement must")
    assert note["message"] == "the other checks use the defaults"
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("placement: natve\n", encoding="utf-8")
    assert doctor(tmp_path, "--config", str(wrong)).code == 2


def test_the_remedy_is_for_the_person_who_asks(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        api.put(lease(7200))
        api.denied.add("configmaps")

    remedy = EXPLAINED["LeaderMissing"].remedy
    (line,) = doctor(tmp_path, "-o", "json", change=change).of("controller")
    assert line["remedy"] == f"For the cluster administrator: {remedy}"
    (line,) = doctor(tmp_path, "-o", "json", change=lambda api: api.put(lease(7200))).of(
        "controller"
    )
    assert line["remedy"] == remedy


def test_a_remedy_of_several_lines_is_printed_once(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        for name in ("drawbridge-webhook", "drawbridge-controller"):
            api.put(deployment(name, 1))

    text = doctor(tmp_path, change=change).out
    assert text.count("[ReplicasNotReady]") == 2
    assert text.count(EXPLAINED["ReplicasNotReady"].remedy) == 1


def test_a_class_without_devices_is_told_once(tmp_path: Path) -> None:
    change = CASES["class without devices"][3]
    assert doctor(tmp_path, "-o", "json", change=change).codes == ["ClassSelectsNothing"]


def test_a_cluster_that_cannot_be_reached_exits_with_2(tmp_path: Path) -> None:
    def close(api: FakeApi) -> None:
        api.fail(401, times=99, message="no such token")

    diagnosis = doctor(tmp_path, change=close)
    assert (diagnosis.code, diagnosis.out) == (2, "")
    assert "[ClusterUnreadable]" in diagnosis.err
    told = doctor(tmp_path, "-o", "json", change=close)
    assert json.loads(told.out)["findings"][0]["code"] == "ClusterUnreadable"


def test_the_named_namespace_is_the_one_that_is_tried(tmp_path: Path) -> None:
    def add(api: FakeApi) -> None:
        api.put(namespace("a-first", "enforce"))

    assert "namespace a-first: translates" in doctor(tmp_path, change=add).out
    assert "namespace team-a: translates" in doctor(tmp_path, "-n", "team-a", change=add).out
    assert "namespace default is not in mode enforce" in doctor(tmp_path, "-n", "default").out


def test_owned_nodes_with_their_taint_are_right(tmp_path: Path) -> None:
    fence = partial(own_with_taint, "taint")
    (line,) = doctor(tmp_path, "-o", "json", change=fence).of("owned nodes")
    assert line["message"] == "1 owned node; each that needs the taint has it"
    (scheduler,) = doctor(tmp_path, "-o", "json", change=fence).of("scheduler")
    assert scheduler["message"] == "host-1_0d3f leads"
    assert not doctor(tmp_path, "-o", "json").of("scheduler")
    assert not doctor(tmp_path, "-o", "json").of("owned nodes")
