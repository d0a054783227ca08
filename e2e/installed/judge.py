"""Adds the component of the judge to an installation, and removes it again.

judge = stage.enter(judged(stage, cluster))
judge.cluster.kubectl.apply(claim)
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.controlplane.relay import Backend, Relay
from e2e.installed import manifest
from e2e.installed.installation import LOCAL, NAMESPACE, Installation
from e2e.installed.launch import Replication
from e2e.installed.manifest import JSON
from e2e.installed.replica import Replica
from e2e.scenarios.stage import Stage

NAME = "drawbridge-judge"
COMPONENT = ("app.kubernetes.io/component", "judge")
CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
# Scenarios wait until this time has passed, instead of five minutes.
SETTLE = 3


class InstalledJudge:
    """The judge of an installation: one replica, with the command of its Deployment."""

    def __init__(self, cluster: Installation) -> None:
        self.cluster = cluster
        self.objects = self._render()
        self.replica: Replica | None = None

    def _render(self) -> list[JSON]:
        """Build the base with the component, as an overlay of a user does."""
        folder = self.cluster.folder / "judged"
        folder.mkdir(exist_ok=True)
        # Kustomize follows links before it goes up.
        root = os.path.relpath(manifest.BASE.parent.resolve(), folder.resolve())
        content = {"resources": [f"{root}/base"], "components": [f"{root}/components/judge"]}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
        rendered = self.cluster.kubectl("kustomize", str(folder)).check().out
        label, value = COMPONENT
        objects = yaml.safe_load_all(rendered)
        return [each for each in objects if each["metadata"]["labels"].get(label) == value]

    def apply(self) -> None:
        """Apply the objects of the component; no kubelet runs the pods of its Deployment."""
        self.cluster.kubectl.apply(*self.objects).check()
        inside = self.cluster.kubectl.inside(NAMESPACE)
        inside("scale", "deployment", NAME, "--replicas=0").check()

    def start(self) -> Replica:
        """Start the process with the token of its ServiceAccount, and wait until it is ready."""
        plane = self.cluster.plane
        deployment = manifest.find(self.objects, "Deployment", NAME)
        folders = {
            volume: self.cluster.mount(*source)
            for volume, source in manifest.volumes(deployment).items()
        }
        token = plane.account_token(NAMESPACE, NAME)
        pod = Replication(NAME, deployment, folders, self.cluster.folder / "pods", NAMESPACE, token)
        more = (*LOCAL, "--listen=127.0.0.1:0", "--drain=0.5", f"--settle={SETTLE}")
        words = self.cluster.start_command(pod, more)
        log: Path = self.cluster.folder / f"{NAME}.log"
        self.replica = Replica(NAME, words, log)
        plane.processes[NAME] = self.replica.start()
        self.replica.wait_ready(60)
        return self.replica

    def running(self) -> Replica:
        """Return the process."""
        assert self.replica is not None, "the judge was not started"
        return self.replica

    def address(self) -> tuple[str, int]:
        """Return the address of its Service."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}"
        spec = self.cluster.plane.admin.get(path)["spec"]
        return spec["clusterIP"], spec["ports"][0]["port"]

    def has_authority(self) -> bool:
        """Return whether every webhook of the judge has a caBundle."""
        hooks = self.cluster.plane.admin.get(CONFIGURATION)["webhooks"]
        return all(each["clientConfig"].get("caBundle") for each in hooks)


@contextlib.contextmanager
def judged(stage: Stage, cluster: Installation) -> Iterator[InstalledJudge]:
    """Install the judge until the context exits, reachable and ready."""
    judge = InstalledJudge(cluster)
    judge.apply()
    try:
        replica = judge.start()
        stage.wait("the webhooks of the judge have a caBundle", judge.has_authority)
        with Relay(*judge.address()) as relay:
            relay.add(Backend(replica.port("admission"), replica.ready))
            yield judge
    finally:
        # Who plays with the cluster may have uninstalled it.
        cluster.plane.admin.delete_if_there(CONFIGURATION)
        if judge.replica is not None and judge.replica.alive:
            judge.replica.stop()
