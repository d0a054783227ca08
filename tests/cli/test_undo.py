"""`drawbridge undo` gives back what was asked, and trusts no annotation."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import command, on_api
from tests.tables import every_row, read_yaml, read_yaml_documents, write_yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
LEGACY = sorted((EXAMPLES / "legacy").glob("*.yaml"))
CLUSTER = ("--cluster", str(EXAMPLES / "inventory"))
POD = """\
# a pod of mine
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml}
spec:
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/gpu: 1
        cpu: 2
"""
TEMPLATE = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"
WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w}
spec:
  templates:
  - name: train
    container: {image: x, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def translated(text: str, *options: str) -> str:
    return command("translate", "-f", "-", *options, stdin=text)[1]


def undone(text: str, *options: str) -> tuple[int, str, str]:
    return command("undo", "-f", "-", *options, stdin=text)


@pytest.mark.parametrize("cluster", [(), CLUSTER], ids=["no cluster", "cluster"])
@pytest.mark.parametrize("file", LEGACY, ids=lambda file: file.stem)
def test_every_example_becomes_what_it_was(file: Path, cluster: tuple[str, ...]) -> None:
    text = file.read_text("utf-8")
    assert undone(translated(text, *cluster)) == (0, text, "")


@every_row(
    "end",
    [
        "...\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
        "... # ends here\n# and more\n",
        "...\n...\n",
        "...",
    ],
)
def test_the_end_of_a_document_stays_after_the_lines_before(end: str) -> None:
    before = POD.replace("name: p,", 'name: p, labels: {a: "b\u2028\x85 c"},') + end
    after = translated(before)
    assert after.index("# Lines before the translation") < after.index("\n...")
    assert undone(after)[:2] == (0, before)


AS_WRITTEN = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {"nvidia.com/gpu.product": 'NVIDIA-L4'} # the cheap ones
  containers:
  - name: main
    resources:
      # as many as the model needs
      limits: { "nvidia.com/gpu" : "1" , cpu: 2 }   # one
      requests:
        cpu:   2
    image: x
"""


@every_row(
    "text",
    [
        AS_WRITTEN,
        AS_WRITTEN.replace("\n", "\r\n"),
        AS_WRITTEN.rstrip(),
        f"{AS_WRITTEN}---\n",
        f"{AS_WRITTEN}---\n---\n",
    ],
)
def test_comments_order_quotes_and_line_ends_come_back(text: str) -> None:
    assert "#|" in translated(text)
    assert undone(translated(text))[1] == text
    assert undone(translated(translated(text)))[1] == text


def test_what_others_changed_meanwhile_stays() -> None:
    changed = translated(AS_WRITTEN).replace("image: x", "image: y # newer")
    assert undone(changed)[1] == AS_WRITTEN.replace("image: x", "image: y # newer")
    changed = translated(AS_WRITTEN).replace("      claims:", "      claims: # ours")
    assert read_yaml(undone(changed)[1]) == read_yaml(AS_WRITTEN)
    assert "#@" not in undone(changed)[1]


def test_every_line_ends_as_those_of_the_input() -> None:
    assert translated(POD.replace("\n", "\r\n")).replace("\r\n", "") == (
        translated(POD).replace("\n", "")
    )


def test_a_json_document_is_one_again() -> None:
    text = f"{json.dumps(read_yaml(POD), indent=2)}\n"
    done = translated(text)
    assert json.loads(done)["kind"] == "List"
    assert json.loads(undone(done)[1]) == json.loads(text)
    assert json.loads(undone(done, "-o", "json")[1])["objects"] == [json.loads(text)]


def test_a_schema_that_describes_templates_refers_to_none() -> None:
    schema = "kind: CustomResourceDefinition\nx: {resourceClaimTemplateName: {type: string}}\n"
    text = f"apiVersion: apiextensions.k8s.io/v1\n{schema}"
    assert undone(text) == (0, text, "")


def test_without_the_annotation_no_lines_are_noted() -> None:
    assert "#|" not in translated(POD, "--no-original")


@pytest.mark.parametrize("options", [(), ("--readable-names",)])
def test_a_translation_without_the_annotation_is_reported(options: tuple[str, ...]) -> None:
    text = translated(POD, "--no-original", *options)
    code, out, err = undone(text)
    assert (code, out) == (0, text)
    assert "Pod/ml/p spec.resourceClaims: drawbridge stays" in err
    assert "[OriginalMissing]" in err
    assert undone(text, "--strict")[0] == 1


def test_comments_stay_and_the_template_is_left_out() -> None:
    assert undone(translated(POD))[1].splitlines()[0] == "# a pod of mine"
    assert "ResourceClaimTemplate" not in undone(translated(POD))[1]


def test_what_was_not_translated_is_printed_byte_for_byte() -> None:
    assert undone(POD, "--exit-code") == (0, POD, "")


