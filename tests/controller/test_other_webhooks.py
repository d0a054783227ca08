"""Detection of other webhooks that act on the same pods."""

from pathlib import Path
from typing import Any

from drawbridge.agreement.other_webhooks import find_other_webhooks
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "others.yaml")


def configuration(kind: str, name: str, webhooks: YamlValue) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": webhook["name"],
                "clientConfig": {
                    "service": {
                        "name": webhook.get("service", "webhook"),
                        "namespace": webhook.get("namespace", "kube-addons"),
                    }
                },
                "rules": [
                    {
                        "apiGroups": webhook.get("groups", [""]),
                        "resources": webhook.get("resources", ["pods"]),
                        "operations": webhook.get("operations", ["CREATE"]),
                    }
                ],
                "namespaceSelector": webhook.get("namespaces", {}),
            }
            for webhook in webhooks
        ],
    }


@every_row("case", CASES, ids=lambda case: case["name"])
def test_other_webhooks_are_found_as_the_table_says(case: YamlValue) -> None:
    mutating, validating = case.get("configurations", {}), case.get("validating", {})
    seen = [configuration("MutatingWebhookConfiguration", *each) for each in mutating.items()]
    seen += [configuration("ValidatingWebhookConfiguration", *each) for each in validating.items()]
    webhooks = find_other_webhooks(reversed(seen))
    expected = case.get("says", [])
    assert len(webhooks) == len(expected), [each.message for each in webhooks]
    for finding, words in zip(webhooks, expected, strict=True):
        assert words in finding.message
    for finding, remedy in zip(webhooks, case.get("remedies", []), strict=False):
        assert finding.remedy == remedy


def test_empty_objects_are_ignored() -> None:
    assert find_other_webhooks([{}, {"metadata": None, "webhooks": None}, {"webhooks": [{}]}]) == ()
