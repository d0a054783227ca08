"""A large node is looked at between decisions, so that it delays no pod of others."""

from typing import Any

import pytest

from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.ledger import node_choice
from drawbridge.ledger.node_choice import NodeChoice
from tests.allocator.clusters import Cluster, claim, gpu_slice


@pytest.mark.parametrize("devices", [1, 2])
def test_a_decision_leaves_large_nodes_to_the_time_between_decisions(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_choice, "MAX_DEVICES", 1)
    cluster, looked = Cluster(strategy="packed", n1=1), list[str]()
    cluster.add(Node("n2", allocatable={"cpu": parse("8")}), gpu_slice("n2", devices))
    read = NodeChoice._look_at  # noqa: SLF001  # what takes long

    def look(choice: NodeChoice, of_driver: Any, name: str, *rest: Any) -> None:  # noqa: ANN401
        looked.append(name)
        read(choice, of_driver, name, *rest)

    monkeypatch.setattr(NodeChoice, "_look_at", look)
    cluster.prefilter("p", claim("c"))
    assert looked == ["n1", "n2"][: 3 - devices]
    while cluster.decisions.strategy.catch_up():
        pass
    assert looked == ["n1", "n2"]
    assert len(cluster.prefilter("q", claim("d"), limit=2).fit) == 2
