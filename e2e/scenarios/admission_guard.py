"""Scenarios: a webhook that runs after Drawbridge's adds a device request to a pod.

The API server calls no webhook for the first time during reinvocation. A pod without a device
request is therefore not sent to the mutating webhook again. The guard is a validating webhook that
runs after all mutation.
"""

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import yaml

from e2e.controlplane.client import ApiError
from e2e.installed.installation import (
    CONTROLLER,
    Installation,
    dry_run,
    installed,
    set_mode,
    wait_for_facts,
)
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, legacy_pod
from e2e.scenarios.admission_scope import (
    configure,
    is_translated,
    restored_configuration,
    set_scope,
)
from e2e.scenarios.objects import JSON
from e2e.scenarios.other_webhook import other_webhook
from e2e.scenarios.reconcilers import conditions, is_sent_to_webhook, plain_pod
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GUARDS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/drawbridge"
GUARD = "guard.drawbridge.dev"
# Run before and after Drawbridge: the API server sorts webhooks by the names of their
# configurations.
BEFORE, AFTER = "aa-adds-gpu", "zz-adds-gpu"
INJECT = "inject"
EXAMPLES = Path(__file__).parents[2] / "examples"
TRANSLATE = "drawbridge.dev/translate"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PODS, WRITERS = 2000, 8
NODES = {"a": "lab-2g2n", "b": "dgx-a100", "c": "hgx-h100", "d": "koordinator-h800"}
REMEDIES = ("admission.everyPod", "sorts before")


def add_gpu(pod: JSON) -> list[JSON]:
    """Add a GPU to the first container of a pod with the label, unless it has one."""
    resources = pod["spec"]["containers"][0].get("resources", {})
    labels = pod["metadata"].get("labels", {})
    if INJECT not in labels or resources.get("claims") or LEGACY in resources.get("limits", {}):
        return []
    limits = {**resources.get("limits", {}), LEGACY: "1"}
    requests = {**resources.get("requests", {}), LEGACY: "1"}
    value = {**resources, "limits": limits, "requests": requests}
    return [{"op": "add", "path": "/spec/containers/0/resources", "value": value}]


def injected_pod(stage: Stage, name: str) -> JSON:
    """Return a pod without a device request, which the other webhook gives a GPU."""
    pod = plain_pod(stage, labels={INJECT: "true"})
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def guard(stage: Stage) -> JSON:
    """Return the current registration of the guard."""
    hooks: list[JSON] = stage.client.get(GUARDS)["webhooks"]
    return next((each for each in hooks if each["name"] == GUARD), {})


def add_gpu_nodes(stage: Stage, cluster: Installation) -> None:
    """Add GPUs until every kept version of the facts contains some.

    The guard denies nothing that a kept version would leave, and three versions are kept.
    """
    # Else the first node can take the place of an earlier scenario's, and the facts do not change.
    stage.wait(
        "the facts have no earlier nodes", lambda: not (cluster.facts() or {}).get("drivers")
    )
    for suffix, shape in NODES.items():
        before = cluster.facts_hash()
        stage.node(suffix, shape, {GPU: "full"})
        stage.wait("the facts change", partial(has_other_facts, cluster, before))
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))


def has_other_facts(cluster: Installation, before: str) -> bool:
    """Return whether other facts than these are published."""
    return cluster.facts_hash() != before


def prepare_guard(stage: Stage) -> Installation:
    """Add GPUs, and return the installation when its guard denies pods."""
    cluster = installed(stage)
    add_gpu_nodes(stage, cluster)
    wait_for_guard(stage, cluster)
    return cluster


def wait_for_guard(stage: Stage, cluster: Installation) -> None:
    """Wait until the conditions are active and the guard denies pods."""
    stage.wait("the controller applies the conditions", lambda: conditions(stage))
    stage.wait("the guard denies", lambda: guard(stage).get("failurePolicy") == "Fail")
    stage.wait(
        "the API server uses the conditions",
        lambda: not is_sent_to_webhook(stage, cluster, plain_pod(stage)),
    )


def error_of(create: Callable[[], object]) -> str:
    """Return the error of a request; empty if it succeeds."""
    try:
        create()
    except ApiError as problem:
        return str(problem)
    return ""


