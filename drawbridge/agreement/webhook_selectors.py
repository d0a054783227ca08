"""Evaluate the selectors of a webhook configuration as the API server does."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import LabelRequirement, LabelSelector, Operator
from drawbridge.config.string_formats import LabelKey, LabelValue
from drawbridge.names import POD_WEBHOOK, WEBHOOK_CONFIGURATION


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[_Requirement, ...] | None = None


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _WebhookConfiguration(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    webhooks: tuple[_Webhook, ...] | None = None


def find_pod_webhook(objects: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the webhook configuration of Drawbridge among objects of files, if one is readable."""
    for value in objects:
        try:
            read = msgspec.convert(value, _WebhookConfiguration)
        except msgspec.ValidationError:
            continue
        if read.metadata.name == WEBHOOK_CONFIGURATION:
            return value
    return None


def selects_pod(
    live: Mapping[str, Any] | None, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
) -> bool:
    """Return whether the API server calls `pods.drawbridge.dev` for pods with these labels.

    The match conditions do not count. Without the webhook configuration, nothing is selected.
    """
    return any(
        _matches(webhook.namespace_selector, namespace_labels)
        and _matches(webhook.object_selector, labels)
        for webhook in msgspec.convert(live or {}, _WebhookConfiguration).webhooks or ()
        if webhook.name == POD_WEBHOOK
    )


def _matches(selector: _Selector | None, labels: Mapping[str, str]) -> bool:
    # The API server has validated the selector, and accepts more keys than the configuration.
    selector = selector or _Selector()
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
