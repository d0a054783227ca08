"""A folder with a kustomization is built by kustomize or kubectl, and a Helm chart is refused."""

import json
from pathlib import Path

import pytest

from cli.input import builds
from tests.cli.running import Printed, command
from tests.manifests.rendering import find_program, run
from tests.tables import YamlValue, load_cases, read_yaml

CASES = load_cases(Path(__file__).parent / "cases" / "builds.yaml")
DEVICE = "nvidia.com/gpu"


def write_tree(folder: Path, tree: dict[str, str]) -> None:
    for name, text in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kustomize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(find_program("kustomize").parent))


def describe(pod: YamlValue) -> str:
    metadata = pod["metadata"]
    name = "/".join(filter(None, (pod["kind"], metadata.get("namespace"), metadata["name"])))
    containers = pod.get("spec", {}).get("containers", ())
    limits = [each.get("resources", {}).get("limits", {}).get(DEVICE, 0) for each in containers]
    return f"{name} {sum(limits)}"


@pytest.mark.usefixtures("kustomize")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_kustomization_is_read_as_its_build(case: YamlValue, folder: Path) -> None:
    write_tree(folder, case["tree"])
    code, out, _ = command("undo", "-f", case["input"], "-o", "json")
    printed = json.loads(out)
    assert [describe(each) for each in printed["objects"]] == case["read"]
    findings = {each["code"]: each["message"] for each in printed["findings"]}
    assert findings.keys() == case.get("findings", {}).keys()
    for name, text in case.get("findings", {}).items():
        assert text in findings[name]
    assert code == (2 if findings else 0)


def test_overlays_are_translated_as_kustomize_builds_them(folder: Path) -> None:
    """The objects before are those of kustomize, and the objects after differ by the claims."""
    write_tree(folder, CASES[0]["tree"])
    program = find_program("kustomize")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent))
        _, out, _ = command("translate", "-f", "overlays", "-o", "json")
        _, _, err = command("translate", "-f", "overlays", "--output-dir", "out")
    assert "overlays/dev was built with kustomize: its sources are not edited" in err
    translated = json.loads(out)
    for overlay, pod in zip(("dev", "prod", "test"), translated["objects"], strict=True):
        before = read_yaml(run("kustomize", "build", f"overlays/{overlay}"))
        after = read_yaml((folder / "out" / f"{overlay}.yaml").read_text())
        assert after == pod
        assert pod["metadata"]["namespace"] == before["metadata"]["namespace"] == overlay
        assert DEVICE in before["spec"]["containers"][0]["resources"]["limits"]
        claim = pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
        (template,) = [
            each["spec"]["spec"]["devices"]["requests"][0]["exactly"]
            for each in translated["templates"]
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (overlay, claim)
        ]
        assert template["count"] == {"dev": 1, "prod": 4, "test": 2}[overlay]


def install(folder: Path, name: str, script: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)


def build(folder: Path) -> Printed:
    write_tree(folder, {"k/kustomization.yaml": "resources: []"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder / "bin"))
        return command("translate", "-f", "k")


ECHO = "echo \"{apiVersion: v1, kind: ConfigMap, metadata: {name: $1$2$3$4}, data: {p: '$PATH'}}\""


@pytest.mark.parametrize(
    ("programs", "out", "error"),
    [
        ({}, "", "neither kustomize nor kubectl is installed"),
        ({"kubectl": ECHO}, "name: kustomize--k", ""),
        ({"kubectl": "exit 1", "kustomize": ECHO}, "name: build--k", ""),
        ({"kustomize": ECHO}, "p: ''", ""),
        ({"kustomize": "echo no such base >&2; exit 1"}, "", "k` fails: no such base"),
        ({"kustomize": "while :; do :; done"}, "", "fails: no result after 0.2 seconds"),
        ({"kustomize": "while :; do echo '#'; done"}, "", "fails: more than 0 MiB of output"),
    ],
    ids=["none", "kubectl", "kustomize first", "no PATH", "an error", "no end", "too much"],
)
def test_a_build_has_limits_and_names_the_command(
    programs: dict[str, str], out: str, error: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "_SECONDS", 0.2)
    monkeypatch.setattr(builds, "_MOST_BYTES", 1000)
    for name, script in programs.items():
        install(folder, name, script)
    code, printed, err = build(folder)
    assert out in printed
    assert error in err
    assert code == (2 if error else 0)
    assert ("kustomize build k | drawbridge" in err) == bool(error)


def test_a_build_that_reads_outside_its_folder_has_the_option_of_kustomize(folder: Path) -> None:
    outside = "security; file '/base/p.yaml' is not in or below '/k'"
    install(folder, "kustomize", f'echo "accumulating: {outside}" >&2; exit 1')
    error = build(folder).err
    assert "reads outside its folder: '/base/p.yaml' is not in or below '/k'" in error
    assert "kustomize build --load-restrictor LoadRestrictionsNone k | drawbridge" in error


EXAMPLES = Path(__file__).parents[2] / "examples" / "gitops"


def render_source(source: YamlValue, namespace: str) -> str:
    """Render a source of an Application with helm or kustomize, as Argo CD does."""
    folder = EXAMPLES / source["path"]
    if "helm" not in source:
        return run("kustomize", "build", folder)
    chart = source["helm"]
    values = [
        f"--set-json={key}={json.dumps(value)}" for key, value in chart["valuesObject"].items()
    ]
    words = ("template", chart["releaseName"], folder, "--namespace", namespace, *values)
    return run("helm", *words)


def test_the_sources_of_an_application_are_translated_as_argo_cd_renders_them(
    tmp_path: Path,
) -> None:
    """Without a repository server: the sources are rendered with the commands that it runs."""
    application = read_yaml((EXAMPLES / "argocd" / "application.yaml").read_text())
    spec = application["spec"]
    texts = [render_source(each, spec["destination"]["namespace"]) for each in spec["sources"]]
    before = [read_yaml(text)["spec"]["template"]["spec"] for text in texts]
    counts = [each["containers"][0]["resources"]["limits"][DEVICE] for each in before]
    assert counts == [4, 2]
    for text, count in zip(texts, counts, strict=True):
        printed = json.loads(command("translate", "-f", "-", "-o", "json", stdin=text).out)
        (after,), (template,) = printed["objects"], printed["templates"]
        (claim,) = after["spec"]["template"]["spec"]["resourceClaims"]
        assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["count"] == count
        assert "limits" not in after["spec"]["template"]["spec"]["containers"][0]["resources"]
    # A rendered file that is committed is written again by the next rendering.
    committed = tmp_path / "notebook.yaml"
    committed.write_text(texts[1])
    lines = command("translate", "-f", str(committed), "-o", "report").out.splitlines()
    (warning,) = (line for line in lines if "[RenderedByHelm]" in line)
    assert "StatefulSet/anna-notebook: the file is rendered from the Helm chart notebook" in warning
