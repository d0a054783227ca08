"""docs/placing.md: every group stands in one place, and the comparison with Koordinator holds."""

import pytest

from drawbridge.dra.rules import Rules, read_rules
from e2e.koordinator.joint import (
    IN_USE,
    MAX_GPUS,
    RELATED,
    UNRELATED,
    Groups,
    MachineInUse,
    bridge_answer,
    find_bridge_differences,
    find_derived_differences,
    find_differences,
    koordinator_groups,
    translate_joint,
)
from e2e.koordinator.meaning import find_violations
from e2e.koordinator.ours import answer
from e2e.koordinator.steps import ChosenHardware
from e2e.nodes.machine import machine
from tests.tables import every_row
from tools.placing_page import render_page


@pytest.mark.parametrize("shape", RELATED)
@pytest.mark.parametrize("gpus", range(1, MAX_GPUS + 1))
def test_the_devices_of_a_group_are_on_one_pcie_root(shape: str, gpus: int) -> None:
    hardware, joint = machine("node-1", shape), translate_joint(shape, gpus, 100)
    root_of = {nic.name: nic.root for nic in hardware.nics}
    taken = [number for numbers, _ in joint.devices for number in numbers]
    assert len(taken) == len(set(taken)) == gpus
    all_of_them = len(joint.devices) == 1 and gpus == len(hardware.gpus)
    for numbers, names in joint.devices:
        roots = {hardware.gpus[number].root for number in numbers}
        assert roots == {root_of[name] for name in names}
        assert len(roots) == 1 or all_of_them


@pytest.mark.parametrize("shape", UNRELATED)
@pytest.mark.parametrize("gpus", range(1, 5))
def test_without_common_pcie_roots_a_group_is_on_one_numa_node(shape: str, gpus: int) -> None:
    assert translate_joint(shape, gpus, 100).groups == ()
    hardware, joint = machine("node-1", shape), translate_joint(shape, gpus, 100, numa=True)
    numa_of = {nic.name: nic.numa for nic in hardware.nics}
    assert sum(len(numbers) for numbers, _ in joint.devices) == gpus
    for numbers, names in joint.devices:
        nodes = {hardware.gpus[number].numa for number in numbers}
        assert nodes == {numa_of[name] for name in names}
        assert len(nodes) == 1


def test_derived_attributes_give_the_devices_of_a_common_attribute() -> None:
    assert list(find_derived_differences()) == []


# From the description of Koordinator's steps: as many NICs as roots at least, none from elsewhere,
# GPUs from the smallest place that has as many.
@every_row(
    ("shape", "gpus", "rdma", "expected"),
    [
        ("hgx-h100", 4, 100, ((1, 1),) * 4),
        ("hgx-h100", 4, 200, ((1, 1),) * 4),
        ("aws-p4d", 3, 100, ((2, 1), (1, 1))),
        ("aws-p4d", 2, 200, None),
        ("dgx-a100", 2, 200, ((2, 2),)),
        ("dgx-a100", 4, 300, ((2, 2), (2, 1))),
        ("azure-nd-a100-v4", 1, 100, None),
        ("oci-gb200", 5, 100, None),
    ],
)
def test_koordinator_allocates_these_groups(
    shape: str, gpus: int, rdma: int, expected: Groups | None
) -> None:
    assert koordinator_groups(shape, gpus, rdma) == expected


def test_the_tables_have_no_differences_on_an_empty_machine() -> None:
    assert list(find_differences()) == []


def test_the_page_contains_valid_rules() -> None:
    text = render_page().split("```json\n", 2)[1].partition("```")[0]
    assert isinstance(read_rules(text), Rules)


def test_bridge_placement_allocates_what_koordinator_does_and_more() -> None:
    assert list(find_bridge_differences()) == []
    assert koordinator_groups("aws-p4d", 2, 200) is None
    assert bridge_answer("aws-p4d", 2, 200).chosen == ChosenHardware((0, 2), (0, 1))
    assert bridge_answer("aws-p4d", 5, 500).refused


@every_row("row", IN_USE)
def test_bridge_placement_satisfies_the_hints_on_machines_in_use(row: MachineInUse) -> None:
    chosen = answer(row.occupied, row.request).chosen
    assert chosen is not None
    assert list(find_violations(row.occupied, row.request, chosen)) == []


def test_a_numa_group_gets_one_nic() -> None:
    assert translate_joint("azure-nd-a100-v4", 2, 100, numa=True).groups == ((2, 1),)
    assert translate_joint("oci-gb200", 2, 200, numa=True).groups == ((2, 2),)
