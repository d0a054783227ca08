"""Runs the benchmarks: all, those that are named, or parts: `python -m bench large.binds`.

Each bench is a module of this folder with `run()`, or with `PARTS`: calls by name, each of which
prints its rows. Knows no bench by name. A file behind a name is an argument of its call.

With `--brief`, each runs for a moment: CI does so to see that every bench still runs and that what
it measures is the right answer. A wrong answer ends the process with a message and code 1.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import _scale
from drawbridge.process.stack import call_with_stack


def main(words: list[str]) -> int:
    """Run the named benchmarks or parts, or all without names; 2 for an unknown name."""
    if "--brief" in words:
        os.environ[_scale.VARIABLE] = "1"
    ordered = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.name.startswith("_")
    )
    files: dict[str, list[str]] = {}
    for word in (each for each in words if each != "--brief"):
        if files and word.partition(".")[0] not in ordered and Path(word).is_file():
            files[[*files][-1]].append(word)
        else:
            files[word] = []
    for wanted in files or ordered:
        name, _, part = wanted.partition(".")
        parts = _parts_of(name) if name in ordered else {}
        if part not in {"", *parts}:
            print(f"bench {name} has no part {part}; it has {', '.join(parts)}", file=sys.stderr)
            return 2
        if not parts:
            print(f"no bench named {name}; there are {', '.join(ordered)}", file=sys.stderr)
            return 2
        for chosen in [part] if part else parts:
            print(f"== {name}.{chosen}" if chosen else f"== {name}")
            parts[chosen](*files.get(wanted, ()))
            print(flush=True)
    return 0


def _parts_of(name: str) -> Mapping[str, Callable[..., None]]:
    module = importlib.import_module(f"bench.{name}")
    parts: Mapping[str, Callable[..., None]] = getattr(module, "PARTS", None) or {"": module.run}
    return parts


if __name__ == "__main__":
    sys.exit(call_with_stack(lambda: main(sys.argv[1:])))
