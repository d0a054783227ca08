"""Scenario: somebody has the token of the controller, and sends requests as it."""

import base64
from collections.abc import Callable
from functools import partial

from e2e.controlplane.client import ApiError, Client
from e2e.installed.installation import CONTROLLER, NAMESPACE, installed
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

API = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = [
    f"{API}/{kind}webhookconfigurations/drawbridge" for kind in ("mutating", "validating")
]
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ADDRESS = {"url": "https://127.0.0.1:9"}
CHANGES: list[JSON] = [
    {"op": "replace", "path": "/webhooks/0/clientConfig", "value": ADDRESS},
    {"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*/*"]},
    {"op": "remove", "path": "/webhooks/0/namespaceSelector"},
    {"op": "remove", "path": "/webhooks/0"},
    {"op": "add", "path": "/metadata/labels/a", "value": "b"},
]
# The controller keeps it with bridge placement only.
NAME = "drawbridge-allocator-tls"
OF_TOKENS = "kubernetes.io/service-account-token"


def find_refusal(request: Callable[[], object]) -> str:
    """Return why the API server refuses a request; empty if it succeeds."""
    try:
        request()
    except ApiError as problem:
        return str(problem)
    return ""


def change(client: Client, path: str, operation: JSON) -> JSON:
    """Try one change of a webhook configuration."""
    return client.patch(path, [operation], "application/json-patch+json", dryRun="All")


def make_secret(client: Client, kind: str) -> JSON:
    """Try to create a Secret, into which the control plane writes a token if it has that type."""
    metadata = {"name": NAME, "annotations": {"kubernetes.io/service-account.name": CONTROLLER}}
    head = {"apiVersion": "v1", "kind": "Secret"}
    return client.create(SECRETS, {**head, "type": kind, "metadata": metadata}, dryRun="All")


def longer_bundle(client: Client, path: str) -> JSON:
    """Return a change to the bundle of the first webhook, as a rotation makes it."""
    bundle = client.get(path)["webhooks"][0]["clientConfig"]["caBundle"]
    twice = base64.b64encode(base64.b64decode(bundle) * 2).decode()
    return {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": twice}


@scenario("full", rig="installed", needs=NEEDS)
def the_token_of_the_controller_gives_no_rights_of_others(stage: Stage) -> None:
    """It neither sends requests elsewhere nor makes tokens. What the controller does succeeds."""
    installed(stage)
    plane = stage.processes
    stolen = plane.client(plane.account_token(NAMESPACE, CONTROLLER))
    for path in CONFIGURATIONS:
        for operation in CHANGES:
            attempt = partial(find_refusal, partial(change, stolen, path, operation))
            told = stage.wait(f"{operation} of {path} is refused", attempt)
            assert "account of an administrator" in told, told
        usual = longer_bundle(stage.client, path)
        assert not find_refusal(partial(change, stolen, path, usual))
    attempt = partial(find_refusal, partial(make_secret, stolen, OF_TOKENS))
    told = stage.wait("a token is refused", attempt)
    assert "creates only the Secrets" in told, told
    assert not find_refusal(partial(make_secret, stolen, "Opaque"))
