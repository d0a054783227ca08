"""Scenarios on real nodes: Drawbridge's own pods, as the kubelet runs them, and when they end.

Replicas are killed, drained and rolled while legacy pods and Jobs are created. In the end no pod is
missing, and none was admitted untranslated.
"""

from functools import partial

from e2e.controlplane.client import JSON, ApiError
from e2e.installed.installation import NAMESPACE
from e2e.realnodes.installation import (
    READY_SECONDS,
    ROLLOUT,
    ROLLOUT_SECONDS,
    PodInstallation,
    installed_as_pods,
)
from e2e.realnodes.product import NEXT, tagged
from e2e.realnodes.replicas import watched
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.node_devices import GPUS
from e2e.scenarios.node_load import load
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CREATED, TOO_MANY_REQUESTS = 201, 429
RESTART = f"kubectl -n {NAMESPACE} rollout restart deployment"
USER = "65532"
NOTHING = "0000000000000000"
# What the kernel says of the process whose command matches. The pattern must not match itself.
LOOK = """
for folder in /proc/[0-9]*; do
  if tr '\\0' ' ' < $folder/cmdline 2>/dev/null | grep -q "%s"; then
    cat $folder/status; cat $folder/mountinfo; exit 0
  fi
done
exit 1
"""


@scenario("node", rig="nodes")
def drawbridge_runs_with_the_rights_that_its_manifests_state(stage: Stage) -> None:
    """User, group, seccomp, capabilities, and a root file system that cannot be written."""
    nodes = real(stage)
    cluster = installed_as_pods(nodes)
    for component in ("webhook", "controller"):
        for pod in cluster.pods(component):
            check_rights(nodes, pod, f"drawbridge [s]erve {component}")


def check_rights(nodes: RealStage, pod: JSON, pattern: str) -> None:
    """Check what the kernel says of the process whose command matches, on the node of a pod."""
    node = nodes.fleet.real_node(pod["spec"]["nodeName"])
    lines = node.run("sh", "-c", LOOK % pattern).splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert status["Uid"].split() == [USER] * 4
    assert status["Gid"].split() == [USER] * 4
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert [status[name] for name in ("CapEff", "CapPrm", "CapBnd")] == [NOTHING] * 3
    mounts = {line.split()[4]: line.split() for line in lines if ":\t" not in line}
    assert "ro" in mounts["/"][5].split(","), mounts["/"]
    assert "tmpfs" in mounts["/tmp"], mounts["/tmp"]  # noqa: S108  # the container's


def prepared(nodes: RealStage) -> PodInstallation:
    """Give every node GPUs, and wait until the webhooks know of them."""
    cluster = installed_as_pods(nodes)
    for suffix in ("a", "b", "c"):
        nodes.node(suffix, "lab-2g2n", {GPUS: "full"})
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    return cluster


@scenario("node", rig="nodes")
def no_pod_is_untranslated_while_webhooks_are_killed(stage: Stage) -> None:
    """Each replica is killed in turn; the kubelet starts its container again."""
    nodes = real(stage)
    cluster = prepared(nodes)
    with load(nodes):
        for pod in cluster.pods("webhook"):
            node = nodes.fleet.real_node(pod["spec"]["nodeName"])
            node.run("pkill", "-KILL", "-f", "drawbridge serve webhook")
            path = f"{PODS}/{pod['metadata']['name']}"
            nodes.wait("its container was started again", partial(_restarts, nodes, path))
            nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)


def _restarts(nodes: RealStage, path: str) -> int:
    (status,) = nodes.client.get(path)["status"]["containerStatuses"]
    return int(status["restartCount"])


@scenario("node", rig="nodes")
def no_pod_is_refused_while_webhooks_are_drained(stage: Stage) -> None:
    """The eviction API keeps one replica, and two of three nodes are drained."""
    nodes = real(stage)
    cluster = prepared(nodes)
    with load(nodes) as running, watched(nodes.client, "webhook") as replicas:
        first, second = cluster.pods("webhook")
        assert evict(nodes, first) == CREATED
        assert evict(nodes, second) == TOO_MANY_REQUESTS
        nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
        drained = nodes.rig.names[:2]
        try:
            nodes.drain(*drained)
            nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
            where = {pod["spec"]["nodeName"] for pod in cluster.pods("webhook")}
            assert where == set(nodes.rig.names[2:])
        finally:
            nodes.kubectl("uncordon", *drained).check()
    assert replicas.fewest() == 1
    assert running.refused == []


def evict(nodes: RealStage, pod: JSON) -> int:
    """Evict a pod of Drawbridge; return the code of the response."""
    name = pod["metadata"]["name"]
    metadata = {"name": name, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    try:
        nodes.client.create(f"{PODS}/{name}/eviction", body)
    except ApiError as problem:
        return problem.code
    return CREATED


@scenario("node", rig="nodes")
def no_pod_is_refused_while_webhooks_are_rolled(stage: Stage) -> None:
    """Replicas restart, then change to an image of another name, and back."""
    nodes = real(stage)
    cluster = prepared(nodes)
    other = tagged(cluster.image, NEXT)
    with load(nodes) as running, watched(nodes.client, "webhook") as replicas:
        before = names(cluster)
        cluster.run(RESTART, f"{ROLLOUT} --timeout={ROLLOUT_SECONDS}s")
        nodes.wait("the former replicas are gone", partial(_differ, cluster, before))
        for image in (other, cluster.image):
            cluster.write_overlay(image)
            cluster.apply()
    assert replicas.served_together(cluster.image, other)
    assert replicas.fewest() == len(cluster.pods("webhook"))
    assert running.refused == []


def names(cluster: PodInstallation) -> set[str]:
    """Return the names of all pods of Drawbridge that are ready."""
    pods = [*cluster.pods("webhook"), *cluster.pods("controller")]
    return {pod["metadata"]["name"] for pod in pods}


def _differ(cluster: PodInstallation, before: set[str]) -> bool:
    return names(cluster).isdisjoint(before)
