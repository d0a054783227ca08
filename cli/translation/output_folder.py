"""Writes edited manifests into a folder, under their own names.

A file of a folder in `-f` keeps its path below that folder. Whole files replace older ones
atomically. Nothing is written outside the folder, and no input is overwritten unless that is asked.
"""

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cli.input import codes, live_cluster
from cli.input.files import INPUT_NAME
from cli.input.special_files import BUILD_NAME
from cli.translation.edited_manifests import EditResult
from cli.translation.manifest_text import detect_newline, join_documents, print_each
from drawbridge.documents.document import LocatedFinding

TEMPLATES_FILE: Final = "drawbridge-templates.yaml"
_SEPARATOR: Final = re.compile(rb"(?m)^---\r?\n")
# The files for what was read from no file.
_FILES: Final = {INPUT_NAME: "stdin.yaml", live_cluster.SOURCE: "cluster.yaml"}


class _Target(NamedTuple):
    """A file to write: its name in the folder, its content, and the input that it comes from."""

    name: str
    data: bytes
    source: str


def write_folder(
    result: EditResult, folder: str, inputs: Sequence[str], *, overwrite: bool
) -> tuple[int, list[LocatedFinding]]:
    """Write all files, or none if one is refused; return their number, and the findings."""
    targets = list(_targets(result, inputs))
    refused = list(_find_problems(targets, Path(folder), result, overwrite=overwrite))
    if refused:
        return 0, refused
    for number, target in enumerate(targets):
        try:
            path = Path(folder) / target.name
            is_shared = target.name == TEMPLATES_FILE and not target.source
            if is_shared:
                _add_templates(path, target.data)
            else:
                _write_whole(path, target.data)
        except OSError as error:
            message = f"cannot write {target.name}: {(error.strerror or f'{error}').lower()}"
            return number, [_finding(message, target.source)]
    return len(targets), []


def remove_emptied(
    result: EditResult, folder: str, inputs: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """Yield the inputs in the folder of which nothing is left, and whether each was deleted.

    Only the file that `translate` has made is, if its whole folder is the input: other files may
    use its templates otherwise.
    """
    folders = [each for each in inputs if Path(each).is_dir()]
    for source in result.emptied:
        name = _name_in_folder(source, inputs)
        path = Path(folder) / name
        if os.path.realpath(path) != os.path.realpath(source):
            continue
        is_whole = any(Path(source).is_relative_to(each) for each in folders)
        is_deleted = is_whole and name == TEMPLATES_FILE
        if is_deleted:
            with _locked(path.parent):
                path.unlink()
        yield f"{path}", is_deleted


def _add_templates(path: Path, data: bytes) -> None:
    """Add templates to the file of all runs, one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        _write_whole(path, _with_earlier(path, data))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other commands from changing the templates in a folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems have no locks: there, commands have to take turns.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _with_earlier(path: Path, data: bytes) -> bytes:
    """Return the templates with those of earlier runs, which other files of the folder refer to."""
    try:
        earlier = path.read_bytes()
    except FileNotFoundError:
        return data
    new = [each for each in _SEPARATOR.split(data) if each not in earlier]
    return join_documents([earlier, *new], detect_newline([data]))


def compare_files(
    result: EditResult, inputs: Sequence[str]
) -> Iterator[tuple[str, bytes | None, bytes]]:
    """Yield the path of each file with its content before, None if it is new, and after.

    Paths are those of the input. New files are in the folder of the input, if it is one folder.
    """
    before = {each.source.name: each.source.data for each in result.files}
    folder = Path(inputs[0]) if len(inputs) == 1 and Path(inputs[0]).is_dir() else Path()
    for target in _targets(result, inputs):
        is_file = target.source and Path(target.source).name not in (*_FILES, BUILD_NAME)
        path = Path(target.source) if is_file else folder / target.name
        yield f"{path}".lstrip("/"), before.get(target.source), target.data


def _targets(result: EditResult, inputs: Sequence[str]) -> Iterator[_Target]:
    newline = detect_newline(each.text for each in result.files if each.text)
    templates = list(print_each(result.templates.values(), newline))
    for file in result.files:
        name = _name_in_folder(file.source.name, inputs)
        data = file.text
        if name == TEMPLATES_FILE:
            # The templates of an earlier run.
            data = join_documents([data, *templates], newline)
        yield _Target(name, data, file.source.name)
    names = {_name_in_folder(each.source.name, inputs) for each in result.files}
    if templates and TEMPLATES_FILE not in names:
        yield _Target(TEMPLATES_FILE, join_documents(templates, newline), "")


def _name_in_folder(name: str, inputs: Sequence[str]) -> str:
    """Return the path of a file below the folder of the input that contains it.

    The output of a build becomes a file beside its folder.
    """
    if name in _FILES:
        return _FILES[name]
    if Path(name).name == BUILD_NAME:
        folder = Path(name).parent
        return _name_in_folder(f"{folder if folder.name else folder.resolve()}.yaml", inputs)
    for source in inputs:
        if Path(source).is_dir() and Path(name).is_relative_to(source):
            return Path(name).relative_to(source).as_posix()
    return Path(name).name


def _find_problems(
    targets: Iterable[_Target], folder: Path, result: EditResult, *, overwrite: bool
) -> Iterator[LocatedFinding]:
    """Yield what keeps the files from being written."""
    inputs = {os.path.realpath(each.source.name) for each in result.files}
    root = os.path.realpath(folder)
    seen: dict[str, str] = {}
    for target in targets:
        path = folder / target.name
        if target.name in seen:
            message = (
                f"{seen[target.name]} and {target.source} would both be written to {target.name}"
            )
            yield _finding(message, target.source)
        seen[target.name] = target.source
        if not Path(os.path.realpath(path.parent)).is_relative_to(root):
            yield _finding(f"{target.name} is outside the folder because of a link", target.source)
        elif os.path.realpath(path) in inputs and not overwrite:
            remedy = "Choose another folder, or overwrite the input with `--overwrite`."
            yield _finding(f"{path} is an input of this command", target.source, remedy)


def _finding(message: str, source: str, remedy: str | None = None) -> LocatedFinding:
    finding = codes.FILE_NOT_WRITTEN.at("--output-dir", message, remedy=remedy)
    return LocatedFinding(finding, source, 0, 0)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that its readers see the old or the new content, and keep its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".drawbridge-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), path.stat().st_mode if path.exists() else 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
