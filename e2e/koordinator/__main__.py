"""Compares bridge placement with Koordinator's steps on generated machines and requests.

    python -m e2e.koordinator 0:10000 [processes]

Exit code 1 if anything differs that must not; see `compare`.
"""

import multiprocessing
import sys
import time

from e2e.koordinator.compare import Compared, compare_seeds

BLOCK = 50
EXAMPLES = 6


def main() -> int:
    """Compare the seeds in blocks over processes, and print the sums."""
    first, _, end = sys.argv[1].partition(":")
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    start = time.monotonic()
    seeds = range(int(first), int(end))
    blocks = [seeds[at : at + BLOCK] for at in range(0, len(seeds), BLOCK)]
    total = Compared()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for compared in pool.imap_unordered(compare_seeds, blocks):
            total.add(compared)
    _report(total, time.monotonic() - start)
    return 1 if total.differences else 0


def _report(total: Compared, seconds: float) -> None:
    lines = [f"{name}: {count}" for name, count in sorted(total.counts.items())]
    lines.append(f"differences: {sum(map(len, total.differences.values()))}, {seconds:.0f} s")
    for kind, texts in sorted(total.differences.items()):
        lines.append(f"  {kind}: {len(texts)}")
        lines += [f"    {text[:900]}" for text in sorted(texts, key=len)[:EXAMPLES]]
    print("\n".join(lines))  # noqa: T201  # a command's output


if __name__ == "__main__":
    sys.exit(main())
