"""What statements, bills and chart of a release say."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.image.test_sbom import validator
from tests.manifests.rendering import CHART, NAMESPACE, render_chart, run
from tests.tables import read_yaml_documents
from tools.commit import Commit
from tools.image import oci, sbom, scheduler
from tools.image.tree import File
from tools.release import artifacts
from tools.release.chart import pin_images
from tools.release.statements import Builder, describe_build

COMMIT = Commit("c" * 40, 86_400)
BUILDER = Builder("https://example.com/builder", source="https://example.com/repository")
ORIGIN = artifacts.Origin(COMMIT, "0.1.0", BUILDER)
DIGEST = "sha256:" + "0" * 64
BUILD_INFO = {
    "GoVersion": "go1.26.8",
    "Deps": [
        {"Path": "example.com/a", "Version": "v1.0.0", "Sum": "h1:" + "A" * 43 + "="},
        {
            "Path": "example.com/b",
            "Version": "v0.0.0",
            "Replace": {"Path": "example.com/c", "Version": "v2", "Sum": "h1:" + "B" * 43 + "="},
        },
    ],
}


def provenance(commit: Commit) -> Any:  # noqa: ANN401  # JSON
    """Return the provenance of something made of two modules."""
    return describe_build(commit, BUILDER, {"a": 1}, {"go": "1"}, sbom.describe_go(BUILD_INFO))


def test_provenance_names_the_commit_and_what_was_downloaded() -> None:
    assert provenance(COMMIT)["buildDefinition"]["resolvedDependencies"] == [
        {"name": "source", "uri": f"git+{BUILDER.source}", "digest": {"gitCommit": "c" * 40}},
        {"uri": "pkg:golang/example.com/a@v1.0.0", "digest": {"goModuleH1": "00" * 32}},
        {"uri": "pkg:golang/example.com/c@v2", "digest": {"goModuleH1": "041041" * 10 + "0410"}},
        {"uri": "pkg:golang/stdlib@1.26.8"},
    ]


def test_files_that_are_not_committed_have_no_commit_as_their_source() -> None:
    dirty = Commit(f"{COMMIT.name}-dirty", COMMIT.epoch)
    source, *_ = provenance(dirty)["buildDefinition"]["resolvedDependencies"]
    assert "digest" not in source
    assert source["name"] == f"source, changed since commit {COMMIT.name}"


def test_the_bill_of_the_scheduler_lists_its_modules_and_is_valid() -> None:
    content = scheduler.list_files("1.36.3", b"program", BUILD_INFO, COMMIT)
    node = content.tree[f"{scheduler.DOCUMENTS}/sbom.cdx.json"]
    assert isinstance(node, File)
    bill = json.loads(node.data)
    assert [error.message for error in validator().iter_errors(bill)] == []
    listed = {each["name"]: each["version"] for each in bill["components"]}
    assert listed == {"stdlib": "1.26.8", "example.com/a": "v1.0.0", "example.com/c": "v2"}


def test_values_of_the_chart_name_images_by_digest() -> None:
    values = yaml.safe_load(
        pin_images(
            (CHART / "values.yaml").read_text("utf-8"),
            {"drawbridge": ("r/drawbridge", DIGEST), "drawbridge-scheduler": ("r/s", DIGEST)},
        )
    )
    assert values["image"]["repository"] == "r/drawbridge"
    assert values["image"]["digest"] == DIGEST
    assert values["scheduler"]["image"]["repository"] == "r/s"
    assert values["scheduler"]["image"]["digest"] == DIGEST


def test_an_image_that_the_values_do_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no image other"):
        pin_images("image:\n  repository: x\n", {"other": ("r/other", DIGEST)})


def test_the_chart_of_a_release_renders_as_its_folder_does(tmp_path: Path) -> None:
    artifact = artifacts.compose_chart(ORIGIN, {})
    manifest = json.loads(artifact.manifest.blobs[oci.blob_path(artifact.manifest.digest)])
    archive = artifact.manifest.blobs[oci.blob_path(manifest["layers"][0]["digest"])]
    (tmp_path / "chart.tgz").write_bytes(archive)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        assert {member.mtime for member in files} == {COMMIT.epoch}
    text = run("helm", "template", "drawbridge", tmp_path / "chart.tgz", "-n", NAMESPACE)
    packed = [each for each in read_yaml_documents(text) if each]
    assert packed == render_chart({}, tmp_path)


def test_the_same_commit_gives_the_same_chart() -> None:
    first, second = (artifacts.compose_chart(ORIGIN, {}) for _ in range(2))
    assert first == second
