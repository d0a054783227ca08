"""What every replica follows from its start on, so that one that becomes the leader knows it.

All else that the controller remembers belongs to a term (controller.reconcilers).
"""

from collections.abc import Callable

from controller.caches import ControllerCaches
from controller.former_nodes import FormerNodes
from controller.usage_observer import UsageObserver
from drawbridge.cluster.server_clock import boot_time


class Observations:
    """What a process observes; `now` is the Unix time of the API server."""

    def __init__(self, caches: ControllerCaches, now: Callable[[], float]) -> None:
        self.usage = UsageObserver(
            caches.claims,
            caches.pods,
            caches.device_pods,
            now,
            lambda: caches.synced,
        )
        self.former = FormerNodes(boot_time)
        caches.nodes.subscribe(self.former.node_changed)
        caches.nodes.subscribe(self.usage.plugins.node_changed)
        caches.claims.subscribe(self.usage.claim_changed)
        caches.pods.subscribe(self.usage.pod_changed)
        caches.device_pods.subscribe(self.usage.device_pod_changed)
        caches.slices.subscribe(self.usage.slice_changed)
