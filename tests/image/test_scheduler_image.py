"""The image of the kube-scheduler with the plugin. A few bytes stand for the program."""

from pathlib import Path

import pytest

from tests.image.archive import Archive
from tests.tables import read_yaml, read_yaml_documents
from tools.commit import Commit
from tools.image import contents, scheduler
from tools.image.build import ROOT, read_version
from tools.image.tree import File

MANIFEST = ROOT / "manifests" / "components" / "bridge" / "scheduler-deployment.yaml"
OVERLAY = ROOT / "manifests" / "overlays" / "default" / "kustomization.yaml"


@pytest.fixture
def image(tmp_path: Path) -> Archive:
    """Return the image of a program."""
    tree = {scheduler.PATH: File(b"program", is_executable=True)}
    file = tmp_path / "image.tar"
    file.write_bytes(scheduler.compose(tree, "1.36.3", "arm64", Commit("c" * 40, 86_400)).data)
    return Archive(file)


def test_the_command_of_the_manifest_is_on_the_path_of_the_image(image: Archive) -> None:
    deployment = next(read_yaml_documents(MANIFEST.read_text("utf-8")))
    containers = deployment["spec"]["template"]["spec"]["containers"]
    (command,) = next(each["command"] for each in containers if each["name"] == "scheduler")
    variables = dict(text.split("=", 1) for text in image.config["config"]["Env"])
    member = image.members[f"{variables['PATH']}/{command}".lstrip("/")]
    assert member.mode == 0o755
    assert image.contents[member.name] == b"program"


def test_it_runs_as_the_user_of_the_manifest(image: Archive) -> None:
    assert image.config["config"]["User"] == f"{contents.USER}:{contents.USER}"
    assert image.config["architecture"] == "arm64"


def test_its_name_has_the_tag_that_the_overlay_asks_for(image: Archive) -> None:
    wanted = read_yaml(OVERLAY.read_text("utf-8"))["images"]
    (tag,) = (each["newTag"] for each in wanted if each["name"] == scheduler.PROGRAM)
    assert image.entry["annotations"]["io.containerd.image.name"] == f"{scheduler.NAME}:{tag}"
    assert tag == read_version()


def test_it_says_which_kube_scheduler_it_has(image: Archive) -> None:
    described = image.manifest["annotations"]["org.opencontainers.image.description"]
    assert described == "kube-scheduler 1.36.3 with the plugin of Drawbridge"


def test_the_same_program_makes_the_same_image() -> None:
    tree = {scheduler.PATH: File(b"program")}
    commit = Commit("c" * 40, 86_400)
    first, other = (scheduler.compose(tree, "1.36.3", "amd64", commit) for _ in range(2))
    assert first.digest == other.digest
