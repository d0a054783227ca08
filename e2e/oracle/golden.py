"""Stores the results of Kubernetes' allocator for 5,000 generated scenarios as digests.

    python -m e2e.oracle.golden write     allocates all and writes golden.json
    python -m e2e.oracle.golden check     allocates all again and names the blocks that differ

Scenarios are generated again from their seeds, and only digests of the results are stored: 100
lines instead of 50 MB. To examine a differing block, allocate its seeds. A difference shows that
the generator changed (a new GENERATION) or the allocator changed. Seeds whose search depends on the
clock are listed and skipped.
"""

import hashlib
import json
import sys
from pathlib import Path

from e2e.checker.quantities import Json
from e2e.differential.compare import plain
from e2e.differential.theirs import Oracle
from e2e.generator import GENERATION, scenario
from e2e.oracle.build import binary

STORED = Path(__file__).parent / "golden.json"
SEEDS = 5000
BLOCK = 50
# Upstream takes some 0.3 s for as many steps; beyond, a loaded machine might run into the limit.
STEPS = 50_000


def told(answers: dict[str, Json]) -> Json:
    """Of an answer what is not drawn at random and does not depend on the machine.

    Messages are left out: they name one of several devices, or quote maps in any order.
    """
    return {
        node: [one["verdict"], [plain(each) for each in one.get("allocations", [])]]
        for node, one in answers.items()
    }


def digest(seeds: range, long: set[int], oracle: Oracle) -> str:
    """Answer a block; seeds found to take too long are added to `long`."""
    lines = []
    for seed in seeds:
        if seed in long:
            continue
        answers = oracle.answer(scenario(seed))
        if any(a["verdict"] == "timeout" or a.get("steps", 0) > STEPS for a in answers.values()):
            long.add(seed)
            continue
        lines.append(json.dumps([seed, told(answers)], sort_keys=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def blocks() -> list[range]:
    """The seeds of each block."""
    return [range(first, first + BLOCK) for first in range(0, SEEDS, BLOCK)]


def stored() -> Json:
    """What was written."""
    decoded: Json = json.loads(STORED.read_text(encoding="utf-8"))
    return decoded


def differing(chosen: list[range], oracle: Oracle) -> list[range]:
    """Those of the blocks whose answers are not the stored ones."""
    golden = stored()
    long = set(golden["long"])
    return [
        block for block in chosen if digest(block, long, oracle) != golden["blocks"][str(block[0])]
    ]


def write(oracle: Oracle) -> None:
    """Answer everything and store the digests."""
    long: set[int] = set()
    digests = {str(block[0]): digest(block, long, oracle) for block in blocks()}
    golden = {"generation": GENERATION, "allocator": "0.37.2", "long": sorted(long)}
    text = json.dumps(golden | {"blocks": digests}, indent=1)
    STORED.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Write or check."""
    oracle = Oracle(binary())
    if sys.argv[1:] == ["write"]:
        write(oracle)
        return 0
    wrong = differing(blocks(), oracle)
    for block in wrong:
        print(f"seeds {block[0]} to {block[-1]} are answered otherwise")  # noqa: T201  # output
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
