"""The chart and the kustomize base render the same objects, and every value has an effect."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.manifests import rendering
from tests.manifests.rendering import CHART, ROOT, Json
from tests.tables import read_yaml
from tools import chart, chart_readme

HEAD = ("apiVersion", "kind")
CASES: list[Json] = read_yaml(
    (Path(__file__).parent / "cases" / "renderings.yaml").read_text("utf-8")
)
VALUES: Json = read_yaml((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_chart_and_kustomize_render_the_same_objects(case: Json, tmp_path: Path) -> None:
    folder = rendering.write_kustomization(tmp_path, case["kustomization"])
    expected = rendering.index(rendering.render_kustomization(folder))
    # Helm creates the namespace itself.
    del expected["Namespace", "", rendering.NAMESPACE]
    rendered = rendering.index(rendering.render_chart(case["values"], tmp_path))
    assert sorted(rendered) == sorted(expected)
    for key, value in expected.items():
        assert find_difference(normalize(rendered[key]), normalize(value)) == "", key


def find_difference(ours: object, theirs: object, path: str = "") -> str:
    """Return the first path where two values differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and set(ours) == set(theirs):
        differences = (find_difference(ours[key], theirs[key], f"{path}.{key}") for key in ours)
        return next(filter(None, differences), "")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        differences = (find_difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs)
        return next(filter(None, differences), "")
    return "" if ours == theirs else f"{path}: {ours!r} != {theirs!r}"


def normalize(obj: Json) -> Json:
    """Parse the configuration, because two texts can be the same YAML."""
    if (obj["kind"], obj["metadata"]["name"]) != ("ConfigMap", "drawbridge-config"):
        return obj
    return {**obj, "data": read_yaml(obj["data"]["config.yaml"])}


def test_the_chart_passes_the_strict_linter() -> None:
    rendering.run("helm", "lint", "--strict", CHART)


def test_another_namespace_is_used_everywhere(tmp_path: Path) -> None:
    every = {
        "tls": {"mode": "cert-manager"},
        **{name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "networkPolicy")},
        "dashboard": {"enabled": True},
        "judge": {"enabled": True},
    }
    # Digits alone are a number in YAML if they are not quoted.
    objects = rendering.render_chart(every, tmp_path, "1234")
    text = json.dumps(objects)
    assert "drawbridge-system" not in text
    namespaces = {each["metadata"].get("namespace", "1234") for each in objects}
    assert namespaces == {"1234"}
    assert '"namespace": 1234' not in text


def test_common_labels_and_annotations_are_on_every_object(tmp_path: Path) -> None:
    common = {"commonLabels": {"team": "a"}, "commonAnnotations": {"owner": "b"}}
    for tls in ({}, {"tls": {"mode": "cert-manager"}}):
        for value in rendering.render_chart({**common, **tls}, tmp_path):
            metadata = value["metadata"]
            assert metadata["labels"]["team"] == "a", metadata
            assert metadata["annotations"]["owner"] == "b", metadata


def list_leaves(value: object, path: str = "") -> list[str]:
    if isinstance(value, dict) and value and path != "configuration":
        return [
            leaf
            for key, item in value.items()
            for leaf in list_leaves(item, f"{path}.{key}" if path else key)
        ]
    return [path]


def read_templates() -> dict[str, str]:
    files = [*(CHART / "templates").iterdir()]
    return {each.name: each.read_text("utf-8") for each in files}


def test_every_value_is_used_and_every_used_value_exists() -> None:
    templates = read_templates()
    assert chart.find_unknown_values(templates, VALUES) == set()
    text = "".join(templates.values())
    for leaf in list_leaves(VALUES):
        parents = {leaf, leaf.rpartition(".")[0], leaf.rpartition(".")[0].rpartition(".")[0]} - {""}
        assert any(f".Values.{each}" in text for each in parents), leaf


def test_every_value_has_a_comment() -> None:
    text = (CHART / "values.yaml").read_text("utf-8")
    assert chart_readme.find_uncommented(text) == set()


