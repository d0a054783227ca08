"""What the leader keeps in order on a real API server: conditions, node labels, mirrored quotas."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import Options
from e2e.installed.installation import Installed, asked, in_step, installed, template_names
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, deployment, legacy
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.registry import RIGS, scenario, stock
from e2e.scenarios.stage import Stage

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/drawbridge"
HAMI = "hami-core-gpu.project-hami.io"
DUAL = "drawbridge.dev/dual"
QUOTA, LIMIT = "drawbridge-quota", f"requests.{LEGACY}"
DEVICES = f"{GPU}.deviceclass.resource.k8s.io/devices"
REQUESTS = "controller_runtime_webhook_requests_total"
CONFIGURATION = "/api/v1/namespaces/drawbridge-system/configmaps/drawbridge-config"
MODE = "drawbridge.dev/translate"
PODS, MOST, WRITERS = 200, 10, 16
# Charged and running before all others come, or pods that ask without a claim would take it all:
# they are charged as they are made, claims only when a controller makes them.
FIRST = 3
NETWORKS = "k8s.v1.cni.cncf.io/networks"


def plain(stage: Stage, **metadata: JSON) -> JSON:
    """Give a pod that asks for nothing of interest."""
    pod = stage.pod_object("plain", limits={"cpu": "10m", "memory": "10Mi"})
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def hook(stage: Stage) -> JSON:
    """Give our webhook for pods as it is configured now."""
    hooks: list[JSON] = stage.client.get(HOOKS)["webhooks"]
    return next(each for each in hooks if each["name"] == "pods.drawbridge.dev")


def conditions(stage: Stage) -> dict[str, str]:
    """Give the conditions by name."""
    return {each["name"]: each["expression"] for each in hook(stage).get("matchConditions", ())}


def sent(stage: Stage, town: Installed, pod: JSON) -> bool:
    """Whether the API server asks admission about a pod."""

    def counted() -> float:
        return sum(each.metric(REQUESTS) for each in town.webhooks)

    before = counted()
    with contextlib.suppress(ApiError):  # to be refused is an answer as well
        asked(stage, pod)
    return counted() > before


@scenario("smoke", rig="installed", needs=NEEDS)
def only_pods_that_ask_for_something_are_sent_to_admission(stage: Stage) -> None:
    """The conditions are CEL that the API server accepts, never fails on, and finds cheap."""
    town = installed(stage)
    stage.wait("the controller applies its condition", lambda: conditions(stage))
    stage.wait("the API server follows", lambda: not sent(stage, town, plain(stage)))
    kept = plain(stage, annotations={"team": "a"}, labels={"app": "web"})
    several = plain(stage)
    several["spec"]["initContainers"] = [{"name": "first", "image": "x"}]
    several["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "mine"}]
    for pod in (kept, several):
        assert not sent(stage, town, pod), pod
    initial = plain(stage)
    initial["spec"]["initContainers"] = [
        {"name": "first", "image": "x", "resources": {"limits": {"example.com/fpga": "1"}}}
    ]
    interesting = (
        legacy(stage, "train"),
        initial,
        plain(stage, annotations={NETWORKS: "default/a"}),
        plain(stage, annotations={"gpu-fraction": "0.5"}, labels={"kai.scheduler/queue": "a"}),
        plain(stage, labels={"tensor-fusion.ai/enabled": "true"}),
        plain(stage, annotations={"drawbridge.dev/original": "[]"}),
    )
    for pod in interesting:
        assert sent(stage, town, pod), pod


@scenario("smoke", rig="installed", needs=NEEDS)
def conditions_that_somebody_changed_are_corrected(stage: Stage) -> None:
    """Nothing else of the configuration is touched; what is not active is told."""
    town = installed(stage)
    stage.wait("the controller applies its condition", lambda: conditions(stage))
    before = stage.client.get(HOOKS)
    (name,) = conditions(stage)
    number = [each["name"] for each in before["webhooks"]].index("pods.drawbridge.dev")
    path = f"/webhooks/{number}/matchConditions/0/expression"
    patch = [{"op": "replace", "path": path, "value": "false"}]
    stage.client.patch(HOOKS, patch, "application/json-patch+json")
    stage.wait("it is corrected", lambda: conditions(stage)[name] != "false")
    assert stage.client.get(HOOKS)["webhooks"] == before["webhooks"]
    lines = [line for each in town.controllers for line in each.lines()]
    told = [line for line in lines if "finding" in line]
    assert any(line["finding"]["code"] == "NameNotActive" for line in told), told


@scenario("full", rig="installed", needs=NEEDS)
def who_applies_a_workload_hears_that_its_pods_are_not_sent_to_us(stage: Stage) -> None:
    """Somebody took our webhook for pods away; another one still brings us the Deployment."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    pod = legacy(stage, "serve")
    in_step(stage, town, pod)
    kubectl = town.kubectl.inside(stage.namespace)

    def told() -> list[str]:
        words = ("--dry-run=server",)
        lines = kubectl.apply(deployment(pod, 1), words=words).done().warnings
        assert any(each.startswith("pods will be translated: ") for each in lines), lines
        return [each for each in lines if each.startswith("NameNotActive: ")]

    assert told() == []
    before = stage.client.get(HOOKS)["webhooks"]
    others = [each for each in before if each["name"] != "pods.drawbridge.dev"]
    stage.client.patch(HOOKS, {"webhooks": others})
    try:
        (line,) = stage.wait("its author is told", told)
    finally:
        stage.client.patch(HOOKS, {"webhooks": before})
    assert "has no webhook pods.drawbridge.dev" in line, line
    stage.wait("its author is told no more", lambda: not told())


