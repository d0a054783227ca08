"""Makes small mistakes in the solver, one at a time, and looks whether the suite notices.

    python -m e2e.mutations [NAME-PART]      all of tests/differential/mutations.yaml, or some

Works on a copy; the checkout is not touched. Exit code 1 when a mistake is not noticed or no longer
applies. Not a part of CI: it takes minutes, and is run when solver or suite have changed.
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
# The tables first, because they are quick; what they let through the comparison may still catch.
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
    """Tell whether the text that is to be mistaken stands exactly once in its file."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    return text.count(mutation.old) == 1


def copied(folder: Path) -> Path:
    """Copy the checkout; what was built is shared."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (tree / ".cache").symlink_to(ROOT / ".cache")
    return tree


def noticed(tree: Path) -> str:
    """Run the suite in a copy and give the first failure, or nothing."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *SUITE],
        cwd=tree,
        # Byte code is valid for a second's mistakes and would outlive them.
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 0:
        return ""
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else ran.stdout[-300:] + ran.stderr[-300:]


def tried(mutation: Mutation, trees: "SimpleQueue[Path]") -> str:
    """Make one mistake in a copy, run the suite, and unmake it."""
    tree = trees.get()
    file = tree / mutation.file
    original = file.read_text(encoding="utf-8")
    try:
        file.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        return noticed(tree)
    finally:
        file.write_text(original, encoding="utf-8")
        trees.put(tree)


def main() -> int:
    """Try all, or those with the given words in their name."""
    chosen = [each for each in mutations() if sys.argv[1:] == [] or sys.argv[1] in each.name]
    stale = [each for each in chosen if not applies(each)]
    for each in stale:
        print(f"DOES NOT APPLY  {each.name}", flush=True)  # noqa: T201  # a command's output
    fresh = [each for each in chosen if each not in stale]
    missed = 0
    if failure := noticed(ROOT):
        print(f"the suite fails without any mistake: {failure}")  # noqa: T201  # the same
        return 1
    with tempfile.TemporaryDirectory() as name:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(PROCESSES):
            trees.put(copied(Path(name) / str(number)))
        with ThreadPoolExecutor(PROCESSES) as pool:
            for each, failure in zip(
                fresh, pool.map(lambda m: tried(m, trees), fresh), strict=True
            ):
                missed += not failure
                print(f"{'caught' if failure else 'MISSED':8}{each.name}  {failure}", flush=True)  # noqa: T201  # the same
    print(f"{len(fresh) - missed} caught, {missed} missed, {len(stale)} do not apply")  # noqa: T201  # the same
    return 1 if missed or stale else 0


if __name__ == "__main__":
    sys.exit(main())
