"""Report namespaces with the label whose pods the API server does not send to the webhook."""

from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.agreement import operation_codes
from drawbridge.agreement.scope import ScopeRule, decide_namespace_scope
from drawbridge.agreement.webhook_selectors import PodWebhook
from drawbridge.config.model import Scope
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.names import POD_WEBHOOK, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION

_MOST_NAMES: Final = 10
_ABOUT: Final = f"MutatingWebhookConfiguration/{WEBHOOK_CONFIGURATION}"
_REMEDY: Final = (
    f"Change the selectors of the webhooks, or remove the label {TRANSLATE_LABEL} from the "
    "namespaces."
)


def find_uncalled_namespaces(
    namespaces: Mapping[str, Mapping[str, str]], scope: Scope, webhook: PodWebhook
) -> Iterator[Finding]:
    """Report, in one finding, the namespaces that have the label and that selectors leave out.

    `namespaces` are the labels by name. The selectors never select the namespace of Drawbridge, and
    may leave out others without the label on purpose. A webhook that is missing is reported
    elsewhere.
    """
    uncalled = sorted(
        name
        for name, labels in namespaces.items()
        if TRANSLATE_LABEL in labels
        and webhook.selectors
        and name != webhook.service_namespace
        and decide_namespace_scope(name, labels, scope, webhook).rule is ScopeRule.NOT_CALLED
    )
    if uncalled:
        listed = list_some(uncalled, _MOST_NAMES, "namespace")
        message = (
            f"in scope, but not called for: {listed}; the selectors of webhook {POD_WEBHOOK} leave "
            "these namespaces out, so their pods are not translated"
        )
        yield operation_codes.NAME_NOT_ACTIVE.at("webhooks", message, object=_ABOUT, remedy=_REMEDY)
