"""Scenarios: the plans of drawn clusters, typed word for word; what came is counted against them.

One step of each plan is undone, which leaves what was there, and the plan of a new audit goes on.
Only surprises that simulated kubelets show as they are come over these clusters. The scheduler of
the rig chooses where pods start, so the cluster is audited as it then is. A few small clusters have
real kubelets and containers.
"""

import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from e2e.clusters import draw
from e2e.installed.installation import installed
from e2e.realnodes.installation import installed_as_pods
from e2e.realnodes.stage import real
from e2e.scenarios.admission import LEGACY, NEEDS
from e2e.scenarios.migration_plan import DAEMONS, PATIENCE, Migration
from e2e.scenarios.registry import scenario
from e2e.scenarios.sample_cluster import SYSTEM, Sample, pod_spec_of
from e2e.scenarios.stage import Stage, TimeLimitError

JSON = dict[str, Any]
# Our controller sets it: it follows the pods that run on a node.
DUAL_LABEL = "drawbridge.dev/dual"
CLUSTERS = 20
# The clusters on real nodes: each node is a kubelet with its containers.
REAL_SEEDS, REAL_NODES = (20, 21, 22), 5
LEAST_RIGHT = 0.99
# Looks without a change. Jobs create pods again after a back-off, which is waited for.
QUIET, PATIENT = 20, 400
PARTS = ("onPlugins", "onDrivers", "waiting")


def drawn_sample(seed: int, nodes: int) -> Sample:
    """Return the objects of a drawn cluster, as the rig creates them."""
    cluster = draw(seed, nodes, rig=True)
    owned = {
        each["metadata"]["name"]
        for each in cluster.objects
        if each["kind"] == "Pod" and "ownerReferences" in each["metadata"]
    }
    return Sample(
        each
        for each in cluster.objects
        if each["kind"] != "Pod" or each["metadata"]["name"] not in owned
    )


class DrawnMigration(Migration):
    """The migration of a drawn cluster: pods are counted by their owners."""

    def count(self) -> dict[str, Counter[str]]:
        """Return the pods of each owner by who serves them."""
        self.follow_daemons()
        counts: dict[str, Counter[str]] = {}
        for pod in self.pods():
            if not self._asks(pod):
                continue
            space, name = self.sample.workload_of(pod)
            owner = f"{space}/{self.sample.workloads[space, name]['kind']}/{name}"
            served = {"plugin": "onPlugins", "driver": "onDrivers", "nobody": "waiting"}
            counts.setdefault(owner, Counter())[served[self.served_by(pod)]] += 1
        return counts

    def _asks(self, pod: JSON) -> bool:
        limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        return LEGACY in limits or "resourceClaims" in pod["spec"]

    def _wait_for_admission(self, command: str) -> None:
        """The plan itself waits for that."""

    def settle(self, step: JSON | None = None) -> None:
        """Wait until there is what a step leaves, or until the pods stay as they are.

        Without a result, the error says what of the step is missing.
        """
        seen: list[str] = []
        missing: list[str] = []
        looks = QUIET if step is None else PATIENT

        def is_quiet() -> bool:
            counts = self.count()
            missing[:] = filter(None, _compare(step or {"leaves": ()}, counts))
            if step is not None and not missing:
                return True
            if any("/Job/" in each for each in missing):
                return False
            seen.append(json.dumps({k: dict(n) for k, n in counts.items()}, sort_keys=True))
            return len(seen) > looks and len({*seen[-looks:]}) == 1

        with self.reporting("settle", missing):
            self.stage.wait("the pods stay as they are", is_quiet, PATIENCE)

    def state(self) -> JSON:
        """Return what a step can set, how many pods each owner has, and how many GPUs they have."""
        listed, counted = self.stage.client.get, self.count()
        nodes, fleet = listed("/api/v1/nodes")["items"], self.stage.fleet
        daemons = [(e["metadata"]["name"], pod_spec_of(e)) for e in listed(DAEMONS)["items"]]
        jobs = listed("/apis/batch/v1/jobs")["items"]
        # Those of earlier scenarios can still be on their way out.
        spaces = [e["metadata"] for e in listed("/api/v1/namespaces")["items"]]
        return {
            "pods": {owner: counts.total() for owner, counts in counted.items()},
            "served": {owner: dict(counts) for owner, counts in counted.items()},
            "GPUs": sum(self.wanted_by(e) for e in self.pods() if self._is_served(e)),
            "waiting": max(map(self.wanted_by, filter(self._is_waiting, self.pods())), default=0),
            "labels": {each["metadata"]["name"]: _ours(each["metadata"]) for each in nodes},
            "cordoned": {e["metadata"]["name"] for e in nodes if e["spec"].get("unschedulable")},
            "plugins": fleet.plugged(),
            "drivers": {*fleet.published},
            "modes": {e["name"]: _ours(e) for e in spaces if "deletionTimestamp" not in e},
            "suspended": {e["metadata"]["uid"] for e in jobs if e["spec"].get("suspend")},
            "daemons": {
                name: [spec.get(key) or None for key in ("nodeSelector", "affinity")]
                for name, spec in daemons
            },
        }

    def _is_served(self, pod: JSON) -> bool:
        return self._asks(pod) and self.served_by(pod) != "nobody"

    def _is_waiting(self, pod: JSON) -> bool:
        return self._asks(pod) and self.served_by(pod) == "nobody"

    def wait_for(self, title: str, before: JSON) -> None:
        """Wait until there is what was there before a step.

        Which of several pods waits is up to the scheduler: a small one can have the place of a
        large one. A Job can have more pods than before, when a back-off held some of them back.
        """
        different: JSON = {}

        def is_there() -> bool:
            now = self.state()
            different.clear()
            different.update(
                {key: (before[key], now[key]) for key in now if now[key] != before[key]}
            )
            if _came_back(before["pods"], now["pods"]):
                different.pop("pods", None)
            lacking = before["GPUs"] - now["GPUs"]
            is_full = lacking <= 0 or lacking < now["waiting"]
            return is_full and not different.keys() - {"GPUs", "waiting", "served"}

        with self.reporting(f"undo of {title}, before and now", different):
            self.stage.wait("there is what was there", is_there, PATIENCE)

    @contextlib.contextmanager
    def reporting(self, doing: str, seen: object) -> Iterator[None]:
        """Say what was done, what was seen and who waits, where something never comes."""
        try:
            yield
        except TimeLimitError as problem:
            told = (f"{problem}; {doing}: {seen}", *self.report())
            raise TimeLimitError("\n".join(told)) from problem

    def lost(self) -> set[str]:
        """Return the Jobs that have failed, and the bare pods that are gone."""
        return {
            f"{space}/{workload['kind']}/{name}"
            for (space, name), workload in self.sample.workloads.items()
            if workload["kind"] in ("Job", "Pod") and self._is_lost(space, name, workload["kind"])
        }

    def _is_lost(self, space: str, name: str, kind: str) -> bool:
        if kind == "Pod":
            return not self.stage.exists(f"/api/v1/namespaces/{space}/pods/{name}")
        job = self.stage.client.get(f"/apis/batch/v1/namespaces/{space}/jobs/{name}")
        conditions = job.get("status", {}).get("conditions", ())
        return any(each["type"] == "Failed" and each["status"] == "True" for each in conditions)


