"""Installs Drawbridge on real nodes with helm: the version before this one, then this one.

All commands are those of docs/installing.md, of the version that is installed.
"""

import re
import shutil

from e2e.realnodes.documented import commands
from e2e.realnodes.installation import (
    INSTALL,
    ROLLOUT,
    ROLLOUT_SECONDS,
    UPGRADE,
    PodInstallation,
)
from e2e.realnodes.product import PREVIOUS, ROOT, previous_checkout, tagged
from e2e.realnodes.rig import NodeRig
from e2e.renderers.build import binaries

CHART = "manifests/chart/drawbridge"
ROLLBACK = "helm rollback drawbridge -n drawbridge-system"
REMOVE = "helm uninstall drawbridge -n drawbridge-system"
# The page's names of what a person has.
REGISTRY, NAMESPACE = "<your registry>", r"\bteam-a\b"


class Release(PodInstallation):
    """Drawbridge as a release of helm."""

    def __init__(self, rig: NodeRig) -> None:
        super().__init__(rig)
        self.previous = tagged(self.image, PREVIOUS)
        for command in (ROLLBACK, REMOVE):
            assert command in self.page, f"the page has no command {command!r}"

    def install_previous(self, namespace: str, manifest: str) -> None:
        """Run the page of the previous version, from the installation to a translated pod."""
        source = previous_checkout()
        self.prepare(source, self.plane.bin / "kubectl", binaries() / "helm")
        # Both versions may have the same number.
        chart = self.folder / CHART / "Chart.yaml"
        text = re.sub(r"(?m)^appVersion: .*$", f"appVersion: {PREVIOUS}", chart.read_text("utf-8"))
        chart.write_text(text, encoding="utf-8")
        (self.folder / "train.yaml").write_text(manifest, encoding="utf-8")
        page = (source / "docs" / "installing.md").read_text(encoding="utf-8")
        repository = self.image.rpartition("/")[0]
        for command in commands(page, INSTALL)[:5]:
            line = re.sub(NAMESPACE, namespace, command.replace(REGISTRY, repository))
            self.run(self.limited(line))

    def upgrade(self) -> None:
        """Run the page's commands with the chart of this version."""
        shutil.rmtree(self.folder / CHART)
        shutil.copytree(ROOT / CHART, self.folder / CHART)
        self.run(*map(self.limited, commands(self.page, UPGRADE)))

    def roll_back(self) -> None:
        """Run the page's command."""
        self.run(ROLLBACK, self.limited(ROLLOUT))

    @staticmethod
    def limited(command: str) -> str:
        """Return a command with a time limit where it has none."""
        return f"{command} --timeout={ROLLOUT_SECONDS}s" if command == ROLLOUT else command
