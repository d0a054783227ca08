"""The manifests are consistent, grant minimal permissions, and start processes with valid options.

These tests need no cluster. `e2e` applies the manifests to a real API server.
"""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.commands import parser_for
from drawbridge.agreement.match_conditions import derive_widest_conditions
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.translate.manifests.workloads import SPECS, SPECS_BELOW, TEMPLATES
from tests.manifests.rendering import read_base
from tests.tables import every_row, read_yaml, read_yaml_documents
from tools import rbac_page
from webhook.server.process import list_endpoints

BASE = Path(__file__).parents[2] / "manifests" / "base"
NAMESPACE = "drawbridge-system"
OPT = "drawbridge.dev/translate"
PODS, WORKLOADS, CONFIGURATION = "/admit/pods", "/admit/workloads", "/admit/configuration"
Json = dict[str, Any]
SECRETS = ("drawbridge-ca", "drawbridge-allocator-tls")
KUSTOMIZATION: Json = read_yaml((BASE / "kustomization.yaml").read_text("utf-8"))
OBJECTS: list[Json] = [obj for name in KUSTOMIZATION["resources"] for obj in read_base(name)]
LABELS: Mapping[str, str] = KUSTOMIZATION["labels"][0]["pairs"]


def find_objects(*kinds: str) -> list[Json]:
    chosen = [each for each in OBJECTS if each["kind"] in kinds]
    assert chosen, kinds
    return chosen


def list_process_roles() -> list[Json]:
    """Return the roles of processes; those of people are bound by administrators."""
    people = {(each["kind"], each["metadata"]["name"]) for each in read_base("roles-people.yaml")}
    roles = find_objects("Role", "ClusterRole")
    return [each for each in roles if (each["kind"], each["metadata"]["name"]) not in people]


def index_by_name(kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in find_objects(kind)}


def list_pods() -> Iterator[tuple[Json, Json]]:
    for obj in find_objects("Deployment"):
        yield obj, obj["spec"]["template"]


def list_containers() -> Iterator[tuple[Json, Json, Json]]:
    for deployment, pod in list_pods():
        for container in pod["spec"]["containers"]:
            yield deployment, pod["spec"], container


def list_webhooks() -> Iterator[Json]:
    for obj in find_objects("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        yield from obj["webhooks"]


def list_pod_webhooks() -> Iterator[Json]:
    """Return the webhooks of pods and of what creates them."""
    return (hook for hook in list_webhooks() if "matchExpressions" in hook["namespaceSelector"])


def select_deployments(labels: Mapping[str, str]) -> list[str]:
    """Return the names of the Deployments whose pods have these labels."""
    return [
        deployment["metadata"]["name"]
        for deployment, pod in list_pods()
        if labels.items() <= pod["metadata"]["labels"].items()
    ]


def read_expressions(hook: Json, selector: str = "namespaceSelector") -> set[tuple[str, ...]]:
    return {
        (match_expression["key"], match_expression["operator"], *match_expression.get("values", ()))
        for match_expression in hook[selector]["matchExpressions"]
    }


def test_the_kustomization_lists_every_file() -> None:
    files = {each.name for each in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(files) == sorted(KUSTOMIZATION["resources"])
    assert KUSTOMIZATION["namespace"] == NAMESPACE
    assert list(index_by_name("Namespace")) == [NAMESPACE]


def test_every_object_is_unique() -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in OBJECTS]
    assert len(names) == len(set(names))


# --- permissions ----------------------------------------------------------------------------------


@every_row("role", find_objects("Role", "ClusterRole"), ids=lambda role: role["metadata"]["name"])
def test_roles_have_no_wildcards_and_no_privileged_verbs(role: Json) -> None:
    for rule in role["rules"]:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
        for word in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]):
            assert "*" not in word
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
        if "secrets" in rule["resources"]:
            assert role["kind"] == "Role"
            (name,) = rule.get("resourceNames") or ("",)
            assert name in SECRETS if name else rule["verbs"] == ["create"]
        if "resourceNames" in rule:
            assert "create" not in rule["verbs"], "resourceNames does not restrict create"


def test_the_account_of_the_scheduler_reads_no_secret_but_its_certificate() -> None:
    account = BASE.parent / "components" / "bridge" / "scheduler-account.yaml"
    roles = [each for each in read_yaml_documents(account.read_text("utf-8")) if each.get("rules")]
    rules = [rule for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]
    (rule,) = rules
    assert (rule["resourceNames"], rule["verbs"]) == (
        ["drawbridge-allocator-tls"],
        ["list", "watch"],
    )


def test_write_permissions_are_restricted_by_name() -> None:
    """Drawbridge may write only its own webhook configuration, facts, lease and quotas."""
    writing = {"update", "patch", "delete"}
    for role in list_process_roles():
        for rule in role["rules"]:
            restricted = {
                "configmaps",
                "leases",
                "mutatingwebhookconfigurations",
                "resourcequotas",
                "secrets",
                "validatingwebhookconfigurations",
            }
            if writing & set(rule["verbs"]) and restricted & set(rule["resources"]):
                assert rule.get("resourceNames"), role["metadata"]["name"]


