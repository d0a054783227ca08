"""Runs the benchmarks: `python -m bench` runs all, `python -m bench inventory` runs one.

Each bench is a module of this folder with a `run()` that prints its rows. Knows no bench by name. A
file behind the name of a bench is an argument of its `run()`.
With `--brief`, each runs for a moment: CI does so to see that every bench still runs and that what
it measures is the right answer. A wrong answer ends the process with a message and code 1.
"""

import importlib
import os
import pkgutil
import sys
from pathlib import Path

from bench import _scale


def main(words: list[str]) -> int:
    """Run the named benchmarks, or all without names; 2 for an unknown name."""
    if "--brief" in words:
        os.environ[_scale.VARIABLE] = "1"
    ordered = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.name.startswith("_")
    )
    files: dict[str, list[str]] = {}
    for word in (each for each in words if each != "--brief"):
        if files and word not in ordered and Path(word).is_file():
            files[[*files][-1]].append(word)
        else:
            files[word] = []
    unknown = [name for name in files if name not in ordered]
    if unknown:
        print(
            f"no bench named {', '.join(unknown)}; there are {', '.join(ordered)}", file=sys.stderr
        )
        return 2
    for name in files or ordered:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").run(*files.get(name, ()))
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
