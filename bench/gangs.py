"""Measures the search for all members of a gang: on an idle, a half-full and a full cluster.

A cluster has equal nodes with eight GPUs each. The first call has empty caches; later ones follow a
change of one node. Equal nodes share their answers, so that the free nodes differ in their use.
"""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench._scale import scaled
from bench.solver import as_slice, known_gates, slices
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.inventory import PoolID, build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import Ask, MemberKind, place_gang
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from drawbridge.solver.world import PoolUse, View, World

NODES, DEVICES, CALLS = scaled(500, 20), 8, scaled(20, 2)
GPU = "gpu.nvidia.com"
SIZES = scaled((8, 64, 512), (8, 16))


def _claim(count: int) -> Claim:
    exactly = {"deviceClassName": GPU, "count": count}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    claim = read_claim({"metadata": {"name": "member"}, "spec": spec})
    if not isinstance(claim, Claim):
        raise SystemExit(f"{claim}")
    return claim


def _world() -> World:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]}
    decoded = read_class({"metadata": {"name": GPU}, "spec": spec})
    if not isinstance(decoded, DeviceClass):
        raise SystemExit(f"{decoded}")
    published = [as_slice(slices(number)[0]) for number in range(NODES)]
    inventory = build_inventory(published, gates=known_gates())
    return World(inventory=inventory, classes={GPU: decoded})


def _use(held: int, order: random.Random) -> PoolUse:
    return PoolUse(frozenset(f"gpu-{n}" for n in order.sample(range(DEVICES), held)))


def _ask(world: World, view: View, nodes: Mapping[str, Node], memo: Memo) -> Ask:
    def ask(names: Sequence[str], claims: Sequence[Claim]) -> Mapping[str, Solution]:
        asked = [nodes[name] for name in names]
        answers = solve(world, view, claims, asked, ids=lambda: "share", memo=memo)
        return {name: each for name, each in answers.items() if isinstance(each, Solution)}

    return ask


def _measure(label: str, held: Sequence[int], size: int, world: World) -> None:
    order, memo = random.Random(size), Memo()  # not a secret
    pools = [each.id for each in world.inventory.pools.values()]
    uses: dict[PoolID, PoolUse] = {
        pool: _use(number, order) for pool, number in zip(pools, held, strict=True)
    }
    nodes = {pool.name: Node(pool.name, {"name": pool.name}) for pool in pools}
    kind = MemberKind((_claim(1),), size, list(nodes))
    free = sum(DEVICES - number for number in held)
    times: list[float] = []
    for _ in range(CALLS):
        ask: Any = _ask(world, View(dict(uses)), nodes, memo)
        started = time.perf_counter()
        placement = place_gang([kind], ask)
        times.append((time.perf_counter() - started) * 1000)
        if placement.placed != min(size, free):
            raise SystemExit(
                f"{placement.placed} of {size} members have a place, {free} GPUs are free"
            )
        changed = order.choice(pools)
        uses[changed] = _use(len(uses[changed].dedicated), order)
    later = sorted(times[1:])
    outcome = "fits" if size <= free else f"{free} fit"
    print(
        f"{label:22} gang of {size:3} ({outcome:>7})   first {times[0]:7.1f} ms   later "
        f"{later[len(later) // 2]:6.1f} ms, at most {later[-1]:6.1f} ms"
    )


def run() -> None:
    """Print the time of a search for each cluster and each size."""
    print(f"{NODES} nodes with {DEVICES} GPUs, members with one GPU each")
    world, order = _world(), random.Random(1)  # not a secret
    clusters = {
        "idle": [0] * NODES,
        "half full, fragmented": [order.randint(0, DEVICES) for _ in range(NODES)],
        "one GPU free in ten": [DEVICES - (number % 10 == 0) for number in range(NODES)],
        "full": [DEVICES] * NODES,
    }
    for label, held in clusters.items():
        for size in SIZES:
            _measure(label, held, size, world)
