"""Alerts, dashboard and documentation name only metrics, labels and values that exist."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from drawbridge.process import metrics
from tests.manifests.rendering import (
    MANIFESTS,
    ROOT,
    Json,
    render_chart,
    render_kustomization,
)
from tests.process.idle_collectors import idle_collectors
from tests.tables import every_row, read_yaml

FOLDER = MANIFESTS / "components" / "monitoring"
DASHBOARDS: dict[str, Json] = {
    path.name: json.loads(path.read_text("utf-8"))
    for path in sorted(FOLDER.glob("dashboard*.json"))
}


def read_rules(name: str) -> list[Json]:
    """Return the rules in the only group of a PrometheusRule."""
    rules: list[Json] = read_yaml((FOLDER / name).read_text("utf-8"))["spec"]["groups"][0]["rules"]
    return rules


RULES, RECORDED = read_rules("alerts.yaml"), read_rules("recording-rules.yaml")
# With `namespace` and `pod` of their own, metrics have those of users under another name.
RENAMED = {name: f"exported_{name}" for name in ("namespace", "pod", "container")}
OPERATING = (ROOT / "docs" / "operating.md").read_text("utf-8")
# The sections of the runbook, by alert.
RUNBOOK: dict[str, str] = dict(
    re.findall(
        r"^## (\w+)\n(.*?)(?=^## |\Z)",
        (ROOT / "docs" / "alerts.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
# What Prometheus and the operator add to each sample.
TARGET_LABELS = {"namespace", "pod", "container", "job", "instance", "component"}
REQUEST_LABELS = {"resource", "unit", "node", "source"}
DEVICE_LABELS = {
    "uuid", "UUID", "owner", "class", "node",
    "exported_namespace", "exported_pod", "exported_container",
}  # fmt: skip
DCGM = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
# What others expose, and what the recording rules make of it.
OTHERS = {
    "up": set[str](),
    "process_resident_memory_bytes": set[str](),
    "process_start_time_seconds": set[str](),
    "kube_pod_resource_request": REQUEST_LABELS,
    "kube_pod_container_resource_requests": REQUEST_LABELS,
    **{name: {"UUID", "gpu", "Hostname"} for name in DCGM},
    **{f"drawbridge:{name}": DEVICE_LABELS for name in DCGM},
}
NAME = re.compile(
    r"\b(up|process_[a-z_]+|kube_[a-z_]+|(?:drawbridge:)?DCGM_[A-Z_]+"
    r"|(?:drawbridge|controller_runtime)_[a-z_]+)\b(?:{([^}]*)})?"
)
GROUPED = re.compile(r"\bby \(([^)]*)\)")


def read_metrics() -> dict[str, set[str]]:
    """Return the labels of every metric, by the name that Prometheus stores."""
    series: dict[str, set[str]] = dict(OTHERS)
    collectors = [*vars(metrics).values()]
    for published in collectors:
        family = getattr(published, "_family", None)
        if family is not None:
            add(
                series,
                family[0],
                (getattr(published, "_bounds", None) and "histogram") or "counter",
                family[2],
            )
        elif hasattr(published, "_labelnames") and hasattr(published, "_type"):
            add(series, published._name, published._type, published._labelnames)  # noqa: SLF001  # not public
    for collector in idle_collectors():
        for metric in collector.collect():
            add(series, metric.name, metric.type, getattr(metric, "_labelnames", ()))
    return series


def add(metrics: dict[str, set[str]], name: str, kind: str, labels: Any) -> None:  # noqa: ANN401  # private fields
    if kind == "counter":
        metrics[f"{name}_total"] = {*labels}
    elif kind == "histogram":
        metrics |= {f"{name}_{part}": {*labels, "le"} for part in ("bucket", "count", "sum")}
        metrics[name] = {*labels}
    else:
        metrics[name] = {*labels}


METRICS = {
    name: labels | {renamed for label, renamed in RENAMED.items() if label in labels}
    for name, labels in read_metrics().items()
}


def list_expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for rule in RECORDED:
        yield rule["record"], rule["expr"]
    for panel in (panel for dashboard in DASHBOARDS.values() for panel in dashboard["panels"]):
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def check_expression(expression: str) -> list[str]:
    """Return the names and labels in an expression that do not exist."""
    wrong = []
    labels: set[str] = set()
    for name, selector in NAME.findall(expression):
        if name not in METRICS:
            wrong.append(name)
            continue
        labels |= METRICS[name] | TARGET_LABELS
        used = set(re.findall(r"([a-z_]+)(?:=~|!=|!~|=)", selector))
        wrong += sorted(f"{name}{{{each}}}" for each in used - METRICS[name] - TARGET_LABELS)
    for group in GROUPED.findall(expression):
        wrong += sorted({each.strip() for each in group.split(",")} - labels)
    return wrong


def test_the_metrics_of_the_code_are_found() -> None:
    assert METRICS["drawbridge_translations_total"] == {"webhook", "operation", "outcome"}
    decisions = METRICS["drawbridge_decisions_total"]
    assert decisions == {"namespace", "exported_namespace", "mode", "verdict"}
    assert METRICS["drawbridge_cache_age_seconds"] == {"resource"}
    assert "le" in METRICS["controller_runtime_webhook_latency_seconds_bucket"]
    assert METRICS["drawbridge_controller_leading"] == set()


@every_row(("title", "expression"), list(list_expressions()))
def test_an_expression_names_only_metrics_and_labels_that_exist(
    title: str, expression: str
) -> None:
    assert NAME.search(expression), title
    assert check_expression(expression) == [], title


WRONG = [
    ("drawbridge_translation_total", ["drawbridge_translation_total"]),
    ("drawbridge_translations", ["drawbridge_translations"]),
    ('drawbridge_findings_total{kind="a"}', ["drawbridge_findings_total{kind}"]),
    ("sum by (reason) (drawbridge_findings_total)", ["reason"]),
    ('sum by (code) (drawbridge_findings_total{code!="a", namespace="b"})', []),
]


@pytest.mark.parametrize(("expression", "wrong"), WRONG)
def test_a_wrong_expression_is_found(expression: str, wrong: list[str]) -> None:
    assert check_expression(expression) == wrong


def test_values_of_labels_exist_in_the_code() -> None:
    source = "".join(
        file.read_text("utf-8")
        for package in ("webhook", "controller", "allocator", "drawbridge")
        for file in (ROOT / package).rglob("*.py")
    )
    for title, expression in list_expressions():
        for value in re.findall(r'\b(?:outcome|result)="([a-z]+)"', expression):
            assert f'"{value}"' in source, (title, value)


def test_every_alert_is_documented_and_every_documented_alert_exists() -> None:
    assert list(RUNBOOK) == [rule["alert"] for rule in RULES]


def test_every_alert_says_what_it_means_and_links_to_its_section() -> None:
    severities = {rule["labels"]["severity"] for rule in RULES}
    assert severities <= {"critical", "warning", "info"}
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{rule['alert'].lower()}"


def test_the_metrics_of_an_alert_are_in_its_section() -> None:
    for rule in RULES:
        for name, _ in NAME.findall(rule["expr"]):
            documented = name.removesuffix("_bucket")
            assert name == "up" or documented in RUNBOOK[rule["alert"]], (rule["alert"], name)


def test_the_chart_and_kustomize_link_to_the_page_that_is_configured(tmp_path: Path) -> None:
    page = "https://docs.example.com/docs/alerts.html"
    links = [f"{page}#{name.lower()}" for name in RUNBOOK]
    values = {"prometheusRule": {"enabled": True, "runbookUrl": page}}
    assert read_links(render_chart(values, tmp_path)) == links
    (documented,) = re.findall(r"```yaml\n# kustomization.yaml\n(.*?)```", OPERATING, re.DOTALL)
    fields = {**read_yaml(documented), "components": [os.path.relpath(FOLDER, tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(fields))
    assert read_links(render_kustomization(tmp_path)) == links


def read_links(objects: list[Json]) -> list[str]:
    """Return the links of all alerts."""
    return [
        rule["annotations"]["runbook_url"]
        for obj in objects
        if obj["kind"] == "PrometheusRule"
        for group in obj["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_the_panels_do_not_overlap(name: str) -> None:
    dashboard = DASHBOARDS[name]
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_only_the_namespace_of_prometheus_reaches_the_metrics() -> None:
    policy = MANIFESTS / "components" / "network-policy" / "network-policy.yaml"
    rules = read_yaml(policy.read_text("utf-8"))["spec"]["ingress"]
    (peers,) = [rule["from"] for rule in rules if rule["ports"][0]["port"] == "metrics"]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert peers == [{"namespaceSelector": selector}]


def test_the_pod_monitor_selects_the_port_of_every_process() -> None:
    monitor = read_yaml((FOLDER / "pod-monitor.yaml").read_text("utf-8"))["spec"]
    labels = monitor["selector"]["matchLabels"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    for file in sorted((MANIFESTS / "base").glob("deployment-*.yaml")):
        pod = read_yaml(file.read_text("utf-8"))["spec"]["template"]
        assert labels.items() <= pod["metadata"]["labels"].items()
        for container in pod["spec"]["containers"]:
            assert endpoint["port"] in {each["name"] for each in container["ports"]}
