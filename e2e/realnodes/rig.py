"""A control plane and real nodes, inside the namespaces of a run.

    with NodeRig(("a", "b", "c")) as rig:
        rig.plane.admin.get("/api/v1/nodes")

Only `e2e.realnodes.enter` starts it, because it changes network and mounts.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import ControlPlane, Options
from e2e.controlplane.processes import Process, StartError
from e2e.realnodes import cgroups, network, settings
from e2e.realnodes.build import Programs
from e2e.realnodes.enter import RUN
from e2e.realnodes.node import NodePlaces, RealNode

# Everything but what a cloud does; addresses of pods are fixed.
CONTROLLERS = (
    "*",
    "-node-ipam-controller",
    "-node-route-controller",
    "-cloud-node-lifecycle-controller",
)
# A dead node shows within seconds, and its pods are evicted soon after.
QUICK_MANAGER = ("--node-monitor-grace-period=6s", "--node-monitor-period=1s")
QUICK_SERVER = (
    "--default-not-ready-toleration-seconds=5",
    "--default-unreachable-toleration-seconds=5",
)
PROXY_USER = "system:kube-proxy"
READY_SECONDS = 120.0
POLL_SECONDS = 0.05
# Where the rig sees the run's folder: paths of unix sockets must be short.
SHORT = Path("/mnt")


def options(version: str, names: tuple[str, ...]) -> Options:
    """Return the control plane for real nodes of these names."""
    users = {f"system:node:{name}": "system:nodes" for name in names}
    gates = {"DRADeviceTaintRules": True} if version == "1.36" else {}
    runtime = {"resource.k8s.io/v1beta2": True} if version == "1.36" else {}
    return Options(
        version=version,
        gates=gates,
        runtime=runtime,
        users={**users, PROXY_USER: ""},
        address=network.HUB,
        service_range=settings.SERVICES,
        nodes=True,
        controllers=CONTROLLERS,
        controller_manager=QUICK_MANAGER,
        apiserver=(
            *QUICK_SERVER,
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
        ),
    )


class NodeRig:
    """Real nodes and their control plane, from start to end."""

    def __init__(
        self,
        version: str,
        names: tuple[str, ...],
        programs: Programs,
        seed: Path,
        control: Options | None = None,
    ) -> None:
        self.names = names
        self.programs = programs
        self.seed = seed
        self.run = Path(os.environ[RUN])
        self.plane = ControlPlane(control or options(version, names))
        self.nodes: dict[str, RealNode] = {}
        self.timings: dict[str, float] = {}
        self._proxy: Process | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.print_logs()
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything; returns when every node is Ready and has no taint."""
        began = time.monotonic()
        network.connect(self.names)
        self.plane.start()
        self.timings["control plane"] = time.monotonic() - began
        self.nodes = {name: self._node(number, name) for number, name in enumerate(self.names)}
        # Without a range, Services have addresses of the loopback range, and a relay answers.
        if self.plane.options.service_range:
            self.start_proxy()
        for step in (RealNode.start_namespaces, RealNode.start_runtime, RealNode.start_programs):
            for node in self.nodes.values():
                step(node)
        self.wait("every node is Ready", lambda: all(map(self.ready, self.names)))
        self.timings["nodes"] = time.monotonic() - began

    def _node(self, number: int, name: str) -> RealNode:
        places = NodePlaces(
            name,
            number,
            SHORT / name,
            cgroups.make(self.run.name, name),
            self.plane.user_config(f"system:node:{name}"),
            self.plane.user_config(PROXY_USER),
            self.seed,
            self.run / name / "containerd",
            self.plane.options.gates,
        )
        return RealNode(places, self.programs)

    def start_proxy(self) -> None:
        """Start the kube-proxy beside the API server, which calls webhooks by their Service."""
        path = self.run / "proxy.json"
        wanted = settings.proxy(self.plane.user_config(PROXY_USER), self.names[0])
        path.write_text(json.dumps(wanted), encoding="utf-8")
        search = f"PATH={self.programs.path}:{os.environ['PATH']}"
        libraries = f"LD_LIBRARY_PATH={self.programs.libraries}"
        program = self.programs.kubernetes / "kube-proxy"
        command = ("/usr/bin/env", search, libraries, program, f"--config={path}")
        self._proxy = Process("kube-proxy", command, self.run / "proxy.log")

    def ready(self, name: str) -> bool:
        """Return whether a node is Ready and nothing keeps pods from it."""
        try:
            node = self.plane.admin.get(f"/api/v1/nodes/{name}")
        except ApiError as problem:
            if problem.code != 404:
                raise
            return False
        conditions = node["status"].get("conditions", ())
        ready = [one["status"] for one in conditions if one["type"] == "Ready"]
        return ready == ["True"] and not node["spec"].get("taints")

    def wait(self, what: str, question: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Wait until the answer is yes; StartError when time runs out or a program ends."""
        deadline = time.monotonic() + seconds
        while not question():
            self._check_processes()
            if time.monotonic() > deadline:
                raise StartError(f"not within {seconds:g} s: {what}")
            time.sleep(POLL_SECONDS)

    def _check_processes(self) -> None:
        for node in self.nodes.values():
            for process in node.processes.values():
                if process.child.poll() is not None:
                    raise StartError(f"{process.name} ended\n{process.tail()}")

    def print_logs(self) -> None:
        """Print the end of the logs of all nodes."""
        self.plane.print_logs()
        for node in self.nodes.values():
            for process in node.processes.values():
                print(f"--- {process.name}\n{process.tail(30)}", flush=True)  # noqa: T201

    def stop(self) -> None:
        """End the nodes, then the control plane, which would wait for their watches."""
        for node in self.nodes.values():
            node.kill()
        if self._proxy:
            self._proxy.kill()
        self.plane.stop()


def mount_run(run: Path) -> None:
    """Give the rig a /run of its own, and its folder a short path that nodes see too."""
    for words in (("-t", "tmpfs", "tmpfs", "/run"), ("--bind", str(run), str(SHORT))):
        subprocess.run(["mount", *words], check=True)  # noqa: S607  # mount of the PATH
