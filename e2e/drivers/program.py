"""Runs the program of one driver on one real node, as its DaemonSet would.

It has the account of its chart, sees a root of its own, and is gone with the scenario.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

import yaml

from e2e.controlplane.client import JSON, ApiError
from e2e.drivers.build import HERE
from e2e.realnodes.node import RealNode
from e2e.realnodes.stage import RealStage
from e2e.scenarios.objects import RESOURCE

SANDBOX = HERE / "sandbox.py"
# A folder of every machine that nothing of a rig uses; only the program's own root lies there.
TOP = "/srv"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SLICES = f"{RESOURCE}/resourceslices"
READY_SECONDS = 60.0
EXISTS = 409


@dataclass(frozen=True)
class ProgramPlan:
    """How a driver's program is started, and by which name its devices are known."""

    name: str
    driver: str
    account: str
    command: Sequence[str | Path]
    bound: Mapping[Path, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


class DriverProgram:
    """The program on a node; a context manager that leaves nothing of it."""

    def __init__(self, stage: RealStage, node: RealNode, plan: ProgramPlan) -> None:
        self.stage = stage
        self.node = node
        self.plan = plan

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        registry = self.node.path("kubelet", "plugins_registry")
        for socket in registry.glob(f"{self.plan.driver}*"):
            socket.unlink()
        self.node.run("rm", "-rf", f"/var/lib/kubelet/plugins/{self.plan.driver}")
        for path in self.node.path("cdi").glob("*"):
            path.unlink()
        for one in self.slices():
            self.stage.client.delete(f"{SLICES}/{one['metadata']['name']}")

    # --- the process ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; it may have been killed before."""
        access = kubeconfig(self.stage, self.plan.account)
        variables = {"KUBECONFIG": str(access), **self.plan.variables}
        bound = {str(source): target for source, target in self.plan.bound.items()}
        self.node.start_program(
            self.plan.name,
            *("env", *(f"{name}={value}" for name, value in variables.items())),
            *("unshare", "--mount", "--propagation", "unchanged", "--"),
            *(sys.executable, "-ES", SANDBOX, TOP, json.dumps(bound)),
            *self.plan.command,
        )

    def kill(self) -> None:
        """End it at once, as a crash or an upgrade does; containers stay."""
        process = self.node.processes.pop(self.plan.name, None)
        if process:
            process.kill()

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def exit_code(self) -> int | None:
        """Return the code that it ended with by itself; the rig no longer minds it then."""
        process = self.node.processes[self.plan.name]
        code = process.child.poll()
        if code is not None:
            self.node.processes.pop(self.plan.name)
        return code

    def log(self) -> str:
        """Return what it has logged on this node, also in earlier scenarios."""
        path = self.node.path(f"{self.plan.name}.log")
        return path.read_text(encoding="utf-8", errors="replace")

    # --- what it publishes ---------------------------------------------------------------------

    def slices(self) -> list[JSON]:
        """List its ResourceSlices of this node."""
        listed = self.stage.client.get(SLICES, fieldSelector=f"spec.nodeName={self.node.name}")
        return [one for one in listed["items"] if one["spec"]["driver"] == self.plan.driver]

    def devices(self) -> list[JSON]:
        """List its devices in the order of its slices."""
        return [device for one in self.slices() for device in one["spec"].get("devices", ())]

    def wait_published(self) -> list[JSON]:
        """Wait until its pool is complete, and return its devices."""

        def complete() -> bool:
            published = self.slices()
            counts = {one["spec"]["pool"]["resourceSliceCount"] for one in published}
            return counts == {len(published)}

        process = self.node.processes[self.plan.name]
        process.wait_ready(complete, READY_SECONDS)
        return self.devices()

    def cdi(self) -> list[Path]:
        """List the CDI specs of claims on the node."""
        return sorted(self.node.path("cdi").glob("*"))


# --- accounts ------------------------------------------------------------------------------------


@cache
def _roles() -> Mapping[str, list[JSON]]:
    loaded: Mapping[str, list[JSON]] = yaml.safe_load((HERE / "roles.yaml").read_text())
    return loaded


def kubeconfig(stage: RealStage, account: str) -> Path:
    """Return the access of a driver's account, which is made once for each rig."""
    namespace = f"driver-{account}"
    plane = stage.rig.plane
    path = plane.folder / f"{namespace}.kubeconfig"
    if not path.exists():
        _make_account(stage, account, namespace)
        plane.kubeconfig(namespace, plane.account_token(namespace, "plugin"))
    return path


def _make_account(stage: RealStage, account: str, namespace: str) -> None:
    subject = {"kind": "ServiceAccount", "name": "plugin", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    named: JSON = {"metadata": {"name": namespace}}
    made: dict[str, JSON] = {
        "/api/v1/namespaces": named,
        f"/api/v1/namespaces/{namespace}/serviceaccounts": {"metadata": {"name": "plugin"}},
        f"{RBAC}/clusterroles": {**named, "rules": _roles()[account]},
        f"{RBAC}/clusterrolebindings": {**named, "roleRef": role, "subjects": [subject]},
    }
    for collection, body in made.items():
        try:
            stage.client.create(collection, body)
        except ApiError as problem:
            if problem.code != EXISTS:
                raise


def number(name: str) -> int:
    """Return the number in the name of a device such as gpu-3 or gpu-3-mig-1g5gb-19-2."""
    number = re.search(r"\d+", name)
    assert number, name
    return int(number[0])
