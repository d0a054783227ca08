"""Reading files, folders and the standard input."""

import io
import os
from pathlib import Path

from cli.input.files import read_documents, read_sources
from drawbridge.documents.document import LocatedFinding, Source

OBJECT = "apiVersion: v1\nkind: {}\n"


def names(*paths: object, stdin: bytes = b"") -> list[str]:
    """Return the names of the sources without their folder; for findings, the message."""
    told = []
    for source in read_sources([str(path) for path in paths], io.BytesIO(stdin)):
        assert isinstance(source, Source | LocatedFinding)
        if isinstance(source, Source):
            told.append(Path(source.name).name)
        else:
            told.append(source.finding.message)
    return told


def test_a_folder_is_read_recursively_in_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "c.yml", "d.txt", "z/y.yaml", "z/x/w.json", ".git/v.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(OBJECT.format("X"))
    assert names(tmp_path) == ["a.json", "b.yaml", "c.yml", "y.yaml", "w.json"]


def test_a_named_file_is_read_with_any_suffix(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("a: 1\n")
    assert names(tmp_path / "d.txt") == ["d.txt"]


def test_each_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")
    assert names(tmp_path / "a.yaml", tmp_path, tmp_path / "." / "a.yaml") == ["a.yaml"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.yaml").write_text("a: 1\n")
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    assert names(tmp_path) == ["b.yaml"]


def test_nothing_is_read_outside_a_folder_or_waited_for(tmp_path: Path) -> None:
    secret, folder = tmp_path / "kubeconfig", tmp_path / "checkout"
    secret.write_text("token: secret\n")
    (folder / "..data").mkdir(parents=True)
    (folder / "..data" / "d.yaml").write_text("a: 1\n")
    (folder / "a.yaml").symlink_to(secret)
    (folder / "b.yaml").symlink_to("/dev/zero")
    os.mkfifo(folder / "c.yaml")
    (folder / "d.yaml").symlink_to("..data/d.yaml")  # as a mounted ConfigMap
    (folder / "e.yaml").symlink_to("../kubeconfig")
    outside = "a link to a file outside the folder"
    expected = [outside, outside, "not a regular file", "d.yaml", outside]
    assert names(folder) == expected
    assert names(folder, secret) == [*expected, "kubeconfig"]
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert names(link) == expected


def test_a_named_file_can_be_a_link_or_a_pipe_but_no_endless_device(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a.yaml")
    read, write = os.pipe()
    os.write(write, b"a: 1\n")
    os.close(write)
    try:
        given = names(tmp_path / "link.yaml", f"/dev/fd/{read}", "/dev/zero", os.devnull)
    finally:
        os.close(read)
    assert given == ["link.yaml", f"{read}", "not a regular file", "null"]


def test_the_standard_input_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert names("-", tmp_path / "a.yaml", "-", stdin=b"b: 1\n") == ["<stdin>", "a.yaml"]


def test_an_unreadable_file_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "empty").mkdir()
    assert names(tmp_path / "none.yaml", tmp_path / "a.yaml", tmp_path / "empty", "nul\0") == [
        "no such file or directory",
        "a.yaml",
        "no .yaml, .yml or .json file in this folder",
        "embedded null byte",
    ]


def test_a_dangling_link_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert names(tmp_path, tmp_path / "a.yaml" / "b.yaml") == [
        "a.yaml",
        "no such file or directory",
        "not a directory",
    ]


def test_a_file_name_can_be_invalid_utf_8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(path).write_text("a: 1\n")
    assert names(tmp_path) == [Path(path).name]


def test_objects_of_several_files_are_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OBJECT.format("A") + "---\n" + OBJECT.format("B"))
    outcomes = list(
        read_documents([str(tmp_path), str(tmp_path / "none"), "-"], io.BytesIO(b"a: ["))
    )
    assert [
        outcome.finding.code if isinstance(outcome, LocatedFinding) else outcome.name
        for outcome in outcomes
    ] == [
        "A#1",
        "B#2",
        "FileUnreadable",
        "Document#1",
    ]


def test_a_link_to_itself_is_unreadable_and_the_other_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert names(tmp_path) == ["a.yaml", "too many levels of symbolic links"]
    assert names(tmp_path / "loop.yaml") == ["too many levels of symbolic links"]
