"""Which node a new pod gets: of those where it fits, one with much left."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from drawbridge.models.nodes import SLACK, ModelNode, find_request
from drawbridge.models.pods import AskedOfNode, PodKind, Served

_FEW: Final = 64  # nodes
# A scheduler compares no more nodes where a pod fits; those of large clusters neither.
_ENOUGH: Final = 24


class SchedulerChoice(NamedTuple):
    """How a scheduler chooses where nothing decides: each way is one that a real one can go.

    `moved` is 1 if nodes that have moved come first and -1 if last, `left` the same of nodes with
    much left. Of the same, the first in an order is taken: by name, or another one for each `order`
    but 0. Pods wait in their order, or the newest comes first. Pods that a scheduler has placed are
    on nodes that are drained as far as they fit there if `drained` is 1, and on others if it is -1.
    """

    moved: int = 1
    left: int = 1
    order: int = 0
    newest_first: bool = False
    drained: int = 0


class ChosenNode(NamedTuple):
    """The node of a new pod, and who serves it there."""

    node: str
    served: Served


def choose_node(
    kind: PodKind,
    nodes: Mapping[str, ModelNode],
    choice: SchedulerChoice,
    *,
    translated: bool,
    is_kept_off: Callable[[str], bool] | None = None,
) -> ChosenNode | None:
    """Return the node of a new pod and who serves it there; None if it waits."""
    request = find_request(kind, translated=translated)
    unit, units = _first({} if translated else kind.units)
    class_, devices = _first(request.devices)
    needs_devices = kind.needs_devices
    of_driver, of_plugin = [*request.devices], [*kind.units]
    best: tuple[float, float] | None = None
    chosen: ChosenNode | None = None
    compared = 0
    for name in _find_names(nodes, request, choice.order):
        node = nodes.get(name)
        if node is None or node.is_cordoned or not node.is_ready:
            continue
        # Most nodes have nothing left: that is seen without asking them.
        has_units = unit and node.free.get(unit, -1) >= units
        has_devices = class_ and node.devices.get(class_, 0) + SLACK >= devices
        if not (has_units or has_devices) and (unit or class_):
            continue
        served = node.serve(kind, translated=translated)
        if served is None or (is_kept_off is not None and is_kept_off(name)):
            continue
        if not needs_devices:
            return ChosenNode(name, served)
        left = (
            sum([node.devices.get(each, 0) for each in of_driver])
            if served is Served.DRIVER
            else sum([node.free.get(each, 0) for each in of_plugin])
        )
        rank = choice.moved * node.is_moved, choice.left * left
        if best is None or rank > best:
            best, chosen = rank, ChosenNode(name, served)
        compared += 1
        if compared == _ENOUGH:
            break
    return chosen


def _first(amounts: Mapping[str, float]) -> tuple[str, float]:
    return next(iter(amounts.items()), ("", 0))


def _find_names(nodes: Mapping[str, ModelNode], request: AskedOfNode, order: int) -> Sequence[str]:
    """Return the names in their order; of few nodes, those that are asked for."""
    now, moved = request.nodes, request.moved_nodes
    if len(nodes) > _FEW:
        return _sort(now, moved, order)
    return _sort(frozenset(e for e in nodes if e in now or e in moved), frozenset(), order)


@lru_cache(4096)
def _sort(now: frozenset[str], moved: frozenset[str], order: int) -> tuple[str, ...]:
    """Return the names of two sets in an order; alike pods ask for the same ones."""
    names = now | moved
    if not order:
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: crc32(f"{order}{name}".encode())))
