"""The paths at which the webhook reviews pods and workloads."""

from collections.abc import Mapping
from typing import Protocol

from webhook.admission.replies import PendingReply, Reply
from webhook.server.http_handler import Endpoint


class ReviewHandler(Protocol):
    """Handles reviews."""

    def review_pod(self, body: bytes, seconds: float | None = None) -> Reply | PendingReply:
        """Handle the review of a pod."""

    def review_guarded_pod(self, body: bytes, seconds: float | None = None) -> Reply | PendingReply:
        """Handle the review of a pod after all mutating webhooks."""

    def review_workload(self, body: bytes, seconds: float | None = None) -> Reply | PendingReply:
        """Handle the review of an object with a pod template."""


def list_endpoints(reviews: ReviewHandler) -> Mapping[str, Endpoint]:
    """Return the endpoints of the webhook by path."""
    return {
        "/admit/pods": Endpoint("pods", reviews.review_pod),
        "/admit/workloads": Endpoint("workloads", reviews.review_workload),
        "/guard/pods": Endpoint("guard", reviews.review_guarded_pod),
    }
