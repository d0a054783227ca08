"""Evaluate the selectors of a webhook configuration as the API server does."""

from collections.abc import Mapping
from typing import Any

import msgspec

from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import LabelRequirement, LabelSelector, Operator
from drawbridge.config.string_formats import LabelKey, LabelValue
from drawbridge.names import POD_WEBHOOK


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[_Requirement, ...] | None = None


def selects_pod(
    live: Mapping[str, Any] | None, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
) -> bool:
    """Return whether the API server calls `pods.drawbridge.dev` for pods with these labels.

    The match conditions do not count. Without the webhook configuration, nothing is selected.
    """
    return any(
        _matches(webhook.get("namespaceSelector"), namespace_labels)
        and _matches(webhook.get("objectSelector"), labels)
        for webhook in (live or {}).get("webhooks") or ()
        if webhook.get("name") == POD_WEBHOOK
    )


def _matches(raw: object, labels: Mapping[str, str]) -> bool:
    # The API server has validated the selector, and accepts more keys than the configuration.
    selector = msgspec.convert(raw or {}, _Selector)
    requirements = (
        LabelRequirement(
            LabelKey(match_expression.key),
            match_expression.operator,
            tuple(map(LabelValue, match_expression.values)),
        )
        for match_expression in selector.match_expressions or ()
    )
    wanted = {
        LabelKey(key): LabelValue(text) for key, text in (selector.match_labels or {}).items()
    }
    return selector_matches(LabelSelector(wanted, tuple(requirements)), labels)
