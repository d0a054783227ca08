"""Follows the plans of drawn clusters, and counts what they said.

    python -m tests.audit.count_plans 0 250      the clusters of seeds 0 to 249

Prints each prediction that came otherwise, and then the counts: predictions, misses, and the shares
of pods *with either*, by what becomes of them.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.audit.follow import Followed


@dataclass
class Counts:
    """What the plans of drawn clusters said, and what came otherwise."""

    predictions: int = 0
    sure: int = 0
    either: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        pods = self.sure + self.either.total()
        share = f"{self.either.total() / max(1, pods):.1%}"
        parts = ", ".join(f"{name} {n:,}" for name, n in self.either.most_common())
        return (
            f"{len(self.misses):,} of {self.predictions:,} predictions came otherwise;"
            f" {self.either.total():,} of {pods:,} pods with either ({share}): {parts}"
        )


def size_of(seed: int) -> int:
    """Return how many nodes the cluster of a seed has."""
    return 5 + seed * 7 % 40


def count_plans(seeds: Iterable[int], folder: Path) -> Counts:
    """Follow the plans of drawn clusters."""
    counts = Counts()
    for seed in seeds:
        followed = Followed(seed, size_of(seed), folder)
        followed.follow()
        counts.predictions += followed.predictions
        counts.sure += followed.sure
        counts.either += followed.either
        counts.misses += [f"{seed}: {each}" for each in followed.misses]
    return counts


def main() -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = count_plans(range(options.first, options.last), Path(folder))
    sys.stdout.writelines(f"{each}\n" for each in (*counts.misses, counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
