"""Says what was not read of a cluster or is not rehearsed, and what can come otherwise."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from drawbridge.audit.objects import AuditedObjects, namespace_of, owners_of, text_at
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.names import SCHEDULER_NAME
from drawbridge.report.plugin_units import count_units

_MAX_NAMES: Final = 5
_OF_KUBERNETES: Final = ("", "default-scheduler", SCHEDULER_NAME)
# Owners whose rules decide whether and where their pods come back.
_DECIDING: Final = ("Job", "StatefulSet")


def note_unread(objects: AuditedObjects) -> Iterator[str]:
    """Yield notes about namespaces and owners of pods, and about budgets, that were not read."""
    namespaces = {each.name for each in objects.namespaces}
    if unread := sorted({namespace_of(e) for e in objects.pods if count_units(e)} - namespaces):
        yield (
            f"Namespaces that were not read: {list_some(unread, _MAX_NAMES, 'namespace')}. Their"
            " labels are not known; they count as namespaces in which nothing is translated yet."
        )
    owners = {
        (namespace_of(each), text_at(each, "kind"), text_at(each, "metadata", "name"))
        for each in objects.workloads
    }
    missing = dict[str, None]()
    for pod in objects.pods:
        if not count_units(pod):
            continue
        for reference in owners_of(pod):
            kind, name = f"{reference.get('kind')}", f"{reference.get('name')}"
            if kind in _DECIDING and (namespace_of(pod), kind, name) not in owners:
                missing[f"{namespace_of(pod)}/{kind}/{name}"] = None
    if missing:
        listed = list_some([*missing], _MAX_NAMES, "owner")
        yield (
            f"Owners that were not read: {listed}. Whether a Job fails when its pod ends is not"
            " known, and a step can lose such pods unannounced."
        )
    if objects.pods and not objects.budgets:
        yield "No PodDisruptionBudget was read. One that exists can stop a drain."
    yield from _note_schedulers(objects)


def _note_schedulers(objects: AuditedObjects) -> Iterator[str]:
    """Say which pods no kube-scheduler places."""
    placed = Counter(text_at(e, "spec", "schedulerName") for e in objects.pods if count_units(e))
    others = [name for name in sorted(placed) if name not in _OF_KUBERNETES]
    if others:
        listed = list_some(
            [f"{name} ({count_noun(placed[name], 'pod')})" for name in others],
            _MAX_NAMES,
            "scheduler",
        )
        yield (
            f"Pods of other schedulers: {listed}. The steps are rehearsed as if kube-scheduler"
            " placed them: their queues and gangs are not rehearsed, and a queue charges claims"
            " only where it has the DeviceClass."
        )