def follow_drawn(seed: int, stage: Stage) -> None:
    """Type the plan, and count what comes as it says and what does not."""
    sample = drawn_sample(seed, 5 + seed * 3 % 16)
    follow(seed, DrawnMigration(stage, installed(stage, mode=""), sample))


def follow_drawn_on_real_nodes(seed: int, stage: Stage) -> None:
    """The same, where kubelets say what each container has, and Drawbridge is evicted, too."""
    nodes = real(stage)
    sample = drawn_sample(seed, REAL_NODES)
    follow(seed, DrawnMigration(nodes, installed_as_pods(nodes), sample))


def follow(seed: int, migration: DrawnMigration) -> None:
    """Type the plan of an audit with the undo of one step, and count what comes as it says."""
    migration.add_workloads()
    migration.settle()
    counted = Counted(migration)
    steps = migration.audit()["steps"]
    able = [n for n, each in enumerate(steps) if each["undo"] and not each["loses"]]
    undone = random.Random(seed).choice(able or [-1])
    for number, step in enumerate(steps):
        before = migration.state()
        counted.type(step)
        if number == undone:
            with migration.reporting("undo", step["title"]):
                migration.type_step(step["undo"])
            migration.wait_for(step["title"], before)
            steps = migration.audit()["steps"]
            break
    else:
        steps = []
    for step in steps:
        counted.type(step)
    right, misses = counted.right, counted.misses
    assert right >= LEAST_RIGHT * (right + len(misses)), [*misses, *migration.report()]


class Counted:
    """What came as the steps say, and what came otherwise."""

    def __init__(self, migration: DrawnMigration) -> None:
        self.migration = migration
        self.named = set[str]()
        self.misses: list[str] = []
        self.right = 0

    def type(self, step: JSON) -> None:
        """Type a step, and compare what it leaves."""
        migration = self.migration
        with migration.reporting(step["title"], step["leaves"]):
            migration.type_step(step["commands"])
        migration.settle(step)
        self.named |= {text.partition(":")[0] for text in step["loses"]}
        for miss in _compare(step, migration.count()):
            self.right += not miss
            self.misses += [miss] if miss else []
        assert migration.lost() <= self.named, (step["title"], migration.lost(), self.named)


def _ours(metadata: JSON) -> JSON:
    """Return the labels and annotations of Drawbridge, without that which our controller sets."""
    texts = metadata.get("labels", {}) | metadata.get("annotations", {})
    own = {key: text for key, text in texts.items() if key.startswith("drawbridge.dev/")}
    return {key: text for key, text in own.items() if key != DUAL_LABEL}


def _came_back(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether each owner has the pods that it had; a Job can have more."""
    more = {owner: now.get(owner, 0) - before.get(owner, 0) for owner in {*before, *now}}
    return all(n == 0 or (n > 0 and "/Job/" in owner) for owner, n in more.items())


def _compare(step: JSON, counts: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yield for each owner what came otherwise, or nothing."""
    for told in step["leaves"]:
        seen = counts.get(told["owner"], Counter())
        more = [seen[part] - told[part] for part in PARTS]
        is_right = min(more) >= 0 and sum(more) == told["either"]
        yield "" if is_right else f"{step['title']}: {told} expected, {dict(seen)} seen"


def _player(follows: Callable[[int, Stage], None], seed: int, name: str) -> Callable[[Stage], None]:
    play = partial(follows, seed)
    play.__dict__.update(__name__=name, __doc__=follows.__doc__, __module__=__name__)
    return play


for number in range(CLUSTERS):
    told = f"the_plan_of_drawn_cluster_{number}_leaves_what_it_says"
    scenario("full", rig="installed", needs=NEEDS)(_player(follow_drawn, number, told))
for number in REAL_SEEDS:
    told = f"the_plan_of_drawn_cluster_{number}_leaves_what_it_says_on_real_nodes"
    names = drawn_sample(number, REAL_NODES).names
    scenario("node", rig="nodes", nodes=names)(_player(follow_drawn_on_real_nodes, number, told))

__all__ = ["SYSTEM", "follow_drawn"]
