"""Scenarios: an administrator switches Drawbridge off for the whole cluster, and on again."""

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from e2e.bridge.placement import SCHEDULER, BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.installed.installation import MODE, Installation, dry_run, installed, set_mode
from e2e.installed.installation import wait_for_facts as wait_for_facts_of
from e2e.installed.judge import judged
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, add_gpu_node, legacy_pod
from e2e.scenarios.admission_scope import is_translated, pods_of
from e2e.scenarios.lifecycle import run_documented, webhooks
from e2e.scenarios.objects import JSON, deployment
from e2e.scenarios.reconcilers import CONFIGURATION
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
CONDITION = "switched-off"
# One request, and until the API server has seen it.
AT_ONCE = 3.0


def conditions(stage: Stage) -> dict[str, list[JSON]]:
    """Return the match conditions of each webhook."""
    return {name: hook.get("matchConditions", []) for name, hook in webhooks(stage).items()}


def is_off(stage: Stage) -> bool:
    """Whether every webhook has the condition."""
    named = [{each["name"] for each in listed} for listed in conditions(stage).values()]
    return bool(named) and all(CONDITION in each for each in named)


@contextlib.contextmanager
def switched_on_afterwards(cluster: Installation) -> Iterator[None]:
    """Switch on at the end, for other scenarios."""
    try:
        yield
    finally:
        cluster.drawbridge("on").check()


def is_created_unchanged(stage: Stage, body: JSON) -> bool:
    """Whether a dry run of a pod succeeds and is not translated."""
    try:
        return not is_translated(dry_run(stage, body))
    except ApiError:
        return False


@scenario("smoke", rig="installed", needs=NEEDS)
def off_creates_pods_while_no_webhook_runs_and_on_restores(stage: Stage) -> None:
    """No replica runs, and pods are refused; `off` creates them at once, `on` translates again."""
    cluster = installed(stage)
    add_gpu_node(stage)
    body = legacy_pod(stage, "train")
    wait_for_facts_of(stage, cluster, body)
    stage.enter(judged(stage, cluster))
    before = conditions(stage)
    with switched_on_afterwards(cluster):
        for replica in cluster.webhooks:
            replica.kill()
        refused = cluster.kubectl.inside(stage.namespace).apply(body, words=("--dry-run=server",))
        assert refused.code, refused
        assert "pods.drawbridge.dev" in refused.err, refused
        told = cluster.drawbridge("off").check()
        assert stage.namespace in told.out, told
        stage.wait("created as it is", lambda: is_created_unchanged(stage, body), AT_ONCE)
        assert is_off(stage)
        check_kept(stage, cluster)
        # The label that was set meanwhile decides, and nothing is remembered elsewhere.
        set_mode(stage, "report")
        cluster.drawbridge("off").check()
        cluster.start_all()
        assert is_created_unchanged(stage, body)
        told = cluster.drawbridge("on").check()
    assert f"report: 1 namespace ({stage.namespace})" in told.out, told
    assert conditions(stage) == before
    assert is_created_unchanged(stage, body)
    set_mode(stage, "enforce")
    stage.wait("translated again", lambda: is_translated(dry_run(stage, body)))


def check_kept(stage: Stage, cluster: Installation) -> None:
    """Check that the controller changes its own conditions, and keeps that of the switch."""
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    cluster.configure(f"{before}admission: {{everyPod: true}}\n")
    try:
        stage.wait("it has changed them", lambda: "true" in expressions(stage))
        assert is_off(stage)
    finally:
        cluster.configure(before)
    stage.wait("it has changed them back", lambda: "true" not in expressions(stage))
    assert is_off(stage)


def expressions(stage: Stage) -> set[str]:
    """Return the conditions of the webhook for pods."""
    return {each["expression"] for each in conditions(stage)["pods.drawbridge.dev"]}


@scenario("full", rig="installed", needs=NEEDS)
def the_commands_of_the_page_switch_off_and_on_with_kubectl(stage: Stage) -> None:
    """The commands for kubectl run word for word, and `drawbridge on` reverts them as well."""
    cluster = installed(stage)
    stage.enter(judged(stage, cluster))
    before = conditions(stage)
    off = read_commands(1)
    with switched_on_afterwards(cluster):
        run_documented(cluster, " && ".join(off), cluster.folder).check()
        assert is_off(stage)
        text = PAGE.read_text("utf-8").partition("\n## Switch everything off\n")[2]
        (on,) = re.findall(r"`(switch='[^`]*\$patch: delete[^`]*)`", text)
        run_documented(cluster, " && ".join([on, *off[1:]]), cluster.folder).check()
        assert conditions(stage) == before
        run_documented(cluster, " && ".join(off), cluster.folder).check()
    assert conditions(stage) == before


def read_commands(number: int) -> list[str]:
    """Return the commands of a block of the section."""
    text = PAGE.read_text("utf-8").partition("\n## Switch everything off\n")[2]
    block = re.findall(r"```console cluster\n(.*?)```", text, re.DOTALL)[number]
    return re.findall(r"^\$ (.*)$", block, re.MULTILINE)


@bridge_scenario("full")
def pods_that_wait_for_a_dead_scheduler_run_after_off(stage: BridgeStage) -> None:
    """The owner creates its pod again, and the printed command the pod without an owner."""
    cluster = stage.placement.cluster
    stage.leader()
    stage.node("a", "lab-2g2n", {GPU: "full"})
    hardware = stage.hardware("b", "lab-2g2n")
    units = tuple(gpu.uuid for gpu in hardware.gpus)
    Stage.node(stage, "b", "lab-2g2n", plugins={LEGACY: units})
    set_mode(stage, "enforce")
    train, bare = stage.legacy_pod("train", 1), stage.legacy_pod("bare", 1)
    wait_for_facts_of(stage, cluster, train)
    for pair in stage.placement.pairs:
        pair.send(signal.SIGKILL)
    kubectl = cluster.kubectl.inside(stage.namespace)
    kubectl.apply(deployment(train, 1)).check()
    kubectl.apply(bare).check()
    (waiting,) = stage.wait("the owner has a pod", lambda: pods_of(stage, "train"))
    assert {waiting["spec"]["schedulerName"], schedulers(stage, "bare")} == {SCHEDULER}
    for replica in cluster.webhooks:
        replica.kill()
    with switched_on_afterwards(cluster):
        told = cluster.drawbridge("off", "--recreate").check()
        (command,) = (each for each in told.out.splitlines() if " get pod bare " in each)
        run_documented(cluster, command, cluster.folder).check()
        stage.wait_running("bare")
        (again,) = stage.wait("another pod", lambda: _others(stage, waiting))
        stage.wait_running(again["metadata"]["name"])
        assert not is_translated(again)
        assert (
            MODE in stage.client.get(f"/api/v1/namespaces/{stage.namespace}")["metadata"]["labels"]
        )
        kubectl("delete", "deployment", "train", "--cascade=foreground").check()
    cluster.start_all()


def schedulers(stage: Stage, name: str) -> str:
    """Return the scheduler of a pod."""
    return str(stage.get_pod(name)["spec"]["schedulerName"])


def _others(stage: Stage, before: JSON) -> list[JSON]:
    pods = pods_of(stage, "train")
    return [each for each in pods if each["metadata"]["uid"] != before["metadata"]["uid"]]
