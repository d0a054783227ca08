"""Compares our planner with Kubernetes' allocator through histories of small clusters.

    python -m e2e.differential.histories 0:400 [processes]

The planner keeps results between decisions and shares them between nodes in the same state. The
nodes of a history publish the same devices at first. Each step changes what is published, labelled,
tainted or allocated, and then both answer for claims that they may have answered for before. Exit
code 1 when any answers differ.
"""

import copy
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from drawbridge.dra.claim import read_claim
from drawbridge.dra.classes import read_class
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.dra.taints import DeviceTaintRule, taint_rule_reader
from drawbridge.ledger.planner import Planner
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.world import PoolUse, View, view_of_claims
from e2e.checker.quantities import Json
from e2e.differential.compare import differences
from e2e.differential.judge import Found
from e2e.differential.ours import encoded, on, sure, worded
from e2e.differential.seeds import compare_seeds
from e2e.differential.theirs import Oracle
from e2e.generator import scenario
from e2e.generator.asks import claims
from e2e.generator.devices import device
from e2e.generator.draw import Draw
from e2e.generator.fleet import ZONE, rules
from e2e.generator.held import held, shareable
from e2e.generator.plan import Plan, plan
from e2e.oracle.build import binary

BLOCK = 10
EXAMPLES = 6
STEPS = 12
# The claims of another seed.
OTHER = 1_000_000
ORIGINAL = "node-0"
# What says from which nodes a device is reached.
REACH = ("nodeName", "allNodes", "nodeSelector")
READ: dict[str, Callable[[bytes], object]] = {
    "nodes": lambda text: sure(node_reader().read(text)),
    "slices": lambda text: sure(read_slice(text)),
    "classes": lambda text: sure(read_class(text)),
    "rules": lambda text: sure(taint_rule_reader().read(text)),
}


