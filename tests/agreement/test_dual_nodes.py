"""The finding about nodes that a device plugin and a driver serve twice."""

from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.facts.served_names import DualNode


def test_the_finding_names_ten_nodes_and_counts_idle_devices() -> None:
    described = describe_dual_nodes(
        [DualNode(f"n{i:02}", ("nvidia.com/gpu",), 8) for i in range(12)]
    )
    assert described is not None
    assert described.message.startswith(
        "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more nodes "
    )
    assert "advertise nvidia.com/gpu" in described.message
    assert "idle DRA devices: 96 on 12 nodes" in described.message
    assert describe_dual_nodes(()) is None
