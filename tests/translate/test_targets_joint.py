"""GPUs and NICs that go together, as a table over real shapes; and claims that nodes can hold."""

from pathlib import Path

import pytest

from drawbridge.config.model import Configuration
from drawbridge.dra.attributes import PCIE_ROOT
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope
from drawbridge.translate.legacy.selectors import NicIs, NicKind
from drawbridge.translate.targets.choose import express_asks
from drawbridge.translate.targets.claims import assemble_claims
from drawbridge.translate.targets.plan import Expressibility, TargetResult
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds

TABLE = load_cases(Path(__file__).parent / "cases" / "joint.yaml")
SHAPES = (
    "dgx-a100",
    "hgx-h100",
    "aws-p4d",
    "koordinator-fake-8g4n",
    "koordinator-h800",
)


def asks(gpus: int, nics: int | None, *, required: bool = True) -> list[Ask]:
    joint = JointAllocation(
        "j", Kind.GPU, TopologyScope.PCIE, required=required, explicit_count=nics is not None
    )
    return [
        Ask(name="g", kind=Kind.GPU, row="koordinator/whole", count=gpus, joint=joint),
        Ask(
            name="n",
            kind=Kind.NIC,
            row="koordinator/rdma",
            count=nics or 1,
            joint=joint,
            selectors=(NicIs(NicKind.RDMA),),
        ),
    ]


def said(case: YamlValue) -> TargetResult:
    world = case["world"]
    facts = None if world is None else worlds.facts(tuple(world))
    wanted = asks(case["gpus"], case.get("nics"), required=case.get("required", True))
    (result,) = express_asks(wanted, facts, Configuration())
    return result


def pairs(result: TargetResult) -> list[list[int]]:
    devices = [request.devices for request in result.part.requests]
    return [devices[i : i + 2] for i in range(0, len(devices), 2)]


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_joint_asks_are_grouped(case: YamlValue) -> None:
    result = said(case)
    if "not_expressible" in case:
        assert result.expressibility is Expressibility.NOT_EXPRESSIBLE
        assert case["not_expressible"] in result.findings[0].message
        return
    groups = pairs(result)
    assert groups in case.get("either", [case.get("groups")])
    matches = [rule for rule in result.part.constraints if rule.kind == "matchAttribute"]
    attribute = case.get("attribute", PCIE_ROOT)
    assert [(rule.attribute, rule.requests) for rule in matches] == (
        [(attribute, (2 * i, 2 * i + 1)) for i in range(len(groups))] if attribute else []
    )
    apart = [rule.requests for rule in result.part.constraints if rule.kind == "distinctAttribute"]
    assert apart == ([tuple(range(1, 2 * len(groups), 2))] if case.get("apart") else [])
    assert sorted(result.lost) == case.get("lost", [])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gpus", range(1, 9))
def test_any_number_of_gpus_has_a_nic_in_every_location(shape: str, gpus: int) -> None:
    facts = worlds.facts((f"{shape} gpu.nvidia.com", f"{shape} dra.net"))
    (result,) = express_asks(asks(gpus, None), facts, Configuration())
    groups = pairs(result)
    (node_shape,) = facts.shapes
    places = {place.gpus for place in node_shape.pcie if place.nics}
    (most,) = places - {0}
    assert sum(group[0] for group in groups) == gpus
    assert sum(group[1] for group in groups) == -(-gpus // most)
    assert len(assemble_claims([result])) == 1


def test_requests_of_a_group_have_equal_numbers() -> None:
    facts = worlds.facts(("aws-p4d gpu.nvidia.com", "aws-p4d dra.net"))
    (claim,) = assemble_claims(express_asks(asks(3, None), facts, Configuration()))
    assert claim.asks == {"g": ("gpu-0", "gpu-1"), "n": ("nic-0", "nic-1")}
    devices = claim.spec["devices"]
    assert isinstance(devices, dict)
    assert devices["constraints"] == [
        {"requests": ["gpu-0", "nic-0"], "matchAttribute": PCIE_ROOT},
        {"requests": ["gpu-1", "nic-1"], "matchAttribute": PCIE_ROOT},
    ]