def test_no_template_is_left_from_a_removed_file() -> None:
    generated = {path.name for path in chart.render_all() if path.parent.name == "templates"}
    written = {"NOTES.txt", "_helpers.tpl", "dashboard.yaml"}
    assert {each.name for each in (CHART / "templates").iterdir()} == generated | written


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    description = read_yaml((CHART / "Chart.yaml").read_text("utf-8"))
    assert {description["version"], description["appVersion"]} == {project}
    for name in ("default", "kind"):
        overlay = ROOT / "manifests" / "overlays" / name / "kustomization.yaml"
        assert read_yaml(overlay.read_text("utf-8"))["images"][0]["newTag"] == project


def test_a_drain_never_waits_for_a_replica_that_is_not_ready(tmp_path: Path) -> None:
    values = {"judge": {"enabled": True}, "scheduler": {"enabled": True}}
    objects = rendering.render_chart(values, tmp_path)
    budgets = [each["spec"] for each in objects if each["kind"] == "PodDisruptionBudget"]
    policies = [each["unhealthyPodEvictionPolicy"] for each in budgets]
    assert policies == ["AlwaysAllow"] * 4


@pytest.mark.parametrize("name", ["default", "kind", "test"])
def test_every_overlay_is_built(name: str) -> None:
    objects = rendering.render_kustomization(ROOT / "manifests" / "overlays" / name)
    rendered = rendering.index(objects)
    assert ("Deployment", rendering.NAMESPACE, "drawbridge-webhook") in rendered
    if name == "kind":
        budgets = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
        assert {each["spec"]["minAvailable"] for each in budgets} == {0}
        deployments = [each for each in objects if each["kind"] == "Deployment"]
        assert {each["spec"]["replicas"] for each in deployments} == {1}


def merge(defaults: Json, values: Json) -> Json:
    """Merge values as Helm does before it validates them: a null removes the default."""
    merged = defaults | {
        key: merge(defaults[key], value)
        if isinstance(value, dict) and isinstance(defaults.get(key), dict)
        else value
        for key, value in values.items()
    }
    return {key: value for key, value in merged.items() if values.get(key, "") is not None}


def test_the_schema_accepts_the_defaults_and_all_cases() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    for case in CASES:
        jsonschema.validate(merge(VALUES, case["values"]), SCHEMA)


def test_the_schema_accepts_every_field_of_the_example() -> None:
    text = (ROOT / "examples" / "configuration.yaml").read_text("utf-8")
    # Helm reads `off` as false.
    configuration = {**read_yaml(text), "findings": {"SchedulerKept": False}}
    jsonschema.validate({**VALUES, "configuration": configuration}, SCHEMA)


def list_schema_leaves(schema: Json, path: str = "") -> list[str]:
    is_closed = schema.get("additionalProperties") is False and "properties" in schema
    if is_closed and path != "configuration":
        return [
            leaf
            for key, item in schema["properties"].items()
            for leaf in list_schema_leaves(item, f"{path}.{key}" if path else key)
        ]
    return [path]


def test_the_schema_has_exactly_the_values() -> None:
    processes = ("webhook", "controller", "judge", "scheduler", "scheduler.allocator")
    optional = {"global"} | {f"{process}.resources.{part}" for process in processes
                             for part in ("claims", "requests", "limits")}  # fmt: skip
    top = {leaf for leaf in list_schema_leaves(SCHEMA) if leaf not in optional}
    described = {each.partition(".resources.")[0] for each in list_leaves(VALUES)} - {*processes}
    top -= {f"{each}.resources" for each in processes}
    labels = {"dashboard.labels.grafana_dashboard"}
    assert top - {"dashboard.labels"} == described - labels


