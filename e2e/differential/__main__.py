"""Compares our solver with Kubernetes' allocator on generated scenarios.

    python -m e2e.differential 0:20000 [processes]

Our solver is asked twice: as upstream decides, which has to be equal in everything, and as we
decide, where each difference has to be one of `compare.EXCEPTIONS`. Every solution goes through the
checker. Exit code 1 when anything differs that is no exception.
"""

import sys

from e2e.differential.compare import EXCEPTIONS
from e2e.differential.judge import Found, judge
from e2e.differential.seeds import compare_seeds

BLOCK = 50
EXAMPLES = 6


def main() -> int:
    """Run the seeds in blocks over processes and print sums."""
    tally = Found()
    seconds = compare_seeds(judge, tally.add, BLOCK)
    if seconds is None:
        return 0
    report(tally, seconds)
    return 1 if tally.differences else 0


def report(tally: Found, seconds: float) -> None:
    """Print what was counted, then the first examples of each difference."""
    lines = [f"{name}: {count}" for name, count in sorted(tally.counts.items())]
    share = tally.counts["satisfiable"] / max(1, tally.counts["scenarios"])
    lines.append(f"satisfiable share: {share:.1%}, {seconds:.0f} s")
    for number in EXCEPTIONS.values():
        together = tally.exceptions[f"{number}, with others"]
        lines.append(
            f"exception {number}: {tally.exceptions[number]} alone, {together} with others"
        )
    lines.append(f"differences: {tally.differences.total()}")
    for kind, count in tally.differences.most_common():
        lines.append(f"  {kind}: {count}")
        lines += [f"    {line[:400]}" for line in sorted(tally.examples[kind], key=len)[:EXAMPLES]]
    print("\n".join(lines))  # noqa: T201  # a command's output


if __name__ == "__main__":
    sys.exit(main())
