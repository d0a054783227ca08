"""Compares our solver with Kubernetes' allocator on generated scenarios.

    python -m e2e.differential 0:20000 [processes]

Our solver is asked twice: as upstream decides, which has to be equal in everything, and as we
decide, where each difference has to be one of `compare.EXCEPTIONS`. Every solution goes through the
checker. Exit code 1 when anything differs that is no exception.
"""

import multiprocessing
import sys
import time

from e2e.differential.compare import EXCEPTIONS
from e2e.differential.judge import Found, judge
from e2e.oracle.build import NoGoError, binary

BLOCK = 50
EXAMPLES = 6


def main() -> int:
    """Run the seeds in blocks over processes and print sums."""
    try:
        binary()
    except NoGoError as error:
        print(f"SKIPPED: {error}")  # noqa: T201  # a command's output
        return 0
    first, _, end = sys.argv[1].partition(":")
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    start = time.monotonic()
    seeds = range(int(first), int(end))
    blocks = [seeds[at : at + BLOCK] for at in range(0, len(seeds), BLOCK)]
    found = Found()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for block in pool.imap_unordered(judge, blocks):
            found.add(block)
    report(found, time.monotonic() - start)
    return 1 if found.differences else 0


def report(found: Found, seconds: float) -> None:
    """Print what was counted, then the first examples of each difference."""
    lines = [f"{name}: {count}" for name, count in sorted(found.counts.items())]
    share = found.counts["satisfiable"] / max(1, found.counts["scenarios"])
    lines.append(f"satisfiable share: {share:.1%}, {seconds:.0f} s")
    for number in EXCEPTIONS.values():
        together = found.exceptions[f"{number}, with others"]
        lines.append(
            f"exception {number}: {found.exceptions[number]} alone, {together} with others"
        )
    lines.append(f"differences: {found.differences.total()}")
    for kind, count in found.differences.most_common():
        lines.append(f"  {kind}: {count}")
        lines += [f"    {line[:400]}" for line in sorted(found.examples[kind], key=len)[:EXAMPLES]]
    print("\n".join(lines))  # noqa: T201  # a command's output


if __name__ == "__main__":
    sys.exit(main())
