"""Decides where the controller may act for a pod: only where admission would translate the pod.

The rights of the controller cover all namespaces, but any client can create a pod that looks as if
admission had translated it.
"""

from collections.abc import Callable, Mapping

from controller.protocols import ObjectCache, Unstructured
from controller.watched_objects import PartialObject, WatchedPodMetadata
from drawbridge.agreement.device_quotas import ConfiguredQuotas
from drawbridge.agreement.scope import Mode, decide_namespace_scope, decide_pod_scope
from drawbridge.agreement.webhook_selectors import PodWebhook, read_pod_webhook
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.placement import decide_placement
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.names import ADMIN_ACCESS_LABEL


class AdmissionScope:
    """The scope decision of admission, from the caches of the controller.

    Without the webhook configuration, every namespace is out of scope.
    """

    def __init__(
        self,
        namespaces: ObjectCache[PartialObject],
        read_webhook: Callable[[], Unstructured | None],
        configuration: Callable[[], Configuration],
    ) -> None:
        self._namespaces = namespaces
        self._read_webhook = read_webhook
        self._configuration = configuration
        self._quotas = ConfiguredQuotas()
        self._webhook: tuple[Unstructured | None, PodWebhook] = (None, PodWebhook())

    def is_enforced(self, namespace: str) -> bool:
        """Return whether admission translates pods of a namespace."""
        labels = self._read_labels(namespace)
        if labels is None:
            return False
        scope, webhook = self._configuration().scope, self._find_webhook()
        return decide_namespace_scope(namespace, labels, scope, webhook).mode is Mode.ENFORCE

    def includes(self, metadata: WatchedPodMetadata) -> bool | None:
        """Return whether admission would translate a pod; None if its namespace is unknown."""
        labels = self._read_labels(metadata.namespace)
        if labels is None:
            return None
        scope, webhook = self._configuration().scope, self._find_webhook()
        pod = metadata.scope_fields
        decided = decide_pod_scope(metadata.namespace, labels, pod, scope, webhook)
        return decided.mode is Mode.ENFORCE

    def placement(self, namespace: str) -> Placement:
        """Return the placement of the pods of a namespace."""
        return decide_placement(self._read_labels(namespace) or {}, self._configuration())

    def allows_admin_access(self, namespace: str) -> bool:
        """Return whether Kubernetes allows claims with admin access in a namespace."""
        return (self._read_labels(namespace) or {}).get(ADMIN_ACCESS_LABEL) == "true"

    def quotas(self, namespace: str) -> tuple[DeviceQuota, ...]:
        """Return the device quotas that apply to a namespace."""
        labels = self._read_labels(namespace) or {}
        return self._quotas.selecting(self._configuration(), namespace, labels)

    def _find_webhook(self) -> PodWebhook:
        """Return the live webhook, read once for each version of its configuration."""
        live = self._read_webhook()
        if live is not self._webhook[0]:
            self._webhook = live, read_pod_webhook(live)
        return self._webhook[1]

    def _read_labels(self, namespace: str) -> Mapping[str, str] | None:
        cached = self._namespaces.get(namespace)
        return None if cached is None else cached.value.metadata.labels or {}
