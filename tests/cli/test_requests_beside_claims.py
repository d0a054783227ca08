"""What commands say of a translated object in which another client kept the request."""

import copy
from pathlib import Path
from typing import Any

from tests.cli.running import command
from tests.cli.test_explain import SCOPE, files, running, translated
from tests.tables import read_yaml_documents

CODE = "RequestBesideClaim"
RENAMED = f"{SCOPE}legacy: {{renames: {{example.com/gpu: nvidia.com/gpu}}}}\n"
WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: train, namespace: ml}
spec:
  templates:
  - name: main
    container: {image: x, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def keep_request(objects: list[Any], amount: str = "1", name: str = "nvidia.com/gpu") -> list[Any]:
    """Return objects whose first pod requests devices beside its claim."""
    pod, *others = copy.deepcopy(objects)
    pod["spec"]["containers"][0]["resources"]["limits"] = {name: amount}
    return [pod, *others]


def test_check_warns_of_it(tmp_path: Path) -> None:
    printed = command("check", "-f", files(tmp_path, keep_request(translated())), "--strict")
    assert printed.code == 1
    line = "container main has a claim for the devices that it requests here [RequestBesideClaim]"
    assert f"spec.containers[0].resources.limits[nvidia.com/gpu]: {line}" in printed.out
    assert CODE not in command("check", "-f", files(tmp_path, translated())).out


def test_check_warns_of_it_in_a_template_of_argo(tmp_path: Path) -> None:
    given = command("translate", "-f", "-", "-o", "yaml", stdin=WORKFLOW)
    workflow, template = read_yaml_documents(given.out)
    asking = workflow["spec"]["templates"][0]["container"]["resources"]
    asking["limits"] = {"nvidia.com/gpu": 1}
    told = command("check", "-f", files(tmp_path, [workflow, template]))
    path = "Workflow/ml/train spec.templates[0].container.resources.limits[nvidia.com/gpu]"
    assert f"{path}: container main has a claim" in told.out
    assert CODE not in command("check", "-f", "-", stdin=given.out).out


def test_explain_warns_of_it(tmp_path: Path) -> None:
    words = ("explain", "train", "--cluster")
    told = command(*words, files(tmp_path, keep_request(running())))
    assert f"[{CODE}]" in told.out
    assert CODE not in command(*words, files(tmp_path, running())).out


def test_explain_reads_the_request_with_the_configuration(tmp_path: Path) -> None:
    (config := tmp_path / "configuration.yaml").write_text(RENAMED)
    dump = files(tmp_path, keep_request(running(), name="example.com/gpu"))
    told = command("explain", "train", "--cluster", dump, "--config", str(config))
    assert "limits[example.com/gpu]: container main has a claim" in told.out
    assert CODE not in command("explain", "train", "--cluster", dump).out


def test_another_amount_beside_the_claim_is_told_once(tmp_path: Path) -> None:
    line = "container main requests nvidia.com/gpu: 2, but has a claim for nvidia.com/gpu: 1"
    explained = command(
        "explain", "train", "--cluster", files(tmp_path, keep_request(running(), "2"))
    )
    checked = command("check", "-f", files(tmp_path, keep_request(translated(), "2")))
    for told in (explained, checked):
        assert told.out.count(f"{line} [RequestsContradict]") == 1
        assert CODE not in told.out
    assert (explained.code, checked.code) == (0, 2)
    audited = command("audit", "--cluster", files(tmp_path, keep_request(running(), "2")))
    assert "RequestsContradict" in audited.out


def test_audit_names_the_code_beside_the_workload(tmp_path: Path) -> None:
    told = command("audit", "--cluster", files(tmp_path, keep_request(running())))
    assert CODE in told.out
    assert CODE not in command("audit", "--cluster", files(tmp_path, running())).out


def test_the_report_of_translate_says_that_it_is_removed(tmp_path: Path) -> None:
    given = files(tmp_path, keep_request(translated()))
    told = command("translate", "-f", given, "-o", "report")
    assert "nvidia.com/gpu 1 -> removed, as the pod has a claim for it" in told.out
