"""Asks our solver one scenario, in the words that the comparison uses."""

import itertools
import json
import re
from typing import TypeVar

from drawbridge.dra.allocation import to_json
from drawbridge.dra.claim import read_claim
from drawbridge.dra.classes import read_class
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.slices import read_slice
from drawbridge.dra.taints import find_ignored_fields, taint_rule_reader
from drawbridge.finding import Finding
from drawbridge.solver.answers import FailureKind, Solution, SolverResult
from drawbridge.solver.deviations import Deviations
from drawbridge.solver.solve import solve
from drawbridge.solver.world import World, view_of_claims
from e2e.checker.gates import SINCE, gates
from e2e.checker.quantities import Json

T = TypeVar("T")
OUTCOMES = {FailureKind.NO: "none", FailureKind.ERROR: "error", FailureKind.GAVE_UP: "gave up"}


class UnreadableError(Exception):
    """Our readers refuse an object that the allocator would take."""


def on(scenario: Json) -> Gates:
    """The gates of a scenario, those included that no real cluster could switch off."""
    told = gates(scenario)
    fields = {re.sub(r"(?<!^)(?=[A-Z])", "_", gate[3:]).lower(): told[gate] for gate in SINCE}
    return Gates(version="1.37", **fields)


def sure(read: T | tuple[Finding, ...]) -> T:
    """What was read, or an error with what was found."""
    if isinstance(read, tuple):
        raise UnreadableError(str(read))
    return read


def world_of(scenario: Json, deviations: Deviations) -> World:
    """Slices, classes and rules as our rooms read them."""
    reader = taint_rule_reader()
    rules = [sure(reader.read(one)) for one in scenario["rules"]]
    if ignored := [finding for one in rules for finding in find_ignored_fields(one)]:
        raise UnreadableError(str(ignored))
    slices = [sure(read_slice(encoded(one))) for one in scenario["slices"]]
    classes = [sure(read_class(encoded(one))) for one in scenario["classes"]]
    stock = build_inventory(slices, rules, on(scenario))
    return World(stock, {one.metadata.name: one for one in classes}, deviations=deviations)


def encoded(value: Json) -> bytes:
    """The bytes that a reader gets."""
    return json.dumps(value).encode()


def answer(scenario: Json, deviations: Deviations) -> dict[str, Json]:
    """For each node a verdict and allocations, or a message."""
    world = world_of(scenario, deviations)
    holders = [sure(read_claim(encoded(one))) for one in scenario["allocated"]]
    claims = [sure(read_claim(encoded(one))) for one in scenario["claims"]]
    reader = node_reader()
    nodes = [sure(reader.read(encoded(one))) for one in scenario["nodes"]]
    numbers = itertools.count(1)
    view = view_of_claims(holders)
    answers = solve(world, view, claims, nodes, ids=lambda: f"share-{next(numbers)}")
    return {node: worded(one) for node, one in answers.items()}


def worded(result: SolverResult) -> Json:
    """An answer in plain JSON, as a client would see it."""
    if isinstance(result, Solution):
        return {
            "verdict": "allocated",
            "allocations": [to_json(each) for each in result.allocations],
        }
    message = "; ".join(str(getattr(each, "message", each)) for each in result.reasons)
    return {"verdict": OUTCOMES[result.outcome], "message": message}