@pytest.mark.parametrize("metadata", ["{name: {a: 1}}", "{name: drawbridge-1, namespace: [x]}"])
def test_names_and_namespaces_of_other_types_stop_no_command(metadata: str) -> None:
    spec = "spec: {resourceClaims: [{name: c, resourceClaimTemplateName: drawbridge-1}]}"
    template = f"{TEMPLATE}metadata: {metadata}\n"
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\n{spec}\n---\n{template}"
    assert undone(text)[:2] == (0, text)
    code, out, _ = command("translate", "-f", "-", stdin=f"{POD}---\n{template}")
    assert (code, "resourceClaimTemplateName" in out, template in out) == (0, True, True)


def test_a_template_that_others_use_stays() -> None:
    text = translated(POD)
    name = next(read_yaml_documents(text))["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    other = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": "ml"},
        "spec": {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": name}]},
    }
    _, out, _ = undone(f"{text}---\n{write_yaml([other])}")
    kinds = [each["kind"] for each in read_yaml_documents(out)]
    assert kinds == ["Pod", "ResourceClaimTemplate", "Pod"]


def test_a_template_with_other_content_than_its_name_says_stays() -> None:
    changed = translated(POD).replace("count: 1", "count: 2")
    assert "ResourceClaimTemplate" in undone(changed)[1]


def test_a_workflow_gets_its_limits_back() -> None:
    text = translated(WORKFLOW)
    assert "podSpecPatch" in text
    assert list(read_yaml_documents(undone(text)[1])) == list(read_yaml_documents(WORKFLOW))


def test_the_report_says_what_is_asked_again() -> None:
    assert undone(translated(POD), "-o", "report")[1].splitlines() == [
        "Pod/ml/p: undone -> nvidia.com/gpu 1",
        "1 workload undone; 1 claim template left out",
    ]


def test_data_and_differences_have_the_formats_of_translate() -> None:
    code, out, _ = undone(translated(POD), "-o", "json", "--exit-code")
    data = json.loads(out)
    assert (code, list(data)) == (1, ["objects", "templates", "findings", "changed"])
    assert (data["objects"], data["changed"]) == ([read_yaml(POD)], 1)
    assert "+        nvidia.com/gpu: 1\n" in undone(translated(POD), "-o", "diff")[1]


def test_files_are_written_without_an_empty_file_for_the_templates(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "p.yaml").write_text(POD)
    for name, source, target in (("translate", "in", "out"), ("undo", "out", "back")):
        words = ("-f", f"{tmp_path}/{source}", "--output-dir", f"{tmp_path}/{target}")
        assert command(name, *words)[0] == 0
    assert [each.name for each in (tmp_path / "back").iterdir()] == ["p.yaml"]
    assert read_yaml((tmp_path / "back" / "p.yaml").read_text()) == read_yaml(POD)


ANNOTATED = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {%s: %s}}\nspec: {}\n"


@every_row(
    "text",
    [
        "",
        "{",
        "[]",
        '[{"op": "remove"}]',
        '[{"op": "remove", "path": ""}]',
        '[{"op": "move", "path": "/spec", "from": "/metadata"}]',
        '[{"op": "remove", "path": "/spec/nothing"}]',
        '[{"op": "test", "path": "/spec/a", "value": 1}]',
        '[{"op": "replace", "path": "/kind", "value": "ClusterRoleBinding"}]',
        '[{"op": "add", "path": "/metadata/namespace", "value": "kube-system"}]',
        '[{"op": "add", "path": "/spec/serviceAccountName", "value": "admin"}]',
        '[{"op": "add", "path": "/spec/containers", "value": [{"name": "theirs"}]}]',
        '[{"op": "remove", "path": "/metadata"}]',
        "[" * 100_000,
        json.dumps([{"op": "add", "path": f"/spec/{n}", "value": n} for n in range(9_000)]),
    ],
    ids=range(15),
)
def test_an_annotation_that_does_not_fit_is_an_error_and_the_object_stays(text: str) -> None:
    manifest = ANNOTATED % ("drawbridge.dev/original", json.dumps(text))
    code, out, err = undone(manifest)
    assert (code, out) == (2, manifest)
    assert "[OriginalUnusable]" in err


def test_a_changed_container_keeps_the_object_as_it_is() -> None:
    text = translated(POD).replace("name: main", "name: other")
    code, out, err = undone(text)
    assert (code, out) == (2, text)
    assert "the original requests cannot be restored" in err


def test_nothing_to_read_is_wrong_usage() -> None:
    code, out, err = command("undo")
    assert (code, out) == (2, "")
    assert "pass manifests with -f, or a cluster with --context" in err


def test_translated_workloads_of_a_namespace_are_read_from_the_cluster(tmp_path: Path) -> None:
    pod: dict[str, Any] = next(read_yaml_documents(translated(POD)))
    owned = {**pod, "metadata": {**pod["metadata"], "name": "q"}}
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "u"}]
    plain = {**read_yaml(POD), "metadata": {"name": "plain", "namespace": "ml"}}

    words = ("undo", "-n", "ml", "--context")
    code, out, err = on_api(tmp_path, (pod, owned, plain), *words)
    assert (code, err) == (0, "")
    (restored,) = read_yaml_documents(out)
    assert restored == read_yaml(POD)
