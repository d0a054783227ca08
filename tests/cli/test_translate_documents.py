"""`drawbridge translate`: documents that cannot be read, and Lists, in its JSON output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import command

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}
PLAIN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
VALUES = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
HELM = {**POD, "metadata": {"name": "{{ .Release.Name }}"}}
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "w"},
    "spec": {
        "templates": [
            {"name": "fixed", "container": POD["spec"]["containers"][0]},  # type: ignore[index]
            {
                "name": "open",
                "container": {
                    "resources": {"limits": {"nvidia.com/gpu": "{{inputs.parameters.gpus}}"}}
                },
            },
        ]
    },
}


def translate(
    folder: Path,
    *documents: Any,  # noqa: ANN401  # JSON
    name: str = "f.yaml",
    options: Sequence[str] = (),
) -> dict[str, Any]:
    path = folder / name
    path.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    out = command("translate", "-f", str(path), "-o", "json", *options).out
    printed: dict[str, Any] = json.loads(out)
    return printed


def messages(printed: dict[str, Any], code: str) -> list[str]:
    return [each["message"] for each in printed["findings"] if each["code"] == code]


def test_values_of_a_chart_stay_in_the_objects_and_are_named(tmp_path: Path) -> None:
    printed = translate(tmp_path, VALUES, PLAIN)
    assert printed["objects"] == [VALUES, PLAIN]
    (named,) = messages(printed, "NotAnObject")
    assert "values of a Helm chart" in named
    assert "kustom" not in named
    (request,) = messages(printed, "RequestNotInPod")
    assert request == "the document is not a Kubernetes object, but requests nvidia.com/gpu"


def test_a_helm_template_that_is_valid_yaml_stays_in_the_objects(tmp_path: Path) -> None:
    printed = translate(tmp_path, HELM)
    assert printed["objects"] == [HELM]
    assert messages(printed, "TemplateNotRendered") == [
        "metadata.name is a Helm template: {{ .Release.Name }}"
    ]
    assert messages(printed, "RequestNotInPod") == []
    assert printed["changed"] == 0


def test_an_argo_parameter_keeps_only_its_template_untranslated(tmp_path: Path) -> None:
    printed = translate(tmp_path, WORKFLOW)
    (workflow,) = printed["objects"]
    fixed, left = workflow["spec"]["templates"]
    assert "podSpecPatch" in fixed
    assert left == WORKFLOW["spec"]["templates"][1]  # type: ignore[index]
    (amount,) = messages(printed, "AmountUnreadable")
    assert amount.endswith("not {{inputs.parameters.gpus}}, which is an Argo parameter")


@pytest.mark.parametrize("name", ["f.yaml", "f.json"])
@pytest.mark.parametrize(
    ("items", "changed"),
    [([], 0), ([PLAIN], 0), ([POD], 1), ([POD, PLAIN, POD], 1), ([PLAIN, VALUES], 0)],
)
def test_a_list_is_one_document(tmp_path: Path, items: list[Any], changed: int, name: str) -> None:
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {"a": 1}, "items": items}
    printed = translate(tmp_path, *([whole, PLAIN] if name == "f.yaml" else [whole]), name=name)
    after = printed["objects"][0]
    assert len(printed["objects"]) == (2 if name == "f.yaml" else 1)
    assert list(after) == list(whole)
    assert after["metadata"] == {"a": 1}
    assert [each.get("kind") for each in after["items"]] == [each.get("kind") for each in items]
    assert printed["changed"] == changed
    claims = ["resourceClaims" in each.get("spec", {}) for each in after["items"]]
    assert claims == [each is POD for each in items]


def test_the_report_counts_the_objects_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, PLAIN]}))
    summary = "1 workload: 1 translated; 1 claim template added"
    assert summary in command("translate", "-f", str(path), "-o", "report").out.splitlines()


NETWORK = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {
        "name": "fast",
        "namespace": "default",
        "annotations": {"k8s.v1.cni.cncf.io/resourceName": "openshift.io/fast"},
    },
}
CONNECTED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "fast"}},
    "spec": {"containers": [{"name": "c"}]},
}


def resources(printed: dict[str, Any]) -> str:
    return json.dumps(printed["templates"])


def test_networks_in_the_input_have_the_resource_of_their_definition(tmp_path: Path) -> None:
    alone = translate(tmp_path, CONNECTED)
    assert messages(alone, "NetworkUnknown")
    # The definition may come after the pod.
    translated = translate(tmp_path, CONNECTED, NETWORK)
    assert not messages(translated, "NetworkUnknown")
    assert (alone["changed"], translated["changed"]) == (0, 1)
    (tmp_path / "c.yaml").write_text(
        "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
        "legacy: {networks: {default/fast: openshift.io/fast}}\n"
    )
    configured = translate(tmp_path, CONNECTED, options=("--config", str(tmp_path / "c.yaml")))
    assert resources(configured) == resources(translated)


def test_networks_of_the_cluster_or_its_facts_are_known(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(json.dumps(NETWORK), encoding="utf-8")
    cluster = ("--cluster", str(tmp_path / "cluster.yaml"))
    translated = translate(tmp_path, CONNECTED, options=cluster)
    assert not messages(translated, "NetworkUnknown")
    facts = command("config", "facts", *cluster, "-o", "json").out
    (tmp_path / "facts.json").write_text(facts, encoding="utf-8")
    again = translate(tmp_path, CONNECTED, options=("--facts", str(tmp_path / "facts.json")))
    assert again["findings"] == translated["findings"]
    assert again["objects"] == translated["objects"]
