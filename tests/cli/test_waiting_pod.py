"""What `drawbridge explain` shows of the simulation of a pod that waits."""

from cli.simulation.waiting_pod import WaitingPod, format_waiting, waiting_as_data
from drawbridge.choice.strategy import Part
from drawbridge.ledger.placing import NodeRating, PodPlacement

PARTS = (Part("devices in use", 500), Part("CPU", 0))
RATED = WaitingPod(
    PodPlacement("default/a", "n1", (), rating=NodeRating("packed", (), 500, PARTS)), "drawbridge"
)


def test_the_score_of_the_node_is_shown_with_its_parts() -> None:
    lines = list(format_waiting(RATED))
    assert lines[0] == "  simulation: the devices are free on n1 (drawbridge)"
    assert lines[1] == "    strategy packed: score 500 (devices in use +500)"
    simulation = waiting_as_data(RATED)["simulation"]
    assert isinstance(simulation, dict)
    assert simulation["rating"] == {
        "strategy": "packed",
        "score": 500,
        "parts": [{"name": "devices in use", "value": 500}, {"name": "CPU", "value": 0}],
    }


def test_without_a_strategy_there_is_no_score() -> None:
    plain = WaitingPod(PodPlacement("default/a", "n1", ()), "upstream")
    assert not any("strategy" in line for line in format_waiting(plain))
    assert "rating" not in str(waiting_as_data(plain))
