"""What names no namespace is in that of the kubeconfig context."""

import json
from pathlib import Path
from typing import Any

from tests.cli.installed_api import healthy
from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row

TEAM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"team": "yes"}},
}
LIMITED = """
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
decisions: {nativeExtendedNames: translate}
quotas:
- name: none
  namespaceSelector: {matchLabels: {team: "yes"}}
  single: {gpu.nvidia.com: {devices: 0}}
"""
LEGACY_POD = """
apiVersion: v1
kind: Pod
metadata: {name: legacy}
spec:
  containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
_JOB = "{name: node, template: {spec: {template: {spec: POD}}}}"
_RUNTIME = f"{{template: {{spec: {{replicatedJobs: [{_JOB}]}}}}}}"
# Objects with a wrong amount, and what findings call them.
NAMED = [
    ("v1", "Pod", "spec: POD", "Pod/team/named"),
    (
        "argoproj.io/v1alpha1",
        "Workflow",
        "spec: {templates: [{name: main, CONTAINER}]}",
        "Workflow/team/named",
    ),
    (
        "argoproj.io/v1alpha1",
        "ClusterWorkflowTemplate",
        "spec: {templates: [{name: main, CONTAINER}]}",
        "ClusterWorkflowTemplate/named",
    ),
    (
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        f"spec: {_RUNTIME}",
        "ClusterTrainingRuntime/named",
    ),
]
_CONTAINER = "{image: none, resources: {limits: {nvidia.com/gpu: x}}}"
_POD = "{containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: x}}}]}"


def run(folder: Path, *words: str, context: str) -> Printed:
    """Run a command on a cluster, with this namespace in the context of its kubeconfig."""

    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.context = {"namespace": context} if context else {}

    return on_api(folder, (*OBJECTS, TEAM), *words, "--context", prepare=prepare)


@every_row(
    ("context", "words", "limited"),
    [("team", (), "team"), ("", ("-n", "team"), "team"), ("", (), ""), ("team", ("-n", "x"), "")],
)
def test_translations_are_judged_by_the_quotas_of_their_namespace(
    context: str, words: tuple[str, ...], limited: str, tmp_path: Path
) -> None:
    files = {"pod.yaml": LEGACY_POD, "config.yaml": LIMITED}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    given = ("-f", f"{tmp_path}/pod.yaml", "--config", f"{tmp_path}/config.yaml")
    printed = run(tmp_path, "translate", *given, *words, context=context)
    assert "resourceClaimTemplateName" in printed.out
    assert printed.code == (2 if limited else 0)
    assert ("a pod of namespace team 0 devices" in printed.err) is bool(limited)


@every_row(
    ("context", "words", "claim"),
    [("team", (), "team/a"), ("team", ("-n", "x"), "x/a"), ("", (), "default/a")],
)
def test_a_claim_to_adjust_is_in_it(
    context: str, words: tuple[str, ...], claim: str, tmp_path: Path
) -> None:
    asked = ("simulate", "--adjust", "a", "--count", "2", "-o", "json")
    printed = run(tmp_path, *asked, *words, context=context)
    (finding,) = json.loads(printed.out)["findings"]
    assert finding["message"] == f"ResourceClaim {claim} does not exist"


@every_row(("version", "kind", "spec", "name"), NAMED)
def test_findings_name_it_but_of_what_is_in_none(
    version: str, kind: str, spec: str, name: str, tmp_path: Path
) -> None:
    spec = spec.replace("POD", _POD).replace("CONTAINER", f"container: {_CONTAINER}")
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: named}}\n{spec}\n"
    (tmp_path / "object.yaml").write_text(text, "utf-8")
    printed = run(tmp_path, "check", "-f", f"{tmp_path}/object.yaml", "-o", "json", context="team")
    assert {each["object"] for each in json.loads(printed.out)["findings"]} == {name}


@every_row(("version", "kind", "spec", "name"), NAMED)
def test_an_option_names_it_without_a_cluster(
    version: str, kind: str, spec: str, name: str, tmp_path: Path
) -> None:
    spec = spec.replace("POD", _POD).replace("CONTAINER", f"container: {_CONTAINER}")
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: named}}\n{spec}\n"
    (tmp_path / "object.yaml").write_text(text, "utf-8")
    printed = command("check", "-f", f"{tmp_path}/object.yaml", "-n", "team", "-o", "json")
    assert {each["object"] for each in json.loads(printed.out)["findings"]} == {name}
