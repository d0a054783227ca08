"""The manifests name only what is there, allow no more than is used, and start what we have.

Without a cluster: whether an API server takes them is shown by `e2e`, which installs by them.
"""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import parser_for
from config.load import load
from config.model import Configuration
from translate.manifests.workloads import SPECS, TEMPLATES
from webhook.server import http_handler

BASE = Path(__file__).parents[2] / "manifests" / "base"
NAMESPACE = "drawbridge-system"
OPT = "drawbridge.dev/translate"
PODS, WORKLOADS = "/admit/pods", "/admit/workloads"
Json = dict[str, Any]
KUSTOMIZATION: Json = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))
OBJECTS: list[Json] = [
    each
    for name in KUSTOMIZATION["resources"]
    for each in yaml.safe_load_all((BASE / name).read_text("utf-8"))
]
LABELS: Mapping[str, str] = KUSTOMIZATION["labels"][0]["pairs"]


def of(*kinds: str) -> list[Json]:
    found = [each for each in OBJECTS if each["kind"] in kinds]
    assert found, kinds
    return found


def named(kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in of(kind)}


def pods() -> Iterator[tuple[Json, Json]]:
    for each in of("Deployment"):
        yield each, each["spec"]["template"]


def containers() -> Iterator[tuple[Json, Json, Json]]:
    for deployment, pod in pods():
        for container in pod["spec"]["containers"]:
            yield deployment, pod["spec"], container


def hooks() -> Iterator[Json]:
    for each in of("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        yield from each["webhooks"]


def selected(labels: Mapping[str, str]) -> list[str]:
    """Name the Deployments whose pods have these labels."""
    return [
        deployment["metadata"]["name"]
        for deployment, pod in pods()
        if labels.items() <= pod["metadata"]["labels"].items()
    ]


def expressions(hook: Json, selector: str = "namespaceSelector") -> set[tuple[str, ...]]:
    return {
        (each["key"], each["operator"], *each.get("values", ()))
        for each in hook[selector]["matchExpressions"]
    }


def test_every_file_belongs_to_the_installation() -> None:
    there = {each.name for each in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(there) == sorted(KUSTOMIZATION["resources"])
    assert KUSTOMIZATION["namespace"] == NAMESPACE
    assert list(named("Namespace")) == [NAMESPACE]


def test_no_object_is_there_twice() -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in OBJECTS]
    assert len(names) == len(set(names))


# --- rights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "role", of("Role", "ClusterRole"), ids=lambda role: role["metadata"]["name"]
)
def test_a_role_says_what_it_allows_and_nothing_by_a_wildcard(role: Json) -> None:
    for rule in role["rules"]:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
        for word in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]):
            assert "*" not in word
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
        assert "secrets" not in rule["resources"]
        if "resourceNames" in rule:
            assert "create" not in rule["verbs"], "a name does not limit what is created"


def test_what_names_can_limit_is_limited() -> None:
    """Our own configuration, facts and lease are the only ones that may be written."""
    writing = {"update", "patch", "delete"}
    for role in of("Role", "ClusterRole"):
        for rule in role["rules"]:
            ours = {"configmaps", "leases", "mutatingwebhookconfigurations", "resourcequotas"}
            if writing & set(rule["verbs"]) and ours & set(rule["resources"]):
                assert rule.get("resourceNames"), role["metadata"]["name"]


def test_every_role_is_bound_to_an_account_that_is_there() -> None:
    bound = set()
    for binding in of("RoleBinding", "ClusterRoleBinding"):
        reference = binding["roleRef"]
        assert reference["name"] in named(reference["kind"])
        assert binding["kind"] == f"{reference['kind']}Binding"
        bound.add((reference["kind"], reference["name"]))
        for subject in binding["subjects"]:
            assert subject["kind"] == "ServiceAccount"
            assert subject["name"] in named("ServiceAccount")
            assert subject["namespace"] == NAMESPACE
    assert bound == {(each["kind"], each["metadata"]["name"]) for each in of("Role", "ClusterRole")}


