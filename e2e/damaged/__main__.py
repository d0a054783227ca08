"""Sends damaged reviews and requests to the real process: `python -m e2e.damaged [N] [SEED]`.

Starts `drawbridge serve webhook` with a fake API server, sends N damaged requests (20,000), then N
large ones that are expensive to translate, and prints the memory. The exit code is 0 if the process
runs, every response was right, memory is bounded, and small requests beside the large ones waited
less than a second.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path

from e2e.damaged.bystander import Bystander
from e2e.damaged.hostile import hostile_requests
from e2e.damaged.play import empty_outcome, format_outcome, send_cases, send_each
from e2e.damaged.process import WebhookProcess, cluster, started
from tests.cluster.fake.api import FakeApi

MIB = 1 << 20
WARM = 1000
PARTS = 4
# Bodies of 8 MiB fragment the heap, and caches fill up to their bounds: 100,000 requests add
# 96 MiB, and the last 25,000 of them add nothing. Memory that grows with each request exceeds this.
GROWTH = 128 * MIB
# A small request waits at most so long while large ones are handled.
MOST_SECONDS = 1.0


async def run(count: int, seed: int) -> list[str]:
    """Send both kinds of requests, print the counts, and return the errors."""
    with tempfile.TemporaryDirectory() as folder:
        async with FakeApi() as api:
            for value in cluster():
                api.put(value)
            kubeconfig = api.kubeconfig(Path(folder) / "kubeconfig")
            async with started(Path(folder), kubeconfig) as process:
                wrong = [
                    *await send_damaged(process, count, seed),
                    *await send_hostile(process, count),
                    *process.bugs,
                ]
                if process.running.returncode is not None:
                    wrong.append(f"the process ended: {process.running.returncode}")
    return wrong


async def send_damaged(process: WebhookProcess, count: int, seed: int) -> list[str]:
    """Send damaged requests in four parts, and return the errors."""
    begun = time.monotonic()
    outcome = await send_cases(process.target, seed - 1, WARM)
    sizes = [process.memory()]
    for part in range(PARTS):
        outcome.add(await send_cases(process.target, seed + part, count // PARTS))
        sizes.append(process.memory())
    shown = f"{count} damaged requests in {time.monotonic() - begun:.0f} s, seed {seed}"
    print_lines(*format_outcome(outcome), shown)
    return [*outcome.wrong, *check_memory(process, sizes)]


async def send_hostile(process: WebhookProcess, count: int) -> list[str]:
    """Send large requests in four parts beside small ones, and return the errors."""
    begun, outcome, sizes = time.monotonic(), empty_outcome(), []
    requests = hostile_requests(count, process.target.namespace)
    with Bystander(process.target, process.running.pid) as bystander:
        for part in range(PARTS):
            some = itertools.islice(requests, count // PARTS)
            outcome.add(await send_each(process.target, f"hostile {part}", some))
            sizes.append(process.memory())
    seconds, net = (sorted(each) for each in zip(*bystander.waits, strict=True))
    print_lines(
        *format_outcome(outcome),
        f"{count} hostile requests in {time.monotonic() - begun:.0f} s",
        f"{len(seconds)} small requests beside them: median {seconds[len(seconds) // 2]:.3f} s, "
        f"at most {seconds[-1]:.3f} s",
        f"without waits for a core: median {net[len(net) // 2]:.3f} s, at most {net[-1]:.3f} s",
    )
    wrong = [*outcome.wrong, *bystander.errors, *check_memory(process, sizes)]
    if net[-1] > MOST_SECONDS:
        wrong.append(f"a small request waited {net[-1]:.2f} s beside large ones")
    return wrong


def check_memory(process: WebhookProcess, sizes: list[int]) -> list[str]:
    """Print the resident memory before and after each part, and return an error if it grows."""
    shown = ", ".join(f"{size / MIB:.0f}" for size in sizes)
    print_lines(f"MiB resident: {shown}; at most {process.most() / MIB:.0f}")
    grown = sizes[-1] - sizes[0]
    return [f"memory grew by {grown / MIB:.0f} MiB"] if grown > GROWTH else []


def print_lines(*lines: str) -> None:
    """Print lines and flush them."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def main() -> int:
    """Send as many requests as the command line says."""
    # The check reads numbers with many digits, which Python limits by default.
    sys.set_int_max_str_digits(0)
    count, seed = (*map(int, sys.argv[1:]), *(20_000, 1)[len(sys.argv) - 1 :])
    wrong = asyncio.run(run(count, seed))
    sys.stdout.write(f"{len(wrong)} wrong\n")
    sys.stdout.writelines(f"WRONG {each}\n" for each in wrong[:40])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
