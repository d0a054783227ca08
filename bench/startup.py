"""Measures the CPU time of short commands, from the start of Python to its exit.

The output shows the best round of each command, and its ratio to an empty Python program, which
differs less between machines. With the environment variable BASELINE, the path of another checkout,
it also shows the ratio to the same command there. Modules are compiled before the first round.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench._scale import scaled

ROOT = Path(__file__).parent.parent
ROUNDS = scaled(7, 1)
EXAMPLE = str(ROOT / "examples" / "legacy" / "nvidia.yaml")
EMPTY = ("-c", "pass")
COMMANDS = {
    "--help": ("--help",),
    "--version": ("--version",),
    "translate --help": ("translate", "--help"),
    "translate of one file": ("translate", "-f", EXAMPLE),
    "undo of one file": ("undo", "-f", EXAMPLE),
    "check of one file": ("check", "-f", EXAMPLE),
}


def measure(words: tuple[str, ...], tree: Path, cache: str) -> float | None:
    """Return the CPU seconds of the best round, after one that compiles the modules.

    Returns None if the command fails; the tree may not have it.
    """
    environment = {name: each for name, each in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": cache}
    best = float("inf")
    for number in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, *words],
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, spent) if number else best
    return best


def run() -> None:
    """Print a row for each command."""
    baseline = os.environ.get("BASELINE")
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
        empty = measure(EMPTY, ROOT, cache) or 1.0
        print(f"{'an empty program':<24} {empty * 1000:6.0f} ms")
        for name, words in COMMANDS.items():
            command = ("-m", "cli.main", *words)
            spent = measure(command, ROOT, cache)
            if spent is None:
                raise SystemExit(f"drawbridge {' '.join(words)} fails")
            row = f"{name:<24} {spent * 1000:6.0f} ms  {spent / empty:5.1f} x an empty program"
            if baseline:
                before = measure(command, Path(baseline), other)
                row += f"  {spent / before:5.2f} x the baseline" if before else "  new"
            print(row)


if __name__ == "__main__":
    run()
