"""docs/placing.md: every group stands in one place, and bridge placement keeps to the hints."""

import pytest

from drawbridge.dra.rules import Rules, read_rules
from e2e.koordinator.compare import find_differences
from e2e.koordinator.joint import (
    IN_USE,
    MAX_GPUS,
    RELATED,
    UNRELATED,
    MachineInUse,
    empty_machine,
    find_derived_differences,
    joint_request,
    list_pods,
    translate_joint,
)
from e2e.koordinator.meaning import find_violations
from e2e.koordinator.ours import answer
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
        assert len(names) == len(roots)


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


def test_the_page_contains_valid_rules() -> None:
    text = render_page().split("```json\n", 2)[1].partition("```")[0]
    assert isinstance(read_rules(text), Rules)


@every_row("pod", tuple(list_pods(RELATED)))
def test_bridge_placement_gives_what_the_hints_mean_on_empty_machines(
    pod: tuple[str, int, int],
) -> None:
    empty, request = empty_machine(pod[0]), joint_request(*pod[1:])
    assert list(find_differences(empty, request, answer(empty, request))) == []


@every_row("row", IN_USE)
def test_bridge_placement_satisfies_the_hints_on_machines_in_use(row: MachineInUse) -> None:
    chosen = answer(row.occupied, row.request).chosen
    assert chosen is not None
    assert list(find_violations(row.occupied, row.request, chosen)) == []


def test_a_numa_group_gets_one_nic() -> None:
    assert translate_joint("azure-nd-a100-v4", 2, 100, numa=True).groups == ((2, 1),)
    assert translate_joint("oci-gb200", 2, 200, numa=True).groups == ((2, 2),)
