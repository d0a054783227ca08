"""Scenarios: people look at a simulated cluster with `drawbridge page`."""

import contextlib
import html
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.installed.installation import installed, wait_for_facts
from e2e.installed.launch import COMMANDS
from e2e.scenarios.admission import NEEDS, add_gpu_node, claim_of, legacy_pod
from e2e.scenarios.objects import JSON
from e2e.scenarios.people import Person
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import RBAC

_SECONDS = 30
# What shows the nodes and their devices, and nobody who holds one.
MACHINES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "deviceclasses"],
        "verbs": ["get", "list", "watch"],
    },
]


class OpenPage:
    """The page as a browser gets it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def read(self, path: str = "") -> str:
        """Load the page again."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=_SECONDS) as response:  # noqa: S310
            return html.unescape(response.read().decode())

    def part_of_node(self, name: str) -> str:
        """Return the part of the page about a node; empty if there is none."""
        parts = self.read().split("<details ")
        return next((each for each in parts if f">{name}</span>" in each), "")

    def part_that_waits(self) -> str:
        """Return the part of the page about waiting pods."""
        return self.read().partition('<div id="waiting">')[2].partition("<h2")[0]

    def read_events(self, count: int) -> list[str]:
        """Return the names of the first events of a page that was loaded before all changes."""
        request = f"{self.url}events?since=0"
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
            lines = (line.decode().strip() for line in response)
            events = (line.removeprefix("event: ") for line in lines if line.startswith("event"))
            return [next(events) for _ in range(count)]


@contextlib.contextmanager
def opened(environment: Mapping[str, str], access: Path, *words: str) -> Iterator[OpenPage]:
    """Serve the page for the user of a kubeconfig, and end it as Ctrl-C does."""
    command = [str(COMMANDS / "drawbridge"), "page", f"--kubeconfig={access}", *words]
    with subprocess.Popen(  # our own command
        command, env={**environment}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield OpenPage(process.stdout.readline().strip())
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait()
        assert code == 0, f"drawbridge page ended with {code}"


@scenario("full", rig="installed", needs=NEEDS)
def the_page_follows_a_pod_from_pending_to_running(stage: Stage) -> None:
    """It shows who holds each device, why a pod waits, and the pod on its device afterwards."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = legacy_pod(stage, "page-holder", 2)
    wait_for_facts(stage, cluster, body)
    with opened(cluster.environment(), cluster.kubectl.access) as page:
        stage.wait("both are free", lambda: "2 devices: 2 free" in page.part_of_node(machine.name))
        kubectl.apply(body).check()
        stage.wait_running("page-holder")
        stage.wait("both are held", lambda: "2 devices: 2 held" in page.part_of_node(machine.name))
        claim = f"{stage.namespace}/{claim_of(stage, 'page-holder')[1]}"
        assert claim in page.part_of_node(machine.name)
        kubectl.apply(legacy_pod(stage, "page-waiter")).check()
        waiter = f"{stage.namespace}/page-waiter"
        stage.wait("why it waits", lambda: waiter in page.part_that_waits())
        assert "PodPending" in page.part_that_waits()
        stage.delete_pod("page-holder")
        stage.wait_running("page-waiter")
        stage.wait(
            "the waiting one holds a device",
            lambda: (
                waiter in page.part_of_node(machine.name)
                and "1 held, 1 free" in page.part_of_node(machine.name)
            ),
        )
        stage.wait("it waits no more", lambda: waiter not in page.part_that_waits())
        assert claim not in page.read()
        assert page.read_events(2) == ["frame", "alive"]
        assert "What would happen to this cluster" in page.read("audit")


@scenario("full", rig="installed", needs=NEEDS)
def the_page_of_a_viewer_of_one_namespace_shows_no_holders_of_others(stage: Stage) -> None:
    """With the rights of a namespace, devices without an own holder are not known to be free."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)
    body = legacy_pod(stage, "page-hidden")
    wait_for_facts(stage, cluster, body)
    cluster.kubectl.inside(stage.namespace).apply(body).check()
    stage.wait_running("page-hidden")
    claim = claim_of(stage, "page-hidden")[1]
    viewer = Person(stage, cluster, "page-viewer")
    role: JSON = {"metadata": {"name": f"{stage.namespace}-machines"}, "rules": MACHINES}
    stage.cluster_object(f"{RBAC}/clusterroles", role)
    viewer.bind("ClusterRole", role["metadata"]["name"])
    viewer.bind("ClusterRole", "view", "default")
    try:
        stage.wait("the right", lambda: viewer.can("list", "resourceclaims", "--namespace=default"))
        with opened(cluster.environment(), viewer.access, "default") as page:
            stage.wait("the page", lambda: "2 unknown" in page.part_of_node(machine.name))
            shown = page.read()
            assert "You may read ResourceClaims of namespace default only" in shown, shown
            for hidden in (claim, "page-hidden"):
                assert hidden not in shown + page.read("audit"), hidden
            viewer.bind("ClusterRole", "view", stage.namespace)
        with opened(cluster.environment(), viewer.access, stage.namespace) as page:
            stage.wait("the own holder", lambda: claim in page.part_of_node(machine.name))
            assert "1 held, 1 unknown" in page.part_of_node(machine.name)
    finally:
        viewer.unbind(role["metadata"]["name"])
