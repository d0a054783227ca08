"""Reads which fields of an object which client wrote, and which ones GitOps tools ignore. Pure.

The API server notes the fields of each writer in managedFields. Objects that only Drawbridge made
are in no repository, and a status is in no repository either.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

JSON = dict[str, Any]
MANAGER = "drawbridge"
_PLAIN = re.compile(r"[A-Za-z_]\w*")
# Argo CD names one element of a list by what it selects.
_SELECTED = re.compile(r" \| select\(.*\)$")


class Write(NamedTuple):
    """A field of a kind of objects, as jq names it."""

    group: str
    kind: str
    path: str


def find_writes(kind: str, objects: Iterable[JSON]) -> Iterator[Write]:
    """Yield the fields that Drawbridge wrote to objects that somebody else made."""
    for obj in objects:
        entries = [each for each in obj["metadata"].get("managedFields", ()) if not is_status(each)]
        ours = [each for each in entries if each["manager"].startswith(MANAGER)]
        if len(ours) == len(entries):
            continue
        for entry in ours:
            group = entry["apiVersion"].rpartition("/")[0]
            for path in read_paths(entry["fieldsV1"]):
                yield Write(group, kind, path)


def is_status(entry: JSON) -> bool:
    """Return whether an entry of managedFields is about a status only."""
    return entry.get("subresource") == "status" and set(entry["fieldsV1"]) == {"f:status"}


def read_paths(fields: JSON, prefix: str = "") -> Iterator[str]:
    """Yield the path of each leaf of FieldsV1, without the keys of elements and the status."""
    for key, inner in fields.items():
        kind, _, name = key.partition(":")
        if not name or (not prefix and name == "status"):
            continue
        keys = set(json.loads(name)) if kind == "k" else set()
        rest = {each: value for each, value in inner.items() if each.removeprefix("f:") not in keys}
        path = prefix + (step(name) if kind == "f" else "[]")
        if rest.keys() <= {"."}:
            # An element that is only named is there because of its fields, or is a value itself.
            if kind != "k" or not inner:
                yield path
        else:
            yield from read_paths(rest, path)


def step(name: str) -> str:
    """Return a step of a path in jq."""
    return f".{name}" if _PLAIN.fullmatch(name) else f'["{name}"]'


def changed_paths(before: Any, after: Any, prefix: str = "") -> Iterator[str]:  # noqa: ANN401  # JSON
    """Yield the path of each value that differs."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changed_paths(before.get(key), after.get(key), prefix + step(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from changed_paths(one, other, f"{prefix}[]")
    else:
        yield prefix


def read_argo(application: JSON) -> set[Write]:
    """Return what an Application of Argo CD ignores."""
    return {
        Write(each.get("group", ""), each["kind"], _SELECTED.sub("", path))
        for each in application["spec"]["ignoreDifferences"]
        for path in each["jqPathExpressions"]
    }


def read_flux(release: JSON) -> set[Write]:
    """Return what a HelmRelease of Flux ignores, whose pointers count the elements of lists."""
    return {
        Write(each["target"].get("group", ""), each["target"]["kind"], read_pointer(pointer))
        for each in release["spec"]["driftDetection"]["ignore"]
        for pointer in each["paths"]
    }


def read_pointer(pointer: str) -> str:
    """Return the path of a JSON pointer."""
    parts = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return "".join("[]" if part.isdigit() else step(part) for part in parts)


def covers(ignored: Write, write: Write) -> bool:
    """Return whether an ignored field is a written one, or has it."""
    path, above = write.path, ignored.path.removesuffix("[]")
    inside = path == above or path.startswith((f"{above}.", f"{above}["))
    return ignored[:2] == write[:2] and inside


class Differences(NamedTuple):
    """What is written and not ignored, and ignored and never written."""

    uncovered: list[Write]
    needless: list[Write]


def compare(ignored: Iterable[Write], written: Iterable[Write]) -> Differences:
    """Compare what a tool ignores with what was written."""
    ignored, written = set(ignored), set(written)
    return Differences(
        sorted(each for each in written if not any(covers(one, each) for one in ignored)),
        sorted(one for one in ignored if not any(covers(one, each) for each in written)),
    )
