"""The checks of a soak, on claims and samples written by hand."""

from typing import Any

import pytest

from e2e.nodes.family import FAMILIES
from e2e.nodes.machine import machine
from e2e.scenarios.objects import allocation, result
from e2e.soak.books import held_twice
from e2e.soak.memory import Memory, slope
from e2e.soak.pods import GPU, NODES, gpus, node_plans

NODE = "node-0"


def claim(name: str, *results: dict[str, Any]) -> dict[str, Any]:
    """An allocated claim."""
    return {
        "metadata": {"namespace": "team", "name": name},
        "status": {"allocation": allocation(NODE, results)},
    }


def whole(number: int = 0) -> dict[str, Any]:
    return result(GPU, NODE, f"gpu-{number}")


def share(memory: str) -> dict[str, Any]:
    return result(GPU, NODE, "gpu-0", shareID="s", consumedCapacity={"memory": memory})


@pytest.mark.parametrize(
    ("mode", "claims", "problems"),
    [
        ("full", [claim("a", whole(0)), claim("b", whole(1))], []),
        (
            "full",
            [claim("a", whole()), claim("b", whole())],
            [f"{GPU}/{NODE}/gpu-0 is held by team/a, team/b"],
        ),
        ("full", [claim("a", whole() | {"adminAccess": True}), claim("b", whole())], []),
        ("shares-unlimited", [claim("a", share("20Gi")), claim("b", share("20Gi"))], []),
        (
            "shares-unlimited",
            [claim("a", share("20Gi")), claim("b", share("20481Mi"))],
            [f"{GPU}/{NODE}/gpu-0: memory: {40961 << 20} consumed"],
        ),
    ],
)
def test_a_device_is_held_once_and_shared_within_its_capacity(
    mode: str, claims: list[dict[str, Any]], problems: list[str]
) -> None:
    layout = FAMILIES[GPU].publish(machine(NODE, "lab-2g2n"), mode)
    assert list(held_twice(claims, {(GPU, NODE): layout})) == problems


def test_a_gpu_and_a_partition_of_it_exceed_its_counters() -> None:
    layout = FAMILIES[GPU].publish(machine(NODE, "lab-2g2n"), "dynamic-mig")
    part = next(name for name, device in layout.devices.items() if device.kind == "mig")
    both = [claim("a", result(GPU, NODE, part)), claim("b", whole())]
    layouts = {(GPU, NODE): layout}
    assert list(held_twice(both[:1], layouts)) == []
    assert any("drawn of" in problem for problem in held_twice(both, layouts))


@pytest.mark.parametrize(("an_hour", "grown"), [(0.0, False), (20.0, False), (200.0, True)])
def test_memory_that_grows_in_the_last_half_is_found(an_hour: float, *, grown: bool) -> None:
    memory = Memory()
    memory.samples["process"] = [(second, 90 + an_hour * second / 3600) for second in range(3600)]
    assert memory.has_grown("process") == grown


def test_memory_before_the_last_half_does_not_count() -> None:
    memory = Memory()
    memory.samples["process"] = [(second, min(second, 1000.0)) for second in range(3600)]
    assert not memory.has_grown("process")


def test_the_slope_of_a_line_is_its_own() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == pytest.approx(2.0)


def test_nodes_follow_the_table() -> None:
    plans = node_plans([f"node-{number}" for number in range(20)], {})
    assert [plan.shape for plan in plans] == 2 * [shape for shape, _, _ in NODES]
    assert gpus(20) == 2 * sum(count for _, _, count in NODES)
    assert gpus(20) == sum(len(machine(plan.name, plan.shape).gpus) for plan in plans)
