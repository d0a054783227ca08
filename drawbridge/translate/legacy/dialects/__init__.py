"""Dialects: one module for each way to request devices without DRA."""

from typing import Protocol

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import PodRequests
from drawbridge.translate.legacy.pod_view import PodView


class Dialect(Protocol):
    """What the module of a dialect exports."""

    @property
    def NAME(self) -> str:  # noqa: N802  # a constant of a module
        """The name, which is the first part of its rows in the decision table."""

    @property
    def PROJECT(self) -> str:  # noqa: N802
        """The project that allocates GPUs by itself, unseen by other projects; empty: none."""

    @property
    def TRIGGERS(self) -> frozenset[str]:  # noqa: N802
        """Scheduler names, and names or domains of resources, annotations and labels.

        The dialect does not apply to a pod without any of its triggers.
        """

    @property
    def READS(self) -> frozenset[str]:  # noqa: N802
        """The fields of the pod that it reads in addition to `pod_view.READS`.

        `metadata.finalizers`, `spec.nodeName`, or `container.securityContext`.
        """

    @property
    def STANDALONE_KEYS(self) -> tuple[str, ...]:  # noqa: N802
        """The annotations by which a pod without any device resource requests devices.

        A key that ends with a slash or a dot is the prefix of annotations and labels.
        """

    @property
    def ALLOCATED(self) -> tuple[str, ...]:  # noqa: N802
        """The annotations that its scheduler writes when it allocates the devices of a pod."""

    def read(self, pod: PodView, legacy: Legacy) -> PodRequests:
        """Return what the pod requests in the dialect; `NO_REQUESTS` if it requests nothing."""
