"""A translated pod uses no node that the original could not use, unless a finding says so.

Both are simulated on generated clusters: the original by the labels of the nodes, in this module;
the translation by the labels that are left in it, and the allocation of its claims.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.gates import gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.solver.answers import Solution
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from e2e.nodes.family import CLASSES
from tests.facts.clusters import device_class
from tests.tables import YamlValue
from tests.thorough import drawn
from tests.translate.publishers import Machine, draw_cluster, draw_pod

CLUSTERS: Final = drawn(4, 200)
PODS: Final = 200
OFFERED: Final = ("gpu.nvidia.com", "gpu.amd.com")
# The findings that tell that a condition is not exact, and those that it ends with the label.
LOOSE: Final = {"LabelLoose", "LabelDropped"}
TOLD: Final = {"labels": LOOSE, "lasting_labels": {*LOOSE, "LabelKept"}}


def satisfies(labels: Mapping[str, str], term: YamlValue, told: str = "") -> bool:
    """Whether a node's labels satisfy one expression, as the scheduler compares them.

    An expression on a key of which a finding tells is satisfied.
    """
    if any(f"{term['key']}{end}" in told for end in (" ", ",", ";")):
        return True
    value, values, operator = labels.get(term["key"]), term.get("values", []), term["operator"]
    if operator in {"Gt", "Lt"}:
        return _compare(value, operator, values[0])
    is_there = value is not None if operator in {"Exists", "DoesNotExist"} else value in values
    return is_there == (operator in {"In", "Exists"})


def _compare(value: str | None, operator: str, bound: str) -> bool:
    try:
        number, other = int(value or "none"), int(bound)
    except ValueError:
        return False
    return number > other if operator == "Gt" else number < other


def selects(pod: YamlValue, labels: Mapping[str, str], told: str = "") -> bool:
    """Whether the node selector and the required affinity of a pod accept a node."""
    spec = pod["spec"]
    selector = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in spec.get("nodeSelector", {}).items()
    ]
    if not all(satisfies(labels, each, told) for each in selector):
        return False
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(
        all(satisfies(labels, each, told) for each in term.get("matchExpressions", []))
        for term in required["nodeSelectorTerms"]
        if term.get("matchExpressions")
    )


def original_nodes(pod: YamlValue, machines: list[Machine], told: str = "") -> set[str]:
    """The nodes whose device plugin has enough devices, and whose labels the pod accepts."""
    ((name, count),) = pod["spec"]["containers"][0]["resources"]["limits"].items()
    return {
        each.name
        for each in machines
        if name.startswith(each.model.vendor)
        and each.count >= count
        and selects(pod, each.labels, told)
    }


class Cluster:
    """The drivers of a cluster, and the nodes on which claims can be allocated."""

    def __init__(self, machines: list[Machine]) -> None:
        gates = gates_of_version("1.36")
        assert not isinstance(gates, tuple)
        slices = tuple(each.slice for each in machines)
        classes = {name: device_class(name, cel=CLASSES[name]) for name in OFFERED}
        facts = gather_facts(FactsInput(slices, tuple(classes.values()), ()), gates=gates).facts
        self.context = make_context(Configuration(), facts)
        self.world = World(build_inventory(slices, gates=gates), classes)
        self.nodes = [Node(each.name) for each in machines]
        self.answers: dict[str, set[str]] = {}

    def allocatable(self, done: Translation) -> set[str]:
        """The nodes with devices for the claims of a translation."""
        specs = [each.object["spec"] for each in done.templates]
        key = json.dumps(specs, sort_keys=True)
        if key not in self.answers:
            claims = [_claim(spec, number) for number, spec in enumerate(specs)]
            numbers = itertools.count()
            solved = solve(
                self.world,
                View(),
                claims,
                self.nodes,
                ids=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
            )
            self.answers[key] = {n for n, a in solved.items() if isinstance(a, Solution)}
        return self.answers[key]


def _claim(spec: Any, number: int) -> Claim:  # noqa: ANN401  # a plain claim spec
    raw = {"metadata": {"name": f"c-{number}", "namespace": "default"}, "spec": spec["spec"]}
    claim = read_claim(raw)
    assert isinstance(claim, Claim)
    return claim


def find_wider(seed: int, counts: Counter[str]) -> Iterator[str]:
    """Yield the pods of a cluster that may use more nodes, although no finding says so."""
    random_ = random.Random(seed)  # reproducible cases
    machines = draw_cluster(random_)
    cluster = Cluster(machines)
    for _ in range(PODS):
        pod = draw_pod(random_, machines)
        before = original_nodes(pod, machines)
        done = translate(pod, cluster.context)
        if not done.templates:
            counts["not translated"] += 1
            continue
        after = apply_edits(pod, done.edits)
        devices = cluster.allocatable(done)
        counts["translated"] += 1
        for state in ("labels", "lasting_labels"):
            accepted = {m.name for m in machines if selects(after, getattr(m, state))} & devices
            if accepted - before:
                counts[f"wider, {state}"] += 1
                findings = [each for each in done.findings if each.code in TOLD[state]]
                told = "\n".join(f"{each.path} {each.message} " for each in findings)
                if wider := accepted - original_nodes(pod, machines, told.replace("]", " ")):
                    counts[f"not told, {state}"] += 1
                    yield f"{state}: {sorted(wider)}: {json.dumps(pod['spec'])}"
        counts["uses a node before and after"] += bool(before & devices)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_no_translation_silently_uses_a_node_that_the_original_could_not(seed: int) -> None:
    counts: Counter[str] = Counter()
    assert list(find_wider(seed, counts)) == []
    assert counts["translated"]


def test_the_generators_draw_pods_that_use_nodes() -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        list(find_wider(seed, counts))
    assert counts["uses a node before and after"] > 100
