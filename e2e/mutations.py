"""Inserts small mistakes into a package, one at a time, and checks that its tests fail.

    python -m e2e.mutations [PACKAGE] [NAME-PART]      all of tests/mutations, or some

Each file of tests/mutations lists the mistakes in one package, and the tests that must catch them.
Works on a copy of the checkout. The exit code is 1 if a mistake survives or cannot be made any
more. It takes minutes, so the workflow `suites.yaml` runs it each week, and `.ci/run` does not. Run
it after changes to a package or its tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "mutations"
LEFT_OUT = (".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", "__pycache__", ".hypothesis")
PROCESSES = 2
# A mistake that lets a test run forever is caught. Two suites at a time may take twice as long.
HANGS_AFTER, HANGS_AFTER_SECONDS = 5, 120.0
# The first failure is enough, and no smaller example of it is searched.
_PYTEST = (
    *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"),
    "--hypothesis-profile=first-failure",
)

# The first failure is told in one line, which pytest cuts at the width of a terminal.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}


class Note(NamedTuple):
    """A text that replaces another one, so that `tests.world.reach` notes where a mistake counts.

    It is in the file of the mistake, unless it names another one.
    """

    old: str
    new: str
    file: str = ""


class Mutation(NamedTuple):
    """One mistake: in `file`, `new` instead of `old`."""

    name: str
    file: str
    old: str
    new: str
    noted: tuple[Note, ...] = ()


class MutationList(NamedTuple):
    """The mistakes in one package, and the tests that catch them."""

    package: str
    suite: tuple[str, ...]
    mutations: tuple[Mutation, ...]


def read_lists() -> list[MutationList]:
    """Read all lists."""
    return [_read_list(path) for path in sorted(LISTS.glob("*.yaml"))]


def _read_list(path: Path) -> MutationList:
    content = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    mutations = tuple(_read_mutation(**entry) for entry in content["mutations"])
    return MutationList(path.stem, tuple(content["suite"]), mutations)


def _read_mutation(noted: Sequence[dict[str, str]] = (), **entry: str) -> Mutation:
    return Mutation(**entry, noted=tuple(Note(**each) for each in noted))


def applies(mutation: Mutation) -> bool:
    """Return whether the text to replace occurs exactly once in the file."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    return text.count(mutation.old) == 1


def copy_tree(folder: Path) -> Path:
    """Copy the checkout and compile the copy; the copies share the build cache."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (tree / ".cache").symlink_to(ROOT / ".cache")
    # Compared by seconds, byte code would outlive a mutation.
    compile_dir(tree, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return tree


def first_failure(tree: Path, suite: Sequence[str], seconds: float | None = None) -> str:
    """Run a suite in a copy and return the first failure; empty if it passes."""
    try:
        ran = subprocess.run(
            [*_PYTEST, *suite],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree), **_ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {seconds:.0f} s"
    if ran.returncode == 0:
        return ""
    ends = ("FAILED ", "ERROR tests")  # what a test logs can begin with ERROR as well
    failed = [line for line in ran.stdout.splitlines() if line.startswith(ends)]
    return failed[0] if failed else ran.stdout[-300:] + ran.stderr[-300:]


def try_mutation(
    mutation: Mutation, suite: Sequence[str], trees: "SimpleQueue[Path]", seconds: float
) -> str:
    """Apply one mutation to a copy, run a suite, and restore the file."""
    tree = trees.get()
    file = tree / mutation.file
    original = file.read_text(encoding="utf-8")
    try:
        file.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        return first_failure(tree, suite, seconds)
    finally:
        file.write_text(original, encoding="utf-8")
        trees.put(tree)


def run_list(listed: MutationList, trees: "SimpleQueue[Path]") -> Counter[str]:
    """Make the mistakes of one list, print how each one ends, and count the ends."""
    began = time.monotonic()
    if failure := first_failure(ROOT, listed.suite):
        _print(f"FAILS   {listed.package}: the suite fails without any mistake: {failure}")
        return Counter(failing=1)
    seconds = HANGS_AFTER * (time.monotonic() - began) + HANGS_AFTER_SECONDS
    ends: Counter[str] = Counter()
    fresh = [mutation for mutation in listed.mutations if applies(mutation)]
    for mutation in listed.mutations:
        if mutation not in fresh:
            _print(f"STALE   {listed.package}: {mutation.name}")
            ends["stale"] += 1
    with ThreadPoolExecutor(PROCESSES) as pool:
        failures = pool.map(lambda each: try_mutation(each, listed.suite, trees, seconds), fresh)
        for mutation, failure in zip(fresh, failures, strict=True):
            ends["caught" if failure else "missed"] += 1
            word = "caught" if failure else "MISSED"
            _print(f"{word:8}{listed.package}: {mutation.name}  {failure}")
    return ends


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # a command's output


def choose(arguments: Sequence[str]) -> list[MutationList]:
    """Return the list of a package, or all, with the mistakes whose name has the other argument."""
    lists = read_lists()
    packages = {listed.package for listed in lists}
    part = next((argument for argument in arguments if argument not in packages), "")
    chosen = packages.intersection(arguments) or packages
    return [
        listed._replace(mutations=tuple(m for m in listed.mutations if part in m.name))
        for listed in lists
        if listed.package in chosen and any(part in m.name for m in listed.mutations)
    ]


def main() -> int:
    """Run the chosen lists, one after the other."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(PROCESSES):
            trees.put(copy_tree(Path(name) / str(number)))
        for listed in choose(sys.argv[1:]):
            ends += run_list(listed, trees)
    _print(f"{ends['caught']} caught, {ends['missed']} missed, {ends['stale']} stale")
    return 1 if ends["missed"] or ends["stale"] or ends["failing"] else 0


if __name__ == "__main__":
    sys.exit(main())
