"""Adds tolerations of taints with the effect NoSchedule to a pod."""

from typing import Final

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.device import Taint
from drawbridge.dra.taints import Toleration, tolerates
from drawbridge.translate.changes.patch import Patch

_TOLERATIONS: Final[Path] = ("spec", "tolerations")
_EFFECT: Final = "NoSchedule"


def add_toleration(patch: Patch, key: str) -> bool:
    """Tolerate all taints with a key; returns whether the pod did not tolerate one before.

    Raises EditError if the field has the wrong type.
    """
    if is_tolerated(patch.pod, key):
        return False
    patch.append(_TOLERATIONS, {"key": key, "operator": "Exists", "effect": _EFFECT})
    return True


def is_tolerated(pod: Value, key: str) -> bool:
    """Whether the pod tolerates the taint with this key and no value."""
    taint = Taint(key, _EFFECT)
    tolerations = map(_read, as_list(get_value(pod, _TOLERATIONS)))
    return any(each is not None and tolerates(each, taint) for each in tolerations)


def _read(value: Value) -> Toleration | None:
    """Return a toleration; None if the API server refuses it."""
    fields = as_mapping(value)
    key, operator, text, effect = (
        fields.get(name) or "" for name in ("key", "operator", "value", "effect")
    )
    if not isinstance(key, str) or not isinstance(operator, str):
        return None
    if not isinstance(text, str) or not isinstance(effect, str):
        return None
    return Toleration(key, operator, text, effect)
