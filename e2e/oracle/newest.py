"""Compares the allocator of a coming Kubernetes with the pinned one, on generated scenarios.

    python -m e2e.oracle.newest [first:end]

The oracle is built with the newest version of Kubernetes' modules that all of them have, also of an
alpha, and asked the same as the pinned one. The scenarios have the gates and fields of the pinned
version, so a difference is a change of its behaviour. Exit code 1 if an answer differs, or if the
newest version does not build.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.checker.quantities import Json
from e2e.controlplane.build import compile_program, required
from e2e.differential.theirs import Oracle
from e2e.generator import scenario
from e2e.oracle.build import CACHE, HERE, NEWEST, PINS, binary
from e2e.oracle.golden import STEPS, told
from e2e.upstream.api_fields import list_versions, newest_of

MODULES: Final = (
    "k8s.io/api",
    "k8s.io/apimachinery",
    "k8s.io/apiserver",
    "k8s.io/dynamic-resource-allocation",
)
SEEDS: Final = "0:1000"


def find_newest() -> str:
    """Return the newest version that all modules have."""
    common = set.intersection(*(set(list_versions(each)) for each in MODULES))
    return newest_of(sorted(common))


def build(version: str) -> Path:
    """Return the oracle with this version of the modules, building it if need be."""
    target = CACHE / f"oracle-{version.removeprefix('v')}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pin = CACHE / f"{target.name}.mod"
        for suffix in (".mod", ".sum"):
            shutil.copyfile(HERE / f"go{suffix}", pin.with_suffix(suffix))
        wanted = [f"{module}@{version}" for module in MODULES]
        subprocess.run(["go", "get", f"-modfile={pin}", *wanted], check=True, cwd=HERE)  # noqa: S607  # go of the PATH
        compile_program(HERE, ".", target, tags=PINS[NEWEST][1], pin=str(pin))
    return target


def find_differences(seeds: range, pinned: Oracle, newest: Oracle) -> Iterator[tuple[int, Json]]:
    """Yield the seeds that the two answer in different ways, with both answers."""
    for seed in seeds:
        asked = scenario(seed)
        answers = [oracle.answer(asked) for oracle in (pinned, newest)]
        verdicts = [one for answer in answers for one in answer.values()]
        if any(one["verdict"] == "timeout" or one.get("steps", 0) > STEPS for one in verdicts):
            continue  # the clock decides
        before, after = map(told, answers)
        if before != after:
            yield seed, {"pinned": before, "newest": after}


def main() -> int:
    """Print which version was asked, and what differs."""
    version, pinned = find_newest(), required(HERE, MODULES[-1])
    first, _, end = (sys.argv[1] if sys.argv[1:] else SEEDS).partition(":")
    oracles = Oracle(binary()), Oracle(build(version))
    differ = list(find_differences(range(int(first), int(end)), *oracles))
    for oracle in oracles:
        oracle.close()
    for seed, answers in differ:
        print(f"seed {seed}: {answers}")  # noqa: T201  # a command's output
    print(f"{version} and v{pinned}: {len(differ)} of {int(end) - int(first)} scenarios differ")  # noqa: T201
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
