"""Adds tolerations of taints with the effect NoSchedule to a pod."""

from collections.abc import Iterator
from typing import Final

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.translate.changes.patch import Patch

_TOLERATIONS: Final[Path] = ("spec", "tolerations")


def add_toleration(patch: Patch, key: str) -> bool:
    """Tolerate all taints with a key; returns whether the pod did not tolerate them before.

    Raises EditError if the field has the wrong type.
    """
    if is_tolerated(patch.pod, key):
        return False
    patch.append(_TOLERATIONS, {"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return True


def is_tolerated(pod: Value, key: str) -> bool:
    """Whether a toleration of the pod has this key, or tolerates all taints."""
    return not {key, ""}.isdisjoint(_find_tolerated(pod))


def _find_tolerated(pod: Value) -> Iterator[str]:
    """Yield the keys of tolerations of the NoSchedule effect; an empty one tolerates all taints."""
    for toleration in map(as_mapping, as_list(get_value(pod, _TOLERATIONS))):
        if toleration.get("effect") not in (None, "", "NoSchedule"):  # the value may be unhashable
            continue
        key = toleration.get("key")
        if key and isinstance(key, str):
            yield key
        elif not key and toleration.get("operator") == "Exists":
            yield ""
