"""Scenarios: the controller reconciles match conditions, node labels and mirrored quotas."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import Options
from e2e.installed.installation import (
    Installation,
    dry_run,
    installed,
    template_names,
    wait_for_facts,
)
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, legacy_pod
from e2e.scenarios.admission_dual import told
from e2e.scenarios.objects import JSON, RESOURCE, deployment
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/drawbridge"
HAMI = "hami-core-gpu.project-hami.io"
DUAL, HELD = "drawbridge.dev/dual", "DualNodesHeld"
QUOTA, LIMIT = "drawbridge-quota", f"requests.{LEGACY}"
DEVICES = f"{GPU}.deviceclass.resource.k8s.io/devices"
REQUESTS = "controller_runtime_webhook_requests_total"
CONFIGURATION = "/api/v1/namespaces/drawbridge-system/configmaps/drawbridge-config"
MODE = "drawbridge.dev/translate"
PODS, MOST, WRITERS = 200, 10, 16
# Translated pods that run before the others are created. Pods without claims are charged at
# creation, claims only when a controller creates them, so they would use the whole quota.
FIRST = 3
NETWORKS = "k8s.v1.cni.cncf.io/networks"


def plain_pod(stage: Stage, **metadata: JSON) -> JSON:
    """Return a pod without device requests."""
    pod = stage.pod_object("plain", limits={"cpu": "10m", "memory": "10Mi"})
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def pod_webhook(stage: Stage) -> JSON:
    """Return the current registration of the webhook for pods."""
    hooks: list[JSON] = stage.client.get(HOOKS)["webhooks"]
    return next(each for each in hooks if each["name"] == "pods.drawbridge.dev")


def conditions(stage: Stage) -> dict[str, str]:
    """Return the match conditions by name."""
    return {
        match_condition["name"]: match_condition["expression"]
        for match_condition in pod_webhook(stage).get("matchConditions", ())
    }


def is_sent_to_webhook(stage: Stage, cluster: Installation, pod: JSON) -> bool:
    """Return whether the API server calls the webhook for a pod."""

    def counted() -> float:
        return sum(each.metric(REQUESTS) for each in cluster.webhooks)

    before = counted()
    with contextlib.suppress(ApiError):  # to be refused is an answer as well
        dry_run(stage, pod)
    return counted() > before


@scenario("smoke", rig="installed", needs=NEEDS)
def only_pods_with_device_requests_are_sent_to_the_webhook(stage: Stage) -> None:
    """The API server accepts the match conditions, and they never fail."""
    cluster = installed(stage)
    stage.wait("the controller applies its condition", lambda: conditions(stage))
    stage.wait(
        "the API server follows", lambda: not is_sent_to_webhook(stage, cluster, plain_pod(stage))
    )
    kept = plain_pod(stage, annotations={"team": "a"}, labels={"app": "web"})
    several = plain_pod(stage)
    several["spec"]["initContainers"] = [{"name": "first", "image": "x"}]
    several["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "mine"}]
    for pod in (kept, several):
        assert not is_sent_to_webhook(stage, cluster, pod), pod
    initial = plain_pod(stage)
    initial["spec"]["initContainers"] = [
        {"name": "first", "image": "x", "resources": {"limits": {"example.com/fpga": "1"}}}
    ]
    interesting = (
        legacy_pod(stage, "train"),
        initial,
        plain_pod(stage, annotations={NETWORKS: "default/a"}),
        plain_pod(stage, annotations={"gpu-fraction": "0.5"}, labels={"kai.scheduler/queue": "a"}),
        plain_pod(stage, labels={"tensor-fusion.ai/enabled": "true"}),
        plain_pod(stage, annotations={"drawbridge.dev/original": "[]"}),
    )
    for pod in interesting:
        assert is_sent_to_webhook(stage, cluster, pod), pod


@scenario("smoke", rig="installed", needs=NEEDS)
def changed_match_conditions_are_corrected(stage: Stage) -> None:
    """The controller changes nothing else and reports legacy names that were inactive."""
    cluster = installed(stage)
    stage.wait("the controller applies its condition", lambda: conditions(stage))
    before = stage.client.get(HOOKS)
    (name,) = conditions(stage)
    number = [each["name"] for each in before["webhooks"]].index("pods.drawbridge.dev")
    path = f"/webhooks/{number}/matchConditions/0/expression"
    patch = [{"op": "replace", "path": path, "value": "false"}]
    stage.client.patch(HOOKS, patch, "application/json-patch+json")
    stage.wait("it is corrected", lambda: conditions(stage)[name] != "false")
    assert stage.client.get(HOOKS)["webhooks"] == before["webhooks"]
    lines = [line for each in cluster.controllers for line in each.lines()]
    told = [line for line in lines if "finding" in line]
    assert any(line["finding"]["code"] == "NameNotActive" for line in told), told


@scenario("full", rig="installed", needs=NEEDS)
def a_workload_warns_when_its_pods_bypass_the_webhook(stage: Stage) -> None:
    """The webhook entry for pods is missing. The one for workloads prints the warning."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    pod = legacy_pod(stage, "serve")
    wait_for_facts(stage, cluster, pod)
    kubectl = cluster.kubectl.inside(stage.namespace)

    def told() -> list[str]:
        words = ("--dry-run=server",)
        lines = kubectl.apply(deployment(pod, 1), words=words).check().warnings
        assert any(each.startswith("pods will be translated: ") for each in lines), lines
        return [each for each in lines if each.startswith("NameNotActive: ")]

    assert told() == []
    before = stage.client.get(HOOKS)["webhooks"]
    others = [each for each in before if each["name"] != "pods.drawbridge.dev"]
    stage.client.patch(HOOKS, {"webhooks": others})
    try:
        (line,) = stage.wait("a warning is printed", told)
    finally:
        stage.client.patch(HOOKS, {"webhooks": before})
    assert "webhook pods.drawbridge.dev is missing" in line, line
    stage.wait("no warning is printed", lambda: not told())


