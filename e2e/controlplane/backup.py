"""Backs up the etcd of a control plane, and restores it.

Everything written after the backup is then undone, and the resourceVersion continues from the
version of the backup.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import suspended


def back_up(plane: ControlPlane, name: str) -> Path:
    """Copy the data of etcd, which is suspended meanwhile and continues afterwards."""
    copy = plane.folder / f"backup-{name}"
    with suspended(plane.processes["etcd"]):
        shutil.copytree(plane.folder / "etcd", copy)
    return copy


def restore(plane: ControlPlane, copy: Path, schedulers: Iterable[str] = ()) -> None:
    """Put a copy back while no API server runs, and start everything of Kubernetes again.

    `schedulers` are further processes to stop before, which the caller starts again.
    """
    names = ["kube-controller-manager", *plane.options.schedulers, *schedulers]
    for name in (*names, "kube-apiserver", "etcd"):
        plane.processes[name].stop()
    shutil.rmtree(plane.folder / "etcd")
    shutil.copytree(copy, plane.folder / "etcd")
    plane.start_etcd()
    plane.start_apiserver()
    plane.start_controller_manager()
    for name, extra in plane.options.schedulers.items():
        plane.start_scheduler(name, extra)
