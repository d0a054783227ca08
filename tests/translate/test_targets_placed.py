"""What targets print is placed on the machines it was printed for, as it was asked."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drawbridge.config.model import Configuration
from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.attributes import PCIE_ROOT, find_attribute
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device import Device
from drawbridge.dra.gates import gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.solver.answers import Solution
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World
from drawbridge.translate.targets.choose import express_asks
from drawbridge.translate.targets.claims import assemble_claims
from e2e.nodes.family import CLASSES
from tests.facts.clusters import device_class
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds
from tests.translate.test_targets_joint import asks as joint_asks

CASES = Path(__file__).parent / "cases"
PLACED = [
    case
    for case in load_cases(CASES / "targets.yaml")
    if "claim" in case and case["world"] and "Uuid" not in f"{case['ask']}"
]
SHAPES = ("dgx-a100", "hgx-h100", "aws-p4d", "koordinator-fake-8g4n", "koordinator-h800")


def placed(words: tuple[str, ...], specs: Sequence[Any]) -> list[Solution]:
    """The solutions of the nodes on which the claims fit together."""
    turned = gates_of_version("1.36")
    assert not isinstance(turned, tuple)
    offered = {name: device_class(name, cel=cel) for name, cel in CLASSES.items()}
    world = World(build_inventory(worlds.slices(words), gates=turned), offered)
    numbers = itertools.count()
    nodes = sorted({node.name for _, node, _ in worlds.devices(words)})
    claims = [claim_of(spec, number) for number, spec in enumerate(specs)]
    answers = solve(
        world,
        View(),
        claims,
        [Node(name) for name in nodes],
        ids=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
    )
    return [answer for answer in answers.values() if isinstance(answer, Solution)]


def claim_of(spec: Any, number: int) -> Claim:  # noqa: ANN401  # a plain claim spec
    raw = {"metadata": {"name": f"c-{number}", "namespace": "default"}, "spec": spec}
    claim = read_claim(raw)
    assert isinstance(claim, Claim)
    return claim


@every_row("case", PLACED, ids=lambda case: case["name"])
def test_claims_can_be_allocated(case: YamlValue) -> None:
    assert placed(tuple(case["world"]), [{"devices": case["claim"]}])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gpus", range(1, 9))
def test_groups_are_on_separate_roots(shape: str, gpus: int) -> None:
    words = (f"{shape} gpu.nvidia.com", f"{shape} dra.net")
    claims = assemble_claims(
        express_asks(joint_asks(gpus, None), worlds.facts(words), Configuration())
    )
    (solution,) = placed(words, [claim.spec for claim in claims])
    devices = {(driver, each.name): each for driver, _, each in worlds.devices(words)}
    gpu_roots, nic_roots = [], []
    for result in results(solution):
        place = root(devices[result.driver, result.device], result.driver)
        (gpu_roots if result.driver == "gpu.nvidia.com" else nic_roots).append(place)
    assert len(gpu_roots) == gpus
    assert set(gpu_roots) == set(nic_roots)
    assert len(nic_roots) == len(set(nic_roots)) or gpus == 8


def results(solution: Solution) -> list[AllocationResult]:
    return [result for each in solution.allocations for result in each.devices.results]


def root(device: Device, driver: str) -> str:
    attribute = find_attribute(device, driver, PCIE_ROOT)
    assert attribute
    assert attribute.string
    return attribute.string
