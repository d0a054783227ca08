"""How the process of a Deployment starts on this machine.

From the checkout: with this environment's Python and a kubeconfig. From the image: in its own file
system, with the mounts, the variables, the user and the service account that a kubelet gives it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from e2e.controlplane.plane import ControlPlane
from e2e.installed import manifest
from e2e.installed.image import ImageRoot
from e2e.installed.manifest import JSON

# The folder of this environment's commands, `drawbridge` among them.
COMMANDS = Path(sys.executable).parent
ENTER = Path(__file__).with_name("enter.py")
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Replication(NamedTuple):
    """One pod of a Deployment: its name, its mounted volumes, and its folder on this machine."""

    name: str
    deployment: JSON
    folders: Mapping[str, Path]
    folder: Path
    namespace: str
    token: str


def start_from_checkout(
    plane: ControlPlane, pod: Replication, more: Sequence[str]
) -> Sequence[str | Path]:
    """Return the command with the paths of this machine."""
    account = pod.deployment["metadata"]["name"]
    access = f"--kubeconfig={plane.kubeconfig(account, pod.token)}"
    place = f"--namespace={pod.namespace}"
    words = manifest.command(pod.deployment, pod.folders, (access, place, *more))
    # The default is the host name, which is the name of the pod in a cluster.
    identity = (f"--identity={pod.name}",) if "controller" in words else ()
    return [COMMANDS / words[0], *words[1:], *identity]


def start_from_image(
    plane: ControlPlane, image: ImageRoot, pod: Replication, more: Sequence[str]
) -> Sequence[str | Path]:
    """Return the command that enters the image and runs the words of the manifests."""
    own = pod.folder / pod.name
    (own / "scratch").mkdir(parents=True)
    account = own / "account"
    account.mkdir()
    (account / "token").write_text(pod.token, encoding="ascii")
    (account / "ca.crt").write_bytes(plane.authority.read_bytes())
    (account / "namespace").write_text(pod.namespace, encoding="ascii")
    mounts = manifest.mount_paths(pod.deployment, pod.folders)
    given = {
        "root": str(image.folder),
        "scratch": str(own / "scratch"),
        "hostname": pod.name,
        "user": image.user,
        "mounts": {**mounts, SERVICE_ACCOUNT: str(account)},
        "variables": {
            **image.variables,
            "HOSTNAME": pod.name,
            "KUBERNETES_SERVICE_HOST": plane.options.address,
            "KUBERNETES_SERVICE_PORT": f"{plane.port}",
        },
        "words": manifest.command(pod.deployment, {}, more),
    }
    return [sys.executable, "-ES", ENTER, json.dumps(given)]
