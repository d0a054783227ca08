"""Watches the replicas of a Deployment of Drawbridge: which were ready at the same time."""

import contextlib
import threading
from collections.abc import Iterator

from e2e.controlplane.client import JSON, Client
from e2e.installed.installation import NAMESPACE
from e2e.realnodes.stage import is_ready

COMPONENT = "app.kubernetes.io/component"


class ReplicaWatch:
    """The images of the replicas that were ready, after each change."""

    def __init__(self, client: Client, component: str) -> None:
        self.history: list[list[str]] = []
        self._ready: dict[str, str] = {}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        selector = f"{COMPONENT}={component}"
        listed = client.get(path, labelSelector=selector)
        for pod in listed["items"]:
            self._note("ADDED", pod)
        self.history.append(sorted(self._ready.values()))
        version = listed["metadata"]["resourceVersion"]
        self.stream = client.watch(path, labelSelector=selector, resourceVersion=version)

    def run(self) -> None:
        """Follow the watch until somebody closes it."""
        with contextlib.suppress(OSError, ValueError):
            for event in self.stream:
                self._note(event["type"], event["object"])
                self.history.append(sorted(self._ready.values()))

    def _note(self, kind: str, pod: JSON) -> None:
        name = pod["metadata"]["name"]
        self._ready.pop(name, None)
        if kind != "DELETED" and is_ready(pod):
            self._ready[name] = pod["spec"]["containers"][0]["image"]

    def fewest(self) -> int:
        """Return the least number of replicas that were ready at the same time."""
        return min(map(len, self.history))

    def served_together(self, *images: str) -> bool:
        """Return whether replicas of all these images were ready at the same time."""
        return any(set(images) <= set(ready) for ready in self.history)


@contextlib.contextmanager
def watched(client: Client, component: str) -> Iterator[ReplicaWatch]:
    """Watch the replicas of a component until the end of the block."""
    watch = ReplicaWatch(client, component)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stream.close()
        thread.join(10)
