"""Reads files, folders and the standard input into documents.

Reads the .yaml, .yml and .json files of a folder and its subfolders, sorted by name, and skips
hidden folders. A folder with a kustomization is built instead (cli.input.builds), and a Helm chart
is refused. Yields a finding for each file that cannot be read.

Somebody else can have written a folder: what is read of it stays in it, and is a regular file. A
file that is named itself can be a link or a pipe, as a shell passes them.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from cli.input.special_files import CHART, KUSTOMIZATIONS
from drawbridge.documents.codes import FILE_UNREADABLE
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.read import Recognize, read_objects
from drawbridge.documents.values import Value

SUFFIXES = (".yaml", ".yml", ".json")
# Enough for the objects of the largest clusters. Bounds the memory for an endless input.
MOST_BYTES = 1 << 30
INPUT = "-"
INPUT_NAME = "<stdin>"


def read_documents(
    paths: Iterable[str], stdin: BinaryIO, recognize: Recognize | None = None
) -> Iterator[Document | LocatedFinding]:
    """Read the objects in `paths`, file by file."""
    for source in read_sources(paths, stdin):
        if isinstance(source, LocatedFinding):
            yield source
        else:
            yield from read_objects(source, recognize)


def read_values(
    paths: Iterable[str], stdin: BinaryIO, findings: list[LocatedFinding]
) -> Iterator[Value]:
    """Read the objects in `paths` without their places in the files; adds what is wrong."""
    for read in read_documents(paths, stdin):
        if isinstance(read, LocatedFinding):
            findings.append(read)
        elif read.findings:
            findings += read.findings
        else:
            yield read.value


def read_sources(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Source | LocatedFinding]:
    """Read the files in `paths`, each one once."""
    seen: set[str] = set()
    for path in paths:
        if path == INPUT:
            if INPUT not in seen:
                yield _read_bytes(INPUT_NAME, stdin)
            seen.add(INPUT)
            continue
        for file in _files(path):
            if isinstance(file, LocatedFinding):
                yield file
                continue
            real = _real_path(file if isinstance(file, str) else file.name)
            in_folder = _is_folder(path)
            if in_folder and not Path(real).is_relative_to(_real_path(path)):
                yield unreadable_file(f"{file}", "a link to a file outside the folder")
            elif real not in seen:
                seen.add(real)
                yield _read_file(file, in_folder=in_folder) if isinstance(file, str) else file


def _files(path: str) -> Iterator[str | Source | LocatedFinding]:
    """Yield the files of a path, the output of its builds, and findings."""
    if not _is_folder(path):
        yield from _named_file(path)
        return
    kustomizations: list[Path] = []
    is_any = False
    for file in _walk_folder(path, kustomizations):
        is_any = True
        yield file
    if kustomizations:
        from cli.input.builds import build_folders  # noqa: PLC0415  # few inputs need it

        yield from build_folders(kustomizations)
    elif not is_any:
        yield unreadable_file(path, "no .yaml, .yml or .json file in this folder")


def _named_file(path: str) -> Iterator[str | Source | LocatedFinding]:
    """Yield a file, unless it is a part of a kustomization."""
    try:
        above = [each for each in Path(path).absolute().parents if _is_kustomization(each)]
    except ValueError:
        above = []  # not a valid path
    if Path(path).name in KUSTOMIZATIONS and Path(path).is_file():
        yield from _files(str(Path(path).parent))
        return
    if above:
        from cli.input.builds import refuse_patch  # noqa: PLC0415  # few inputs need it

        if refused := refuse_patch(path, above):
            yield refused
            return
    yield path


def _is_folder(path: str) -> bool:
    """Whether a path is a folder or a link to one; what cannot be asked is read, and reported."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def _is_kustomization(folder: Path) -> bool:
    return any((folder / name).is_file() for name in KUSTOMIZATIONS)


def _walk_folder(
    folder: str, kustomizations: list[Path], *, built: bool = False
) -> Iterator[str | LocatedFinding]:
    """Yield the files of a folder, then those of its subfolders, sorted by name.

    The files below a kustomization belong to its build; only other kustomizations are looked for.
    """
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield unreadable_file(folder, _error_text(error))
        return
    if _is_kustomization(Path(folder)):
        kustomizations.append(Path(folder))
        built = True
    elif not built and any(each.name == CHART for each in ordered):
        from cli.input.builds import refuse_chart  # noqa: PLC0415  # few inputs need it

        yield refuse_chart(folder)
        return
    for entry in ordered:
        if not built and entry.name.endswith(SUFFIXES) and not _is_folder(entry.path):
            yield entry.path
    for entry in ordered:
        # A link to a folder may form a cycle. Mounted ConfigMaps link to their own folder.
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _walk_folder(entry.path, kustomizations, built=built)


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:
        # Not a valid path. Opening the file reports the error.
        return path


def _read_file(path: str, *, in_folder: bool) -> Source | LocatedFinding:
    try:
        # A pipe in a folder would be waited for.
        flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if in_folder else 0)
        with os.fdopen(os.open(path, flags), "rb") as stream:
            is_regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            if not is_regular and (in_folder or _is_endless(stream)):
                return unreadable_file(path, "not a regular file")
            return _read_bytes(path, stream)
    except (OSError, ValueError) as error:
        return unreadable_file(path, _error_text(error))


def _is_endless(stream: BinaryIO) -> bool:
    """Whether a file is a device, but neither a terminal nor the one that is empty."""
    status = os.fstat(stream.fileno())
    is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return is_device and not stream.isatty() and status.st_rdev != Path(os.devnull).stat().st_rdev


def _read_bytes(name: str, stream: BinaryIO) -> Source | LocatedFinding:
    try:
        data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        return unreadable_file(name, _error_text(error))
    if len(data) > MOST_BYTES:
        return unreadable_file(name, f"larger than {MOST_BYTES} bytes")
    return Source(name, data)


def refuse_readers(names: Iterable[str]) -> LocatedFinding:
    """Create the finding about several options that name the standard input."""
    listed = " and ".join(f"--{each}" for each in names)
    finding = FILE_UNREADABLE.at(
        "",
        f"{listed} name the standard input, which can be read once",
        object=INPUT_NAME,
        remedy="Pass a file to all but one of these options.",
    )
    return LocatedFinding(finding, INPUT_NAME, 0, 0)


def unreadable_file(name: str, message: str) -> LocatedFinding:
    """Create the finding about a file that cannot be read."""
    return LocatedFinding(FILE_UNREADABLE.at("", message, object=name), name, 0, 0)


def _error_text(error: Exception) -> str:
    """Return the error of the operating system without the path, which is printed before it."""
    text = error.strerror if isinstance(error, OSError) else f"{error}"
    return (text or "cannot be read").lower()
