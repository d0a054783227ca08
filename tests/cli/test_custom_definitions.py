"""`drawbridge translate`: whether the API server keeps the claims of custom resources."""

import json
from pathlib import Path
from typing import Any

from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import OBJECTS
from tests.tables import YamlValue, every_row
from tests.translate.test_custom_fields import define

# No class of the cluster serves the name.
PARTITION = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}
CONTAINERS = {"containers": [{"name": "main", **PARTITION}]}
KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
KEEPING, DROPPING = define("Notebook", KEEPS), define("Notebook", {"properties": {}})


def custom(kind: str, name: str, group: str = "kubeflow.org") -> YamlValue:
    spec = {"template": {"spec": CONTAINERS}}
    metadata = {"name": name, "namespace": "ml"}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec}


NOTEBOOK = custom("Notebook", "n")
OWN = custom("Notebook", "own")
OWN["spec"]["template"]["spec"] = {
    "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
}


def read_codes(printed: Printed) -> list[str]:
    findings = json.loads(printed.out)["findings"]
    codes = ("ClaimsDropped", "SchemaUnknown")
    return [f"{each['code']} {each['object']}" for each in findings if each["code"] in codes]


def write(path: Path, *objects: YamlValue) -> str:
    path.write_text("\n---\n".join(map(json.dumps, objects)), "utf-8")
    return str(path)


@every_row(
    ("written", "in_cluster", "told"),
    [
        ([NOTEBOOK, DROPPING], [], ["ClaimsDropped Notebook/ml/n"]),
        ([NOTEBOOK, KEEPING], [], []),
        ([NOTEBOOK], [DROPPING], ["ClaimsDropped Notebook/ml/n"]),
        ([NOTEBOOK], [KEEPING], []),
        # The manifests replace what the cluster has.
        ([KEEPING, NOTEBOOK], [DROPPING], []),
        # Which one of two the cluster will have is not known.
        ([NOTEBOOK, KEEPING, DROPPING], [], ["ClaimsDropped Notebook/ml/n"]),
        ([NOTEBOOK, DROPPING, KEEPING], [], ["ClaimsDropped Notebook/ml/n"]),
        ([OWN, DROPPING], [], ["ClaimsDropped Notebook/ml/own"]),
        ([OWN, KEEPING], [], []),
        ([custom("DeploymentConfig", "d", "apps.openshift.io")], [], []),
        ([NOTEBOOK, custom("Notebook", "m")], [], ["SchemaUnknown Notebook/ml/n"]),
        (
            [NOTEBOOK, custom("CloneSet", "c", "apps.kruise.io")],
            [],
            ["SchemaUnknown Notebook/ml/n", "SchemaUnknown CloneSet/ml/c"],
        ),
        ([custom("Deployment", "d", "apps")], [], []),
        ([{**NOTEBOOK, "spec": {"template": {"spec": {"containers": []}}}}], [], []),
    ],
)
def test_a_definition_decides_wherever_it_is(
    tmp_path: Path, written: list[YamlValue], in_cluster: list[YamlValue], told: list[str]
) -> None:
    files = write(tmp_path / "f.yaml", *written)
    cluster = write(tmp_path / "c.yaml", *OBJECTS, *in_cluster)
    options = ("--cluster", cluster) if in_cluster else ()
    assert read_codes(command("translate", "-f", files, "-o", "json", *options)) == told


@every_row(
    ("written", "told"),
    [
        # The webhook translates the pods that its controller creates.
        ([NOTEBOOK, DROPPING], []),
        ([OWN, DROPPING], ["ClaimsDropped Notebook/ml/own"]),
        ([OWN, KEEPING], []),
    ],
)
def test_check_judges_the_claims_that_an_object_has(
    tmp_path: Path, written: list[YamlValue], told: list[str]
) -> None:
    files = write(tmp_path / "f.yaml", *written)
    assert read_codes(command("check", "-f", files, "-o", "json")) == told


def test_what_was_translated_before_is_compared_again(tmp_path: Path) -> None:
    files = write(tmp_path / "f.yaml", NOTEBOOK)
    done = tmp_path / "done.yaml"
    done.write_text(command("translate", "-f", files).out, "utf-8")
    definition = write(tmp_path / "crd.yaml", DROPPING)
    printed = command("translate", "-f", str(done), "-f", definition, "-o", "json")
    assert (printed.code, read_codes(printed)) == (2, ["ClaimsDropped Notebook/ml/n"])
    (finding,) = json.loads(printed.out)["findings"]
    assert "notebooks.kubeflow.org (" in finding["message"]
    assert "crd.yaml)" in finding["message"]
    assert "drawbridge undo" in finding["remedy"]


def test_a_kind_without_a_definition_does_not_fail_a_strict_translation(tmp_path: Path) -> None:
    facts = write(tmp_path / "c.yaml", *OBJECTS)
    files = write(tmp_path / "f.yaml", NOTEBOOK)
    words = ("translate", "-f", files, "--cluster", facts, "--strict", "-o", "json")
    printed = command(*words)
    assert (printed.code, read_codes(printed)) == (0, ["SchemaUnknown Notebook/ml/n"])


def test_a_kind_that_is_not_checked_is_silent_if_the_configuration_says_so(tmp_path: Path) -> None:
    kind = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    config = write(tmp_path / "config.yaml", {**kind, "findings": {"SchemaUnknown": "off"}})
    files = write(tmp_path / "f.yaml", NOTEBOOK)
    assert read_codes(command("translate", "-f", files, "-o", "json", "--config", config)) == []


@every_row(
    ("objects", "told", "read"),
    [
        ([DROPPING], ["ClaimsDropped Notebook/ml/n"], ["notebooks.kubeflow.org"]),
        ([KEEPING], [], ["notebooks.kubeflow.org"]),
        ([], ["SchemaUnknown Notebook/ml/n"], ["notebooks.kubeflow.org"]),
    ],
)
def test_a_live_cluster_is_asked_for_the_definitions_of_the_manifests(
    tmp_path: Path, objects: list[dict[str, Any]], told: list[str], read: list[str]
) -> None:
    files = write(tmp_path / "f.yaml", NOTEBOOK)
    asked: list[str] = []

    def check(api: Any) -> None:  # noqa: ANN401  # the fake API server
        paths = (seen.path for seen in api.requests)
        asked.extend(each.rpartition("/")[2] for each in paths if "resourcedefinitions" in each)

    words = ("translate", "-f", files, "-o", "json", "--context")
    printed = on_api(tmp_path, (*OBJECTS, *objects), *words, check=check)
    assert (read_codes(printed), asked) == (told, read)


def test_the_manifests_spare_the_request(tmp_path: Path) -> None:
    files = write(tmp_path / "f.yaml", NOTEBOOK, KEEPING)

    def check(api: Any) -> None:  # noqa: ANN401  # the fake API server
        assert not [each.path for each in api.requests if "resourcedefinitions" in each.path]

    words = ("translate", "-f", files, "-o", "json", "--context")
    assert read_codes(on_api(tmp_path, OBJECTS, *words, check=check)) == []