def equals(question: Callable[[], object], answer: object) -> bool:
    """Return whether a function returns this value now."""
    return question() == answer


def told_of(cluster: Installation, code: str, node: str) -> bool:
    """Return whether a controller has logged a finding with this code about a node."""
    return any(node in message for message in told(cluster, code))


@scenario("smoke", rig="installed", needs=NEEDS)
def a_dual_node_is_labelled(stage: Stage) -> None:
    """The controller sets and removes the label with the plugin's resource and keeps others."""
    cluster = installed(stage)
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    node = f"/api/v1/nodes/{machine.name}"

    def labels() -> dict[str, str]:
        labels: dict[str, str] = stage.client.get(node)["metadata"]["labels"]
        return labels

    before = labels()
    assert DUAL not in before
    dual = {**before, DUAL: "true"}
    # A plugin that was not seen to stop may return after a restart of the kubelet.
    for value, capacity, wanted in (("2", "2", dual), ("0", "2", dual), ("0", "0", before)):
        amounts = {"allocatable": {LEGACY: value}, "capacity": {LEGACY: capacity}}
        stage.client.patch(f"{node}/status", {"status": amounts})
        stage.wait(f"{LEGACY}: {value} is labelled so", functools.partial(equals, labels, wanted))
        if value != capacity:
            stage.wait("it is seen to stop", lambda: told_of(cluster, HELD, machine.name))


@scenario("smoke", rig="installed", needs=NEEDS)
def a_quota_on_an_unmapped_name_limits_claims(stage: Stage) -> None:
    """The quota allows two devices. The third pod gets no claim, and a finding names the quota.

    Without the quota, the mirrored one is deleted.
    """
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.node("b", "lab-2g2n", {GPU: "full"})
    body = legacy_pod(stage, "train-0")
    wait_for_facts(stage, cluster, body)
    theirs, ours = create_quota(stage, 2), stage.path("resourcequotas", QUOTA)

    def counting() -> bool:
        return stage.exists(ours) and DEVICES in stage.client.get(ours)["status"].get("hard", {})

    stage.wait("the mirrored quota has a status", counting)
    for number in range(2):
        stage.client.create(stage.pod_path(), legacy_pod(stage, f"train-{number}"))
        stage.wait_running(f"train-{number}")
    used = stage.client.get(ours)["status"]["used"]
    assert used[DEVICES] == "2", used
    stage.wait(
        "device plugins have no quota left",
        lambda: stage.client.get(ours)["spec"]["hard"][LIMIT] == "0",
    )
    ran = cluster.kubectl.inside(stage.namespace).apply(legacy_pod(stage, "train-2"))
    assert f"ResourceQuota gpus: {LIMIT}: " in ran.err, ran
    assert "2 of 2 are in use by pods and claims" in ran.err, ran
    stage.client.delete(theirs)
    stage.wait("the mirrored quota is gone", lambda: not stage.exists(ours))


@contextlib.contextmanager
def class_maps_name(stage: Stage, cluster: Installation) -> Iterator[None]:
    """Map the legacy name to the GPU class, and translate pods anyway."""
    path = f"{RESOURCE}/deviceclasses/{GPU}"
    before = cluster.plane.admin.get(CONFIGURATION)["data"]["config.yaml"]
    stage.client.patch(path, {"spec": {"extendedResourceName": LEGACY}})
    cluster.configure(f"{before}decisions: {{nativeExtendedNames: translate}}\n")
    try:
        # Until then a quota on the name has a mirror.
        stage.wait("the facts contain the mapped name", lambda: LEGACY in _mapped_names(cluster))
        yield
    finally:
        stage.client.patch(path, {"spec": {"extendedResourceName": None}})
        # In this order: otherwise pods would be left to a class that no longer serves the name.
        stage.wait("the facts contain no mapped name", lambda: LEGACY not in _mapped_names(cluster))
        wait_for_facts(stage, cluster, legacy_pod(stage, "after"))
        cluster.configure(before)


