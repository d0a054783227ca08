"""Scenarios as plain Kubernetes objects, solved by the solver. Other allocators read them too.

A scenario: name, version and gates, nodes, slices, classes, claims (one pod's), allocated claims,
and beyond Kubernetes `compatibility` and `unsetGroups`.
"""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.partitions import PartitionTable
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.dra.taints import DeviceTaintRule, taint_rule_reader
from drawbridge.names import RULES_ANNOTATION
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.deviations import OURS, Deviations
from drawbridge.solver.memo import Memo
from drawbridge.solver.search import STEPS
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World, view_of_claims
from tests.solver.short import scenario
from tests.tables import load_cases

Json = dict[str, Any]
# What kube-scheduler does not read.
BEYOND = ("compatibility", "unsetGroups", "compatibleOnlyWith", "partitions", RULES_ANNOTATION)


def share_ids() -> Callable[[], str]:
    """Give share-1, share-2, ..."""
    numbers = itertools.count(1)
    return lambda: f"share-{next(numbers)}"


class Scenario(msgspec.Struct, frozen=True):
    """A decoded scenario."""

    world: World
    view: View
    claims: tuple[Claim, ...]
    nodes: tuple[Node, ...]


def read(plain: Json, deviations: Deviations = OURS) -> Scenario:
    """Read a scenario; an unreadable object fails the test."""
    gates = gates_of(plain)
    slices = [read_slice(each) for each in plain.get("slices") or ()]
    rules = [taint_rule_reader().read(each) for each in plain.get("rules") or ()]
    classes = [read_class(each) for each in plain.get("classes") or ()]
    nodes = [node_reader().read(each) for each in plain.get("nodes") or ()]
    claims = [read_claim(each) for each in plain.get("claims") or ()]
    allocated = [read_claim(each) for each in plain.get("allocated") or ()]
    world = World(
        inventory=build_inventory(_all(slices, Slice), _all(rules, DeviceTaintRule), gates=gates),
        classes={each.metadata.name: each for each in _all(classes, DeviceClass)},
        compatibility=msgspec.convert(plain.get("compatibility", []), tuple[Declaration, ...]),
        unset_groups=UnsetGroups(plain.get("unsetGroups", "alone")),
        partitions=msgspec.convert(plain.get("partitions", []), tuple[PartitionTable, ...]),
        deviations=deviations,
    )
    held = view_of_claims(_all(allocated, Claim))
    return Scenario(world, held, tuple(_all(claims, Claim)), tuple(_all(nodes, Node)))


def gates_of(plain: Json) -> Gates:
    """Read the gates, including gates that a cluster can no longer disable."""
    gates = gates_of_version(plain.get("version") or "1.37")
    assert isinstance(gates, Gates), gates
    overrides = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", gate.removeprefix("DRA")).lower(): on
        for gate, on in (plain.get("gates") or {}).items()
    }
    return msgspec.structs.replace(gates, **overrides)


def _all(objects: list[Any], kind: type) -> list[Any]:
    for obj in objects:
        assert isinstance(obj, kind), obj
    return objects


def answers(
    plain: Json, deviations: Deviations = OURS, *, memo: Memo | None = None, steps: int = STEPS
) -> dict[str, SolverResult]:
    """Solve a scenario, with separate share IDs for each node."""
    given = read(plain, deviations)
    results: dict[str, SolverResult] = {}
    memo = memo or Memo()
    for node in given.nodes:
        results |= solve(
            given.world, given.view, given.claims, [node], ids=share_ids(), memo=memo, steps=steps
        )
    return results


def outcome(answer: SolverResult) -> str:
    """Return the kind of a result: solved, not this node, error or gave up."""
    return "solved" if isinstance(answer, Solution) else answer.outcome.value


def main() -> None:
    """Print all cases as scenarios, one JSON object per line, for other allocators."""
    for table in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in load_cases(table):
            plain = scenario(case)
            written = json.dumps(plain)
            if not any(f'"{each}"' in written for each in BEYOND) and "steps" not in case:
                print(written)  # noqa: T201  # the purpose of this command


if __name__ == "__main__":
    main()
