"""Installs Drawbridge on real nodes with the commands of docs/installing.md.

    cluster = installed_as_pods(stage)    # installs once for each rig

The kubelet starts the pods from the image; the API server reaches the webhook through its Service.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from e2e.controlplane.client import JSON, ApiError
from e2e.installed.installation import CONTROLLER, MODE, NAMESPACE, WEBHOOK
from e2e.installed.kubectl import CommandResult, Kubectl, run
from e2e.realnodes.documented import commands
from e2e.realnodes.product import ROOT, image_archive, image_name
from e2e.realnodes.replicas import COMPONENT
from e2e.realnodes.rig import NodeRig
from e2e.realnodes.stage import RealStage, is_ready

PAGE = ROOT / "docs" / "installing.md"
INSTALL, UPGRADE, UNINSTALL = "First install", "Upgrade", "Uninstall"
REMOVAL = "kubectl delete -k . --ignore-not-found"
OVERLAY = Path("manifests/overlays/default/kustomization.yaml")
PLACEHOLDER = "{name: %s,"
APPLY = f"kubectl apply -k {OVERLAY.parent}"
ROLLOUT = "kubectl -n drawbridge-system rollout status deployment"
ROLLOUT_SECONDS = 120
COMMAND_SECONDS = 300
COMPONENTS = ("webhook", "controller")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIGURATION = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-config"
CONFIGURED = "configuration in use"
READY_SECONDS = 120.0


class PodInstallation:
    """Drawbridge as pods, installed and removed as the documentation says."""

    deployments: Sequence[str] = (WEBHOOK, CONTROLLER)

    def __init__(self, rig: NodeRig) -> None:
        self.plane = rig.plane
        self.folder = rig.run / "overlay"
        self.image = image_name(image_archive())
        self.page = PAGE.read_text(encoding="utf-8")
        self.kubectl = Kubectl(
            self.plane.bin / "kubectl",
            self.plane.user_config(),
            self.plane.folder / "kubectl-cache",
            NAMESPACE,
        )

    # --- commands of the page ------------------------------------------------------------------

    def install(self) -> None:
        """Name the image in a copy of the manifests, and run the page's commands for kubectl."""
        self.prepare(ROOT, self.plane.bin / "kubectl")
        self.write_overlay(self.image)
        self.apply()

    def prepare(self, source: Path, *programs: Path) -> None:
        """Make the folder of a person: the manifests of a checkout, and programs on the PATH."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(source / "manifests", self.folder / "manifests")
        (self.folder / "bin").mkdir()
        for program in programs:
            (self.folder / "bin" / program.name).symlink_to(program)

    def uninstall(self, removal: str = f"cd {OVERLAY.parent} && {REMOVAL}") -> None:
        """Run the page's commands; `removal` removes what was installed."""
        page = commands(self.page, UNINSTALL)
        assert REMOVAL in page, f"{PAGE.name} has no command {REMOVAL!r} below {UNINSTALL}"
        for command in page:
            self.run(removal if command == REMOVAL else command)

    def apply(self) -> None:
        """Apply the overlay, for the first time or another image, and wait for the rollout."""
        page = commands(self.page, INSTALL)
        for command in (APPLY, ROLLOUT):
            assert command in page, f"{PAGE.name} has no command {command!r} below {INSTALL}"
        self.run(APPLY, f"{ROLLOUT} --timeout={ROLLOUT_SECONDS}s")

    def write_overlay(self, image: str) -> None:
        """Name an image in the overlay, as the page says."""
        text = (ROOT / OVERLAY).read_text(encoding="utf-8")
        named = name_image(text, "drawbridge", image)
        (self.folder / OVERLAY).write_text(named, encoding="utf-8")

    def run(self, *lines: str) -> str:
        """Run commands in one shell in the folder of the overlay; it ends at the first failure."""
        script = "\n".join(lines)
        done = subprocess.run(
            ["bash", "-euc", script],  # noqa: S607  # the page's shell
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Return the environment of a person at a terminal."""
        tools = f"{self.folder / 'bin'}:{Path(sys.executable).parent}"
        return {
            **os.environ,
            "KUBECONFIG": str(self.plane.user_config()),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "NO_COLOR": "1",
        }

    def drawbridge(self, *words: str) -> CommandResult:
        """Run the `drawbridge` command."""
        program = str(Path(sys.executable).with_name("drawbridge"))
        return run([program, *words], words, "", self.environment())

    # --- pods ----------------------------------------------------------------------------------

    def pods(self, component: str) -> list[JSON]:
        """List the pods of a component that are ready."""
        pods = self.plane.admin.get(PODS, labelSelector=f"{COMPONENT}={component}")["items"]
        return [pod for pod in pods if is_ready(pod)]

    def rolled_out(self) -> bool:
        """Return whether all Deployments have all replicas of their current template."""
        return all(map(self._complete, self.deployments))

    def _complete(self, name: str) -> bool:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        try:
            workload = self.plane.admin.get(path)
        except ApiError as problem:
            if problem.code != 404:
                raise
            return False
        status, wanted = workload.get("status", {}), workload["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        current = status.get("observedGeneration") == workload["metadata"]["generation"]
        return current and all(status.get(count) == wanted for count in counts)

    def messages(self, pod: JSON, msg: str) -> list[JSON]:
        """Return the log lines of a pod with this message."""
        return [line for line in _objects(self.log(pod).splitlines()) if line.get("msg") == msg]

    def log(self, pod: JSON) -> str:
        """Return the log of a pod."""
        return self.kubectl("logs", pod["metadata"]["name"], "--tail=-1").check().out

    # --- configuration -------------------------------------------------------------------------

    def configure(self, text: str) -> Callable[[], bool]:
        """Change the configuration; returns a question whether every process uses it."""
        pods = [pod for kind in COMPONENTS for pod in self.pods(kind)]
        before = [len(self.messages(pod, CONFIGURED)) for pod in pods]
        self.plane.admin.patch(CONFIGURATION, {"data": {"config.yaml": text}})

        def used() -> bool:
            now = [len(self.messages(pod, CONFIGURED)) for pod in pods]
            return all(one > other for one, other in zip(now, before, strict=True))

        return used

    def configuration(self) -> str:
        """Return the configuration as it is now."""
        return str(self.plane.admin.get(CONFIGURATION)["data"]["config.yaml"])

    # --- facts ---------------------------------------------------------------------------------

    def facts(self) -> tuple[str, Mapping[str, object]]:
        """Return the hash of the published facts, and the facts."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-facts"
        data = self.plane.admin.get(path)["data"]
        current: str = data["current"]
        return current, json.loads(data[f"facts-{current.removeprefix('sha256:')[:16]}.json"])

    def forget_pools(self) -> None:
        """Restart the controllers, so that what drivers published before counts no more.

        A driver that is away may only be restarting.
        """
        self.run(f"kubectl -n {NAMESPACE} rollout restart deployment drawbridge-controller")

    def decided(self) -> bool:
        """Return whether all webhooks decide by what the cluster has now."""
        counted = json.loads(
            self.drawbridge("config", "facts", "--context", "-o", "json").check().out
        )
        name, published = self.facts()
        if _counted(counted) != _counted(published):
            return False
        hashes = [self.messages(pod, "facts in use")[-1:] for pod in self.pods("webhook")]
        return bool(hashes) and all(lines and lines[0]["hash"] == name for lines in hashes)


def name_image(overlay: str, placeholder: str, image: str) -> str:
    """Return an overlay in which an image takes the place of a placeholder."""
    name, _, tag = image.rpartition(":")
    wanted = PLACEHOLDER % placeholder
    assert wanted in overlay, f"{OVERLAY} names no image {wanted}"
    lines = [
        f"  - {wanted} newName: {name}, newTag: {tag}}}"
        if wanted in line and not line.startswith("#")
        else line
        for line in overlay.splitlines()
    ]
    return "\n".join(lines)


def _objects(lines: Iterable[str]) -> Iterable[JSON]:
    for line in lines:
        try:
            decoded = json.loads(line)
        except ValueError:
            continue
        if isinstance(decoded, dict):
            yield decoded


def _counted(facts: Mapping[str, object]) -> dict[str, object]:
    # The controller probes which fields the server keeps; the command derives it from the version.
    return {name: item for name, item in facts.items() if name not in ("hash", "cluster")}


_RIGS: WeakKeyDictionary[NodeRig, PodInstallation] = WeakKeyDictionary()


def installed_as_pods(stage: RealStage) -> PodInstallation:
    """Return the installation, ready, and label the stage's namespace."""
    if stage.rig not in _RIGS:
        cluster = PodInstallation(stage.rig)
        cluster.install()
        _RIGS[stage.rig] = cluster
    else:
        cluster = _RIGS[stage.rig]
        cluster.forget_pools()
    stage.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
    label = {"metadata": {"labels": {MODE: "enforce"}}}
    stage.client.patch(f"/api/v1/namespaces/{stage.namespace}", label)
    return cluster


def remove_installation(stage: RealStage) -> None:
    """Uninstall what `installed_as_pods` has installed; the next scenario installs anew."""
    if stage.rig in _RIGS:
        _RIGS.pop(stage.rig).uninstall()


__all__ = ["MODE", "PodInstallation", "installed_as_pods", "remove_installation"]
