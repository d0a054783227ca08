"""Renders the manifests with the pinned kustomize and helm."""

import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.renderers.build import NoGoError, binaries
from tests.tables import read_yaml, read_yaml_documents

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart" / "drawbridge"
NAMESPACE = "drawbridge-system"
CLUSTER_SCOPED = (
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
Json = dict[str, Any]
Key = tuple[str, str, str]


@functools.cache
def find_program(name: str) -> Path:
    """Return the program, built if it is missing; skips the test without Go."""
    try:
        return binaries() / name
    except NoGoError as problem:
        pytest.skip(f"NOT RENDERED: {problem}")


def read_base(name: str) -> list[Json]:
    """Return the objects of a file of the base."""
    return list(read_yaml_documents((MANIFESTS / "base" / name).read_text("utf-8")))


def run(name: str, *words: str | Path) -> str:
    """Run helm or kustomize; AssertionError with its message if it fails."""
    command = [find_program(name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # built here
    assert done.returncode == 0, done.stderr
    return done.stdout


def render_kustomization(folder: Path) -> list[Json]:
    """Build a folder, wherever it is."""
    text = run("kustomize", "build", "--load-restrictor=LoadRestrictionsNone", folder)
    return [each for each in read_yaml_documents(text) if each]


def write_kustomization(folder: Path, fields: Mapping[str, Any]) -> Path:
    """Write an overlay of overlays/default with the fields of a case."""
    manifests = os.path.relpath(MANIFESTS, folder)
    version = read_version()
    image = fields.get("image", {"newName": "drawbridge", "newTag": version})
    scheduler = {"newName": "drawbridge-scheduler", "newTag": version}
    removed = [
        {
            "target": {"kind": kind},
            "patch": f"$patch: delete\napiVersion: v1\nkind: {kind}\nmetadata: {{name: any}}\n",
        }
        for kind in fields.get("remove", ())
    ]
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{manifests}/base"],
        "components": [f"{manifests}/components/{each}" for each in fields.get("components", ())],
        "images": [
            {"name": "drawbridge", **image},
            {"name": "drawbridge-scheduler", **scheduler},
        ],
        "replicas": fields.get("replicas", []),
        "patches": [*fields.get("patches", ()), *removed],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def render_chart(values: Mapping[str, Any], folder: Path, namespace: str = NAMESPACE) -> list[Json]:
    """Render the chart with these values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    text = run("helm", "template", "drawbridge", CHART, "-n", namespace, "-f", file)
    return [each for each in read_yaml_documents(text) if each]


def read_version() -> str:
    """Return the version of the chart's application."""
    return str(read_yaml((CHART / "Chart.yaml").read_text())["appVersion"])


def index(objects: list[Json]) -> dict[Key, Json]:
    """Return the objects by kind, namespace and name; AssertionError for two of one name."""
    by_key: dict[Key, Json] = {}
    for obj in objects:
        metadata = obj["metadata"]
        if obj["kind"] in CLUSTER_SCOPED:
            # kustomize does not know that these kinds have no namespace; the API server drops it.
            metadata.pop("namespace", None)
        key = obj["kind"], metadata.get("namespace", ""), metadata["name"]
        assert key not in by_key, key
        by_key[key] = obj
    return by_key