# Values that the schema refuses, by place; those of `None` are at places that do not exist.
WRONG: dict[tuple[str, ...], object] = {
    ("webhok",): None,
    ("webhook", "replica"): None,
    ("webhook", "replicas"): "two",
    ("webhook", "extraArgs"): ["drain=1"],
    ("webhook", "ports", "health"): 81,
    ("webhook", "ports", "api"): None,
    ("webhook", "metricsAddress"): "everywhere",
    ("judge", "hostNetwork"): "yes",
    ("controller", "hostNetwork"): None,
    ("admissionWebhooks", "timeoutSeconds"): 30,
    ("admissionWebhooks", "failurePolicy"): "fail",
    ("tls", "mode"): "openssl",
    ("image", "digest"): "latest",
    ("configuration", "kind"): "Pod",
    ("configuration", "apiVersion"): "v1",
    ("configuration", "placement"): "natve",
    ("configuration", "scope", "rollout", "percent"): 101,
    ("configuration", "unsetgroups"): None,
    ("configuration", "strategy", "maxPodsPerNode"): None,
    ("configuration", "findings", "SchedulerKept"): True,
    ("networkPolicy", "apiServerPorts"): [70000],
    ("image", "tag"): "1 #x",
    ("image", "repository"): "a #b",
    ("scheduler", "image", "repository"): "example.com/a:1",
    ("commonLabels", "app.kubernetes.io/name"): "x",
    ("commonLabels", "rbac.authorization.k8s.io/aggregate-to-edit"): "true",
    ("webhook", "podLabels", "app.kubernetes.io/component"): "x",
    ("controller", "podLabels", "drawbridge.dev/translate"): "off",
    ("judge", "podLabels", "app.kubernetes.io/part-of"): "x",
    ("webhook", "podAnnotations", "drawbridge.dev/serves"): "",
    ("commonAnnotations", "cert-manager.io/inject-ca-from"): "a/b",
    ("commonLabels", "team"): "a b",
    ("webhook", "nodeSelector", "pool"): "-",
    ("podDisruptionBudget", "minAvailable"): -1,
    ("admissionWebhooks", "matchExpressions"): [{"key": "team", "operator": "In"}],
    ("admissionWebhooks", "excludeNamespaces"): ["a b"],
    ("tls", "caBundle"): "?",
    ("podMonitor", "labels", "app.kubernetes.io/name"): "x",
}


def test_all_wrong_values_are_refused_with_their_places(tmp_path: Path) -> None:
    values: Json = {}
    for (*parents, name), value in WRONG.items():
        parent = values
        for key in parents:
            parent = parent.setdefault(key, {})
        parent[name] = "" if value is None else value
    with pytest.raises(AssertionError) as refused:
        rendering.render_chart(values, tmp_path)
    told = [line.strip() for line in str(refused.value).splitlines()]
    for place, value in WRONG.items():
        existing = place if value is not None else place[:-1]
        pointer = "".join(f"/{key.replace('/', '~1')}" for key in existing)
        reason = f"'{place[-1]}'.* not allowed" if value is None else "."
        line = re.compile(rf"- at '{re.escape(pointer)}(/\d+)?': .*{reason}")
        assert any(line.match(each) for each in told), (place, told)


REPOSITORIES = {
    "drawbridge": True,
    "example.com/team_a/drawbridge": True,
    "localhost:5000/a.b/c--d__e": True,
    "[::1]:5000/drawbridge": True,
    "drawbridge:1.0": False,
    "example.com:5000/drawbridge:1.0": False,
    "drawbridge@sha256:0": False,
    "example.com/Team/drawbridge": False,
    "example.com/": False,
    "": False,
}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_has_no_tag_and_no_upper_case(name: str) -> None:
    values = merge(VALUES, {"image": {"repository": name}})
    assert jsonschema.Draft7Validator(SCHEMA).is_valid(values) == REPOSITORIES[name]


def list_nulls(values: Json, *, of_empty: bool) -> Json:
    """Return a null for each value whose default is empty, or for each other one."""
    return {
        key: list_nulls(value, of_empty=of_empty)
        if isinstance(value, dict) and value and not {"requests", "limits"} & value.keys()
        else None
        for key, value in values.items()
        if key != "configuration"
        and ((isinstance(value, dict) and value) or (value in ("", [], {}, None)) == of_empty)
    }


