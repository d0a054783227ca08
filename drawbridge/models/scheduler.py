"""Which node a new pod gets: of those where it fits, one with much left."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from drawbridge.models.nodes import ModelNode, find_request
from drawbridge.models.pods import AskedOfNode, PodKind, Served

_FEW: Final = 64  # nodes


class ChosenNode(NamedTuple):
    """The node of a new pod, who serves it there, and whether other nodes could as well."""

    node: str
    served: Served
    has_other_places: bool = False


def choose_node(
    kind: PodKind,
    nodes: Mapping[str, ModelNode],
    *,
    translated: bool,
    is_kept_off: Callable[[str], bool] | None = None,
) -> ChosenNode | None:
    """Return the node of a new pod and who serves it there; None if it waits."""
    request = find_request(kind, translated=translated)
    best: tuple[object, str, Served] | None = None
    places = 0
    for name in _find_names(nodes, request):
        node = nodes.get(name)
        if node is None or node.is_cordoned or not node.is_ready:
            continue
        served = node.serve(kind, translated=translated)
        if served is None or (is_kept_off is not None and is_kept_off(name)):
            continue
        if not kind.needs_devices:
            return ChosenNode(name, served)
        places += 1
        left = (
            sum(node.devices.get(each, 0) for each in request.devices)
            if served is Served.DRIVER
            else sum(node.free.get(each, 0) for each in kind.units)
        )
        # Nodes that have moved need no second start.
        if best is None or (node.is_moved, left) > best[0]:  # type: ignore[operator]
            best = (node.is_moved, left), name, served
    return None if best is None else ChosenNode(best[1], best[2], places > 1)


def _find_names(nodes: Mapping[str, ModelNode], request: AskedOfNode) -> Sequence[str]:
    """Return the names in order; of few nodes, those that are asked for."""
    if len(nodes) > _FEW:
        return _order(request.nodes, request.moved_nodes)
    return sorted(e for e in nodes if e in request.nodes or e in request.moved_nodes)


@lru_cache(4096)
def _order(before: frozenset[str], after: frozenset[str]) -> tuple[str, ...]:
    """Return the names of all these nodes in order; alike pods ask for the same ones."""
    return tuple(sorted(before | after))
