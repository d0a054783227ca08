"""The waiting pods that refer to each ResourceClaimTemplate of Drawbridge.

A template event has to find its pods without a search: any tenant can have thousands of pods that
wait, and thousands of templates can change within a second.
"""

from collections.abc import Collection

from controller.fair_queue import NamespacedName
from controller.protocols import WatchedObject
from controller.watched_objects import WatchedPod


class TemplateUsers:
    """An index of pods by template. It holds the pods of the cache of pods, and no others."""

    def __init__(self) -> None:
        self._users: dict[NamespacedName, dict[NamespacedName, None]] = {}

    def __len__(self) -> int:
        return len(self._users)

    def update(
        self, before: WatchedObject[WatchedPod] | None, after: WatchedObject[WatchedPod] | None
    ) -> None:
        """Handle a pod event."""
        if before is not None:
            for template in _owned_templates(before):
                self._remove(template, (before.namespace, before.name))
        if after is not None:
            for template in _owned_templates(after):
                self._users.setdefault(template, {})[after.namespace, after.name] = None

    def find(self, namespace: str, template: str) -> Collection[NamespacedName]:
        """Return the pods that refer to a template, the oldest event first."""
        return self._users.get((namespace, template), {}).keys()

    def _remove(self, template: NamespacedName, pod: NamespacedName) -> None:
        pods = self._users.get(template, {})
        pods.pop(pod, None)
        if not pods:
            self._users.pop(template, None)


def _owned_templates(pod: WatchedObject[WatchedPod]) -> frozenset[NamespacedName]:
    return frozenset((pod.namespace, name) for name in pod.value.owned_templates)
