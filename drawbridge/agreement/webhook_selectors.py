"""Evaluate the selectors of a webhook configuration as the API server does."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from drawbridge.agreement.switch import SWITCH_CONDITION
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


class _Service(msgspec.Struct, frozen=True):
    namespace: str = ""


class _ClientConfig(msgspec.Struct, frozen=True):
    service: _Service | None = None


class _Condition(msgspec.Struct, frozen=True):
    name: str = ""


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = _ClientConfig()
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None
    match_conditions: tuple[_Condition, ...] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _WebhookConfiguration(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    webhooks: tuple[_Webhook, ...] | None = None


class PodWebhook(msgspec.Struct, frozen=True):
    """The selectors of `pods.drawbridge.dev` for namespaces and pods; none if it is missing.

    `service_namespace` is the namespace of Drawbridge itself. The switch changes no decision about
    pods: those that were translated before stay so.
    """

    selectors: tuple[tuple[LabelSelector, LabelSelector], ...] = ()
    service_namespace: str = ""
    is_switched_off: bool = False

    def selects(self, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether the API server calls the webhook for pods with these labels.

        The match conditions do not count.
        """
        return any(
            selector_matches(of_namespace, namespace_labels) and selector_matches(of_pod, labels)
            for of_namespace, of_pod in self.selectors
        )

    def selects_namespace(self, labels: Mapping[str, str]) -> bool:
        """Return whether the API server calls the webhook for any pods of a namespace."""
        return any(selector_matches(of_namespace, labels) for of_namespace, _ in self.selectors)


def read_pod_webhook(live: Mapping[str, Any] | None) -> PodWebhook:
    """Read the selectors of a webhook configuration, which the API server has validated."""
    return _read_selectors(msgspec.convert(live or {}, _WebhookConfiguration))


def find_pod_webhook(objects: Iterable[Mapping[str, Any]]) -> PodWebhook | None:
    """Return that of Drawbridge's webhook configuration among objects, if one can be read."""
    for value in objects:
        try:
            read = msgspec.convert(value, _WebhookConfiguration)
        except msgspec.ValidationError:
            continue
        if read.metadata.name == WEBHOOK_CONFIGURATION:
            return _read_selectors(read)
    return None


def _read_selectors(read: _WebhookConfiguration) -> PodWebhook:
    webhooks = [each for each in read.webhooks or () if each.name == POD_WEBHOOK]
    services = (each.client_config.service for each in webhooks)
    conditions = (named for each in webhooks for named in each.match_conditions or ())
    return PodWebhook(
        tuple(
            (_convert(each.namespace_selector), _convert(each.object_selector)) for each in webhooks
        ),
        next((each.namespace for each in services if each is not None), ""),
        SWITCH_CONDITION in [each.name for each in conditions],
    )


def _convert(selector: _Selector | None) -> LabelSelector:
    # The API server accepts more keys than the configuration.
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
    return LabelSelector(wanted, tuple(requirements))
