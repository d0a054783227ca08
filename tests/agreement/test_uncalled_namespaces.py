"""Which namespaces are reported because the API server does not call the webhook for their pods."""

from drawbridge.agreement.uncalled_namespaces import find_uncalled_namespaces
from drawbridge.agreement.webhook_selectors import read_pod_webhook
from drawbridge.config.model import LabelSelector, Scope
from drawbridge.names import TRANSLATE_LABEL
from tests.tables import YamlValue

NAME = "kubernetes.io/metadata.name"
LABELLED = {TRANSLATE_LABEL: "enforce"}


def find(webhook: dict[str, YamlValue], namespaces: dict[str, dict[str, str]]) -> list[str]:
    live: YamlValue = {"webhooks": [{"name": "pods.drawbridge.dev", **webhook}]}
    scope = Scope(namespace_selector=LabelSelector())
    told = find_uncalled_namespaces(namespaces, scope, read_pod_webhook(live))
    return [each.message.partition(";")[0] for each in told]


def test_only_namespaces_with_the_label_that_are_not_of_drawbridge_are_reported() -> None:
    requirement: YamlValue = {"key": NAME, "operator": "NotIn", "values": ["a", "b", "own", "off"]}
    webhook: dict[str, YamlValue] = {
        "clientConfig": {"service": {"namespace": "own"}},
        "namespaceSelector": {"matchExpressions": [requirement]},
    }
    assert find(webhook, {"a": {}, "own": LABELLED, "c": LABELLED}) == []
    off = {TRANSLATE_LABEL: "off"}
    namespaces = {"b": LABELLED, "a": LABELLED, "own": LABELLED, "c": LABELLED, "off": off}
    assert find(webhook, namespaces) == ["in scope, but not called for: a, b"]


def test_labels_of_pods_make_no_namespace_one_that_is_reported() -> None:
    pilot: YamlValue = {"matchLabels": {"team.example.com/pilot": "1"}}
    assert find({"objectSelector": pilot}, {"a": LABELLED}) == []