@scenario("smoke", rig="installed", needs=NEEDS)
def a_device_request_added_after_admission_is_refused(stage: Stage) -> None:
    """The message names the field and two remedies. Report mode prints a warning instead."""
    cluster = prepare_guard(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    with other_webhook(stage, AFTER, add_gpu):
        body = injected_pod(stage, "train")
        error = stage.wait("the pod is refused", lambda: error_of(lambda: dry_run(stage, body)))
        assert all(each in error for each in (LEGACY, "containers[0]", *REMEDIES)), error
        assert kubectl.apply(body).code == 1
        # A pod that Drawbridge has seen is translated, whatever the other webhook adds to it.
        kubectl.apply(legacy_pod(stage, "seen", labels={INJECT: "true"})).check()
        stage.wait_running("seen")
        stage.delete_pod("seen")
        set_mode(stage, "report")
        words = ("--dry-run=server",)
        ran = stage.wait("it is admitted", lambda: admitted(kubectl.apply(body, words=words)))
        assert any(each.startswith(f"would be translated: {LEGACY}") for each in ran), ran
        opted_out = plain_pod(stage, labels={INJECT: "true", "drawbridge.dev/translate": "off"})
        set_mode(stage, "enforce")
        stage.wait("pods are refused", lambda: error_of(lambda: dry_run(stage, body)))
        dry_run(stage, opted_out)


def admitted(ran: object) -> list[str]:
    """Return the warnings of an admitted pod; empty while it is refused."""
    return list(getattr(ran, "warnings", ())) if getattr(ran, "code", 1) == 0 else []


@scenario("full", rig="installed", needs=NEEDS)
def with_every_pod_a_device_request_added_later_is_translated(stage: Stage) -> None:
    """Without match conditions the API server reinvokes the webhook for every pod."""
    cluster = prepare_guard(stage)
    with restored_configuration(stage, cluster) as whole, other_webhook(stage, AFTER, add_gpu):
        configure(stage, cluster, yaml.safe_dump({**whole, "admission": {"everyPod": True}}))
        stage.wait(
            "the conditions select every pod", lambda: {*conditions(stage).values()} == {"true"}
        )
        body = injected_pod(stage, "train")
        stage.wait(
            "the pod is translated",
            lambda: (
                not error_of(lambda: dry_run(stage, body)) and is_translated(dry_run(stage, body))
            ),
        )
        made = stage.client.create(stage.pod_path(), body)
        (container,) = made["spec"]["containers"]
        assert LEGACY not in container["resources"]["limits"], container
        stage.wait_running("train")
    wait_for_guard(stage, cluster)


@scenario("full", rig="installed", needs=NEEDS)
def a_device_request_added_before_admission_is_translated(stage: Stage) -> None:
    """The guard sees no late request of a webhook whose configuration sorts before Drawbridge's."""
    prepare_guard(stage)
    body = injected_pod(stage, "train")
    with other_webhook(stage, BEFORE, add_gpu):
        stage.wait("the pod is translated", lambda: is_admitted_and_translated(stage, body))


@scenario("smoke", rig="installed", needs=NEEDS)
def a_policy_refuses_an_opt_out_that_another_webhook_adds(stage: Stage) -> None:
    """Without the policy the pod keeps its late request; with it, nobody opts a pod out."""
    prepare_guard(stage)
    body = injected_pod(stage, "probe")
    with other_webhook(stage, AFTER, add_gpu_and_opt_out):
        labels = stage.wait("the webhook is called", lambda: opted_out_labels(stage, body))
        assert labels[TRANSLATE] == "off"
        policy, binding = yaml.safe_load_all((EXAMPLES / "opt-out-policy.yaml").read_text("utf-8"))
        stage.cluster_object(f"{POLICIES}/validatingadmissionpolicies", policy)
        stage.cluster_object(f"{POLICIES}/validatingadmissionpolicybindings", binding)
        error = stage.wait("the pod is refused", lambda: error_of(lambda: dry_run(stage, body)))
        assert "must not opt out" in error, error
    dry_run(stage, plain_pod(stage))
    opted_out = plain_pod(stage, labels={TRANSLATE: "off"})
    assert error_of(lambda: dry_run(stage, opted_out))
    set_mode(stage, "report")
    stage.wait(
        "report mode refuses nothing", lambda: not error_of(lambda: dry_run(stage, opted_out))
    )


def add_gpu_and_opt_out(pod: JSON) -> list[JSON]:
    """Add a GPU and the label with which a pod opts out."""
    label = {"op": "add", "path": f"/metadata/labels/{TRANSLATE.replace('/', '~1')}"}
    return [*operations, {**label, "value": "off"}] if (operations := add_gpu(pod)) else []


def opted_out_labels(stage: Stage, body: JSON) -> JSON:
    """Return the labels of an admitted pod that requests a GPU; empty if it requests none."""
    pod = dry_run(stage, body)
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    labels: JSON = pod["metadata"]["labels"] if LEGACY in limits else {}
    return labels


def is_admitted_and_translated(stage: Stage, body: JSON) -> bool:
    """Return whether a dry run of a pod is neither refused nor left as it is."""
    try:
        return is_translated(dry_run(stage, body))
    except ApiError:
        return False


class PodStream:
    """Clients that create pods as dry runs until they stop, and the results by kind of pod."""

    def __init__(self, stage: Stage, most: int) -> None:
        self.results: Counter[tuple[str, str]] = Counter()
        self.errors: list[str] = []
        self._stage = stage
        self._most = most
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def create_all(self) -> None:
        """Create pods in turn: one with a legacy request, one that another webhook changes."""
        while not self._ended.is_set():
            number = next(self._numbers)
            if number >= self._most:
                return
            self._create(number)

    def _create(self, number: int) -> None:
        kind = ("legacy", "injected")[number % 2]
        build = (legacy_pod, injected_pod)[number % 2]
        try:
            pod = dry_run(self._stage, build(self._stage, f"pod-{number}"))
            result = "translated" if is_translated(pod) else "untouched"
        except ApiError as problem:
            result = "refused"
            with self._lock:
                self.errors.append(f"{kind}: {problem}")
        with self._lock:
            self.results[kind, result] += 1

    def total(self) -> int:
        """Return the number of pods so far."""
        return self.results.total()

    def wait_for(self, number: int) -> None:
        """Wait until so many pods were created."""
        self._stage.wait(f"{number} pods", lambda: self.total() >= number, 120)

    def end(self) -> None:
        """Stop the clients."""
        self._ended.set()


@contextlib.contextmanager
def pods_created_meanwhile(stage: Stage, most: int = PODS) -> Iterator[PodStream]:
    """Create pods in the background; at the end wait until all of them are created."""
    stream = PodStream(stage, most)
    with ThreadPoolExecutor(WRITERS) as pool:
        running = [pool.submit(stream.create_all) for _ in range(WRITERS)]
        try:
            yield stream
        except BaseException:
            stream.end()
            raise
        for run in running:
            run.result()


@scenario("full", rig="installed", needs=NEEDS)
def changes_of_the_configuration_refuse_no_legacy_pod(stage: Stage) -> None:
    """Of 2,000 pods during new conditions and facts, all legacy pods are translated."""
    cluster = prepare_guard(stage)
    with restored_configuration(stage, cluster) as whole, other_webhook(stage, AFTER, add_gpu):
        body = injected_pod(stage, "probe")
        stage.wait("the webhook is called", lambda: error_of(lambda: dry_run(stage, body)))
        changes: tuple[JSON, ...] = (
            {"legacy": {"renames": {"example.com/gpu": LEGACY}}},
            {},
            {"legacy": {"renames": {"example.com/other": LEGACY}}},
            {},
        )
        with pods_created_meanwhile(stage) as stream:
            for number, change in enumerate(changes):
                configure(stage, cluster, yaml.safe_dump({**whole, **change}))
                stage.node(f"b{number}", "dgx-a100", {GPU: "full"})
                stream.wait_for((number + 1) * PODS // 5)
        stage.wait("the guard denies again", lambda: error_of(lambda: dry_run(stage, body)))
    outcomes = dict(stream.results)
    refused = [each for each in stream.errors if each.startswith("legacy: ")]
    assert not refused, refused[:3]
    assert outcomes["legacy", "translated"] == PODS // 2, outcomes
    # For the settle time after a change the guard only warns.
    assert outcomes["injected", "refused"] > 0, outcomes
    assert ("injected", "translated") not in outcomes, outcomes
    assert all(REMEDIES[0] in each for each in stream.errors), stream.errors[:3]


@scenario("full", rig="installed", needs=NEEDS)
def a_rising_rollout_percentage_refuses_no_pod(stage: Stage) -> None:
    """Replicas that use different percentages for a moment agree on what the guard refuses."""
    cluster = prepare_guard(stage)
    with restored_configuration(stage, cluster) as whole:
        set_scope(stage, cluster, whole, rollout={"percent": 0})
        with pods_created_meanwhile(stage) as stream:
            for number, percent in enumerate((25, 50, 75, 100), 1):
                set_scope(stage, cluster, whole, rollout={"percent": percent})
                stream.wait_for(number * PODS // 5)
    assert not stream.errors, stream.errors[:3]
    assert stream.results["injected", "translated"] == 0
    assert is_translated(dry_run(stage, legacy_pod(stage, "after")))


@scenario("full", rig="installed", needs=NEEDS)
def an_upgrade_to_manifests_with_the_guard_refuses_no_pod(stage: Stage) -> None:
    """The controller certifies the new entry, and sets Fail when all replicas serve it."""
    cluster = prepare_guard(stage)
    hooks = stage.client.get(GUARDS)["webhooks"]
    before = [each for each in hooks if each["name"] != GUARD]
    rendered = yaml.safe_dump_all(cluster.objects)
    with pods_created_meanwhile(stage, PODS // 4) as stream:
        stage.client.patch(GUARDS, {"webhooks": before})
        stage.wait("the guard is gone", lambda: not guard(stage))
        cluster.kubectl("apply", "-f", "-", stdin=rendered).check()
        stream.wait_for(min(stream.total() + WRITERS, PODS // 4))
        wait_for_guard(stage, cluster)
    assert not stream.errors, stream.errors[:3]
    assert stream.results["legacy", "translated"] == PODS // 8, stream.results
    certified = next(each for each in hooks if each["name"] == GUARD)
    assert guard(stage)["clientConfig"] == certified["clientConfig"]
    # No kubelet runs the pods of the controller's Deployment.
    inside = cluster.kubectl.inside("drawbridge-system")
    inside("scale", "deployment", CONTROLLER, "--replicas=0").check()
