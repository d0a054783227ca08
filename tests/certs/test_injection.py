"""The bundle goes into every entry that calls a Service of the own namespace, and nowhere else."""

import base64
from typing import Any

import pytest

from certs.injection import (
    compose_injection,
    find_other_injector,
    find_trusted,
    is_trusted_everywhere,
)
from drawbridge.agreement.field_ownership import compose_release
from tests.certs.samples import authorities, authority

OWN = "drawbridge-system"
BUNDLE = authorities(["a", "b"]).bundle
OLD = authorities(["a"]).bundle


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def entry(name: str, bundle: str = "", namespace: str = OWN) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": "drawbridge-webhook", "namespace": namespace}}
    if bundle:
        client["caBundle"] = encode(bundle)
    return {"name": name, "clientConfig": client, "sideEffects": "None"}


def configuration(*entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "drawbridge", **metadata},
        "webhooks": list(entries),
    }


def test_every_own_entry_gets_the_bundle_even_if_one_has_it() -> None:
    live = configuration(entry("a", BUNDLE), entry("b", OLD), entry("c"))
    change = compose_injection(live, OWN, BUNDLE)
    assert change is not None
    wanted = {"caBundle": encode(BUNDLE)}
    assert change["webhooks"] == [{"name": each, "clientConfig": wanted} for each in "abc"]
    assert set(change) == {"apiVersion", "kind", "metadata", "webhooks"}
    assert change["metadata"] == {"name": "drawbridge"}


def test_nothing_changes_if_every_own_entry_has_the_bundle() -> None:
    by_url = {"name": "url", "clientConfig": {"url": "https://example.com"}}
    elsewhere = entry("other", namespace="team")
    assert (
        compose_injection(configuration(entry("a", BUNDLE), by_url, elsewhere), OWN, BUNDLE) is None
    )
    assert compose_injection(configuration(), OWN, BUNDLE) is None


def test_an_entry_of_another_namespace_or_with_an_address_is_left_alone() -> None:
    by_url = {"name": "url", "clientConfig": {"url": "https://example.com"}}
    live = configuration(entry("a"), by_url, entry("other", namespace="team"))
    change = compose_injection(live, OWN, BUNDLE)
    assert change is not None
    assert [each["name"] for each in change["webhooks"]] == ["a"]


def test_a_certificate_is_trusted_everywhere_only_if_no_entry_lacks_it() -> None:
    upcoming = authority("b").certificate
    both, old = configuration(entry("a", BUNDLE)), configuration(entry("b", OLD))
    assert is_trusted_everywhere([both], OWN, upcoming)
    assert not is_trusted_everywhere([both, old], OWN, upcoming)
    assert not is_trusted_everywhere([configuration(entry("a"))], OWN, upcoming)
    assert is_trusted_everywhere([configuration(entry("a", namespace="team"))], OWN, upcoming)
    assert is_trusted_everywhere([], OWN, upcoming)


def test_the_trusted_certificates_are_those_of_all_readable_bundles() -> None:
    broken = configuration(entry("a", "garbage"), entry("b", OLD))
    assert find_trusted([broken], OWN) == authorities(["a"]).trusted
    broken["webhooks"][1]["clientConfig"]["caBundle"] = "no base64!"
    assert find_trusted([broken], OWN) == ()


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"cert-manager.io/inject-ca-from": "ns/name"}, "cert-manager.io/inject-ca-from"),
        ({"drawbridge.dev/ca": "external"}, "drawbridge.dev/ca"),
        ({"drawbridge.dev/ca": "managed", "cert-manager.io/other": "x"}, None),
        (None, None),
    ],
)
def test_an_annotation_says_who_else_injects_the_bundle(
    annotations: dict[str, str] | None, told: str | None
) -> None:
    assert find_other_injector(configuration(annotations=annotations)) == told
    assert find_other_injector({"metadata": None}) is None


# --- ownership ------------------------------------------------------------------------------------


def managed(*managers: str) -> dict[str, Any]:
    fields = [{"manager": each, "operation": "Apply"} for each in managers]
    return configuration(managedFields=fields, resourceVersion="7")


def test_only_the_own_entries_of_the_field_managers_are_removed() -> None:
    patch = compose_release(managed("kubectl", "ours", "flux"), "ours")
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "managedFields": [
                {"manager": "kubectl", "operation": "Apply"},
                {"manager": "flux", "operation": "Apply"},
            ],
        }
    }


def test_nothing_is_released_that_is_not_owned_or_that_nobody_else_owns() -> None:
    assert compose_release(managed("kubectl"), "ours") is None
    assert compose_release(managed("ours"), "ours") is None
    assert compose_release(configuration(), "ours") is None
    assert compose_release(None, "ours") is None
