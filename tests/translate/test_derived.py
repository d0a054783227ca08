"""Requests that derive the NUMA node of their devices, as a table; and what they get."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest

from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.attributes import NUMA_NODE
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.validation import validate_devices
from drawbridge.solver.answers import Solution
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World
from drawbridge.translate.targets.choose import express_asks
from drawbridge.translate.targets.claims import assemble_claims
from drawbridge.translate.targets.plan import Expressibility, TargetResult
from e2e.nodes.family import CLASSES
from tests.facts.clusters import device_class
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds
from tests.translate.test_targets_joint import asks, pairs

TABLE = load_cases(Path(__file__).parent / "cases" / "derived.yaml")
GATE = "DRADerivedAttributes"
BOTH = tuple(placement.value for placement in Placement)
ROWS = [(case, Placement(each)) for case in TABLE for each in case.get("placements", BOTH)]
DERIVED = [row for row in ROWS if "derived" in row[0]]


def said(case: YamlValue, placement: Placement) -> TargetResult:
    gates = (GATE,) if case.get("derives") else ()
    facts = worlds.facts(tuple(case["world"]), version="1.37", gates=gates)
    wanted = asks(case["gpus"], case.get("nics"), required=case.get("required", True))
    (result,) = express_asks(wanted, facts, Configuration(placement=placement))
    return result


def spec_of(case: YamlValue, placement: Placement) -> Any:  # noqa: ANN401  # a plain claim spec
    (claim,) = assemble_claims([said(case, placement)])
    return claim.spec


def claim_of(spec: object) -> Claim:
    claim = read_claim({"metadata": {"name": "c", "namespace": "default"}, "spec": spec})
    assert isinstance(claim, Claim)
    return claim


def gates_with(gate: str = "") -> Gates:
    gates = gates_of_version("1.37", {gate: True} if gate else {})
    assert isinstance(gates, Gates)
    return gates


def numa_nodes(case: YamlValue, spec: object, gates: Gates, *, upstream: bool) -> list[set[int]]:
    """The NUMA nodes of each group of devices on the case's machine; none if nothing fits."""
    words = tuple(case["world"])
    offered = {name: device_class(name, cel=cel) for name, cel in CLASSES.items()}
    world = World(build_inventory(worlds.slices(words), gates=gates), offered)
    numbers = itertools.count()
    (node,) = {each.name for _, each, _ in worlds.devices(words)}
    (answer,) = solve(
        world.as_upstream() if upstream else world,
        View(),
        [claim_of(spec)],
        [Node(node)],
        ids=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
    ).values()
    if not isinstance(answer, Solution):
        return []
    published = {(driver, each.name): each for driver, _, each in worlds.devices(words)}
    groups: dict[str, set[int]] = {}
    for result in answer.allocations[0].devices.results:
        attributes = published[result.driver, result.device].attributes
        # The machine tells the truth by either name.
        names = (NUMA_NODE, "numaNode", "dra.net/numaNode")
        (numa,) = {attributes[name].integer for name in names if name in attributes}
        assert numa is not None
        groups.setdefault(result.request.partition("-")[2], set()).add(numa)
    return list(groups.values())


@every_row(
    ("case", "placement"), ROWS, ids=lambda each: each if isinstance(each, str) else each["name"]
)
def test_requests_derive_what_only_one_driver_publishes(
    case: YamlValue, placement: Placement
) -> None:
    result = said(case, placement)
    if "not_expressible" in case:
        assert result.expressibility is Expressibility.NOT_EXPRESSIBLE
        assert case["not_expressible"] in result.findings[0].message
        return
    assert pairs(result) == case["groups"]
    devices = spec_of(case, placement)["devices"]
    attribute = case.get("attribute", NUMA_NODE)
    kinds = ("matchAttribute", "distinctAttribute")
    written = {each.get(kind) for each in devices.get("constraints", ()) for kind in kinds} - {None}
    assert written == ({attribute} if attribute else set())
    requests = {each["name"]: each["exactly"] for each in devices["requests"]}
    derived = {
        name: {each["name"]: each["expression"] for each in exactly["derivedAttributes"]}
        for name, exactly in requests.items()
        if "derivedAttributes" in exactly
    }
    expected = case.get("derived", {})
    assert derived == {name: {NUMA_NODE: text} for name, text in expected.items()}
    for name, guard in case.get("guard", {}).items():
        assert requests[name]["selectors"][-1] == {"cel": {"expression": guard}}


@every_row(
    ("case", "placement"), DERIVED, ids=lambda each: each if isinstance(each, str) else each["name"]
)
@pytest.mark.parametrize("upstream", [True, False])
def test_the_devices_of_a_group_share_a_numa_node(
    case: YamlValue, placement: Placement, *, upstream: bool
) -> None:
    spec = spec_of(case, placement)
    assert validate_devices(claim_of(spec).spec.devices, "spec.devices", "") == ()
    shared = numa_nodes(case, spec, gates_with(GATE), upstream=upstream)
    assert [len(each) for each in shared] == [1] * len(case["groups"])


@every_row(
    ("case", "placement"), DERIVED, ids=lambda each: each if isinstance(each, str) else each["name"]
)
@pytest.mark.parametrize("upstream", [True, False])
def test_a_claim_that_lost_the_field_gets_no_devices(
    case: YamlValue, placement: Placement, *, upstream: bool
) -> None:
    spec = copy.deepcopy(spec_of(case, placement))
    for request in spec["devices"]["requests"]:
        request["exactly"].pop("derivedAttributes", None)
    assert validate_devices(claim_of(spec).spec.devices, "spec.devices", "") == ()
    for gates in (gates_with(), gates_with(GATE)):
        assert numa_nodes(case, spec, gates, upstream=upstream) == []


@every_row(
    ("case", "placement"), DERIVED, ids=lambda each: each if isinstance(each, str) else each["name"]
)
def test_a_scheduler_without_the_feature_allocates_nothing(
    case: YamlValue, placement: Placement
) -> None:
    spec = spec_of(case, placement)
    assert numa_nodes(case, spec, gates_with(), upstream=True) == []
