"""Measures `drawbridge check` of 10,000 slices of 8 devices, in one List in JSON.

A Python program that reads the same file by the json module runs in turns with it, and so does the
command of BASELINE, the path of another checkout. The rows show the median of the CPU seconds of
whole processes, and the least and greatest ratio of a round to that of the program.
"""

import os
import statistics
import tempfile
from pathlib import Path
from typing import Final

from bench._scale import scaled
from bench._slices import SLICES, document
from bench.commands import ROOT, Runner

ROUNDS: Final = scaled(5, 1)
BASELINE: Final = os.environ.get("BASELINE")
_FILE: Final = "slices.json"
_READS: Final = f"import json; json.loads(open({_FILE!r}, 'rb').read())"


def run() -> None:
    """Print a row for each program."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as cache:
        (Path(made) / _FILE).write_bytes(document(SLICES))
        reader = Runner(ROOT, Path(made), f"{cache}/ours")
        checkers = {"check": reader}
        if BASELINE:
            checkers["baseline"] = Runner(Path(BASELINE), Path(made), f"{cache}/theirs")
        seconds: dict[str, list[float]] = {"json.loads": [], **{name: [] for name in checkers}}
        for _ in range(1 + ROUNDS):  # the first one compiles the modules
            read = reader.python("-c", _READS)
            seconds["json.loads"].append(read.seconds if read else 0)
            for name, runner in checkers.items():
                spent = runner.run("check", "-f", _FILE)
                if spent is None or b"no findings" not in spent.printed:
                    raise SystemExit(f"{name} of the slices: {spent}")
                seconds[name].append(spent.seconds)
    print(f"{SLICES} slices, {ROUNDS} rounds in turns")
    for name, all_rounds in seconds.items():
        taken, reading = all_rounds[1:], seconds["json.loads"][1:]
        ratios = [one / other for one, other in zip(taken, reading, strict=True)]
        between = f"{min(ratios):.1f} to {max(ratios):.1f}"
        print(f"{name:12} {statistics.median(taken):6.2f} s of CPU, {between} of json.loads")
