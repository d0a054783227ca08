"""Scenarios: a configuration that is refused never ends or changes what works."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from e2e.controlplane.client import ApiError
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import (
    NAMESPACE,
    dry_run,
    installed,
    wait_for_facts,
)
from e2e.installed.judge import judged
from e2e.installed.replica import Replica
from e2e.realnodes.installation import READY_SECONDS
from e2e.realnodes.stage import real
from e2e.runner import print_line
from e2e.scenarios.admission import NEEDS, ORIGINAL, add_gpu_node, legacy_pod
from e2e.scenarios.node_load import load
from e2e.scenarios.node_webhook import prepared
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
OFFERED, IN_USE = f"{MAPS}/drawbridge-config", f"{MAPS}/drawbridge-config-in-use"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/drawbridge"
USED, REJECTED = "configuration in use", "ConfigurationRejected"
# An installation of its own, because other scenarios need a valid configuration.
RIGS["configuration"] = default_options
# From the first process that uses a configuration to the last one, on a busy machine.
AGREED_SECONDS = 5.0


def is_denied(stage: Stage, text: str) -> bool:
    """Offer a configuration; return whether admission denies it."""
    try:
        stage.client.patch(OFFERED, {"data": {"config.yaml": text}})
    except ApiError as problem:
        if problem.code != 422:
            raise
        return True
    return False


@contextmanager
def refused(stage: Stage, wrong: str) -> Iterator[str]:
    """Offer a configuration without its review until the context exits; yields the one before."""
    before = str(stage.client.get(OFFERED)["data"]["config.yaml"])
    hooks = stage.client.get(HOOKS)["webhooks"]
    kept = [hook for hook in hooks if not hook["name"].startswith("configuration.")]
    stage.client.patch(HOOKS, {"webhooks": kept})
    try:
        stage.wait("the API server does not ask", lambda: not is_denied(stage, wrong))
        yield before
    finally:
        offer(stage, before)
        now = {hook["name"]: hook for hook in stage.client.get(HOOKS)["webhooks"]}
        stage.client.patch(HOOKS, {"webhooks": [now.get(each["name"], each) for each in hooks]})


def offer(stage: Stage, text: str) -> None:
    """Create the ConfigMap with a configuration, or change it."""
    metadata = {"name": "drawbridge-config", "namespace": NAMESPACE}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    stage.client.apply(OFFERED, {**body, "data": {"config.yaml": text}})


def condition(stage: Stage) -> JSON:
    """Return the condition of the configuration in use."""
    try:
        annotations = stage.client.get(IN_USE)["metadata"]["annotations"]
    except ApiError as problem:
        if problem.code != 404:
            raise
        return {"status": "Unknown", "message": ""}
    condition: JSON = json.loads(annotations["drawbridge.dev/conditions"])[0]
    return condition


def text_in_use(stage: Stage) -> str:
    """Return the configuration in use; empty if there is none."""
    try:
        return str(stage.client.get(IN_USE).get("data", {}).get("config.yaml", ""))
    except ApiError as problem:
        if problem.code != 404:
            raise
        return ""


def reported(stage: Stage, part: str) -> bool:
    """Return whether an Event about a refused configuration contains this."""
    events = stage.client.get(EVENTS)["items"]
    return any(each["reason"] == REJECTED and part in each["note"] for each in events)


def used_at(replica: Replica) -> tuple[str, float]:
    """Return the hash of the configuration that a process uses, and since when."""
    line = replica.messages(USED)[-1]
    return line["hash"], datetime.fromisoformat(line["ts"]).timestamp()


def is_good(replica: Replica, value: float) -> bool:
    """Return whether a process says that the offered configuration is in use, or that it is not."""
    return replica.metric("drawbridge_configuration_good") == value


@scenario("full", rig="configuration", needs=NEEDS)
def everything_restarts_while_the_configuration_is_refused(stage: Stage) -> None:
    """The last valid one stays in use, also if its copy or the ConfigMap is deleted."""
    cluster = installed(stage)
    judge = stage.enter(judged(stage, cluster))
    add_gpu_node(stage)
    pod = legacy_pod(stage, "train")
    wait_for_facts(stage, cluster, pod)
    wrong = str(stage.client.get(OFFERED)["data"]["config.yaml"]).replace("native", "natve")
    with refused(stage, wrong) as before:
        for replica in cluster.replicas:
            replica.stop()
        cluster.start_all()
        judge.running().stop()
        processes = (*cluster.replicas, judge.start())
        stage.wait("the condition says so", lambda: "placement" in condition(stage)["message"])
        stage.wait("an Event says so", lambda: reported(stage, "the last valid one stays in use"))
        for replica in processes:
            stage.wait(f"{replica.name} says so", partial(is_good, replica, 0))
        stage.wait("pods are translated", lambda: ORIGINAL in _admitted(stage, pod))
        stage.client.delete(IN_USE)
        stage.wait("the copy is back", lambda: text_in_use(stage) == before)
        stage.client.delete(OFFERED)
        stage.wait("the condition says so", lambda: "not exist" in condition(stage)["message"])
        assert text_in_use(stage) == before
        assert ORIGINAL in _admitted(stage, pod)
    stage.wait("it is accepted", lambda: condition(stage)["status"] == "True")
    for replica in processes:
        stage.wait(f"{replica.name} says so", partial(is_good, replica, 1))


def _admitted(stage: Stage, pod: JSON) -> JSON:
    annotations: JSON = dry_run(stage, pod)["metadata"].get("annotations", {})
    return annotations


@scenario("full", rig="configuration", needs=NEEDS)
def kubectl_is_denied_a_configuration_that_no_process_would_use(stage: Stage) -> None:
    """It shows the findings. Other ConfigMaps are not reviewed."""
    cluster = installed(stage)
    wrong = str(stage.client.get(OFFERED)["data"]["config.yaml"]).replace("native", "natve")
    body = {"data": {"config.yaml": wrong}}
    words = ("patch", "configmap", "drawbridge-config", f"--patch={json.dumps(body)}")
    inside = cluster.kubectl.inside(NAMESPACE)

    def denied() -> str:
        ran = inside(*words, "--dry-run=server")
        return ran.err if ran.code else ""

    stage.wait("the API server asks the webhook", denied)
    assert 'admission webhook "configuration.drawbridge.dev" denied the request' in denied()
    assert "placement" in denied()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, **body}
    stage.client.create(MAPS, other, dryRun="All")


@scenario("full", rig="configuration", needs=NEEDS)
def without_a_last_valid_configuration_processes_wait_for_one(stage: Stage) -> None:
    """As after the first installation: nothing is ready, an Event says why, a correction helps."""
    cluster = installed(stage)
    wrong = str(stage.client.get(OFFERED)["data"]["config.yaml"]).replace("native", "natve")
    with refused(stage, wrong):
        for replica in cluster.replicas:
            replica.stop()
        stage.client.delete(IN_USE)
        for replica in cluster.replicas:
            cluster.plane.processes[replica.name] = replica.start()
        stage.wait("an Event says so", lambda: reported(stage, "no process can start without one"))
        for replica in cluster.replicas:
            stage.wait(f"{replica.name} says so", partial(_says_why, replica, "placement"))
            assert replica.alive
        assert text_in_use(stage) == ""
    cluster.start_all()
    assert condition(stage)["status"] == "True"


def _says_why(replica: Replica, part: str) -> bool:
    answer = replica.request("health", "/readyz")
    return answer.code == 503 and part in answer.text


@scenario("full", rig="configuration", needs=NEEDS)
def a_version_that_refuses_the_configuration_in_use_waits_and_the_others_serve(
    stage: Stage,
) -> None:
    """As in a rollout: what starts is not ready and takes no Lease, and what runs goes on."""
    cluster = installed(stage)
    add_gpu_node(stage)
    pod = legacy_pod(stage, "train")
    wait_for_facts(stage, cluster, pod)
    _, second = cluster.webhooks
    started = (second, *cluster.controllers)
    for replica in started:
        replica.stop()
    # A field that another version has: that one accepted it.
    text = f"{stage.client.get(OFFERED)['data']['config.yaml']}ofAnotherVersion: []\n"
    with refused(stage, text):
        digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        metadata = {"annotations": {"drawbridge.dev/hash": digest}}
        stage.client.patch(IN_USE, {"metadata": metadata, "data": {"config.yaml": text}})
        for replica in started:
            cluster.plane.processes[replica.name] = replica.start()
        for replica in started:
            stage.wait(f"{replica.name} says so", partial(_says_why, replica, "ofAnotherVersion"))
            assert replica.alive
        assert cluster.find_leader() is None
        assert ORIGINAL in _admitted(stage, pod)
    cluster.start_all()


@scenario("full", rig="configuration", needs=NEEDS)
def all_processes_change_the_configuration_within_seconds(stage: Stage) -> None:
    """The log of each process says when it used which one."""
    cluster = installed(stage)
    judge = stage.enter(judged(stage, cluster)).running()
    before = stage.client.get(OFFERED)["data"]["config.yaml"]
    for groups in ("all", "alone", "all"):
        configure_and_wait(cluster, f"{before}unsetGroups: {groups}\n")
        wanted = used_at(cluster.leader)[0]
        stage.wait("the judge uses it", partial(_uses, judge, wanted))
        uses = [used_at(each) for each in (*cluster.replicas, judge)]
        assert {digest for digest, _ in uses} == {wanted}
        times = [when for _, when in uses]
        apart = max(times) - min(times)
        print_line(f"      {apart:.3f} s from the first process to the last one")
        assert apart < AGREED_SECONDS
    configure_and_wait(cluster, before)


def _uses(replica: Replica, digest: str) -> bool:
    return used_at(replica)[0] == digest


@scenario("node", rig="nodes")
def a_node_is_drained_while_the_configuration_is_refused(stage: Stage) -> None:
    """The replicas that start elsewhere translate the pods of enforced namespaces."""
    nodes = real(stage)
    cluster = prepared(nodes)
    wrong = cluster.configuration().replace("native", "natve")
    with refused(nodes, wrong), load(nodes) as running:
        drained = cluster.pods("webhook")[0]["spec"]["nodeName"]
        try:
            nodes.drain(drained)
            nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
            where = {pod["spec"]["nodeName"] for pod in cluster.pods("webhook")}
            assert drained not in where
        finally:
            nodes.kubectl("uncordon", drained).check()
        nodes.wait("the condition says so", lambda: "placement" in condition(nodes)["message"])
        nodes.wait("an Event says so", lambda: reported(nodes, "the last valid one stays in use"))
    assert running.refused == []
