"""The commit of a build comes from git or from whoever builds, never from other checkouts."""

import subprocess
from pathlib import Path

import pytest

from tests.image.archive import Archive
from tools.commit import Commit, NoCommitError, read_commit
from tools.image.contents import SITE

TIME = "2026-11-21T02:26:00+00:00"


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *settings, *words]
    environment = {"GIT_COMMITTER_DATE": TIME, "GIT_AUTHOR_DATE": TIME, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603  # our words
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository with one commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--message=one")
    return folder


def test_a_checkout_has_the_commit_and_its_time(checkout: Path) -> None:
    commit = read_commit(checkout, {})
    assert commit.name == git(checkout, "rev-parse", "HEAD")
    assert commit.time == "2026-11-21T02:26:00Z"


@pytest.mark.parametrize("name", ["file", "new"])
def test_a_changed_or_a_new_file_is_told(checkout: Path, name: str) -> None:
    (checkout / name).write_text("2")
    assert read_commit(checkout, {}).name.endswith("-dirty")


def test_the_one_who_builds_may_name_the_commit(tmp_path: Path) -> None:
    given = {"DRAWBRIDGE_COMMIT": "abc", "SOURCE_DATE_EPOCH": "7"}
    assert read_commit(tmp_path, given) == Commit("abc", 7)
    assert read_commit(tmp_path, Commit("abc", 7).environment()) == Commit("abc", 7)


def test_a_folder_in_another_checkout_has_no_commit(checkout: Path) -> None:
    (checkout / "unpacked").mkdir()
    with pytest.raises(NoCommitError, match="not the folder of a git checkout"):
        read_commit(checkout / "unpacked", {})


def test_a_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    with pytest.raises(NoCommitError, match="set DRAWBRIDGE_COMMIT and SOURCE_DATE_EPOCH"):
        read_commit(tmp_path, {})


def test_the_image_has_the_commit_of_its_annotation(archive: Archive) -> None:
    written = archive.contents[f"{SITE}/drawbridge/process/commit.txt"].decode().strip()
    assert written == archive.manifest["annotations"]["org.opencontainers.image.revision"]
