"""Inserts small errors into the solver, one at a time, and checks that the tests fail.

    python -m e2e.mutations [NAME-PART]      all of tests/differential/mutations.yaml, or some

Works on a copy of the checkout. The exit code is 1 if a mutation survives or no longer applies. CI
does not run it, because it takes minutes. Run it after changes to the solver or its tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "differential" / "mutations.yaml"
LEFT_OUT = (".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", "__pycache__", ".hypothesis")
# The tables are quick and run first.
SUITE = (
    "tests/solver",
    "tests/differential/test_differential.py",
    "tests/differential/test_case_tables.py",
    *(f"tests/dra/test_{name}.py" for name in ("capacity", "claim", "compatibility", "counters")),
    *(f"tests/dra/test_{name}.py" for name in ("inventory", "nodes", "taints")),
)
PROCESSES = 2


class Mutation(NamedTuple):
    """One mistake: in `file`, `new` instead of `old`."""

    name: str
    file: str
    old: str
    new: str


def mutations() -> list[Mutation]:
    """Read the list."""
    return [Mutation(**entry) for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))]


def applies(mutation: Mutation) -> bool:
    """Return whether the text to replace occurs exactly once in the file."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    return text.count(mutation.old) == 1


def copy_tree(folder: Path) -> Path:
    """Copy the checkout; the copies share the build cache."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (tree / ".cache").symlink_to(ROOT / ".cache")
    return tree


def first_failure(tree: Path) -> str:
    """Run the suite in a copy and return the first failure; empty if it passes."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *SUITE],
        cwd=tree,
        # Byte code is compared by seconds and would outlive a mutation.
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 0:
        return ""
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else ran.stdout[-300:] + ran.stderr[-300:]


def try_mutation(mutation: Mutation, trees: "SimpleQueue[Path]") -> str:
    """Apply one mutation to a copy, run the suite, and restore the file."""
    tree = trees.get()
    file = tree / mutation.file
    original = file.read_text(encoding="utf-8")
    try:
        file.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        return first_failure(tree)
    finally:
        file.write_text(original, encoding="utf-8")
        trees.put(tree)


def main() -> int:
    """Run all mutations, or those whose name contains the argument."""
    chosen = [each for each in mutations() if sys.argv[1:] == [] or sys.argv[1] in each.name]
    stale = [each for each in chosen if not applies(each)]
    for each in stale:
        print(f"DOES NOT APPLY  {each.name}", flush=True)  # noqa: T201  # a command's output
    fresh = [each for each in chosen if each not in stale]
    missed = 0
    if failure := first_failure(ROOT):
        print(f"the suite fails without any mistake: {failure}")  # noqa: T201  # the same
        return 1
    with tempfile.TemporaryDirectory() as name:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(PROCESSES):
            trees.put(copy_tree(Path(name) / str(number)))
        with ThreadPoolExecutor(PROCESSES) as pool:
            for each, failure in zip(
                fresh, pool.map(lambda m: try_mutation(m, trees), fresh), strict=True
            ):
                missed += not failure
                print(f"{'caught' if failure else 'MISSED':8}{each.name}  {failure}", flush=True)  # noqa: T201  # the same
    print(f"{len(fresh) - missed} caught, {missed} missed, {len(stale)} do not apply")  # noqa: T201  # the same
    return 1 if missed or stale else 0


if __name__ == "__main__":
    sys.exit(main())
