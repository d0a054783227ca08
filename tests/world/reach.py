"""Finds the seeds in which planted mistakes would decide differently, and plays only these.

    python -m tests.world.reach [NAME-PART] --first 0 --seeds 300 --most 20

A row of `tests/mutations/world.yaml` can have a text `noted`, which does what `old` does and calls
`noted(CONDITION)` where the mistake would decide differently if the condition is true. All these
texts are in the code at once while the seeds are played without a mistake. Then each mistake is
made, and its seeds are played again, at most so many. Printed is in how many seeds the place was
reached, in how many the mistake would decide differently, in how many of those played the course of
the run was another one, and which invariants broke.
"""

import argparse
import builtins
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar
from unittest import mock

from e2e.mutations import Mutation, copy_tree, read_lists
from tests.world.script import LENGTH, write_script
from tests.world.world import play

T = TypeVar("T")


class Played(NamedTuple):
    """What a seed showed: a digest of its story, and the names of the rows that it reached.

    Those that `differ` would have decided differently.
    """

    seed: int
    violation: str
    story: str
    reached: frozenset[str]
    differ: frozenset[str]


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(prog="python -m tests.world.reach", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="only rows whose name has this")
    parser.add_argument("--first", type=int, default=0, help="the first of several seeds")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--most", type=int, default=20, help="seeds to play with each mistake")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play")
    parser.add_argument("--notes", type=Path, help="keep here, or take from here, what seeds show")
    parser.add_argument("--play", type=int, nargs="+", help="play these seeds, as a part of a run")
    options = parser.parse_args()
    if options.play:
        _play(options.play)
        return
    rows = list_rows(options.part)
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder))
        played = _note(tree, rows, options)
        for row in rows:
            chosen = [each for each in played if row.name in each.differ][: options.most]
            _print(row, played, [*_make(tree, row, chosen, options.jobs)])


def list_rows(part: str = "") -> list[Mutation]:
    """Return the rows whose mistakes can be noted."""
    [planted] = (each for each in read_lists() if each.package == "world")
    return [each for each in planted.mutations if each.noted and part in each.name]


def write_notes(files: Mapping[str, str], rows: Sequence[Mutation]) -> dict[str, str]:
    """Return the files, by name, with the notes of these mistakes."""
    texts = {**files}
    for row in rows:
        for note in row.noted:
            name = note.file or row.file
            assert texts[name].count(note.old) == 1, f"{row.name}: not once in {name}: {note.old}"
            new = note.new.replace("noted(", f"noted({row.name!r}, ")
            texts[name] = texts[name].replace(note.old, new)
    return texts


def list_files(rows: Iterable[Mutation]) -> set[str]:
    """Return the files that notes of these mistakes are in."""
    return {note.file or row.file for row in rows for note in row.noted}


def _note(tree: Path, rows: Sequence[Mutation], options: argparse.Namespace) -> list[Played]:
    """Play all seeds with the notes of all rows, unless a file has what they showed."""
    kept: Path | None = options.notes
    if kept is not None and kept.exists():
        return [*_read(kept.read_text(encoding="utf-8").splitlines())]
    files = {name: (tree / name).read_text(encoding="utf-8") for name in list_files(rows)}
    try:
        for name, text in write_notes(files, rows).items():
            (tree / name).write_text(text, encoding="utf-8")
        lines = _run(tree, range(options.first, options.first + options.seeds), options.jobs)
    finally:
        for name, text in files.items():
            (tree / name).write_text(text, encoding="utf-8")
    if kept is not None:
        kept.write_text("\n".join(lines), encoding="utf-8")
    return [*_read(lines)]


def _make(
    tree: Path, row: Mutation, chosen: Sequence[Played], jobs: int
) -> Iterator[tuple[Played, Played]]:
    """Make a mistake and play these seeds again; yield each without and with it."""
    before = {each.seed: each for each in chosen}
    file = tree / row.file
    original = file.read_text(encoding="utf-8")
    try:
        file.write_text(original.replace(row.old, row.new), encoding="utf-8")
        for each in _read(_run(tree, [*before], jobs)):
            yield before[each.seed], each
    finally:
        file.write_text(original, encoding="utf-8")


def _run(tree: Path, seeds: Sequence[int], jobs: int) -> list[str]:
    """Play seeds in other processes, which have the code of the copy."""

    def run(some: Sequence[int]) -> list[str]:
        return subprocess.run(  # noqa: S603  # no outside input
            [sys.executable, "-m", "tests.world.reach", "--play", *map(str, some)],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()

    parts = [part for number in range(jobs) if (part := seeds[number::jobs])]
    with ThreadPoolExecutor(jobs) as pool:
        return sorted(line for lines in pool.map(run, parts) for line in lines)


def _read(lines: Iterable[str]) -> Iterator[Played]:
    for line in lines:
        seed, violation, story, reached, differ = json.loads(line)
        yield Played(seed, violation, story, frozenset(reached), frozenset(differ))


class Recorder:
    """What the notes call: it returns their condition, and keeps which rows a seed reaches."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.differ: set[str] = set()

    def __call__(self, name: str, condition: T) -> T:
        """Note that the place of a mistake was reached, and whether it would decide differently."""
        self.reached.add(name)
        if condition:
            self.differ.add(name)
        return condition


def _play(seeds: Sequence[int]) -> None:
    """Play seeds, and print what each one showed."""
    logging.disable(logging.CRITICAL)
    for seed in seeds:
        noted = Recorder()
        with mock.patch.object(builtins, "noted", noted, create=True):
            outcome = play(seed, write_script(seed, LENGTH))
        story = hashlib.sha256("\n".join(outcome.story).encode()).hexdigest()
        told = seed, outcome.violation, story, sorted(noted.reached), sorted(noted.differ)
        print(json.dumps(told), flush=True)  # noqa: T201  # a command


def _print(row: Mutation, played: Sequence[Played], made: Sequence[tuple[Played, Played]]) -> None:
    reached = sum(row.name in each.reached for each in played)
    differ = sum(row.name in each.differ for each in played)
    others = sum(each.story != before.story for before, each in made)
    broken = [f"{each.seed} {each.violation[:70]}" for _, each in made if each.violation]
    print(  # noqa: T201  # a command
        f"{row.name}: {len(played)} seeds, {reached} reach it, {differ} differ; of"
        f" {len(made)} with it {others} have another course, {len(broken)} break",
        *broken,
        sep="\n    ",
        flush=True,
    )


if __name__ == "__main__":
    main()
