"""Builds the kustomizations of a folder, and finds out what belongs to a build.

A kustomization is built with `kustomize` or `kubectl` of the PATH, without network, plugins and
programs of its own. Its patches, its components and the kustomizations that it includes are read
as parts of the build only. A Helm chart is not rendered: only its user knows the values.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cli.input import codes
from cli.input.special_files import BUILD_NAME, CHART, KUSTOMIZATIONS
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_documents
from drawbridge.documents.values import Value

_BUILDERS: Final = (("kustomize", "build"), ("kubectl", "kustomize"))
_SECONDS: Final = 60.0
_MOST_BYTES: Final = 64 << 20
_MOST_SHOWN: Final = 300
# What kustomize says of a file outside the folder, and the option by which it reads such files.
_OUTSIDE: Final = re.compile(r"'[^'\n]{1,200}' is not in or below '[^'\n]{1,200}'")
_UNRESTRICTED: Final = ("--load-restrictor", "LoadRestrictionsNone")
# Without a PATH, the build starts no git and no plugin. No proxy listens on port 0, so that remote
# files are refused instead of downloaded.
_NO_PROXY: Final = "http://127.0.0.1:0"
_ENVIRONMENT: Final = {"PATH": "", "HTTP_PROXY": _NO_PROXY, "HTTPS_PROXY": _NO_PROXY}
_COMPONENT: Final = "Component"


class _Kustomization(NamedTuple):
    """A folder with a kustomization, whose fields are empty if it cannot be read."""

    folder: Path
    fields: Mapping[str, Value]

    @property
    def is_component(self) -> bool:
        """Whether only other kustomizations can include it."""
        return self.fields.get("kind") == _COMPONENT

    def included(self) -> Iterator[str]:
        """Yield the real paths of the files and folders that it includes."""
        for key in ("resources", "bases", "components"):
            yield from self._paths(self._list(key))

    def patches(self) -> Iterator[str]:
        """Yield the real paths of its patches."""
        yield from self._paths(self._list("patchesStrategicMerge"))
        for key in ("patches", "patchesJson6902"):
            yield from self._paths(get_value(each, ("path",)) for each in self._list(key))

    def _list(self, key: str) -> list[Value]:
        listed = self.fields.get(key)
        return listed if isinstance(listed, list) else []

    def _paths(self, listed: Iterable[Value]) -> Iterator[str]:
        for text in listed:
            if isinstance(text, str) and "\0" not in text:
                yield os.path.realpath(self.folder / text)


def _read_kustomization(folder: Path) -> _Kustomization:
    file = next(folder / name for name in KUSTOMIZATIONS if (folder / name).is_file())
    try:
        documents = list(read_documents(Source(str(file), file.read_bytes())))
    except OSError:
        documents = []  # the build reports it
    value = next((each.value for each in documents if not each.empty), None)
    return _Kustomization(folder, value if isinstance(value, dict) else {})


def build_folders(folders: Iterable[Path]) -> Iterator[Source | LocatedFinding]:
    """Build the kustomizations of one input that no other one of them includes."""
    yield from map(_build, _find_roots([_read_kustomization(each) for each in folders]))


def _find_roots(kustomizations: Sequence[_Kustomization]) -> Iterator[_Kustomization]:
    """Yield the kustomizations to build, so that each one belongs to a build.

    Of those that include each other, the first one is built, which reports the cycle.
    """
    by_path = {os.path.realpath(each.folder): each for each in kustomizations}
    parts = {path for each in kustomizations for path in each.included()}
    read: set[str] = set()
    for path in sorted(by_path, key=parts.__contains__):
        if path in read:
            continue
        yield by_path[path]
        left = [path]
        while left:
            included = left.pop()
            if included in by_path and included not in read:
                read.add(included)
                left += by_path[included].included()


def _build(kustomization: _Kustomization) -> Source | LocatedFinding:
    """Return the output of a build as a source, or the finding why there is none."""
    folder = str(kustomization.folder)
    shown = _command(_BUILDERS[0], folder)
    if kustomization.is_component:
        message = "a component has no objects of its own; it changes those of a kustomization"
        return _refuse(folder, message, "Pass the folder of a kustomization that includes it.")
    program, verb = next(
        ((path, each[1]) for each in _BUILDERS if (path := shutil.which(each[0]))), ("", "")
    )
    if not program:
        message = "the folder is a kustomization, and neither kustomize nor kubectl is installed"
        return _refuse(folder, message, _pipe(shown))
    output, problem = _run([program, verb, "--", folder])
    if problem:
        message = f"`{_command((Path(program).name, verb), folder)}` fails: {_shorten(problem)}"
        outside = _OUTSIDE.search(problem)
        if outside is None:
            return _refuse(folder, message, f"Correct the kustomization. {_pipe(shown)}")
        unrestricted = shlex.join([*_BUILDERS[0], *_UNRESTRICTED, folder])
        return _refuse(
            folder, f"the build reads outside its folder: {outside[0]}", _pipe(unrestricted)
        )
    return Source(str(Path(folder) / BUILD_NAME), output)


def _run(command: list[str]) -> tuple[bytes, str]:
    """Run a build in limited time and space; return its output, or why it failed."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603  # a program of the PATH, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_ENVIRONMENT,
            )
        except OSError as error:
            return b"", (error.strerror or f"{error}").lower()
        with process:
            assert process.stdout is not None  # noqa: S101  # PIPE
            late = threading.Timer(_SECONDS, process.kill)
            late.start()
            try:
                output = process.stdout.read(_MOST_BYTES + 1)
                if len(output) > _MOST_BYTES:
                    return b"", f"more than {_MOST_BYTES >> 20} MiB of output"
                code = process.wait()
            finally:
                late.cancel()
                process.kill()
        if code < 0:
            return b"", f"no result after {_SECONDS:g} seconds"
        errors.seek(0)
        text = errors.read(_MOST_BYTES).decode(errors="replace")
    return output, text.strip() or "no message" if code else ""


def _shorten(text: str) -> str:
    """Return an error message on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."


def refuse_chart(folder: str) -> LocatedFinding:
    """Return the finding about a folder that is a Helm chart."""
    command = shlex.join(["helm", "template", "RELEASE", folder, "-f", "VALUES"])
    finding = codes.CHART_NOT_RENDERED.at(
        "", f"the folder is a Helm chart, as it has {CHART}", object=folder, remedy=_pipe(command)
    )
    return LocatedFinding(finding, folder, 0, 0)


def refuse_patch(path: str, folders: Iterable[Path]) -> LocatedFinding | None:
    """Return the finding about a file that is a patch of one of these kustomizations."""
    real = os.path.realpath(path)
    for folder in folders:
        if real in _read_kustomization(folder).patches():
            shown = os.path.relpath(folder)
            message = f"the file is a patch of the kustomization {shown}"
            return _refuse(path, message, _pipe(_command(_BUILDERS[0], shown)))
    return None


def _refuse(name: str, message: str, remedy: str) -> LocatedFinding:
    finding = codes.KUSTOMIZATION_NOT_BUILT.at("", message, object=name, remedy=remedy)
    return LocatedFinding(finding, name, 0, 0)


def _command(builder: tuple[str, str], folder: str) -> str:
    return shlex.join([*builder, folder])


def _pipe(command: str) -> str:
    return f"Pass the output: `{command} | drawbridge ... -f -`."
