"""Installs bridge placement on real nodes with the commands of docs/bridge.md and installing.md."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.controlplane.client import JSON
from e2e.installed.installation import NAMESPACE
from e2e.realnodes.documented import blocks, commands
from e2e.realnodes.installation import (
    APPLY,
    OVERLAY,
    ROLLOUT,
    ROLLOUT_SECONDS,
    PodInstallation,
    name_image,
)
from e2e.realnodes.product import ROOT, image_name, scheduler_archive
from e2e.realnodes.rig import NodeRig

PAGE = ROOT / "docs" / "bridge.md"
INSTALL, REMOVE = "Install", "Remove"
SCHEDULER = "drawbridge-scheduler"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{SCHEDULER}"
# The page's node.
NODE = re.compile(r"\bgpu-1\b")


class BridgeInstallation(PodInstallation):
    """Drawbridge with the pairs of a kube-scheduler and an allocator."""

    deployments = (*PodInstallation.deployments, SCHEDULER)

    def __init__(self, rig: NodeRig, node: str) -> None:
        super().__init__(rig)
        self.node = node
        self.is_installed = False
        self.scheduler_image = image_name(scheduler_archive())
        self.guide = PAGE.read_text(encoding="utf-8")

    def apply(self) -> None:
        """Run the commands of the page that label a node, apply the overlay, and wait."""
        page = commands(self.guide, INSTALL)
        assert APPLY in page, f"{PAGE.name} has no command {APPLY!r} below {INSTALL}"
        for command in page:
            if command.startswith("kubectl "):
                limit = f" --timeout={ROLLOUT_SECONDS}s" if command == ROLLOUT else ""
                self.run(NODE.sub(self.node, command) + limit)

    def write_overlay(self, image: str) -> None:
        """Name both images, and add the fields of the page."""
        super().write_overlay(image)
        path = self.folder / OVERLAY
        text = name_image(path.read_text(encoding="utf-8"), SCHEDULER, self.scheduler_image)
        fields = "\n".join(next(blocks(self.guide, INSTALL, "yaml")))
        path.write_text(f"{text}\n{fields}\n", encoding="utf-8")

    def install(self) -> None:
        """Install; what fails in the middle can be removed."""
        self.is_installed = True
        super().install()

    def remove(self) -> None:
        """Run the page's commands after those that uninstall Drawbridge, once."""
        if self.is_installed:
            self.is_installed = False
            self.uninstall()
            self.run(*commands(self.guide, REMOVE))

    def leader(self) -> JSON | None:
        """Return the ready pod whose kube-scheduler holds the Lease."""
        holder = self.plane.admin.get(LEASE)["spec"].get("holderIdentity") or ""
        pods = {pod["metadata"]["name"]: pod for pod in self.pods("scheduler")}
        return pods.get(holder.rpartition("_")[0])


@contextmanager
def bridge_installed(rig: NodeRig, node: str) -> Iterator[BridgeInstallation]:
    """Install bridge placement with one owned node, at most until the end of the block."""
    cluster = BridgeInstallation(rig, node)
    try:
        cluster.install()
        yield cluster
    finally:
        cluster.remove()
