"""Every rendered object has the schema of each supported Kubernetes version."""

import copy
import functools
from pathlib import Path

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from tests.manifests import rendering
from tests.manifests.rendering import MANIFESTS, Json
from tests.tables import every_row, read_yaml_documents

VERSIONS = ("1.34", "1.35", "1.36", "1.37")
# kubernetes-validate has no schemas of these, so the fields that are used are listed here, from the
# documentation of the projects: kind to apiVersion and the required fields of spec.
CUSTOM: dict[str, tuple[str, set[str], set[str]]] = {
    "Certificate": (
        "cert-manager.io/v1",
        {"secretName", "issuerRef"},
        {"commonName", "dnsNames", "duration", "isCA", "privateKey"},
    ),
    "Issuer": ("cert-manager.io/v1", set(), {"ca", "selfSigned"}),
    "PodMonitor": ("monitoring.coreos.com/v1", {"selector", "podMetricsEndpoints"}, set()),
    "PrometheusRule": ("monitoring.coreos.com/v1", {"groups"}, set()),
}


@functools.cache
def list_objects() -> list[Json]:
    """Return the objects of the base and of all components, once each."""
    by_key: dict[rendering.Key, Json] = {}
    for folder in (MANIFESTS / "base", *sorted((MANIFESTS / "components").iterdir())):
        for path in sorted(folder.glob("*.yaml")):
            for value in read_yaml_documents(path.read_text("utf-8")):
                if value["kind"] not in ("Kustomization", "Component"):
                    by_key |= rendering.index([value])
    return list(by_key.values())


@pytest.mark.parametrize("version", VERSIONS)
@every_row("obj", list_objects(), ids=lambda each: f"{each['kind']}/{each['metadata']['name']}")
def test_an_object_has_the_schema_of_kubernetes(obj: Json, version: str) -> None:
    if obj["kind"] in CUSTOM:
        version_of_kind, required, optional = CUSTOM[obj["kind"]]
        assert obj["apiVersion"] == version_of_kind
        assert required <= set(obj["spec"]) <= required | optional
    else:
        kubernetes_validate.validate(obj, version, strict=True)


@pytest.fixture(autouse=True)
def _schemas_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "schema_contents", read_schema)


read_schema = functools.cache(utils.schema_contents)


def test_the_rendered_chart_has_the_schema_of_kubernetes(tmp_path: Path) -> None:
    names = ("podMonitor", "prometheusRule", "networkPolicy", "dashboard")
    values = {
        **{name: {"enabled": True} for name in names},
        "commonAnnotations": {"a": "b"},
        "imagePullSecrets": [{"name": "a"}],
        "webhook": {
            "podLabels": {"a": "b"},
            "podAnnotations": {"a": "b"},
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
        },
    }
    for value in rendering.render_chart(values, tmp_path):
        if value["kind"] not in CUSTOM:
            for version in VERSIONS:
                kubernetes_validate.validate(value, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schema_refuses_an_unknown_field_and_a_wrong_type(version: str) -> None:
    (deployment,) = [
        obj for obj in list_objects() if obj["metadata"]["name"] == "drawbridge-webhook"
        and obj["kind"] == "Deployment"
    ]  # fmt: skip
    kubernetes_validate.validate(deployment, version, strict=True)
    for field, value in (("replica", 2), ("replicas", "two")):
        damaged = copy.deepcopy(deployment)
        damaged["spec"][field] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(damaged, version, strict=True)
