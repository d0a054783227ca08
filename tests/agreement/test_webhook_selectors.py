"""The selectors of the pod webhook, evaluated as the API server evaluates them."""

from typing import Any

from drawbridge.agreement.webhook_selectors import read_pod_webhook
from tests.tables import every_row

LABEL = "drawbridge.dev/translate"
NAME = "kubernetes.io/metadata.name"
ENFORCE = {LABEL: "enforce", NAME: "team"}


def live(name: str = "pods.drawbridge.dev", **selectors: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"webhooks": [{"name": name, **selectors}]}


def requires(key: str, operator: str, *values: str) -> dict[str, Any]:
    requirement = {"key": key, "operator": operator, **({"values": values} if values else {})}
    return {"matchExpressions": [requirement]}


OPTED_IN = requires(LABEL, "Exists")
NOT_SYSTEM = requires(NAME, "NotIn", "kube-system", "drawbridge-system")
NOT_OFF = requires(LABEL, "NotIn", "off")

CASES: dict[str, tuple[Any, dict[str, str], dict[str, str], bool]] = {
    "without selectors every pod": (live(), {}, {}, True),
    "a null selector selects everything": (live(namespaceSelector=None), {}, {}, True),
    "an empty selector selects everything": (live(namespaceSelector={}), {}, {}, True),
    "a namespace with the label": (live(namespaceSelector=OPTED_IN), ENFORCE, {}, True),
    "a namespace without the label": (live(namespaceSelector=OPTED_IN), {NAME: "team"}, {}, False),
    "a label with a value": (
        live(namespaceSelector={"matchLabels": {LABEL: "enforce"}}),
        {LABEL: "report"},
        {},
        False,
    ),
    "a system namespace": (
        live(namespaceSelector=NOT_SYSTEM),
        {LABEL: "enforce", NAME: "kube-system"},
        {},
        False,
    ),
    "a pod without labels": (live(objectSelector=NOT_OFF), ENFORCE, {}, True),
    "a pod that opted out": (live(objectSelector=NOT_OFF), ENFORCE, {LABEL: "off"}, False),
    "another webhook": (live("updates.drawbridge.dev"), ENFORCE, {}, False),
    "no configuration": (None, ENFORCE, {}, False),
    "no webhooks": ({"webhooks": None}, ENFORCE, {}, False),
}


@every_row("case", CASES.values(), ids=CASES)
def test_the_api_server_calls_the_webhook_for(
    case: tuple[Any, dict[str, str], dict[str, str], bool],
) -> None:
    configuration, namespace_labels, labels, selected = case
    assert read_pod_webhook(configuration).selects(namespace_labels, labels) is selected
