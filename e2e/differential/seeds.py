"""Runs a comparison over a range of seeds, in blocks over processes."""

import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from e2e.oracle.build import NoGoError, binary

T = TypeVar("T")


def compare_seeds(
    compare: Callable[[range], T], add: Callable[[T], None], block: int
) -> float | None:
    """Compare the seeds that the command line names, and add up the results of the blocks.

    Return the seconds that it took, or None where Kubernetes' allocator cannot be built.
    """
    try:
        binary()
    except NoGoError as error:
        print(f"SKIPPED: {error}")  # noqa: T201  # a command's output
        return None
    first, _, end = sys.argv[1].partition(":")
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    start = time.monotonic()
    seeds = range(int(first), int(end))
    blocks = [seeds[at : at + block] for at in range(0, len(seeds), block)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for result in pool.imap_unordered(compare, blocks):
            add(result)
    return time.monotonic() - start
