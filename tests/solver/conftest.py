"""Counts the searches of nodes."""

import pytest

from drawbridge.solver import solve as module


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that were searched, not answered from what is remembered."""
    nodes = []
    original = module._SolveCall._search  # noqa: SLF001  # counts private calls

    def count(call: module._SolveCall, node_view: module.NodeView) -> object:
        nodes.append(node_view.node.name)
        return original(call, node_view)

    monkeypatch.setattr(module._SolveCall, "_search", count)  # noqa: SLF001  # the same
    return nodes