def same(question: Callable[[], object], answer: object) -> bool:
    """Whether a question has this answer now."""
    return question() == answer


@scenario("smoke", rig="installed", needs=NEEDS)
def a_node_with_the_same_devices_twice_is_labelled(stage: Stage) -> None:
    """The label comes with the plugin's resource, stands beside others, and goes with it."""
    installed(stage)
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    node = f"/api/v1/nodes/{machine.name}"

    def labels() -> dict[str, str]:
        found: dict[str, str] = stage.client.get(node)["metadata"]["labels"]
        return found

    before = labels()
    assert DUAL not in before
    for value, wanted in (("2", {**before, DUAL: "true"}), ("0", before)):
        amounts = {LEGACY: value}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        stage.client.patch(f"{node}/status", status)
        stage.wait(f"{LEGACY}: {value} is labelled so", functools.partial(same, labels, wanted))


@scenario("smoke", rig="installed", needs=NEEDS)
def a_quota_on_a_name_that_no_class_maps_limits_claims(stage: Stage) -> None:
    """Two devices are allowed: the third pod gets no claim, and a finding says what binds."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.node("b", "lab-2g2n", {GPU: "full"})
    body = legacy(stage, "train-0")
    in_step(stage, town, body)
    limited(stage, 2)
    ours = stage.path("resourcequotas", QUOTA)

    def counting() -> bool:
        return stage.exists(ours) and DEVICES in stage.client.get(ours)["status"].get("hard", {})

    stage.wait("ours is there and counts", counting)
    for number in range(2):
        stage.client.create(stage.pod_path(), legacy(stage, f"train-{number}"))
        stage.running(f"train-{number}")
    used = stage.client.get(ours)["status"]["used"]
    assert used[DEVICES] == "2", used
    stage.wait(
        "device plugins have nothing left",
        lambda: stage.client.get(ours)["spec"]["hard"][LIMIT] == "0",
    )
    ran = town.kubectl.inside(stage.namespace).apply(legacy(stage, "train-2"))
    assert QUOTA in ran.err, ran


@contextlib.contextmanager
def mapped(stage: Stage, town: Installed) -> Iterator[None]:
    """Let the class of GPUs serve the legacy name, and pods be translated all the same."""
    path = f"{RESOURCE}/deviceclasses/{GPU}"
    before = town.plane.admin.get(CONFIGURATION)["data"]["config.yaml"]
    stage.client.patch(path, {"spec": {"extendedResourceName": LEGACY}})
    town.configure(f"{before}decisions: {{nativeExtendedNames: translate}}\n")
    try:
        # Before that, a quota on the name would have a mirror.
        stage.wait("the facts know that a class maps it", lambda: LEGACY in _extended(town))
        yield
    finally:
        stage.client.patch(path, {"spec": {"extendedResourceName": None}})
        # In this order, or for some seconds pods would be left to a class that serves no more.
        stage.wait("the facts know that no class maps it", lambda: LEGACY not in _extended(town))
        in_step(stage, town, legacy(stage, "after"))
        town.configure(before)


def _extended(town: Installed) -> set[str]:
    """The names that classes map, as the facts know them."""
    return {each.get("extended", "") for each in town.facts()["classes"]}


def limited(stage: Stage, most: int) -> str:
    """Limit the legacy name in this namespace; the path of the quota."""
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {LIMIT: f"{most}"}}}
    stage.client.create(stage.path("resourcequotas"), {"apiVersion": "v1", **quota})
    return stage.path("resourcequotas", "gpus")


def burst(stage: Stage, number: int) -> None:
    """Make one of many pods; every other one opts out of translation."""
    pod = legacy(stage, f"train-{number}")
    if number % 2:
        pod["metadata"]["labels"][MODE] = "off"
    with contextlib.suppress(ApiError):  # over quota
        stage.client.create(stage.pod_path(), pod)


def held(stage: Stage) -> int:
    """Count the devices that claims hold, which never may be too many."""
    claims = stage.client.get(stage.claim_path())["items"]
    found = [each["status"].get("allocation", {}).get("devices", {}) for each in claims]
    count = sum(len(each.get("results", ())) for each in found)
    assert count <= MOST, count
    return count


def running(stage: Stage) -> Counter[str]:
    """Count the pods that run: translated ones, and those for which the scheduler made a claim."""
    found: Counter[str] = Counter()
    for pod in stage.client.get(stage.pod_path())["items"]:
        if pod["status"].get("phase") == "Running":
            own = pod["status"].get("extendedResourceClaimStatus")
            found["legacy" if own else "translated"] += 1
    return found


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def a_quota_on_a_name_that_a_class_maps_holds_under_load(stage: Stage) -> None:
    """Of 200 pods at once, half by the scheduler and half translated, never more than 10 run."""
    town = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.node("b", "dgx-a100", {GPU: "full"})
    stage.enter(mapped(stage, town))
    stage.wait(
        "the name is translated although a class serves it",
        lambda: asked(stage, legacy(stage, "x"))["spec"].get("resourceClaims"),
    )
    path = limited(stage, MOST)
    stage.wait("it counts", lambda: stage.client.get(path)["status"].get("hard"))
    numbers = sorted(range(PODS), key=lambda number: (number % 2, number))
    for number in numbers[:FIRST]:
        burst(stage, number)
        stage.running(f"train-{number}")
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(burst, stage, number) for number in sorted(numbers[FIRST:])]
        while not all(each.done() for each in writing):
            held(stage)
    for each in writing:
        each.result()
    stage.wait("all that may be held is held", lambda: held(stage) == MOST, 120)
    stage.wait("and runs", lambda: running(stage).total() == MOST)
    ran = running(stage)
    assert ran["translated"] >= FIRST, ran
    assert ran["legacy"] > 0, ran
    assert not stage.exists(stage.path("resourcequotas", QUOTA))
    assert stage.client.get(path)["status"]["used"][LIMIT] == f"{MOST}"


def without_capacity(version: str) -> Options:
    """Give a control plane that drops the amounts of claims without a word."""
    usual = stock(version)
    return replace(usual, gates={**usual.gates, "DRAConsumableCapacity": False})


RIGS["without capacity"] = without_capacity


@scenario("full", rig="without capacity", since="1.36", needs=NEEDS)
def a_part_of_a_gpu_is_refused_where_amounts_are_dropped(stage: Stage) -> None:
    """The server is asked what it keeps; a whole GPU in place of a part would be a lie."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    in_step(stage, town, legacy(stage, "whole"), HAMI)
    facts = town.facts()
    assert "exactly.capacity" not in facts["cluster"]["keeps"], facts["cluster"]
    assert "firstAvailable" in facts["cluster"]["keeps"], facts["cluster"]
    part = stage.pod_object("part", limits={LEGACY: "1", "nvidia.com/gpumem": "1024"})
    ran = town.kubectl.inside(stage.namespace).apply(part)
    assert "this API server (1.36) drops exactly.capacity from claims" in ran.err, ran
    assert not stage.exists(stage.pod_path("part"))
    assert template_names(stage) == []
