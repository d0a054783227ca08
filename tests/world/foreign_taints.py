"""The taints of nodes that are not ours: our controller writes all taints of a node at once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON, Kind
from tests.cluster.fake.store import Change
from tests.world.network import Network
from tests.world.objects import FENCE

if TYPE_CHECKING:
    from tests.world.world import World


class ForeignTaints:
    """Follows nodes in the storage; `changed` has the writes of ours that change other taints."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.changed: list[str] = []

    def follow(self, kind: Kind, change: Change) -> None:
        """Note a write of our controller that takes a taint of others, or puts one back."""
        if kind.plural != "nodes" or change.before is None or change.after is None:
            return
        before, after = _list_others(change.before), _list_others(change.after)
        if before != after and self._network.writer.startswith("controller"):
            name = change.after["metadata"]["name"]
            self.changed.append(f"{self._network.writer} leaves {after} on {name}, not {before}")


def _list_others(node: JSON) -> list[JSON]:
    taints = node["spec"].get("taints") or ()
    return [taint for taint in taints if taint["key"] != FENCE]


def our_controller_changes_no_taint_of_others(world: "World") -> Iterator[str]:
    """What others add to a node while our controller decides about its fence stays there."""
    yield from world.foreign_taints.changed