def test_every_role_and_every_rule_states_its_reason() -> None:
    for role in rbac_page.list_roles():
        assert len(role.reason.split()) >= 3, role.name
        assert role.reason.endswith("."), role.name
        for rule, reason in zip(role.rules, role.rule_reasons, strict=True):
            assert len(reason.split()) >= 3, (role.name, rule)


def test_every_role_is_bound_to_an_existing_service_account() -> None:
    bound = set()
    for binding in find_objects("RoleBinding", "ClusterRoleBinding"):
        reference = binding["roleRef"]
        assert reference["name"] in index_by_name(reference["kind"])
        assert binding["kind"] == f"{reference['kind']}Binding"
        bound.add((reference["kind"], reference["name"]))
        for subject in binding["subjects"]:
            assert subject["kind"] == "ServiceAccount"
            assert subject["name"] in index_by_name("ServiceAccount")
            assert subject["namespace"] == NAMESPACE
    assert bound == {(each["kind"], each["metadata"]["name"]) for each in list_process_roles()}


def test_each_role_is_bound_to_one_process() -> None:
    for binding in find_objects("RoleBinding", "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert binding["metadata"]["name"].startswith(f"{subject['name']}-")
    accounts = {pod["spec"]["serviceAccountName"] for _, pod in list_pods()}
    assert accounts == set(index_by_name("ServiceAccount"))


def test_no_role_of_a_person_is_bound_by_the_installation() -> None:
    bound = {
        (obj["roleRef"]["kind"], obj["roleRef"]["name"])
        for obj in find_objects("RoleBinding", "ClusterRoleBinding")
    }
    people = {(each["kind"], each["metadata"]["name"]) for each in read_base("roles-people.yaml")}
    assert not bound & people


def test_the_roles_for_everybody_in_a_namespace_are_aggregated_and_cannot_configure() -> None:
    """A user of a namespace can neither label it nor change the configuration."""
    label = "rbac.authorization.k8s.io/aggregate-to-"
    aggregated = [
        role
        for role in read_base("roles-people.yaml")
        if any(key.startswith(label) for key in role["metadata"].get("labels", {}))
    ]
    assert {each["metadata"]["name"] for each in aggregated} == {
        "drawbridge-view",
        "drawbridge-edit",
    }
    for role in aggregated:
        for rule in role["rules"]:
            writes = {"create", "delete", "patch", "update"} & set(rule["verbs"])
            allowed = {"resourceclaims", "resourceclaimtemplates"}
            assert not writes or set(rule["resources"]) <= allowed


# --- processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("owned", list(list_containers()), ids=lambda owned: owned[2]["name"])
def test_container_arguments_are_valid(owned: tuple[Json, Json, Json]) -> None:
    _, spec, container = owned
    command: list[str] = container["command"] + container["args"]
    program, *words = command
    assert program == "drawbridge"
    options = parser_for(["serve"], "drawbridge").parse_args(words)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    listening = {"health": options.health, "metrics": options.metrics}
    if "listen" in options:
        listening["admission"] = options.listen
        assert options.drain < spec["terminationGracePeriodSeconds"]
    assert {name: listening[name].port for name in listening} == ports


@pytest.mark.parametrize("owned", list(list_containers()), ids=lambda owned: owned[2]["name"])
def test_every_volume_is_mounted_once(owned: tuple[Json, Json, Json]) -> None:
    _, spec, container = owned
    mounts = [each["name"] for each in container["volumeMounts"]]
    assert sorted(mounts) == sorted(each["name"] for each in spec["volumes"])


@pytest.mark.parametrize("owned", list(list_containers()), ids=lambda owned: owned[2]["name"])
def test_containers_follow_the_restricted_pod_security_standard(
    owned: tuple[Json, Json, Json],
) -> None:
    _, spec, container = owned
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"


def test_replicas_are_spread_and_protected_by_a_disruption_budget() -> None:
    for deployment, pod in list_pods():
        spec, labels = deployment["spec"], pod["metadata"]["labels"]
        assert spec["replicas"] == 2
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        for constraint in pod["spec"]["topologySpreadConstraints"]:
            own = [deployment["metadata"]["name"]]
            assert select_deployments(constraint["labelSelector"]["matchLabels"]) == own
    for budget in find_objects("PodDisruptionBudget"):
        assert budget["spec"]["minAvailable"] == 1
        own = [budget["metadata"]["name"]]
        assert select_deployments(budget["spec"]["selector"]["matchLabels"]) == own


def test_kustomization_labels_match_the_pod_labels() -> None:
    for _, pod in list_pods():
        assert (
            LABELS["app.kubernetes.io/name"] == pod["metadata"]["labels"]["app.kubernetes.io/name"]
        )


def test_the_quota_admits_the_priority_class_of_the_pods() -> None:
    (quota,) = find_objects("ResourceQuota")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    classes = {pod["spec"]["priorityClassName"] for _, pod in list_pods()}
    assert set(scope["values"]) == classes
    pods = sum(2 * deployment["spec"]["replicas"] for deployment, _ in list_pods())
    assert int(quota["spec"]["hard"]["pods"]) >= pods


def test_the_configuration_is_valid() -> None:
    text = index_by_name("ConfigMap")["drawbridge-config"]["data"]["config.yaml"]
    assert isinstance(accept_configuration(read_yaml(text), {}), Configuration)


# --- admission -----------------------------------------------------------------------------------


def test_the_service_selects_the_webhook() -> None:
    (service,) = find_objects("Service")
    assert select_deployments(service["spec"]["selector"]) == ["drawbridge-webhook"]
    (port,) = service["spec"]["ports"]
    names = {
        port["name"]
        for deployment, _, container in list_containers()
        for port in container["ports"]
        if deployment["metadata"]["name"] == "drawbridge-webhook"
    }
    assert port["targetPort"] in names


def test_the_webhook_serves_the_paths_of_the_manifests() -> None:
    source = inspect.getsource(list_endpoints)
    assert f'"{PODS}"' in source
    assert f'"{WORKLOADS}"' in source
    assert f'"{CONFIGURATION}"' in source


@pytest.mark.parametrize("hook", list(list_webhooks()), ids=lambda hook: hook["name"])
def test_webhooks_refer_to_the_service_and_a_valid_path(hook: Json) -> None:
    (service,) = find_objects("Service")
    reference = hook["clientConfig"]["service"]
    assert (reference["name"], reference["namespace"]) == (service["metadata"]["name"], NAMESPACE)
    assert reference["port"] == service["spec"]["ports"][0]["port"]
    paths = {
        "workloads.drawbridge.dev": WORKLOADS,
        "guard.drawbridge.dev": "/guard/pods",
        "configuration.drawbridge.dev": CONFIGURATION,
    }
    assert reference["path"] == paths.get(hook["name"], PODS)


def test_the_guard_has_the_scope_of_the_webhook_for_pods_and_is_installed_with_ignore() -> None:
    hooks = {each["name"]: each for each in list_webhooks()}
    pods, guard = hooks["pods.drawbridge.dev"], hooks["guard.drawbridge.dev"]
    for field in ("rules", "namespaceSelector", "objectSelector", "matchPolicy"):
        assert guard[field] == pods[field]
    assert guard["failurePolicy"] == "Ignore"
    assert "matchConditions" not in guard


def test_before_a_controller_leads_only_pods_that_may_need_the_webhook_depend_on_it() -> None:
    (hook,) = [hook for hook in list_webhooks() if hook["failurePolicy"] == "Fail"]
    conditions = {each["name"]: each["expression"] for each in hook["matchConditions"]}
    assert conditions == derive_widest_conditions()


@pytest.mark.parametrize("hook", list(list_pod_webhooks()), ids=lambda hook: hook["name"])
def test_a_cluster_starts_without_the_webhook(hook: Json) -> None:
    """Pods in system namespaces and in namespaces without the label do not need the webhook."""
    selector = read_expressions(hook)
    assert ("kubernetes.io/metadata.name", "NotIn", "kube-system", NAMESPACE) in selector
    if hook["failurePolicy"] == "Fail":
        assert {(OPT, "Exists"), (OPT, "NotIn", "off")} <= selector
    assert hook["timeoutSeconds"] <= 5
    assert all(rule["scope"] == "Namespaced" for rule in hook["rules"])


def test_only_the_configuration_is_reviewed_and_its_correction_never_waits() -> None:
    (hook,) = [hook for hook in list_webhooks() if hook["name"].startswith("configuration.")]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] <= 3
    assert hook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    (condition,) = hook["matchConditions"]
    assert condition["expression"] == "object.metadata.name == 'drawbridge-config'"
    (rule,) = hook["rules"]
    assert (rule["resources"], rule["operations"]) == (["configmaps"], ["CREATE", "UPDATE"])


def test_side_effects_and_reinvocation_are_declared() -> None:
    for hook in list_webhooks():
        writes = hook["clientConfig"]["service"]["path"] == PODS
        assert hook["sideEffects"] == ("NoneOnDryRun" if writes else "None")
        assert hook.get("reinvocationPolicy", "Never") == ("IfNeeded" if writes else "Never")


def test_a_pod_can_opt_out_but_not_in() -> None:
    (hook,) = [hook for hook in list_webhooks() if hook["failurePolicy"] == "Fail"]
    opted = read_expressions(hook, "objectSelector")
    assert opted == {(OPT, "NotIn", "off")}


def test_every_supported_kind_of_workload_is_in_the_rules() -> None:
    (hook,) = [hook for hook in list_webhooks() if hook["name"].startswith("workloads.")]
    in_rules = {
        (group, resource)
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    supported = {
        (group, f"{kind.lower()}s")
        for group, kind in {*TEMPLATES, *SPECS, *SPECS_BELOW}
        # Pods have a separate webhook, and cluster-scoped kinds cannot opt in.
        if kind != "Pod" and not kind.startswith("Cluster")
    }
    assert in_rules == supported
