"""Watches the pods of a soak: which are there, how long each waited for its node, and its end."""

import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.controlplane.client import JSON, ApiError, Client
from e2e.controlplane.watch import ListWatch
from e2e.soak.pods import PRIORITIES

NOT_FOUND = 404
PHASE, KIND, PRIORITY = (f"rig.drawbridge.dev/{name}" for name in ("phase", "kind", "priority"))


@dataclass
class PodLife:
    """When a pod was seen first, with a node, and gone; seconds of a monotonic clock."""

    phase: str
    kind: str
    priority: str
    created: float
    bound: float = 0.0
    gone: float = 0.0


class Waits:
    """All pods with the labels of a soak, from a watch."""

    def __init__(self, client: Client) -> None:
        self.lives: dict[str, PodLife] = {}
        self._client, self._vanished = client, set[str]()
        self._lock = threading.Lock()
        self._watch = ListWatch(client, "/api/v1/pods", self._told)

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    def stop(self) -> None:
        """End."""
        self._watch.stop()

    def _told(self, event: str, pod: JSON) -> None:
        labels, uid = pod["metadata"].get("labels", {}), pod["metadata"]["uid"]
        if PHASE not in labels:
            return
        now = time.monotonic()
        with self._lock:
            life = self.lives.setdefault(
                uid, PodLife(labels[PHASE], labels[KIND], labels[PRIORITY], now)
            )
            if pod["spec"].get("nodeName") and not life.bound:
                life.bound = now
            if event == "DELETED":
                life.gone = now

    def delete(self, path: str) -> None:
        """Delete a pod; one that has no node vanishes at once, and may be bound at that moment."""
        name = path.rpartition("/")[2]
        with self._lock:
            self._vanished.add(name)
        try:
            deleted = self._client.delete(path, grace=None)
        except ApiError as problem:
            if problem.code != NOT_FOUND:
                raise
            return
        if deleted["metadata"].get("deletionGracePeriodSeconds"):
            with self._lock:
                self._vanished.discard(name)  # its kubelet ends it

    @property
    def vanished(self) -> frozenset[str]:
        """The pods that were deleted, and that no kubelet had to end."""
        with self._lock:
            return frozenset(self._vanished)

    def alive(self, phase: str) -> int:
        """Count the pods of a phase."""
        with self._lock:
            return sum(life.phase == phase and not life.gone for life in self.lives.values())

    def rows(self, phase: str) -> Iterator[str]:
        """Yield a line of the report for each priority, if the phase was played."""
        with self._lock:
            lives = [life for life in self.lives.values() if life.phase == phase]
        for name, _, _ in PRIORITIES if lives else ():
            # A volume decides itself how long its pod waits.
            mine = [life for life in lives if life.priority == name and life.kind != "volume"]
            waited = [life.bound - life.created for life in mine if life.bound]
            never = [life for life in mine if not life.bound]
            yield f"{phase:10}  {name:6}  {len(mine):6}  {quantiles(waited)}  {len(never):5}"


HEAD = f"{'phase':10}  priority  pods  {'p50':>8}  {'p90':>8}  {'p99':>8}  {'worst':>8}  unbound"


def quantiles(seconds: list[float], scale: float = 1, unit: str = "s") -> str:
    """Return median, 90 %, 99 % and the worst, in a unit of which `scale` are a second."""
    if len(seconds) < 2:
        return "  ".join(["       -"] * 4)
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    values = (cuts[49], cuts[89], cuts[98], max(seconds))
    return "  ".join(f"{f'{scale * value:.1f} {unit}':>8}" for value in values)
