"""Counts what `drawbridge translate` and `undo` do with the manifests of public repositories.

    python -m e2e.corpus FOLDER...

Each folder has the files of one repository, which the caller fetched; nothing of them is kept. An
oracle with tables of its own reads what they request. Counted are files, requests, those that went
in silence (neither translated nor named by a finding), findings that contradict each other, and
files that `undo` gives back byte for byte. Exit code 1 if a request went in silence, findings
contradict, or a YAML file came back otherwise.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from e2e.corpus.oracle import Request, find_requests, holds, names_devices, read_file

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_EXAMPLES: Final = 40
# Two findings that cannot both be true of one resource of an object.
_CONTRADICTIONS: Final = (
    ("no DRA driver for it is known", "the DRA driver"),
    ("is not a known device resource", "the DRA driver"),
    ("is not a known device resource", "stays with the device plugin"),
)


def main() -> int:
    """Count each folder, and print the sums and examples."""
    counts, examples = count_folders(map(Path, sys.argv[1:]))
    for name, number in sorted(counts.items()):
        sys.stdout.write(f"{name}: {number}\n")
    wrong = ("silent", "contradictions", "YAML files that differ", "crashes")
    for name in wrong:
        for example in examples[name][:_EXAMPLES]:
            sys.stdout.write(f"  {name}: {example}\n")
    return int(any(counts[name] for name in wrong))


def count_folders(folders: Iterable[Path]) -> tuple[Counter[str], dict[str, list[str]]]:
    """Return the sums, and where each thing is that was counted."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        counts["repositories"] += 1
        for what, where in _judge(folder):
            counts[what] += 1
            examples[what].append(f"{folder.name}: {where}")
    return counts, examples


def _judge(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each thing to count, with where it is."""
    with tempfile.TemporaryDirectory() as temporary:
        there = Path(temporary)
        names = _copy_files(folder, there / "in")
        if not names:
            return
        findings = _run("translate", there / "in", there / "out")
        if findings is None:
            yield "crashes", "translate"
            return
        by_file: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for finding in findings:
            by_file[Path(f"{finding['file']}").name].append(finding)
        if _run("undo", there / "out", there / "back") is None:
            yield "crashes", "undo"
        for copied, source in names.items():
            yield "files", source
            for what, where in _judge_file(there, copied, by_file[copied]):
                yield what, f"{source}: {where}"


def _judge_file(
    there: Path, name: str, findings: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    before, after, back = (there / part / name for part in ("in", "out", "back"))
    documents = read_file(after)
    told = "\n".join(f"{each['path']} {each['message']}" for each in findings)
    for request in find_requests(read_file(before)):
        yield "requests", request.name
        if not holds(documents, request):
            yield "translated", request.name
        elif request.name in told or _is_refused(findings) or _stays(request, findings):
            yield "named", request.name
        else:
            yield "silent", f"document {request.document + 1}, {request.path}"
    yield from _find_contradictions(findings)
    if before.read_bytes() != after.read_bytes():
        kind = "JSON" if before.suffix == ".json" or _is_json(before) else "YAML"
        same = back.exists() and back.read_bytes() == before.read_bytes()
        yield f"{kind} files that {'come back' if same else 'differ'}", name


def _find_contradictions(findings: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for first, second in _CONTRADICTIONS:
        about = _list_names(findings, first) & _list_names(findings, second)
        yield from (("contradictions", f"{about_name}: {first}; {second}") for about_name in about)


def _list_names(findings: Sequence[dict[str, Any]], part: str) -> set[tuple[str, str]]:
    """Return the objects and resources of the findings with some words."""
    return {
        (each["object"], word.strip(":;,()[]"))
        for each in findings
        if part in each["message"]
        for word in each["message"].split()
        if "/" in word
    }


def _stays(request: Request, findings: Sequence[dict[str, Any]]) -> bool:
    """Whether an annotation stays with the plugin that a finding says keeps the request."""
    return "annotations" in request.path and any(
        " with the device plugin that serves " in each["message"] for each in findings
    )


def _is_refused(findings: Sequence[dict[str, Any]]) -> bool:
    return any(each["severity"] == "error" for each in findings)


def _is_json(path: Path) -> bool:
    return path.read_bytes().lstrip()[:1] in (b"{", b"[")


def _copy_files(folder: Path, to: Path) -> dict[str, str]:
    """Copy the files that name devices, with flat names; return the names with their sources."""
    to.mkdir()
    names: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _SUFFIXES and names_devices(path):
            source = path.relative_to(folder).as_posix()
            name = f"{len(names):04}{path.suffix}"
            shutil.copy(path, to / name)
            names[name] = source
    return names


def _run(command: str, folder: Path, to: Path) -> list[dict[str, Any]] | None:
    """Run a command on a folder; return its findings, or None if it did not end well."""
    words = ("-m", "cli", command, "-f", f"{folder}", "--output-dir", f"{to}", "-o", "json")
    done = subprocess.run([sys.executable, *words], capture_output=True, check=False)
    if b"internal error" in done.stderr or b"Traceback" in done.stderr:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        return None
    findings = json.loads(done.stdout)["findings"] if done.stdout else []
    return list(findings)


if __name__ == "__main__":
    raise SystemExit(main())