def test_a_value_with_a_default_cannot_be_removed(tmp_path: Path) -> None:
    values = list_nulls(VALUES, of_empty=False)
    with pytest.raises(AssertionError) as refused:
        rendering.render_chart(values, tmp_path)
    told = str(refused.value)
    for missing in ("metricsFrom", "apiFrom", "apiServerPorts", "mode", "logLevel", "minAvailable"):
        assert re.search(rf"missing propert.*'{missing}'", told), missing
    with pytest.raises(AssertionError, match="missing property 'podDisruptionBudget'"):
        rendering.render_chart({"podDisruptionBudget": None}, tmp_path)


def test_an_empty_value_and_a_resource_can_be_removed(tmp_path: Path) -> None:
    enabled = ("judge", "scheduler", "networkPolicy", "podMonitor", "prometheusRule", "dashboard")
    on: Json = {name: {"enabled": True} for name in enabled}
    nulls = list_nulls(VALUES, of_empty=True) | {"configuration": None}
    nulls["webhook"]["resources"] = {"limits": None}
    for name in enabled:
        nulls[name] = {**nulls[name], **on[name]}
    assert len(rendering.render_chart(nulls, tmp_path)) == len(rendering.render_chart(on, tmp_path))


def test_the_configuration_may_repeat_its_head(tmp_path: Path) -> None:
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    values = {"configuration": {**head, "placement": "native"}}
    assert rendering.render_chart(values, tmp_path) == rendering.render_chart({}, tmp_path)


def test_a_certificate_in_a_secret_may_have_a_ca_that_others_inject(tmp_path: Path) -> None:
    objects = rendering.render_chart({"tls": {"mode": "secret"}}, tmp_path)
    hooks = [hook for each in objects for hook in each.get("webhooks", ())]
    assert hooks
    assert not [hook for hook in hooks if "caBundle" in hook["clientConfig"]]


def test_a_key_in_two_values_is_rendered_once(tmp_path: Path) -> None:
    values: Json = {
        "commonLabels": {"team": "a", "release": "all"},
        **{
            name: {"enabled": True, "labels": {"release": "own"}}
            for name in ("podMonitor", "prometheusRule", "dashboard")
        },
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = rendering.run("helm", "template", "drawbridge", CHART, "-n", "x", "-f", file)
    for document in text.split("\n---\n"):
        assert document.count("release: ") <= 1, document
    assert text.count("    release: own") == 4


@pytest.mark.parametrize("name", ["system-node-critical", "1", ""])
def test_the_resource_quota_allows_the_priority_class_of_the_pods(
    name: str, tmp_path: Path
) -> None:
    objects = rendering.render_chart({"priorityClassName": name}, tmp_path)
    quotas = [each["spec"] for each in objects if each["kind"] == "ResourceQuota"]
    allowed = [
        value
        for spec in quotas
        for selected in spec["scopeSelector"]["matchExpressions"]
        for value in selected["values"]
    ]
    assert allowed == [name] * bool(name)


@pytest.mark.parametrize("tag", ["1", "007", "true", "v1.2_a-b"])
def test_any_tag_is_a_string(tag: str, tmp_path: Path) -> None:
    objects = rendering.render_chart({"image": {"tag": tag}, "priorityClassName": "1"}, tmp_path)
    specs = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    assert len(specs) == 2
    for spec in specs:
        assert spec["containers"][0]["image"] == f"drawbridge:{tag}"
        assert spec["priorityClassName"] == "1"


@pytest.mark.parametrize("namespace", ["default", "drawbridge-system"])
def test_who_installs_in_default_is_told_that_its_label_has_no_effect(namespace: str) -> None:
    words = ("install", "drawbridge", CHART, "-n", namespace, "--dry-run=client")
    notes = rendering.run("helm", *words).partition("NOTES:")[2]
    assert ("No pod of the namespace default is translated" in notes) is (namespace == "default")
