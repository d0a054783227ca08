"""Removes the holds of nodes that have ended, and counts the nodes that a plan is moving.

An administrator holds devices of a node for a pod by an annotation with the time of its end. It has
no effect after that. Text that is no hold stays, because nobody knows what it means.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from controller.current_writes import write_unless_changed
from controller.kept_writes import merge_kept
from controller.protocols import Gauge, ObjectCache, ObjectStore, Reporter, WatchedObject
from controller.reconcile import FailedLast
from controller.watched_objects import PartialObject
from drawbridge.ledger.node_holds import NodeHold, read_node_hold
from drawbridge.names import HOLD_ANNOTATION, MOVING_ANNOTATION

NAME: Final = "holds"
# The devices of pods that are evicted for a hold can be kept for longer than the hold. Whoever
# executes the plan may look at what it held.
KEPT_SECONDS: Final = 600.0
MAX_CHANGES: Final = 100


def find_ended(nodes: Iterable[WatchedObject[PartialObject]], now: float) -> Iterator[str]:
    """Yield the names of the nodes with a hold that ended some time ago."""
    for node in nodes:
        text = (node.value.metadata.annotations or {}).get(HOLD_ANNOTATION)
        hold = read_node_hold(text) if text else None
        if isinstance(hold, NodeHold) and now - hold.until.timestamp() >= KEPT_SECONDS:
            yield node.name


class EndedHoldReconciler:
    """Removes the annotation; `now` is the Unix time of the API server."""

    name = NAME

    def __init__(
        self,
        nodes: ObjectCache[PartialObject],
        store: ObjectStore,
        *,
        reporter: Reporter,
        now: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._store = store
        self._reporter = reporter
        self._now = now
        self._failed_last = FailedLast(time.monotonic)

    async def reconcile(self) -> None:
        """Remove the ended holds of a bounded number of nodes, and count those that move."""
        moving = sum(
            MOVING_ANNOTATION in (each.value.metadata.annotations or {})
            for each in self._nodes.all()
        )
        self._reporter.set_gauge(Gauge.MOVING_NODES, moving)
        ended = dict.fromkeys(find_ended(self._nodes.all(), self._now()))
        await self._failed_last.process_each(ended, self._remove, MAX_CHANGES)

    async def _remove(self, name: str, _: None) -> None:
        cached = self._nodes.get(name)
        # What was removed before it took time, and another hold can have begun meanwhile.
        if cached is None or not any(find_ended([cached], self._now())):
            return
        version, annotations = cached.version, {HOLD_ANNOTATION: None}
        change = {"metadata": {"resourceVersion": version, "annotations": annotations}}
        if await write_unless_changed(merge_kept(self._store, name, change)):
            self._reporter.count(NAME, "removed")
