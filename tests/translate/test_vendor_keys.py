"""Every key by which a project decides about devices is in a claim, or a finding names it.

The table is compared with the constants of the projects, where the Go module of a release can be
had. GPU feature discovery's labels are compared in the same way.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.finding import Severity
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.legacy.dialects.gpu_labels import ALWAYS_PRESENT
from drawbridge.translate.legacy.label_publishers import find_publisher
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases

PROJECTS: Final = load_cases(Path(__file__).parent / "cases" / "vendor_keys.yaml")
DISCOVERY: Final = "github.com/NVIDIA/k8s-device-plugin@v0.19.3"
METAX: Final = {
    "kind": "gpu",
    "vendor": "metax",
    "driver": "gpu.example.com",
    "class": "gpu.example.com",
    "sharing": "memory",
    "attributes": {"uuid": "uuid"},
    "capacities": {"memory": "memory", "cores": "cores"},
}
# A constant of Go with the prefix that it is composed with.
_PREFIXES: Final = {
    "DomainPrefix": "koordinator.sh/",
    "SchedulingDomainPrefix": "scheduling.koordinator.sh",
    "NodeDomainPrefix": "node.koordinator.sh",
}
_COMPOSED: Final = re.compile(r'\b(\w*DomainPrefix) \+ "([^"]+)"')
_WRITTEN: Final = re.compile(r'"((?:[a-z0-9-]+\.)+[a-z]+/[A-Za-z0-9][\w.-]*)"')
_ASSIGNED: Final = re.compile(r'^\s*\w+ *= "((?=[\w./-]*[-./])[\w./-]+)"', re.MULTILINE)


def list_decides() -> list[tuple[str, YamlValue]]:
    return [(project["project"], row) for project in PROJECTS for row in project["decides"]]


def build_pod(row: YamlValue) -> YamlValue:
    limits, annotations = {**row["beside"]}, {**row.get("annotations", {})}
    if "amount" in row:
        limits[row["key"]] = row["amount"]
    else:
        annotations[row["key"]] = row["value"]
    spec = {
        "schedulerName": row.get("scheduler", "default-scheduler"),
        "containers": [
            {"name": "main", "resources": {"limits": limits}},
            {"name": "side", "resources": {}},
        ],
    }
    return {"metadata": {"annotations": annotations}, "spec": spec}


def translate_row(row: YamlValue, pod: YamlValue) -> Translation:
    target = row.get("target", "")
    named = {"kind": "gpu", "driver": "x.example.com", "class": "x.example.com"}
    targets = [METAX] if target == "metax" else [{**named, "resources": [target]}]
    configuration = accept_configuration(
        {
            "apiVersion": "drawbridge.dev/v1alpha1",
            "kind": "Configuration",
            "targets": targets if target else [],
            "decisions": {"adminAccess": "allow"},
        },
        {},
    )
    assert isinstance(configuration, Configuration), configuration
    return translate(pod, make_context(configuration, None))


@every_row("case", list_decides(), ids=lambda case: f"{case[0]} {case[1]['key']}")
def test_no_key_of_a_project_goes_in_silence(case: tuple[str, YamlValue]) -> None:
    _, row = case
    pod = build_pod(row)
    done = translate_row(row, pod)
    is_denied = any(each.severity is Severity.ERROR for each in done.findings)
    assert is_denied == row.get("denied", False)
    told = [each for each in done.findings if row["key"] in f"{each.path} {each.message}"]
    without = build_pod(row)
    for part in (without["metadata"]["annotations"], *_limits(without)):
        part.pop(row["key"], None)
    other = translate_row(row, without)
    in_claims = _specs(done) != _specs(other)
    # Or it says whose the claim is.
    spec = apply_edits(pod, done.edits)["spec"]
    in_claims |= bool(done.templates) and spec != apply_edits(without, other.edits)["spec"]
    # A pod that stays as it is keeps its keys, and a finding says that it stays.
    assert told or in_claims or (done.findings and not done.edits)
    if done.templates and not told:
        after = apply_edits(pod, done.edits)
        assert row["key"] not in after["metadata"]["annotations"]
        assert all(row["key"] not in part for part in _limits(after))


def _limits(pod: YamlValue) -> list[YamlValue]:
    return [each["resources"].get("limits", {}) for each in pod["spec"]["containers"]]


def _specs(done: Translation) -> str:
    return json.dumps([each.object["spec"] for each in done.templates], sort_keys=True)


@cache
def download(module: str) -> Path:
    """Return the folder of a Go module; skips the test if there is none."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"NOT COMPARED with {module}: go is not on the PATH")
    command = [go, "mod", "download", "-json", module]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300, cwd="/")  # noqa: S603  # a fixed command
    folder = json.loads(done.stdout or "{}").get("Dir")
    if not folder:
        pytest.skip(f"NOT COMPARED with {module}: it cannot be downloaded")
    return Path(folder)


def read_sources(folder: Path, parts: list[str]) -> Iterator[str]:
    for part in parts:
        path = folder / part
        for file in [path] if path.is_file() else sorted(path.rglob("*.go")):
            if not file.name.endswith("_test.go"):
                yield file.read_text("utf-8")


@pytest.mark.parametrize(
    "project", [each for each in PROJECTS if "module" in each], ids=lambda each: each["project"]
)
def test_the_table_has_every_constant_of_a_project(project: YamlValue) -> None:
    listed = {row["key"] for row in project["decides"]}
    listed |= {*project["written"], *project.get("others", ())}
    domains = {key.partition("/")[0] for key in listed}
    constants = set()
    for text in read_sources(download(project["module"]), project["constants"]):
        constants |= {_PREFIXES[prefix] + rest for prefix, rest in _COMPOSED.findall(text)}
        constants |= {key for key in _WRITTEN.findall(text) if key.partition("/")[0] in domains}
        if project["project"] == "KAI":  # whose keys have no domain
            constants |= {key for key in _ASSIGNED.findall(text) if key in listed or "gpu-" in key}
    assert constants - listed == set()
    assert len(constants) > 10


def test_the_labels_of_gpu_feature_discovery_have_a_publisher() -> None:
    texts = list(read_sources(download(DISCOVERY), ["internal/lm"]))
    labels = {key for text in texts for key in _WRITTEN.findall(text) if "." in key[11:]}
    assert len(labels) > 15
    assert [key for key in sorted(labels) if find_publisher(key) is None] == []
    words = {key.rpartition(".")[2] for key in ALWAYS_PRESENT - {"nvidia.com/gpu.present"}}
    assert [each for each in sorted(words) if not any(f'{each}"' in text for text in texts)] == []
