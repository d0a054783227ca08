"""Tells whether the API server accepts how an update changes what translations change in a pod.

Claims, scheduler, resources and environment stay. Tolerations can be added, and scheduling gates
removed. While a pod is gated, its node selector and its node affinity can become narrower, which
controllers such as Kueue use to choose its nodes.
"""

from collections.abc import Callable
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping, equal_json
from drawbridge.translate.changes.undo import CONTAINER_FIELDS, CONTAINER_LISTS, SPEC_FIELDS

_TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect")  # the seconds may change
_TERMS: Final = (
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
_Rule = Callable[[Value, Value], bool]


def is_legal_update(old: Value, new: Value) -> bool:
    """Return whether the API server accepts the update, whatever it does to other fields."""
    before, after = (as_mapping(get_value(pod, ("spec",))) for pod in (old, new))
    rules = _ALWAYS | _WHILE_GATED if as_list(before.get("schedulingGates")) else _ALWAYS
    return all(
        rules.get(name, _is_equal)(before.get(name), after.get(name)) for name in SPEC_FIELDS
    ) and all(_keep_fields(before.get(part), after.get(part)) for part in CONTAINER_LISTS)


def _is_equal(old: Value, new: Value) -> bool:
    """Return whether two values are equal; an empty one equals a missing one."""
    return equal_json(old or None, new or None)


def _keep_fields(old: Value, new: Value) -> bool:
    """Return whether the containers keep the fields that translations change."""
    before, after = as_list(old), as_list(new)
    return len(before) == len(after) and all(
        _is_equal(as_mapping(current).get(name), as_mapping(update).get(name))
        for current, update in zip(before, after, strict=True)
        for name in CONTAINER_FIELDS
    )


def _keeps_tolerations(old: Value, new: Value) -> bool:
    before, after = (
        {repr([as_mapping(item).get(name) or "" for name in _TOLERATION_FIELDS]) for item in items}
        for items in (as_list(old), as_list(new))
    )
    return before <= after


def _adds_no_gate(old: Value, new: Value) -> bool:
    before, after = (
        {repr(as_mapping(gate).get("name")) for gate in gates}
        for gates in (as_list(old), as_list(new))
    )
    return after <= before


def _keeps_labels(old: Value, new: Value) -> bool:
    return as_mapping(old).items() <= as_mapping(new).items()


def _keeps_terms(old: Value, new: Value) -> bool:
    """Return whether an affinity to nodes only gets narrower, and no other one changes."""
    before, after = as_mapping(old), as_mapping(new)
    others = (before.keys() | after.keys()) - {_TERMS[0]}
    terms, narrowed = (as_list(get_value(affinity, _TERMS)) for affinity in (old, new))
    return (
        all(_is_equal(before.get(name), after.get(name)) for name in others)
        and (not terms or len(terms) == len(narrowed))
        and all(map(_keeps_requirements, terms, narrowed))
    )


def _keeps_requirements(old: Value, new: Value) -> bool:
    """Return whether a term only gets more requirements. A term without any matches no node."""
    before, after = (
        [as_list(as_mapping(term).get(part)) for part in ("matchExpressions", "matchFields")]
        for term in (old, new)
    )
    return (any(before) or not any(after)) and all(
        equal_json(update[: len(current)], current)
        for current, update in zip(before, after, strict=True)
    )


_ALWAYS: Final[dict[str, _Rule]] = {
    "tolerations": _keeps_tolerations,
    "schedulingGates": _adds_no_gate,
}
_WHILE_GATED: Final[dict[str, _Rule]] = {
    "nodeSelector": _keeps_labels,
    "affinity": _keeps_terms,
}