def _mapped_names(cluster: Installation) -> set[str]:
    """Return the names that classes map in the published facts."""
    return {each.get("extended", "") for each in cluster.facts()["classes"]}


def create_quota(stage: Stage, most: int) -> str:
    """Create a quota on the legacy name in this namespace; returns its path."""
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {LIMIT: f"{most}"}}}
    stage.client.create(stage.path("resourcequotas"), {"apiVersion": "v1", **quota})
    return stage.path("resourcequotas", "gpus")


def create_one_of_many(stage: Stage, number: int) -> None:
    """Create one of many pods; every second one opts out of translation."""
    pod = legacy_pod(stage, f"train-{number}")
    if number % 2:
        pod["metadata"]["labels"][MODE] = "off"
    with contextlib.suppress(ApiError):  # over quota
        stage.client.create(stage.pod_path(), pod)


def count_allocated(stage: Stage) -> int:
    """Count the devices allocated to claims; AssertionError above the limit."""
    claims = stage.client.get(stage.claim_path())["items"]
    allocated = [each["status"].get("allocation", {}).get("devices", {}) for each in claims]
    count = sum(len(each.get("results", ())) for each in allocated)
    assert count <= MOST, count
    return count


def count_running(stage: Stage) -> Counter[str]:
    """Count running pods: translated ones, and those with a claim of the scheduler."""
    counts: Counter[str] = Counter()
    for pod in stage.client.get(stage.pod_path())["items"]:
        if pod["status"].get("phase") == "Running":
            own = pod["status"].get("extendedResourceClaimStatus")
            counts["legacy" if own else "translated"] += 1
    return counts


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def a_quota_on_a_mapped_name_holds_under_load(stage: Stage) -> None:
    """Of 200 concurrent pods, half of them translated, at most 10 run."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.node("b", "dgx-a100", {GPU: "full"})
    stage.enter(class_maps_name(stage, cluster))
    stage.wait(
        "the name is translated although a class serves it",
        lambda: dry_run(stage, legacy_pod(stage, "x"))["spec"].get("resourceClaims"),
    )
    path = create_quota(stage, MOST)
    stage.wait("the quota has a status", lambda: stage.client.get(path)["status"].get("hard"))
    numbers = sorted(range(PODS), key=lambda number: (number % 2, number))
    for number in numbers[:FIRST]:
        create_one_of_many(stage, number)
        stage.wait_running(f"train-{number}")
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [
            pool.submit(create_one_of_many, stage, number) for number in sorted(numbers[FIRST:])
        ]
        while not all(each.done() for each in writing):
            count_allocated(stage)
    for write in writing:
        write.result()
    stage.wait("all allowed devices are allocated", lambda: count_allocated(stage) == MOST, 120)
    stage.wait("all of them run", lambda: count_running(stage).total() == MOST)
    ran = count_running(stage)
    assert ran["translated"] >= FIRST, ran
    assert ran["legacy"] > 0, ran
    assert not stage.exists(stage.path("resourcequotas", QUOTA))
    assert stage.client.get(path)["status"]["used"][LIMIT] == f"{MOST}"


def without_capacity(version: str) -> Options:
    """Return a control plane that drops the amounts of claims silently."""
    usual = default_options(version)
    return replace(usual, gates={**usual.gates, "DRAConsumableCapacity": False})


RIGS["without capacity"] = without_capacity


@scenario("full", rig="without capacity", since="1.36", needs=NEEDS)
def a_gpu_share_is_refused_without_consumable_capacity(stage: Stage) -> None:
    """The API server drops amounts, so the claim would get a whole GPU."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    wait_for_facts(stage, cluster, legacy_pod(stage, "whole"), HAMI)
    facts = cluster.facts()
    assert "exactly.capacity" not in facts["cluster"]["keeps"], facts["cluster"]
    assert "firstAvailable" in facts["cluster"]["keeps"], facts["cluster"]
    part = stage.pod_object("part", limits={LEGACY: "1", "nvidia.com/gpumem": "1024"})
    ran = cluster.kubectl.inside(stage.namespace).apply(part)
    text = f"this API server ({stage.version}) drops exactly.capacity from claims"
    assert text in ran.err, ran
    assert not stage.exists(stage.pod_path("part"))
    assert template_names(stage) == []