class History:
    """A cluster that changes, as objects and as our planner knows it."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.plan = plan(Draw(seed))
        self.scenario: Json = scenario(seed)
        self.names = [f"node-{number}" for number in range(self.draw.number(2, 4))]
        everything = Plan(frozenset({"all"}), self.plan.gates, self.plan.variant)
        self.asked = [
            self.scenario["claims"],
            scenario(seed + OTHER)["claims"],
            claims(self.draw, everything),
        ]
        self.scenario["nodes"] = [renamed(self.scenario["nodes"][0], each) for each in self.names]
        self.scenario["slices"] = list(copies(self.scenario["slices"], self.names))
        self.planner = Planner(on(self.scenario), allocator=Allocator.UPSTREAM)
        self.uses: dict[PoolID, PoolUse] = {}
        self.holders = itertools.count(100)
        for kind in READ:
            for obj in self.scenario[kind]:
                self.update(kind, obj)

    def step(self) -> str:
        """Change something, and say what; most often what is allocated."""
        names = {"hold": 0.4, "release": 0.12, "device": 0.16, "generation": 0.06, "label": 0.08}
        change = self.draw.weighted(names | {"withdraw": 0.04, "rule": 0.08, "repeal": 0.06})
        getattr(self, change)()
        return change

    def hold(self) -> None:
        """Allocate a device, of which somebody else may have a share."""
        spec, number = self.pick_device()
        if spec is None:
            return
        entry = spec["devices"][number]
        key = (spec["driver"], spec["pool"]["name"], entry["name"])
        taken = {
            (result["driver"], result["pool"], result["device"])
            for claim in self.scenario["allocated"]
            for result in claim["status"]["allocation"]["devices"]["results"]
        }
        if key not in taken or shareable(entry):
            self.scenario["allocated"].append(held(self.draw, key, entry, next(self.holders)))

    def release(self) -> None:
        """Free what a claim holds."""
        if self.scenario["allocated"]:
            self.scenario["allocated"].remove(self.draw.pick(self.scenario["allocated"]))

    def device(self) -> None:
        """Publish a device anew."""
        spec, number = self.pick_device()
        if spec is not None:
            before = spec["devices"][number]
            reach = {name: before[name] for name in REACH if name in before}
            new = device(self.draw, self.plan, spec["driver"], before["name"], number)
            spec["devices"][number] = new | reach
            self.publish(spec)

    def generation(self) -> None:
        """Publish a pool as a new generation."""
        spec, _ = self.pick_device()
        if spec is not None:
            pool, driver = spec["pool"]["name"], spec["driver"]
            for other in [each["spec"] for each in self.scenario["slices"]]:
                if (other["pool"]["name"], other["driver"]) == (pool, driver):
                    other["pool"]["generation"] += 1
                    self.publish(other)

    def withdraw(self) -> None:
        """Delete a slice."""
        gone = self.draw.pick(self.scenario["slices"])
        if len(self.scenario["slices"]) > 1:
            self.scenario["slices"].remove(gone)
            self.planner.remove(Slice, gone["metadata"]["name"])

    def label(self) -> None:
        """Move a node to a zone."""
        node = self.draw.pick(self.scenario["nodes"])
        node["metadata"]["labels"][ZONE] = self.draw.pick("ab")
        self.update("nodes", node)

    def rule(self) -> None:
        """Create or replace a rule that taints devices."""
        new = rules(self.draw, Plan(frozenset({"rules"}), {}, ""), self.names)[-1]
        name = new["metadata"]["name"]
        others = [each for each in self.scenario["rules"] if each["metadata"]["name"] != name]
        self.scenario["rules"] = [*others, new]
        self.update("rules", new)

    def repeal(self) -> None:
        """Delete a rule."""
        if self.scenario["rules"]:
            gone = self.scenario["rules"].pop()
            self.planner.remove(DeviceTaintRule, gone["metadata"]["name"])

    def pick_device(self) -> tuple[Json | None, int]:
        """Choose the spec of a slice and a device in it, if any slice has devices."""
        specs = [each["spec"] for each in self.scenario["slices"] if each["spec"].get("devices")]
        if not specs:
            return None, 0
        spec = self.draw.pick(specs)
        return spec, self.draw.number(0, len(spec["devices"]) - 1)

    def publish(self, spec: Json) -> None:
        """Tell the planner of a changed slice."""
        self.update("slices", next(s for s in self.scenario["slices"] if s["spec"] is spec))

    def update(self, kind: str, obj: Json) -> None:
        """Tell the planner of a changed object."""
        self.planner.update(READ[kind](encoded(obj)))  # type: ignore[arg-type]  # of the kinds in READ

    def answer(self, asked: list[Json]) -> dict[str, Json]:
        """Answer for claims on all nodes, with what the planner keeps."""
        holders = [sure(read_claim(encoded(each))) for each in self.scenario["allocated"]]
        view = view_of_claims(holders)
        self.uses = {pool: self.same_use(pool, use) for pool, use in view.pools.items()}
        numbers = itertools.count(1)
        answers = self.planner.solve_nodes(
            View(self.uses),
            [sure(read_claim(encoded(each))) for each in asked],
            self.names,
            ids=lambda: f"share-{next(numbers)}",
        )
        return {node: worded(each) for node, each in answers.items()}

    def same_use(self, pool: PoolID, use: PoolUse) -> PoolUse:
        """Return the same object while the use of a pool does not change, as the ledger does."""
        before = self.uses.get(pool, use)
        is_same = (before.dedicated, before.shares) == (use.dedicated, use.shares)
        return before if is_same else use


def renamed(node: Json, name: str) -> Json:
    """A node like another one."""
    new = copy.deepcopy(node)
    new["metadata"]["name"] = new["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return new


def copies(published: list[Json], names: list[str]) -> Iterator[Json]:
    """Give each node the slices of the first one, in pools of its own; others stay."""
    local = [each for each in published if each["spec"].get("nodeName") == ORIGINAL]
    counts = Counter(pool_of(each) for each in local)
    for name in names:
        for original in local:
            new = copy.deepcopy(original)
            spec = new["spec"]
            spec["nodeName"] = name
            spec["pool"]["resourceSliceCount"] = counts[pool_of(original)]
            spec["pool"]["name"] += f"-of-{name}"
            new["metadata"]["name"] += f"-{name}"
            yield new
    yield from (each for each in published if "nodeName" not in each["spec"])


def pool_of(published: Json) -> tuple[str, str, int]:
    """The driver, the pool and the generation of a slice."""
    pool = published["spec"]["pool"]
    return published["spec"]["driver"], pool["name"], pool["generation"]


def play(seeds: range) -> Found:
    """Play the histories of these seeds."""
    tally = Found()
    oracle = Oracle(binary())
    for seed in seeds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                play_history(seed, oracle, tally)
        except Exception as error:  # noqa: BLE001  # any exception of ours is a finding, and the run goes on
            tally.differ("crash", f"seed {seed}: {type(error).__name__}: {error}")
    oracle.close()
    return tally


def play_history(seed: int, oracle: Oracle, tally: Found) -> None:
    """Compare the answers after each step of a history, until the first that differ."""
    history = History(seed)
    if not history.scenario["slices"]:
        return
    tally.counts["histories"] += 1
    told: list[str] = []
    before = tally.differences.total()
    for number in range(STEPS):
        for asked in history.asked if not number % 4 else [history.draw.pick(history.asked)]:
            theirs = oracle.answer(history.scenario | {"claims": asked}, seconds=0.5)
            ours = history.answer(asked)
            for node, answer in theirs.items():
                tally.counts[f"theirs {answer['verdict']}"] += 1
                if answer["verdict"] in ("timeout", "panic"):
                    continue
                for difference in differences(ours[node], answer):
                    where = f"seed {seed} {node} after {', '.join(told)}"
                    tally.differ(difference.kind, f"{where}: {difference.message}")
            if tally.differences.total() > before:
                return
        told.append(history.step())


def main() -> int:
    """Play the seeds in blocks over processes and print sums."""
    tally = Found()
    seconds = compare_seeds(play, tally.add, BLOCK)
    if seconds is None:
        return 0
    lines = [f"{name}: {count}" for name, count in sorted(tally.counts.items())]
    lines.append(f"differences: {tally.differences.total()}, {seconds:.0f} s")
    for kind, count in tally.differences.most_common():
        lines.append(f"  {kind}: {count}")
        lines += [f"    {line[:400]}" for line in sorted(tally.examples[kind], key=len)[:EXAMPLES]]
    print("\n".join(lines))  # noqa: T201  # a command's output
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
