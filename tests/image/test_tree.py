"""Layers have the same bytes for the same files, whoever packs them."""

import io
import tarfile

import pytest

from tools.image.tree import ConflictError, File, Folder, Link, compress, join, pack, read_archive

TREE = {
    "usr/bin/python3.11": File(b"\x7fELF", is_executable=True),
    "usr/lib/a.py": File(b"a"),
    "lib": Link("usr/lib"),
    "tmp": Folder(),
}


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def archive_with(*infos: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return out.getvalue()


def test_a_layer_does_not_depend_on_the_order_of_its_files() -> None:
    backwards = dict(reversed(list(TREE.items())))
    assert compress(pack(TREE, 7)) == compress(pack(backwards, 7))


def test_every_file_belongs_to_root_and_has_the_time_of_the_commit() -> None:
    for member in members(pack(TREE, 7)).values():
        assert (member.uid, member.gid, member.uname, member.mtime) == (0, 0, "", 7)


def test_files_are_readable_for_every_user_and_only_tmp_is_writable() -> None:
    modes = {name: oct(member.mode) for name, member in members(pack(TREE, 7)).items()}
    assert modes == {
        "lib": "0o777",
        "tmp": "0o1777",
        "usr": "0o755",
        "usr/bin": "0o755",
        "usr/bin/python3.11": "0o755",
        "usr/lib": "0o755",
        "usr/lib/a.py": "0o644",
    }


def test_a_tree_is_read_as_it_was_packed() -> None:
    assert read_archive(pack(TREE, 7)) == {k: v for k, v in TREE.items() if k != "tmp"}


def test_a_hard_link_becomes_a_file() -> None:
    first, second = tarfile.TarInfo("./usr/a"), tarfile.TarInfo("./usr/b")
    first.size, second.type, second.linkname = 1, tarfile.LNKTYPE, "./usr/a"
    assert read_archive(archive_with(first, second))["usr/b"] == File(b"x")


def test_the_right_to_run_as_the_owner_is_dropped() -> None:
    program = tarfile.TarInfo("usr/bin/su")
    program.mode = 0o4755
    packed = pack(read_archive(archive_with(program)), 7)
    assert members(packed)["usr/bin/su"].mode == 0o755


def test_a_device_is_refused() -> None:
    device = tarfile.TarInfo("dev/sda")
    device.type = tarfile.BLKTYPE
    with pytest.raises(ConflictError, match="dev/sda is a device"):
        read_archive(archive_with(device))


def test_two_parts_may_share_a_file_but_not_differ_in_it() -> None:
    assert join(({"a": File(b"1")}, {"a": File(b"1")})) == {"a": File(b"1")}
    with pytest.raises(ConflictError, match="a has different content"):
        join(({"a": File(b"1")}, {"a": File(b"2")}))
