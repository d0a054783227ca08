"""Plans to move pods, compared with brute force over all sets of pods and all new places."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from operator import itemgetter
from pathlib import Path

from msgspec.structs import replace

from drawbridge.dra.allocation import Consumer
from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.slices import slice_reader
from drawbridge.ledger.defragmentation import (
    ClusterCopy,
    FragmentedCluster,
    MovablePods,
    MovePlan,
    NoPlan,
    plan_moves,
)
from drawbridge.ledger.disruption_budgets import disruption_budget_reader
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import count_running, held_amounts
from drawbridge.ledger.placing import Placer, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.preemption import running_pod
from drawbridge.ledger.removals import Tries
from tests.ledger.test_still_fits import gpu_class, node_of, read, slice_of
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn

CASES = load_cases(Path(__file__).parent / "cases" / "defragmentation.yaml")
DRIVER = "gpu.example.com"


class Filled:
    """The cluster of a case. Each running pod has a claim of its name."""

    def __init__(self, case: YamlValue) -> None:
        cordoned, cpu = case.get("cordoned", ()), case.get("cpu", 100)
        self.nodes = tuple(
            node_of(name, {"cpu": cpu, "labels": {"host": name}, "cordoned": name in cordoned})
            for name in case["nodes"]
        )
        self.planner = Planner()
        for name, number in case["nodes"].items():
            self.planner.update(read(slice_reader(), slice_of(name, number)))
        self.planner.update(gpu_class())
        for node in self.nodes:
            self.planner.update(node)
        self.pods: list[Pod] = [
            read(pod_reader(), pod_of(name, each)) for name, each in case["pods"].items()
        ]
        self.claims: list[Claim] = list(claims_of(case))
        self.templates: list[Template] = [template_of(case["ask"]["gpus"])]
        budgets = case.get("budgets", {}).items()
        running = [
            running_pod(each, each.spec.priority or 0, held_amounts(each)) for each in self.pods
        ]
        self.movable = MovablePods(
            running,
            {f"default/{each.metadata.name}": each for each in self.pods},
            [read(disruption_budget_reader(), budget_of(app, allowed)) for app, allowed in budgets],
            case["ask"].get("priority", 0),
        )
        asked: YamlValue = pod_of("ask", {"gpus": 0, **case["ask"]})
        asked["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "asked"}]
        self.ask: Pod = read(pod_reader(), asked)

    def copy(self) -> ClusterCopy:
        """Return a placer with a ledger of its own."""
        return Copy(self)

    def plan(self, tries: Tries | None = None) -> MovePlan | NoPlan:
        """Plan for the pod of the case."""
        return plan_moves(self.ask, self, self.movable, tries)


class Copy:
    """A copy of the cluster of a case."""

    def __init__(self, filled: Filled) -> None:
        self._world = filled.planner, ClusterNodes(nodes=filled.nodes)
        held = hold_claims(Ledger(), filled.claims, filled.templates)
        resources = count_running(filled.nodes, filled.pods)
        self._placer = Placer(*self._world, held, resources=resources)

    def world(self, pod: Pod) -> tuple[Planner, ClusterNodes]:
        """Return what all schedulers see."""
        assert pod.metadata.name
        return self._world

    def placer(self, pod: Pod) -> Placer:
        """Return the only placer."""
        assert pod.metadata.name
        return self._placer


_: tuple[type[FragmentedCluster], type[ClusterCopy]] = (Filled, Copy)


def pod_of(name: str, case: YamlValue) -> YamlValue:
    owner = case.get("owner", "ReplicaSet")
    owners = [{"kind": owner, "name": "o", "controller": True}] if owner else []
    labels = {"app": case["app"]} if "app" in case else {}
    if case.get("gang"):
        labels["scheduling.x-k8s.io/pod-group"] = "gang"
    metadata = {"name": name, "labels": labels, "ownerReferences": owners}
    if case.get("terminating"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    requests = {"cpu": f"{case.get('cpu', 0)}"}
    spec: YamlValue = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "priority": case.get("priority", 0),
    }
    if "node" in case:
        spec["nodeName"] = case["node"]
    if case.get("pinned"):
        spec["nodeSelector"] = {"host": case["node"]}
    if case["gpus"]:
        spec["resourceClaims"] = [{"name": "g", "resourceClaimName": name}]
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def request(gpus: int) -> YamlValue:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": gpus}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def template_of(gpus: int) -> Template:
    value = {"metadata": {"name": "asked", "namespace": "default"}, "spec": {"spec": request(gpus)}}
    template: Template = read(template_reader(), value)
    return template


def claims_of(case: YamlValue) -> Iterator[Claim]:
    """Yield the claim of each pod, with the next devices of its node."""
    used = dict.fromkeys(case["nodes"], 0)
    for name, holder in case["pods"].items():
        node, gpus = holder["node"], holder["gpus"]
        if not gpus:
            continue
        devices = range(used[node], used[node] + gpus)
        used[node] += gpus
        results = [
            {"request": "r", "driver": DRIVER, "pool": node, "device": f"{node}-{number}"}
            for number in devices
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        user = {"resource": "pods", "name": name, "uid": name}
        yield read(
            claim_reader(),
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": request(gpus),
                "status": {"allocation": allocation, "reservedFor": [user]},
            },
        )


def budget_of(app: str, allowed: int) -> YamlValue:
    """Return a budget for the pods with a label, or for all."""
    return {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}} if app else {}},
        "status": {"disruptionsAllowed": allowed},
    }


@every_row("case", CASES, ids=itemgetter("name"))
def test_cases(case: YamlValue) -> None:
    plan = Filled(case).plan()
    if "none" in case:
        assert isinstance(plan, NoPlan)
        assert case["none"] in "; ".join(plan.reasons)
        return
    assert isinstance(plan, MovePlan), plan
    assert plan.node == case["at"]
    assert {each.pod: each.to_node for each in plan.moves} == case["moves"]
    assert plan.proven


def test_a_plan_changes_nothing() -> None:
    filled = Filled(CASES[1])
    assert filled.plan() == filled.plan()


def test_the_devices_of_a_plan_are_those_that_become_free() -> None:
    plan = Filled(CASES[1]).plan()
    assert isinstance(plan, MovePlan)
    ((_, allocation),) = plan.claims
    assert allocation is not None
    assert sorted(each.device for each in allocation.devices.results) == [
        f"n2-{i}" for i in range(4)
    ]
    ((_, moved),) = plan.moves[0].claims
    assert moved is not None
    assert {each.pool for each in moved.devices.results} == {"n1"}


def test_the_cluster_is_copied_once_for_the_search_and_for_each_set_that_is_tried() -> None:
    class Counted(Filled):
        copies = 0

        def copy(self) -> ClusterCopy:
            self.copies += 1
            return super().copy()

    filled = Counted(CASES[1])
    plan = filled.plan()
    assert isinstance(plan, MovePlan)
    assert filled.copies == 2


# --- partitions -----------------------------------------------------------------------------------


def partitioned(node: str) -> YamlValue:
    """One GPU of seven slices, with one partition of seven and seven of one."""
    whole: YamlValue = {
        "name": "seven",
        "consumesCounters": [{"counterSet": "g", "counters": {"s": {"value": "7"}}}],
    }
    ones: list[YamlValue] = [
        {
            "name": f"one-{i}",
            "consumesCounters": [{"counterSet": "g", "counters": {"s": {"value": "1"}}}],
        }
        for i in range(7)
    ]
    for device, kind in ((whole, "7g"), *((each, "1g") for each in ones)):
        device["attributes"] = {"profile": {"string": kind}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "g", "counters": {"s": {"value": "7"}}}]
    common = {"driver": DRIVER, "nodeName": node, "pool": pool}
    return [
        {"metadata": {"name": f"c-{node}"}, "spec": {**common, "sharedCounters": counters}},
        {"metadata": {"name": f"d-{node}"}, "spec": {**common, "devices": [whole, *ones]}},
    ]


def test_a_partition_of_seven_is_freed_from_the_gpu_with_fewest_small_ones() -> None:
    pods = {
        "a": {"node": "n1", "gpus": 1},
        "b": {"node": "n1", "gpus": 1},
        "c": {"node": "n2", "gpus": 1},
    }
    filled = Filled({"nodes": {"n1": 0, "n2": 0}, "pods": pods, "ask": {"gpus": 1}})
    for node in ("n1", "n2"):
        filled.planner.remove(type(read(slice_reader(), slice_of(node, 0))), f"slice-{node}")
        for each in partitioned(node):
            filled.planner.update(read(slice_reader(), each))
    held = [
        read(claim_reader(), with_device(each, number))
        for number, each in enumerate(("n1", "n1", "n2"))
    ]
    filled.claims = held
    wanted = request(1)
    expression = f"device.attributes['{DRIVER}'].profile == '7g'"
    wanted["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    value = {"metadata": {"name": "asked", "namespace": "default"}, "spec": {"spec": wanted}}
    filled.templates = [read(template_reader(), value)]
    plan = filled.plan()
    assert isinstance(plan, MovePlan), plan
    assert [(each.pod, each.to_node) for each in plan.moves] == [("c", "n1")]
    assert plan.node == "n2"


def with_device(node: str, number: int) -> YamlValue:
    name = "abc"[number]
    wanted = request(1)
    expression = f"device.attributes['{DRIVER}'].profile == '1g'"
    wanted["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": f"one-{number}"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": wanted,
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        },
    }


# --- brute force ----------------------------------------------------------------------------------


def draw(source: random.Random) -> YamlValue:
    """Return a cluster that is nearly full, and a pod that asks for more than a node has left."""
    nodes = {f"n{i}": source.randint(3, 4) for i in range(source.randint(2, 4))}
    left = {name: (gpus, 100) for name, gpus in nodes.items()}
    pods: dict[str, YamlValue] = {}
    for number in range(source.randint(2, 4) * len(nodes)):
        gpus, cpu = source.choice([(0, 40), (1, 0), (1, 20), (1, 40), (2, 0), (2, 40)])
        node = [*nodes][number % len(nodes)]
        if left[node][0] < gpus or left[node][1] < cpu:
            continue
        left[node] = (left[node][0] - gpus, left[node][1] - cpu)
        pods[f"p{number}"] = {
            "node": node,
            "gpus": gpus,
            "cpu": cpu,
            "owner": source.choice(["ReplicaSet", "StatefulSet", "Job", "ReplicaSet", ""]),
            "priority": source.choice([0, 0, 0, 5]),
            "app": source.choice(["x", "y"]),
            "pinned": source.random() < 0.1,
        }
    ask = {
        "gpus": min(4, max(gpus for gpus, _ in left.values()) + source.choice([1, 1, 1, 2])),
        "cpu": source.choice([0, 0, 50]),
        "priority": source.choice([0, 5, 5]),
    }
    budgets = {"x": source.choice([0, 1, 2, 9, 9, 9]), "y": 9}
    if source.random() < 0.2:
        budgets = {"": source.choice([0, 1, 9, 9]), **source.choice([{}, {"y": 9}])}
    return {"nodes": nodes, "pods": pods, "ask": ask, "budgets": budgets}


def fewest_by_brute_force(case: YamlValue) -> int | None:
    """Count free GPUs and CPU: try every set of pods of every node, and every place of each."""
    free = {name: (gpus, 100) for name, gpus in case["nodes"].items()}
    for pod in case["pods"].values():
        free[pod["node"]] = less(free[pod["node"]], pod)
    best = None
    for node in free:
        there = [e for e in case["pods"].values() if e["node"] == node]
        there = [e for e in there if e["owner"] and e["priority"] <= case["ask"]["priority"]]
        there = [e for e in there if sum(e["app"].startswith(app) for app in case["budgets"]) <= 1]
        for size in range(len(there) + 1):
            sets = combinations(there, size)
            if any(is_plan(free, node, each, case) for each in sets):
                best = size if best is None else min(best, size)
    return best


def less(left: tuple[int, int], pod: YamlValue, sign: int = 1) -> tuple[int, int]:
    """Return what is left of GPUs and CPU with a pod."""
    return left[0] - sign * pod["gpus"], left[1] - sign * pod["cpu"]


def is_plan(
    free: Mapping[str, tuple[int, int]], node: str, chosen: Sequence[YamlValue], case: YamlValue
) -> bool:
    for app, allowed in case["budgets"].items():
        if sum(e["app"].startswith(app) for e in chosen) > allowed:
            return False
    after = dict(free)
    for pod in chosen:
        after[node] = less(after[node], pod, -1)
    after[node] = less(after[node], case["ask"])
    if min(after[node]) < 0:
        return False
    for places in product(free, repeat=len(chosen)):
        left = dict(after)
        for pod, place in zip(chosen, places, strict=True):
            left[place] = less(left[place], pod)
        moved = zip(chosen, places, strict=True)
        if not any(pod["pinned"] and place != node for pod, place in moved) and all(
            min(each) >= 0 for each in left.values()
        ):
            return True
    return False


@every_row("seed", range(drawn(120, 4000)))
def test_no_plan_moves_more_pods_than_brute_force_finds_necessary(seed: int) -> None:
    case = draw(random.Random(seed))
    plan, fewest = Filled(case).plan(), fewest_by_brute_force(case)
    if fewest is None:
        assert isinstance(plan, NoPlan), (case, plan)
        assert plan.reasons
        return
    assert isinstance(plan, MovePlan), (case, plan)
    assert len(plan.moves) == fewest, (case, plan)
    assert plan.proven
    moved = [case["pods"][each.pod] for each in plan.moves]
    assert {each["node"] for each in moved} <= {plan.node}
    assert all(e["owner"] and e["priority"] <= case["ask"]["priority"] for e in moved)
    for app, allowed in case["budgets"].items():
        assert sum(each["app"].startswith(app) for each in moved) <= allowed


def test_a_search_that_is_cut_still_moves_only_pods_that_are_needed() -> None:
    pods: dict[str, YamlValue] = {
        f"p{i}": {"node": "n1", "gpus": 1, "priority": i} for i in range(6)
    }
    case: YamlValue = {"nodes": {"n1": 6, "n2": 6}, "pods": pods, "ask": {"gpus": 7}}
    assert isinstance(Filled(case).plan(), NoPlan)
    pods["q"] = {"node": "n2", "gpus": 4, "owner": ""}
    case = {"nodes": {"n1": 6, "n2": 6}, "pods": pods, "ask": {"gpus": 2, "priority": 9}}
    pods["q"]["gpus"] = 5
    case["nodes"]["n3"] = 1
    whole, cut = Filled(case).plan(), Filled(case).plan(Tries(9))
    assert isinstance(whole, MovePlan)
    assert isinstance(cut, MovePlan), cut
    assert whole.proven
    assert not cut.proven
    assert len(cut.moves) == len(whole.moves) == 2


def test_pods_that_share_a_claim_move_together() -> None:
    pods = {
        "a": {"node": "n1", "gpus": 1},
        "b": {"node": "n1", "gpus": 0},
        "c": {"node": "n2", "gpus": 1, "pinned": True},
    }
    filled = Filled({"nodes": {"n1": 2, "n2": 2}, "pods": pods, "ask": {"gpus": 2}})
    shared: YamlValue = pod_of("b", {"node": "n1", "gpus": 1})
    shared["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "a"}]
    filled.pods[1] = read(pod_reader(), shared)
    filled.movable = replace(
        filled.movable, pods={**filled.movable.pods, "default/b": filled.pods[1]}
    )
    first = filled.claims[0]
    users = (*first.status.reserved_for, Consumer.of_pod("b", "b"))
    filled.claims[0] = replace(first, status=replace(first.status, reserved_for=users))
    plan = filled.plan()
    assert isinstance(plan, MovePlan), plan
    assert {each.pod: each.to_node for each in plan.moves} == {"a": "n2", "b": "n2"}


def test_a_claim_of_something_else_than_pods_is_never_released() -> None:
    pods = {
        "a": {"node": "n1", "gpus": 1},
        "c": {"node": "n2", "gpus": 1, "pinned": True},
    }
    filled = Filled({"nodes": {"n1": 2, "n2": 2}, "pods": pods, "ask": {"gpus": 2}})
    first = filled.claims[0]
    other = Consumer(api_group="example.com", resource="jobs", name="j", uid="j")
    users = (*first.status.reserved_for, other)
    filled.claims[0] = replace(first, status=replace(first.status, reserved_for=users))
    plan = filled.plan()
    assert isinstance(plan, NoPlan)
