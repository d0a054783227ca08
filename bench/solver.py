"""Compares the solver with the allocator of Kubernetes on the same JSON, in one run, as ratios.

(a) One pod answered for 500 nodes of 8 GPUs and 8 NICs, half held, one device taken or released
between two calls. (b) Requests that cannot be had; upstream is cut off after 10 s. Both compile
expressions before they are timed, and both read plain objects outside of the time.
"""

import itertools
import json
import random
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from bench._scale import scaled
from bench._slices import DEVICES, GPU, NIC, claim, classes, device, slice_, slices
from drawbridge.dra.attributes import PCIE_ROOT
from drawbridge.dra.claim import Claim, claim_reader, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from drawbridge.solver.world import World, view_of_claims
from e2e.oracle.build import NoGoError, binary

Json = dict[str, Any]

NODES, CALLS = scaled((500, 30), (30, 3))
SIZES = scaled((5, 8, 11, 14, 31), (5,))
CUT_OFF = 10.0
READER = claim_reader()


def holder(driver: str, pool: str, held: str) -> Json:
    """A claim that holds one device."""
    out = claim({"r": (driver, 1)}, f"{pool}-{held}")
    result = {"request": "r", "driver": driver, "pool": pool, "device": held}
    return out | {"status": {"allocation": {"devices": {"results": [result]}}}}


