"""Scenarios on real nodes: Drawbridge's own pods, as the kubelet runs them, and when they end.

While replicas are killed, a client creates legacy pods as a controller does: it
tries again when it is refused. In the end no pod is missing, and none was admitted untranslated.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from e2e.controlplane.client import JSON, ApiError
from e2e.installed.installation import NAMESPACE
from e2e.realnodes.installation import READY_SECONDS, PodInstallation, installed_as_pods
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.admission import ORIGINAL
from e2e.scenarios.node_devices import GPUS, LEGACY
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

USER = "65532"
NOTHING = "0000000000000000"
# What the kernel says of a process, whose pattern does not match this script itself.
LOOK = """
for folder in /proc/[0-9]*; do
  if tr '\\0' ' ' < $folder/cmdline 2>/dev/null | grep -q "drawbridge [s]erve %s"; then
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
            node = nodes.fleet.real_node(pod["spec"]["nodeName"])
            lines = node.run("sh", "-c", LOOK % component).splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            assert status["Uid"].split() == [USER] * 4
            assert status["Gid"].split() == [USER] * 4
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
            assert [status[name] for name in ("CapEff", "CapPrm", "CapBnd")] == [NOTHING] * 3
            mounts = {line.split()[4]: line.split() for line in lines if ":\t" not in line}
            assert "ro" in mounts["/"][5].split(","), mounts["/"]
            assert "tmpfs" in mounts["/tmp"], mounts["/tmp"]  # noqa: S108  # the container's


@dataclass
class Creator:
    """Creates legacy pods one after the other, each until it is admitted."""

    nodes: RealStage
    created: int = 0
    refused: int = 0
    untranslated: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Create pods until the end."""
        while not self.ended.is_set():
            name = f"legacy-{self.created}"
            body = self.nodes.pod_object(name, limits={LEGACY: "1"}, schedulerName="nobody")
            try:
                pod = self.nodes.client.create(self.nodes.pod_path(), body)
            except ApiError as problem:
                self.refused += 1
                if "webhook" not in str(problem):
                    self.errors.append(str(problem))
                self.ended.wait(0.1)
                continue
            self.created += 1
            if not _is_translated(pod):
                self.untranslated.append(name)
            self.ended.wait(0.02)


def _is_translated(pod: JSON) -> bool:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return ORIGINAL in pod["metadata"].get("annotations", {}) and LEGACY not in limits


@contextlib.contextmanager
def load(nodes: RealStage) -> Iterator[Creator]:
    """Create pods in another thread; afterwards none is missing and none is untranslated."""
    creator = Creator(nodes)
    thread = threading.Thread(target=creator.run, daemon=True)
    thread.start()
    try:
        nodes.wait("pods are created", lambda: creator.created > 5)
        yield creator
        before = creator.created
        nodes.wait("pods are created at the end", lambda: creator.created > before + 5)
    finally:
        creator.ended.set()
        thread.join(30)
    found = nodes.client.get(nodes.pod_path())["items"]
    assert creator.errors == []
    assert creator.untranslated == []
    assert len(found) == creator.created
    assert all(map(_is_translated, found))


def prepared(nodes: RealStage) -> PodInstallation:
    """Give a node GPUs, and wait until the webhooks know of them."""
    cluster = installed_as_pods(nodes)
    nodes.node("a", "lab-2g2n", {GPUS: "full"})
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
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
            nodes.wait("its container was started again", partial(_restarts, nodes, path))
            nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)


def _restarts(nodes: RealStage, path: str) -> int:
    (status,) = nodes.client.get(path)["status"]["containerStatuses"]
    return int(status["restartCount"])
