"""The policies let the controller write what it writes, and nothing that RBAC cannot refuse it."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from certs.authority import Authorities, create_authority
from certs.injection import compose_injection
from certs.issuing import compose_leaf_secret
from certs.leaf import LEAF_LIFE, names_of_service, sign_leaf
from certs.secret import compose_secret
from drawbridge.agreement.match_conditions import plan_applies
from drawbridge.config.model import Admission, Configuration
from drawbridge.names import ALLOCATOR_SERVICE, CONTROLLER_POLICIES
from tests.manifests.policies import CONTROLLER, POLICIES, find_refusal
from tests.manifests.rendering import MANIFESTS, NAMESPACE, Json, read_base
from tests.tables import every_row, read_yaml_documents

JUDGE = MANIFESTS / "components" / "judge" / "judge-webhooks.yaml"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
OTHER = {"service": {"name": "of-another", "namespace": "other"}}
BROKEN = "matchConditions of updates.drawbridge.dev"
Change = Callable[[Json], object]


def read_webhooks() -> Iterator[Json]:
    """Return the webhook configurations as the API server has stored them."""
    files = ("admission-pods.yaml", "admission-workloads.yaml")
    base = [obj for name in files for obj in read_base(name)]
    for obj in (*base, *read_yaml_documents(JUDGE.read_text("utf-8"))):
        stored = {"uid": "u", "generation": 1, "resourceVersion": "1", "managedFields": [{}]}
        yield {**obj, "metadata": {**obj["metadata"], **stored}}


WEBHOOKS: Mapping[tuple[str, str], Json] = {
    (each["kind"], each["metadata"]["name"]): each for each in read_webhooks()
}


def apply(live: Json, change: Mapping[str, Any]) -> Json:
    """Return a webhook configuration after a server-side apply."""
    new = copy.deepcopy(live)
    new["metadata"] |= {"generation": 2, "managedFields": [{}, {"manager": "drawbridge"}]}
    hooks = {each["name"]: each for each in new["webhooks"]}
    for entry in change["webhooks"]:
        bundle = entry.get("clientConfig", {})
        hook = hooks[entry["name"]]
        hook |= entry | {"clientConfig": hook["clientConfig"] | bundle}
    return new


def refuse(live: Json, new: Json, user: str = CONTROLLER) -> str | None:
    return find_refusal("drawbridge-controller-webhooks", new, live, user)


def test_the_names_are_those_of_the_processes() -> None:
    assert sorted(POLICIES) == sorted(CONTROLLER_POLICIES)
    bound = [each for each in read_base("policies.yaml") if each["kind"].endswith("Binding")]
    assert {each["metadata"]["name"]: each["spec"] for each in bound} == {
        name: {"policyName": name, "validationActions": ["Deny"]} for name in POLICIES
    }


@every_row("key", WEBHOOKS, ids="-".join)
def test_the_controller_sets_every_bundle(key: tuple[str, str]) -> None:
    live = WEBHOOKS[key]
    change = compose_injection(live, NAMESPACE, "certificate" * 1000)
    assert change is not None
    new = apply(live, change)
    assert refuse(live, new) is None
    again = compose_injection(new, NAMESPACE, "another")
    assert again is not None
    assert refuse(new, apply(new, again)) is None


@pytest.mark.parametrize("every_pod", [False, True])
def test_the_controller_narrows_conditions_and_lets_the_guard_fail(every_pod: bool) -> None:  # noqa: FBT001
    live = {kind: WEBHOOKS[kind, "drawbridge"] for kind in (MUTATING, VALIDATING)}
    for kind, value in live.items():
        live[kind] = apply(value, compose_injection(value, NAMESPACE, "a") or {})
    configuration = Configuration(admission=Admission(every_pod=every_pod))
    changes = plan_applies(*live.values(), configuration, guard_served=True)
    assert {each["kind"] for each in changes} == {MUTATING, VALIDATING}
    for change in changes:
        before = live[change["kind"]]
        live[change["kind"]] = after = apply(before, change)
        assert refuse(before, after) is None
    hooks = {each["name"]: each for each in live[VALIDATING]["webhooks"]}
    assert hooks["guard.drawbridge.dev"]["failurePolicy"] == "Fail"


def test_the_controller_gives_up_its_fields() -> None:
    for live in WEBHOOKS.values():
        new = {**live, "metadata": {**live["metadata"], "managedFields": [{"manager": "b"}]}}
        assert refuse(live, new) is None


def hook(name: str, **fields: Any) -> Change:  # noqa: ANN401  # JSON
    """Return a change to one webhook."""
    return lambda obj: next(each for each in obj["webhooks"] if each["name"] == name).update(fields)


PODS, GUARD = (MUTATING, "drawbridge"), (VALIDATING, "drawbridge")
RULES = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
REFUSED: Mapping[str, tuple[tuple[str, str], Change]] = {
    "an address": (PODS, hook("pods.drawbridge.dev", clientConfig={"url": "https://a"})),
    "another Service": (PODS, hook("updates.drawbridge.dev", clientConfig=OTHER)),
    "rules": (PODS, hook("pods.drawbridge.dev", rules=RULES)),
    "rules of the guard": (GUARD, hook("guard.drawbridge.dev", rules=RULES)),
    "the namespaces": (PODS, hook("pods.drawbridge.dev", namespaceSelector={})),
    "a field of a later version": (PODS, hook("pods.drawbridge.dev", later=True)),
    "a field less": (PODS, lambda obj: obj["webhooks"][0].pop("objectSelector")),
    "the failure policy of another webhook": (
        PODS,
        hook("pods.drawbridge.dev", failurePolicy="Ignore"),
    ),
    BROKEN: (PODS, hook("updates.drawbridge.dev", matchConditions=[])),
    "its conditions less": (PODS, lambda obj: obj["webhooks"][1].pop("matchConditions")),
    "a webhook more": (
        GUARD,
        lambda obj: obj["webhooks"].append({**obj["webhooks"][0], "name": "a.b.c"}),
    ),
    "a webhook less": (GUARD, lambda obj: obj["webhooks"].pop()),
    "another name": (GUARD, lambda obj: obj["webhooks"][0].update(name="a.b.c")),
    "no webhook": (GUARD, lambda obj: obj.pop("webhooks")),
    "an owner, with which it is deleted": (
        GUARD,
        lambda obj: obj["metadata"].update(ownerReferences=[{"name": "a"}]),
    ),
    "an annotation": (
        GUARD,
        lambda obj: obj["metadata"].update(annotations={"drawbridge.dev/ca": "external"}),
    ),
    "metadata less": (GUARD, lambda obj: obj["metadata"].pop("uid")),
}


@every_row("name", REFUSED)
def test_the_controller_changes_nothing_else(name: str) -> None:
    key, change = REFUSED[name]
    live, new = WEBHOOKS[key], copy.deepcopy(WEBHOOKS[key])
    change(new)
    assert "account of an administrator" in (refuse(live, new) or "")
    assert refuse(live, new, "system:serviceaccount:drawbridge-system:other") is None
    assert refuse(live, new, "admin") is None


def test_the_controller_creates_the_secrets_that_it_keeps() -> None:
    authority = create_authority(1e9, 1e6)
    leaf = sign_leaf(authority, names_of_service(ALLOCATOR_SERVICE, NAMESPACE), 1e9, LEAF_LIFE)
    for secret in (
        compose_secret(Authorities(current=authority), None),
        compose_leaf_secret(leaf, None),
    ):
        assert find_refusal("drawbridge-controller-secrets", secret) is None


OF_TOKENS = "kubernetes.io/service-account-token"
SECRETS: Mapping[str, Json] = {
    "a token": {"metadata": {"name": "drawbridge-ca"}, "type": OF_TOKENS},
    "a token of another name": {"metadata": {"name": "a"}, "type": OF_TOKENS},
    "another name": {"metadata": {"name": "a"}, "type": "Opaque"},
    "a name that the API server makes": {"metadata": {"generateName": "a-"}, "type": "Opaque"},
}


@every_row("name", SECRETS)
def test_the_controller_creates_no_other_secret(name: str) -> None:
    secret = SECRETS[name]
    refusal = find_refusal("drawbridge-controller-secrets", secret)
    assert "creates only the Secrets drawbridge-ca" in (refusal or "")
    assert find_refusal("drawbridge-controller-secrets", secret, user="admin") is None
