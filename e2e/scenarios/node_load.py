"""Creates legacy pods on real nodes all the time, and counts what became of them.

One client creates pods as a controller does: it tries again when it is refused. The other creates
Jobs, whose pods get devices, print them, and end. A watch sees every pod, also those that are
evicted. In the end every pod was translated, none is missing, and every Job has completed.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from e2e.controlplane.client import JSON, ApiError
from e2e.realnodes.stage import RealStage, container, read_output
from e2e.runner import print_line
from e2e.scenarios.admission import ORIGINAL
from e2e.scenarios.node_devices import LEGACY
from e2e.scenarios.objects import pod_spec

BATCH = "/apis/batch/v1"
KIND = "load.drawbridge.test"
# Jobs at one time: fewer than the devices, so that a device is given to one Job after another.
AT_ONCE = 3
POD_SECONDS, JOB_SECONDS = 0.2, 0.5
ENOUGH = 5
CLIENT_SECONDS = 90
COMPLETED_SECONDS = 90.0
# The owner of evicted pods makes others, which are not failures of the Job.
EVICTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def is_translated(pod: JSON) -> bool:
    """Return whether a pod was translated and asks for no legacy name."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return ORIGINAL in pod["metadata"].get("annotations", {}) and LEGACY not in limits


@dataclass
class Load:
    """What two clients have asked for until now, and what they were answered.

    `refused` has the messages of answers after which a client tried again; `name` begins the names
    of the pods.
    """

    nodes: RealStage
    at_once: int = AT_ONCE
    name: str = "plain"
    asked: int = 0
    pods: list[JSON] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    seen: dict[str, JSON] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Open the watch before the first pod."""
        self.stream = self.nodes.client.watch(self.nodes.pod_path())

    # --- the clients, each in a thread of its own ------------------------------------------------

    def create_pods(self) -> None:
        """Create pods that nobody schedules, one after the other."""
        while not self.ended.wait(POD_SECONDS):
            body = self.nodes.pod_object(
                f"{self.name}-{len(self.pods)}", limits={LEGACY: "1"}, schedulerName="nobody"
            )
            if pod := self._create(self.nodes.pod_path(), body):
                self.pods.append(pod)

    def create_jobs(self) -> None:
        """Create Jobs, a few at one time."""
        while not self.ended.wait(JOB_SECONDS):
            if len(self.jobs) - len(self.completed()) >= self.at_once:
                continue
            name = f"job-{len(self.jobs)}"
            if self._create(self.nodes.path("jobs", "", BATCH), self._job(name)):
                self.jobs.append(name)

    def _create(self, path: str, body: JSON) -> JSON | None:
        self.asked += 1
        try:
            return self.nodes.client.create(path, body)
        except ApiError as problem:
            self.refused.append(str(problem))
        except OSError as problem:
            self.unanswered.append(str(problem))
        return None

    def _job(self, name: str) -> JSON:
        spec = pod_spec(limits={LEGACY: "1"}, nodeSelector=self.nodes.selector)
        spec["containers"][0].update(container(ends=True))
        spec.update(restartPolicy="Never", terminationGracePeriodSeconds=1)
        policy = {"rules": [EVICTED]}
        template = {"metadata": {"labels": {KIND: "job"}}, "spec": spec}
        return {
            "metadata": {"name": name, "labels": {KIND: "job"}},
            "spec": {"template": template, "podFailurePolicy": policy},
        }

    def watch(self) -> None:
        """Note every pod of the namespace at its creation."""
        with contextlib.suppress(OSError, ValueError):
            for event in self.stream:
                if event["type"] == "ADDED":
                    self.seen[event["object"]["metadata"]["name"]] = event["object"]

    # --- what became of it -----------------------------------------------------------------------

    def completed(self) -> list[JSON]:
        """List the Jobs that have completed."""
        listed = self.nodes.client.get(self.nodes.path("jobs", "", BATCH))["items"]
        return [job for job in listed if job.get("status", {}).get("succeeded") == 1]

    def all_completed(self) -> bool:
        """Return whether every Job has completed."""
        return len(self.completed()) == len(self.jobs)

    def all_seen(self) -> bool:
        """Return whether the watch has seen every pod that was created."""
        return {pod["metadata"]["name"] for pod in self.pods} <= self.seen.keys()

    def __str__(self) -> str:
        made = f"{len(self.pods)} pods and {len(self.jobs)} Jobs created"
        return f"{made}, {len(self.refused)} requests refused, {len(self.unanswered)} unanswered"

    def check(self) -> None:
        """Check that every request was answered, and every pod was translated and is there."""
        assert self.unanswered == []
        assert [text for text in self.refused if "webhook" not in text] == []
        assert self.asked == len(self.pods) + len(self.jobs) + len(self.refused)
        untranslated = [name for name, pod in self.seen.items() if not is_translated(pod)]
        assert untranslated == []
        pods = self.nodes.client.get(self.nodes.pod_path())["items"]
        left = {pod["metadata"]["name"] for pod in pods}
        created = {pod["metadata"]["name"] for pod in self.pods}
        assert created <= left, f"missing: {sorted(created - left)}"
        assert all(map(is_translated, self.pods))
        self.check_jobs()

    def check_jobs(self) -> None:
        """Check that every Job has completed, and that each pod that is left printed one device."""
        assert self.all_completed()
        done = self.nodes.kubectl("logs", f"--selector={KIND}=job", "--prefix", "--tail=-1").check()
        printed: dict[str, list[str]] = {}
        for line in done.out.splitlines():
            source, _, text = line.partition("] ")
            printed.setdefault(source, []).append(text)
        jobs = self.nodes.client.get(self.nodes.pod_path(), labelSelector=f"{KIND}=job")["items"]
        assert len(printed) == len(jobs), f"{sorted(printed)} of {len(jobs)} pods"
        for source, lines in printed.items():
            output = read_output("\n".join(lines))
            assert output is None or len(output.nodes) == 1, f"{source}: {lines}"


@contextlib.contextmanager
def load(nodes: RealStage, at_once: int = AT_ONCE) -> Iterator[Load]:
    """Create pods and Jobs until the end of the block, and a few after it; then check them."""
    made = Load(nodes, at_once)
    watching = threading.Thread(target=made.watch, daemon=True)
    watching.start()
    try:
        with _running(made, made.create_pods, made.create_jobs):
            _wait_for_more(made)
            yield made
            _wait_for_more(made)
        nodes.wait("every Job completes", made.all_completed, COMPLETED_SECONDS)
        nodes.wait("the watch has seen every pod", made.all_seen, COMPLETED_SECONDS)
    finally:
        made.stream.close()
        watching.join(30)
    made.check()


@contextlib.contextmanager
def pods_created(nodes: RealStage) -> Iterator[None]:
    """Create pods until the end of the block; none is refused, translated or not."""
    made = Load(nodes, name="bare")
    with _running(made, made.create_pods):
        yield
    made.stream.close()
    assert made.refused == []
    assert made.unanswered == []
    assert made.asked == len(made.pods) > ENOUGH


@contextlib.contextmanager
def _running(made: Load, *clients: Callable[[], None]) -> Iterator[None]:
    threads = [threading.Thread(target=client, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        made.ended.set()
        for thread in threads:
            thread.join(CLIENT_SECONDS)
        print_line(f"      {made}")


def _wait_for_more(made: Load) -> None:
    pods, jobs = len(made.pods) + ENOUGH, len(made.completed()) + ENOUGH

    def more() -> bool:
        return len(made.pods) > pods and len(made.completed()) > jobs

    made.nodes.wait("pods are created and Jobs complete", more, COMPLETED_SECONDS)
