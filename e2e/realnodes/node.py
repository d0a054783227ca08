"""One real node: containerd, kubelet and kube-proxy in namespaces of their own.

The rig starts each program with its own log, so that a scenario can kill and start one of them.
All of them, containers too, end with the first process of the node's PID namespace.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.processes import Process
from e2e.realnodes import cgroups, mounts, network, settings
from e2e.realnodes.build import Programs
from e2e.realnodes.enter import HERE, INIT, children

LOG_LEVEL = 2
PROGRAMS = ("kubelet", "containerd", "kube-proxy")


@dataclass(frozen=True)
class NodePlaces:
    """What a node is made of: its number, its folder by a short path, and its cgroup.

    `seed` is a root of containerd that has the images. The node's own `root` is on the same mount,
    else there are no hard links. The kubelet has the feature `gates` of the control plane.
    """

    name: str
    number: int
    folder: Path
    cgroup: str
    kubelet_access: Path
    proxy_access: Path
    seed: Path
    root: Path
    gates: Mapping[str, bool]


class RealNode:
    """The processes of one node; it may die and start again with the same folder."""

    def __init__(self, places: NodePlaces, programs: Programs) -> None:
        self.places = places
        self.name = places.name
        self.address = network.address(places.number)
        self.programs = programs
        self.processes: dict[str, Process] = {}
        self.inside = 0
        places.folder.mkdir(parents=True, exist_ok=True)
        self._write_settings()

    def path(self, *parts: str) -> Path:
        """Return a part of the node's folder as the rig sees it."""
        return self.places.folder.joinpath(*parts)

    def _write_settings(self) -> None:
        folder = self.places.folder
        (folder / "network").mkdir(exist_ok=True)
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="ascii")
        plugins, runc = self.programs.runtime, self.programs.runc
        runtime = settings.containerd(self.places.root, folder / "network", plugins, runc)
        (folder / "containerd.toml").write_text(runtime, encoding="utf-8")
        lists = settings.network(network.pods(self.places.number))
        contents = {
            "network/rig.conflist": lists,
            "kubelet.json": settings.kubelet(folder, self.places.cgroup, self.places.gates),
            "proxy.json": settings.proxy(self.places.proxy_access, self.name),
        }
        for name, content in contents.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")

    # --- the node ------------------------------------------------------------------------------

    def start_namespaces(self) -> None:
        """Start the first process; programs can start once `mounted` says so."""
        self._seed_images()
        self.path(mounts.READY).unlink(missing_ok=True)
        python = (sys.executable, "-ES")
        command = (
            *(_nsenter(), f"--net={network.namespace(self.name)}"),
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(*python, INIT, *python, HERE / "mounts.py", self.places.folder),
        )
        self.processes["node"] = Process(f"{self.name} node", command, self.path("node.log"))

    def _seed_images(self) -> None:
        """Give containerd a root that has the images: hard links, and databases of its own."""
        root = self.places.root
        if root.exists():
            return
        subprocess.run(["cp", "-al", self.places.seed, root], check=True)  # noqa: S607  # of the PATH
        for database in root.rglob("*.db"):
            own = database.with_name(f"{database.name}.own")
            shutil.copyfile(database, own)
            own.replace(database)

    def mounted(self) -> bool:
        """Return whether the node's folders are mounted."""
        return self.path(mounts.READY).exists()

    def wait(self, ready: Callable[[], bool], program: str) -> None:
        """Wait for something that a program of the node does."""
        self.processes[program].wait_ready(ready)

    def start_runtime(self) -> None:
        """Start containerd."""
        self.wait(self.mounted, "node")
        (first,) = children(self.processes["node"].child.pid)
        self.inside = first
        self.start_program("containerd", "containerd", "-c", self.path("containerd.toml"))

    def runtime_answers(self) -> bool:
        """Return whether containerd answers."""
        command = self._command("ctr", "--connect-timeout=1s", "version")
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def start_programs(self) -> None:
        """Start kubelet and kube-proxy."""
        self.wait(self.runtime_answers, "containerd")
        self.start_kubelet()
        proxy = self.programs.kubernetes / "kube-proxy"
        self.start_program("kube-proxy", proxy, f"--config={self.path('proxy.json')}")

    def start_kubelet(self) -> None:
        """Start the kubelet; may be called again after it was killed."""
        self.start_program(
            "kubelet",
            self.programs.kubernetes / "kubelet",
            f"--config={self.path('kubelet.json')}",
            f"--kubeconfig={self.places.kubelet_access}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--v={LOG_LEVEL}",
        )

    def start(self) -> None:
        """Start the node alone, as after a power failure."""
        self.kill()
        cgroups.clear(self.places.cgroup)
        network.restore(self.name)
        self.start_namespaces()
        self.start_runtime()
        self.start_programs()

    def isolate(self) -> None:
        """Cut the network and kill the programs; containers stay, and nobody controls them."""
        network.cut(self.name)
        for name in PROGRAMS:
            self.processes.pop(name).kill()

    def kill(self) -> None:
        """End the node at once with everything on it; its folder stays."""
        for name in reversed(list(self.processes)):
            self.processes.pop(name).kill()

    @property
    def alive(self) -> bool:
        """Return whether the node runs with all its programs."""
        return {"node", *PROGRAMS} <= self.processes.keys()

    def kill_kubelet(self) -> None:
        """Kill the kubelet; containers stay."""
        self.processes.pop("kubelet").kill()

    def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again."""
        self.kill_kubelet()
        self.start_kubelet()

    # --- programs ------------------------------------------------------------------------------

    def run(self, *words: str | Path) -> str:
        """Run a command on the node to its end, and return its output."""
        done = subprocess.run(self._command(*words), check=True, capture_output=True, text=True)
        return done.stdout

    def start_program(self, name: str, *words: str | Path) -> None:
        """Start a program that the rig watches; its log is named after it."""
        log = self.path(f"{name}.log")
        self.processes[name] = Process(f"{self.name} {name}", self._command(*words), log)

    def _command(self, *words: str | Path) -> list[str]:
        # The program ends with nsenter, which is what the rig can kill.
        namespaces = ("--target", str(self.inside), "--net", "--mount", "--pid")
        tied = ("setpriv", "--pdeathsig", "KILL", "--")
        path = f"{self.programs.path}:{os.environ['PATH']}"
        environment = ("env", f"PATH={path}", f"LD_LIBRARY_PATH={self.programs.libraries}")
        return list(map(str, (_nsenter(), *namespaces, *tied, *environment, *words)))


def _nsenter() -> str:
    program = shutil.which("nsenter")
    assert program is not None, "nsenter is not on the PATH"
    return program
