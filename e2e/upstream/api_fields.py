"""Finds what changes in the types of the DRA API: each field that `api_fields.yaml` does not have.

    python -m e2e.upstream.api_fields            # the newest module k8s.io/api, also of an alpha
    python -m e2e.upstream.api_fields v0.37.2

The file has each field of the groups, of the newest version that has its type, and says which
struct of ours reads the type, if one does. A test compares it with these structs. The exit code is
1 if a field is new.
"""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from e2e.runner import print_line

HERE = Path(__file__).parent
MODULE = "k8s.io/api"
GROUPS = ("resource", "scheduling", "core")
# Of core, only what is about claims and groups.
OF_CORE = re.compile(
    r"Pod(Spec|Status|\w*Claim\w*|SchedulingGroup)|ResourceClaim|\w+(Extended)Res\w+"
)
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\s*[^/\s].*`.*json:"(\w+)', re.MULTILINE)
_FILE = re.compile(rf"/((?:{'|'.join(GROUPS)})/v\w+)/types\.go$")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?$")

Types = Mapping[str, Sequence[str]]


class Recorded(NamedTuple):
    """A type as it is recorded: its fields, what reads it, and fields that nothing reads."""

    fields: Sequence[str]
    model: str = ""
    reader: str = ""
    unread: Sequence[str] = ()


def read_types(source: str) -> dict[str, list[str]]:
    """Return the fields of each struct of a file of Go, by their names in JSON; no lists."""
    structs = {name: _FIELD.findall(body) for name, body in _STRUCT.findall(source)}
    return {
        name: sorted(set(fields) - {"metadata"})
        for name, fields in structs.items()
        if "items" not in fields
    }


def rank(version: str) -> tuple[int, int, int]:
    """Return the place of an API version: stable, then beta, then alpha, each by number."""
    match = _VERSION.match(version)
    assert match, version
    stages = {None: 2, "beta": 1, "alpha": 0}
    return stages[match[2]], int(match[1]), int(match[3] or 0)


def read_module(sources: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return the types of each group from `GROUP/VERSION`, each of the newest that has it."""
    groups: dict[str, dict[str, list[str]]] = {group: {} for group in GROUPS}
    for name in sorted(sources, key=lambda each: rank(each.partition("/")[2])):
        groups[name.partition("/")[0]] |= read_types(sources[name])
    groups["core"] = {k: v for k, v in groups["core"].items() if OF_CORE.fullmatch(k)}
    return groups


def download(version: str) -> dict[str, str]:
    """Return the files with the types of a version of the module, by `GROUP/VERSION`."""
    command = ("go", "mod", "download", "-json", f"{MODULE}@{version}")
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE)
    # A module for a newer Go is not unpacked, but its archive is there.
    answer = json.loads(done.stdout)
    assert "Zip" in answer, answer.get("Error", done.stderr)
    with zipfile.ZipFile(answer["Zip"]) as archive:
        paths = {_FILE.search(each): each for each in archive.namelist()}
        return {m[1]: archive.read(path).decode() for m, path in paths.items() if m}


def read_recorded() -> dict[str, dict[str, Recorded]]:
    """Return what is recorded, by group and type."""
    table = yaml.safe_load((HERE / "api_fields.yaml").read_text("utf-8"))
    return {
        group: {name: Recorded(**{"unread": [], **entry}) for name, entry in types.items()}
        for group, types in table.items()
    }


def find_new(
    module: Mapping[str, Types], recorded: Mapping[str, Mapping[str, Recorded]]
) -> Iterator[str]:
    """Yield a line for each field that is not recorded."""
    for group, types in module.items():
        for name, fields in types.items():
            entry = recorded[group].get(name, Recorded(()))
            reader = entry.model or entry.reader or "nothing of ours"
            for field in sorted(set(fields) - set(entry.fields)):
                yield f"{group} {name}.{field}: new; {reader} reads {name}"


def newest_of(versions: Sequence[str]) -> str:
    """Return the newest version of the module, also of an alpha."""
    return max(versions, key=_release)


def _release(version: str) -> tuple[object, ...]:
    """Return the place of a version of the module; a pre-release is before its release."""
    number, _, stage = version.removeprefix("v").partition("-")
    name, _, turn = stage.partition(".")
    return (*map(int, number.split(".")), name or "~", int(turn or 0))


def list_versions(module: str = MODULE) -> list[str]:
    """Ask for the versions of a module."""
    command = ("go", "list", "-m", "-versions", module)
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE)
    return done.stdout.split()[1:]


def main(words: Sequence[str]) -> int:
    """Print the new fields of a version; 1 if there are any."""
    version = words[0] if words else newest_of(list_versions())
    new = list(find_new(read_module(download(version)), read_recorded()))
    for line in new:
        print_line(line)
    print_line(f"{MODULE} {version}: {len(new)} new fields")
    return int(bool(new))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
