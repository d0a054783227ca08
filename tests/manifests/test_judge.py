"""The component of the judge: what it may do, what it is asked, and that it can stop nothing."""

from typing import Any

import pytest

from cli.commands import parser_for
from tests.manifests.test_base import (
    BASE,
    LABELS,
    NAMESPACE,
    index_by_name,
    list_webhooks,
    read_expressions,
)
from tests.tables import read_yaml, read_yaml_documents
from webhook.judging.reviews import CONTROL_PLANE_USERS
from webhook.server.judge_process import KINDS

Json = dict[str, Any]
FOLDER = BASE.parent / "components" / "judge"
OBJECTS: list[Json] = [
    obj
    for name in read_yaml((FOLDER / "kustomization.yaml").read_text("utf-8"))["resources"]
    for obj in read_yaml_documents((FOLDER / name).read_text("utf-8"))
]
CLUSTER_SCOPED = (
    "ClusterRole",
    "ClusterRoleBinding",
    "FlowSchema",
    "ValidatingWebhookConfiguration",
)
NAMESPACED_HOOKS = ("claims", "pods", "workloads")


def find(kind: str) -> Json:
    (matching,) = (each for each in OBJECTS if each["kind"] == kind)
    return matching


HOOKS: dict[str, Json] = {
    webhook["name"].partition(".")[0]: webhook
    for webhook in find("ValidatingWebhookConfiguration")["webhooks"]
}


def read_conditions(hook: str) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in HOOKS[hook]["matchConditions"]}


def test_every_object_has_the_namespace_and_the_labels_of_the_judge() -> None:
    labels = {**LABELS, "app.kubernetes.io/component": "judge"}
    for obj in OBJECTS:
        assert obj["metadata"]["labels"] == labels
        expected = None if obj["kind"] in CLUSTER_SCOPED else NAMESPACE
        assert obj["metadata"].get("namespace") == expected, obj["kind"]


def test_the_judge_only_reads() -> None:
    roles = [each for each in OBJECTS if each["kind"] in ("Role", "ClusterRole")]
    verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    secrets = [rule for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]
    assert [rule["resourceNames"] for rule in secrets] == [["drawbridge-ca"]]
    bound = {
        (obj["roleRef"]["kind"], obj["roleRef"]["name"], obj["subjects"][0]["name"])
        for obj in OBJECTS
        if obj["kind"].endswith("Binding")
    }
    assert bound == {(each["kind"], each["metadata"]["name"], "drawbridge-judge") for each in roles}


def test_the_process_accepts_its_arguments_and_listens_on_the_ports() -> None:
    pod = find("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, *words = [*container["command"], *container["args"]]
    options = parser_for(["serve"], program).parse_args(words)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    listening = {"admission": options.listen, "health": options.health, "metrics": options.metrics}
    assert {name: each.port for name, each in listening.items()} == ports
    assert options.drain < pod["terminationGracePeriodSeconds"]
    assert find("Service")["spec"]["selector"].items() <= (
        find("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_webhook_cannot_stop_the_cluster(kind: str) -> None:
    hook = HOOKS[kind]
    service = hook["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == ("drawbridge-judge", NAMESPACE)
    assert service["path"] == f"/judge/{kind}"
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["timeoutSeconds"] <= 3
    assert "not-being-deleted" in read_conditions(kind)
    resources = {each for rule in hook["rules"] for each in rule["resources"]}
    assert "resourceslices" not in resources
    assert not any("/" in each or "*" in each for each in resources)


@pytest.mark.parametrize("kind", NAMESPACED_HOOKS)
def test_only_labelled_namespaces_are_judged(kind: str) -> None:
    expected = next(
        read_expressions(hook)
        for hook in list_webhooks()
        if hook["name"] == "workloads.drawbridge.dev"
    )
    assert read_expressions(HOOKS[kind]) == expected
    assert "request.namespace != 'kube-system'" in read_conditions(kind).values()


def test_the_claims_of_the_control_plane_and_of_drawbridge_are_left_out() -> None:
    conditions = read_conditions("claims")
    listed = conditions["not-made-by-the-control-plane"]
    assert set(listed.split("'")[1::2]) == CONTROL_PLANE_USERS
    accounts = {
        f"system:serviceaccount:{NAMESPACE}:{name}" for name in index_by_name("ServiceAccount")
    }
    assert set(conditions["not-made-by-drawbridge"].split("'")[1::2]) == accounts


def test_an_update_of_the_same_spec_is_left_out() -> None:
    for kind in ("claims", "classes"):
        assert "object.spec != oldObject.spec" in read_conditions(kind)["spec-changes"]
    assert HOOKS["pods"]["rules"][0]["operations"] == ["CREATE"]


def test_the_kinds_of_workloads_are_those_of_the_webhook_for_workloads() -> None:
    (workloads,) = [hook for hook in list_webhooks() if hook["name"] == "workloads.drawbridge.dev"]
    assert HOOKS["workloads"]["rules"] == workloads["rules"]
