"""Gives a scenario real nodes, containers that print what they have, and their output."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from e2e.installed.installation import NAMESPACE
from e2e.installed.kubectl import Kubectl
from e2e.realnodes.cdi import FOLDER, VARIABLE, VISIBLE
from e2e.realnodes.device_plugin import VARIABLE as UNITS
from e2e.realnodes.fleet import RealFleet
from e2e.realnodes.images import BUSYBOX
from e2e.realnodes.rig import NodeRig
from e2e.scenarios import objects
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

END = "printed everything"
# What a container prints: the variables, device nodes and consumed amounts that it was given.
PRINTED = f"({VARIABLE}|{UNITS}|{VISIBLE}=)"
PRINT = f"env | grep -E '^{PRINTED}'; ls {FOLDER} 2>/dev/null | sed 's#^#{FOLDER}/#'; echo {END}"
# Who would create a scenario's pods again.
OWNERS = {"deployments": "/apis/apps/v1", "jobs": "/apis/batch/v1"}
OURS = "--selector=app.kubernetes.io/name=drawbridge"
LOGS = ("logs", OURS, "--all-containers", "--prefix", "--tail=5")
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=55s")
KEEP = "trap 'exit {code}' TERM; while :; do sleep 1000 & wait $!; done"


@dataclass(frozen=True)
class Printed:
    """What a container printed of itself: its variables, and its device nodes."""

    variables: dict[str, str]
    nodes: tuple[str, ...]


def container(
    *,
    ends: bool = False,
    says: str = PRINT,
    code: int = 0,
    **more: Any,  # noqa: ANN401  # fields of a container
) -> JSON:
    """Return fields of a container that prints what it has, and stays unless it `ends`.

    `code` is the exit code of one that is told to end.
    """
    script = says if ends else f"{says}; {KEEP.format(code=code)}"
    return {"image": BUSYBOX, "command": ["sh", "-c", script], **more}


def read_output(text: str) -> Printed | None:
    """Read what a container printed; None when it is not complete yet."""
    lines = text.splitlines()
    if END not in lines:
        return None
    pairs = [line.partition("=") for line in lines if re.match(PRINTED, line)]
    nodes = tuple(sorted(line for line in lines if line.startswith(f"{FOLDER}/")))
    return Printed({name: value for name, _, value in pairs}, nodes)


class RealStage(Stage):
    """One scenario's part of a cluster with real nodes, which are those of the rig in order."""

    fleet: RealFleet
    says = PRINT

    def __init__(self, name: str, version: str, fleet: RealFleet) -> None:
        super().__init__(name, version, fleet.client, fleet, fleet.rig.plane)
        self.fleet = fleet
        self._suffixes: list[str] = []

    @property
    def rig(self) -> NodeRig:
        """Return the nodes' processes."""
        return self.fleet.rig

    def node_name(self, suffix: str) -> str:
        """Return the real node behind a suffix: the first one that no other suffix has."""
        if suffix not in self._suffixes:
            assert len(self._suffixes) < len(self.rig.names), f"no node is left for {suffix}"
            self._suffixes.append(suffix)
        return self.rig.names[self._suffixes.index(suffix)]

    def set_up(self) -> None:
        """Wait until every node takes pods."""
        self.rig.wait("every node is Ready", lambda: all(map(self.rig.ready, self.rig.names)))
        super().set_up()

    def clean_up(self) -> None:
        """Start nodes again that a scenario left dead or in part, then take everything away."""
        for name, node in self.rig.nodes.items():
            if not node.alive:
                self.fleet.kill_node(name)
                self.fleet.start_node(name)
        for kind, group in OWNERS.items():
            path = self.path(kind, "", group)
            for one in self.client.get(path)["items"]:
                self._delete(f"{path}/{one['metadata']['name']}", grace=None)
        super().clean_up()

    def report(self) -> Iterator[str]:
        """Yield the state of pods and claims, and ends of logs of Drawbridge and kubelets."""
        yield from super().report()
        inside = self.kubectl.inside(NAMESPACE)
        for words in (("get", "pods", "-o", "wide"), ("get", "events"), LOGS):
            yield from inside(*words).out.splitlines()
        for node in self.rig.nodes.values():
            if "kubelet" in node.processes:
                yield from (f"--- {node.name}", node.processes["kubelet"].tail(20))

    def pod_object(self, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Return a pod whose containers print what they have."""
        pod = super().pod_object(name, **spec)
        for declared in pod["spec"]["containers"]:
            declared.update(container(says=self.says))
        return pod

    def deployment(self, name: str, replicas: int, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Create a Deployment whose containers print what they have."""
        pod = self.pod_object(name, **spec)
        body = objects.deployment(pod, replicas)
        return self.client.create(self.path("deployments", "", "/apis/apps/v1"), body)

    def pods_of(self, name: str, *, ready: bool = True) -> list[JSON]:
        """List the pods of a Deployment, only those that are ready and not ending if `ready`."""
        pods = self.client.get(self.pod_path(), labelSelector=f"app={name}")["items"]
        return [pod for pod in pods if not ready or is_ready(pod)]

    def wait_ready_pods(self, name: str, count: int) -> list[JSON]:
        """Wait until so many pods of a Deployment are ready."""
        self.wait(
            f"{count} pods of {name} are ready",
            lambda: len(self.pods_of(name)) == count,
            60.0,
        )
        return self.pods_of(name)

    def printed(self, pod: str, name: str = "main") -> Printed:
        """Wait for the output of a container, and return what it says."""

        def output() -> Printed | None:
            return read_output(self.output(pod, name))

        printed = self.wait(f"{pod}/{name} printed what it has", output)
        assert printed is not None
        return printed

    def output(self, pod: str, name: str = "main") -> str:
        """Return the output of a container so far."""
        done = self.kubectl("logs", pod, f"--container={name}")
        return done.out if done.code == 0 else ""

    def drain(self, *names: str) -> None:
        """Evict the pods of nodes, with the local storage that those of Drawbridge have."""
        self.kubectl("drain", *names, *DRAIN).check()

    @property
    def kubectl(self) -> Kubectl:
        """Return kubectl in the stage's namespace."""
        plane = self.processes
        cache = plane.folder / "kubectl-cache"
        return Kubectl(plane.bin / "kubectl", plane.user_config(), cache, self.namespace)


def real(stage: Stage) -> RealStage:
    """Return the stage of a scenario that runs on real nodes."""
    assert isinstance(stage, RealStage), "this scenario needs real nodes"
    return stage


def is_ready(pod: JSON) -> bool:
    """Return whether a pod is ready and not ending."""
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")