def cluster(asked: Json) -> Json:
    """Scenario (a): half of the devices are allocated, then single devices change."""
    drawn = random.Random(1)
    published = [each for node in range(NODES) for each in slices(node)]
    everything = [
        holder(
            published_slice["spec"]["driver"], published_slice["spec"]["pool"]["name"], one["name"]
        )
        for published_slice in published
        for one in published_slice["spec"]["devices"]
    ]
    names = {each["metadata"]["name"]: each for each in everything}
    held = set(drawn.sample(sorted(names), len(names) // 2))
    start = [names[name] for name in sorted(held)]
    changes: list[Json] = []
    for _ in range(CALLS):
        name = drawn.choice(sorted(names))
        changes.append({"remove": f"default/{name}"} if name in held else {"add": names[name]})
        held ^= {name}
    return {
        "nodes": [{"metadata": {"name": f"node-{number:05}"}} for number in range(NODES)],
        "slices": published,
        "classes": classes(),
        "claims": [asked],
        "allocated": start,
        "changes": changes,
        "seconds": 60,
    }


def upstream(oracle: Path, scenario: Json) -> list[Json]:
    """Return for each round of the oracle the seconds, and the number of nodes by result."""
    ran = subprocess.run(  # noqa: S603  # what was built here
        [oracle, "rounds"], input=json.dumps(scenario), capture_output=True, text=True, check=True
    )
    rounds: list[Json] = json.loads(ran.stdout)["rounds"]
    return rounds


def ours(scenario: Json, memo: Memo | None = None) -> list[Json]:
    """Return the same for the solver; as in the ledger, the use of devices is summed untimed."""
    read = [read_slice(each) for each in scenario["slices"]]
    inventory = build_inventory([each for each in read if isinstance(each, Slice)], gates=DEFAULTS)
    read_classes = map(read_class, scenario["classes"])
    by_name = {each.metadata.name: each for each in read_classes if isinstance(each, DeviceClass)}
    world, memo = World(inventory, by_name), memo or Memo()
    claims = [each for each in map(read_claim, scenario["claims"]) if isinstance(each, Claim)]
    nodes = [Node(each["metadata"]["name"]) for each in scenario["nodes"]]
    held: dict[str, Claim] = {}
    for allocated in scenario["allocated"]:
        hold(held, allocated)
    use = dict(view_of_claims(held.values()).pools)
    ids = map("share-{}".format, itertools.count()).__next__
    rounds = []
    for change in [{}, *scenario.get("changes", [])]:
        held.pop(change.get("remove", ""), None)
        if "add" in change:
            hold(held, change["add"])
        view = view_of_claims(held.values())
        # As in the ledger, a pool whose use did not change keeps its object.
        for pool, now in view.pools.items():
            if use.get(pool) is None or use[pool].dedicated != now.dedicated:
                use[pool] = now
        view = type(view)({pool: use[pool] for pool in view.pools})
        start = time.perf_counter()
        answers = solve(world, view, claims, nodes, ids=ids, memo=memo)
        seconds = time.perf_counter() - start
        placed = sum(hasattr(each, "allocations") for each in answers.values())
        rounds.append({"seconds": seconds, "verdicts": {"allocated": placed}})
    return rounds


def fresh(scenario: Json) -> float:
    """Return the best of five times for a refusal, with only compiled expressions cached.

    The second world is another one, so that of the first only those are kept.
    """
    warm = {"claims": [claim({"r": (GPU, 1)})], "changes": []}
    memo = Memo()
    ours(scenario | warm, memo)
    alone = scenario | {"changes": []}
    rounds = [ours(alone, memo)[0] for _ in range(5)]
    if any(each["verdicts"]["allocated"] for each in rounds):
        raise SystemExit("what cannot be had is allocated")
    return min(float(each["seconds"]) for each in rounds)


def hold(held: dict[str, Claim], plain: Json) -> None:
    """Return a claim as the solver reads it."""
    read = READER.read(plain)
    if isinstance(read, Claim):
        held[f"default/{read.metadata.name}"] = read


def compare(name: str, oracle: Path, scenario: Json) -> None:
    """Return one row: the medians, and the speedup of the solver."""
    sides = {"ours": ours(scenario), "upstream": upstream(oracle, scenario)}
    placed = {side: [r["verdicts"].get("allocated", 0) for r in sides[side]] for side in sides}
    if placed["ours"] != placed["upstream"]:
        raise SystemExit(f"{name}: not the same nodes are answered: {placed}")
    mine, other = (statistics.median(r["seconds"] for r in each[1:]) for each in sides.values())
    first = sides["ours"][0]["seconds"]
    print(
        f"{name:24} ours {mine * 1e3:8.2f} ms (first {first * 1e3:.0f}), "
        f"upstream {other * 1e3:8.2f} ms, {other / mine:6.1f} times"
    )


def hopeless(oracle: Path) -> None:
    """Scenario (b): one device more than exists, as a count and as requests."""
    for size in SIZES:
        plain: Json = slice_(0)
        plain["spec"]["devices"] = [device(0, minor) for minor in range(size)]
        node = plain["spec"]["nodeName"]
        many = {f"r{number}": (GPU, 1) for number in range(size + 1)}
        for how, asked in (("count", {"r": (GPU, size + 1)}), ("requests", many)):
            scenario = {
                "nodes": [{"metadata": {"name": node}}],
                "slices": [plain],
                "classes": classes(),
                "claims": [claim(asked)],
                "allocated": [],
                # The first round compiles the expressions; it is not shown.
                "changes": [{}],
                "seconds": CUT_OFF,
            }
            mine = fresh(scenario)
            other = upstream(oracle, scenario)[-1]
            cut = " (cut off)" if "timeout" in other["verdicts"] else ""
            print(
                f"{size + 1:2} of {size:2} as {how:9} ours {mine * 1e3:8.2f} ms, "
                f"upstream {other['seconds'] * 1e3:10.2f} ms{cut}"
            )


def run() -> None:
    """Print all rows, or the reason why there are none."""
    try:
        oracle = binary()
    except NoGoError as error:
        print(f"SKIPPED: {error}")
        return
    print(f"{NODES} nodes of {DEVICES} GPUs and {DEVICES} NICs, half held, {CALLS} changes")
    compare("one GPU", oracle, cluster(claim({"gpu": (GPU, 1)})))
    both = claim({"gpu": (GPU, 1), "nic": (NIC, 1)}, matchAttribute=PCIE_ROOT)
    compare("GPU+NIC, matchAttribute", oracle, cluster(both))
    hopeless(oracle)