def test_only_the_process_that_needs_a_right_has_it() -> None:
    for binding in of("RoleBinding", "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert binding["metadata"]["name"].startswith(f"{subject['name']}-")
    accounts = {pod["spec"]["serviceAccountName"] for _, pod in pods()}
    assert accounts == set(named("ServiceAccount"))


# --- processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("one", list(containers()), ids=lambda one: one[2]["name"])
def test_a_process_is_started_with_arguments_that_it_has(one: tuple[Json, Json, Json]) -> None:
    _, spec, container = one
    program, *words = [*container["command"], *container["args"]]
    assert program == "drawbridge"
    options = parser_for(["serve"], "drawbridge").parse_args(words)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    listening = {"health": options.health, "metrics": options.metrics}
    if "listen" in options:
        listening["admission"] = options.listen
        assert options.drain < spec["terminationGracePeriodSeconds"]
    assert {name: listening[name].port for name in listening} == ports


@pytest.mark.parametrize("one", list(containers()), ids=lambda one: one[2]["name"])
def test_files_that_a_process_reads_are_mounted(one: tuple[Json, Json, Json]) -> None:
    _, spec, container = one
    volumes = {each["name"]: each for each in spec["volumes"]}
    mounts = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
    assert len(mounts) == len(volumes)
    files = [word.partition("=")[2] for word in container["args"] if "=/" in word]
    assert files
    for file in map(Path, files):
        volume = mounts[f"{file.parent}"]
        if "configMap" in volume:
            assert file.name in named("ConfigMap")[volume["configMap"]["name"]]["data"]
        else:
            # The one object that is not ours to make; its keys are those of every TLS Secret.
            assert volume["secret"]["secretName"] == "drawbridge-webhook-tls"
            assert file.name in ("tls.crt", "tls.key")


@pytest.mark.parametrize("one", list(containers()), ids=lambda one: one[2]["name"])
def test_a_process_has_no_rights_on_its_node(one: tuple[Json, Json, Json]) -> None:
    _, spec, container = one
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


def test_a_process_survives_the_loss_of_a_node() -> None:
    for deployment, pod in pods():
        spec, labels = deployment["spec"], pod["metadata"]["labels"]
        assert spec["replicas"] == 2
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        for constraint in pod["spec"]["topologySpreadConstraints"]:
            own = [deployment["metadata"]["name"]]
            assert selected(constraint["labelSelector"]["matchLabels"]) == own
    for budget in of("PodDisruptionBudget"):
        assert budget["spec"]["minAvailable"] == 1
        own = [budget["metadata"]["name"]]
        assert selected(budget["spec"]["selector"]["matchLabels"]) == own


def test_labels_of_the_kustomization_do_not_replace_those_of_the_pods() -> None:
    for _, pod in pods():
        assert (
            LABELS["app.kubernetes.io/name"] == pod["metadata"]["labels"]["app.kubernetes.io/name"]
        )


def test_the_configuration_is_one_that_we_take() -> None:
    text = named("ConfigMap")["drawbridge-config"]["data"]["config.yaml"]
    assert isinstance(load(yaml.safe_load(text), ()), Configuration)


# --- admission -----------------------------------------------------------------------------------


def test_the_service_leads_to_the_webhook() -> None:
    (service,) = of("Service")
    assert selected(service["spec"]["selector"]) == ["drawbridge-webhook"]
    (port,) = service["spec"]["ports"]
    names = {
        each["name"]
        for deployment, _, container in containers()
        for each in container["ports"]
        if deployment["metadata"]["name"] == "drawbridge-webhook"
    }
    assert port["targetPort"] in names


def test_the_process_has_these_paths() -> None:
    source = inspect.getsource(http_handler)
    assert f'"{PODS}"' in source
    assert f'"{WORKLOADS}"' in source


@pytest.mark.parametrize("hook", list(hooks()), ids=lambda hook: hook["name"])
def test_a_webhook_is_called_where_somebody_answers(hook: Json) -> None:
    (service,) = of("Service")
    asked = hook["clientConfig"]["service"]
    assert (asked["name"], asked["namespace"]) == (service["metadata"]["name"], NAMESPACE)
    assert asked["port"] == service["spec"]["ports"][0]["port"]
    assert asked["path"] == (WORKLOADS if hook["name"].startswith("workloads.") else PODS)


@pytest.mark.parametrize("hook", list(hooks()), ids=lambda hook: hook["name"])
def test_a_cluster_starts_without_us(hook: Json) -> None:
    """Nothing of the namespaces that we need to start, nor anything unmarked, waits for us."""
    selector = expressions(hook)
    assert ("kubernetes.io/metadata.name", "NotIn", "kube-system", NAMESPACE) in selector
    if hook["failurePolicy"] == "Fail":
        assert {(OPT, "Exists"), (OPT, "NotIn", "off")} <= selector
    assert hook["timeoutSeconds"] <= 5
    assert all(rule["scope"] == "Namespaced" for rule in hook["rules"])


def test_the_webhook_that_writes_says_so() -> None:
    for hook in hooks():
        writes = hook["clientConfig"]["service"]["path"] == PODS
        assert hook["sideEffects"] == ("NoneOnDryRun" if writes else "None")
        assert hook.get("reinvocationPolicy", "Never") == ("IfNeeded" if writes else "Never")


def test_a_pod_can_opt_out_and_not_in() -> None:
    (hook,) = [hook for hook in hooks() if hook["failurePolicy"] == "Fail"]
    opted = expressions(hook, "objectSelector")
    assert opted == {(OPT, "NotIn", "off")}


def test_every_kind_of_workload_that_we_read_is_asked_about() -> None:
    (hook,) = [hook for hook in hooks() if hook["name"].startswith("workloads.")]
    asked = {
        (group, resource)
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    read = {
        (group, f"{kind.lower()}s")
        for group, kind in {*TEMPLATES, *SPECS}
        # Pods have a webhook of their own, and what has no namespace cannot opt in.
        if kind != "Pod" and not kind.startswith("Cluster")
    }
    assert asked == read
