"""What an administrator changes in the configuration, and which nodes are ours by it.

The controller copies what it accepts, and each process hears of the copy at another time. An entry
makes a node ours whose labels do not, and another value lets the allocators build what they know
anew, while pods are being bound. A text that is refused changes nothing.
"""

import asyncio
from typing import TYPE_CHECKING

from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONFIGURATION_KEY,
)
from tests.cluster.fake.configuration import offer
from tests.cluster.fake.kinds import JSON, named
from tests.world.conditions import Conditions
from tests.world.events import event
from tests.world.machines import draw_seconds
from tests.world.network import SYSTEM
from tests.world.nodes import LEAST_HOLD
from tests.world.objects import CHANGING, HOSTNAME, Chosen, compose_configuration

if TYPE_CHECKING:
    from tests.world.world import World

_CONFIG_MAP = named("configmaps")
# Of a pod that vanished, after its grace period, in seconds.
_HOLDS = (LEAST_HOLD, LEAST_HOLD + 1)
_REFUSED = "placement: refused"


def is_ours(world: "World", node: JSON) -> bool:
    """Whether a node is owned by its labels, or by the configuration in use."""
    labels = node["metadata"]["labels"]
    text = _read(world, CONFIGURATION_IN_USE_CONFIG_MAP)
    by_name = labels[HOSTNAME] == CHANGING and _chosen(text).owns_changing
    return by_name or bool(labels["pool"] == "bridge")


class Owner:
    """Says whose the node is that changes its owner: by its labels, or by the configuration."""

    def __init__(self, world: "World", *, by_name: bool) -> None:
        self._world, self._by_name = world, by_name
        self._machine = world.machines[CHANGING]
        self.told_by = "configmaps" if by_name else "nodes"

    @property
    def is_ours(self) -> bool:
        """Whether the node is ours by that."""
        if not self._by_name:
            return self._machine.is_owned
        return _chosen(_read(self._world, CONFIGURATION_CONFIG_MAP)).owns_changing

    def change(self) -> None:
        """Give the node to us, or to others."""
        if not self._by_name:
            self._machine.change_owner()
            return
        chosen = _chosen(_read(self._world, CONFIGURATION_CONFIG_MAP))
        text = compose(
            self._world.conditions, chosen._replace(owns_changing=not chosen.owns_changing)
        )
        self._world.server.put(offer(text))
        if self._machine.is_owned:
            self._machine.change_owner()


@event(0.6)
def change_configuration(world: "World", drawn: int) -> str:
    """Offer another configuration; a text that is refused is replaced after a while."""
    chosen = _chosen(_read(world, CONFIGURATION_CONFIG_MAP))
    if drawn % 3:
        chosen = chosen._replace(owns_changing=not chosen.owns_changing)
    else:
        chosen = chosen._replace(hold_seconds=_HOLDS[_HOLDS.index(chosen.hold_seconds) - 1])
    told = f"{CHANGING} is owned by its name: {chosen.owns_changing}, {chosen.hold_seconds} s"
    text = compose(world.conditions, chosen)
    if drawn // 8 % 4 or world.is_calm:
        world.server.put(offer(text))
        return told
    seconds = draw_seconds(drawn)
    world.server.put(offer(text.replace("placement: bridge", _REFUSED)))
    asyncio.get_running_loop().call_later(seconds, _correct, world)
    return f"{told}, which is refused for {seconds:.1f} s"


def _correct(world: "World") -> None:
    text = _read(world, CONFIGURATION_CONFIG_MAP)
    world.server.put(offer(text.replace(_REFUSED, "placement: bridge")))


def compose(conditions: Conditions, chosen: Chosen) -> str:
    """Return the text of a configuration in a run with these conditions."""
    return compose_configuration(
        chosen,
        fences_devices=conditions.fences_devices,
        delay=conditions.eviction_delay,
        team_memory=conditions.team_memory,
        selects=conditions.selects,
    )


def _chosen(text: str) -> Chosen:
    return Chosen(f"{HOSTNAME}: {CHANGING}" in text, next(e for e in _HOLDS if f": {e}}}" in text))


def _read(world: "World", name: str) -> str:
    config_map = world.network.store.find(_CONFIG_MAP, SYSTEM, name)
    assert config_map is not None, "nobody deletes it"
    text: str = config_map["data"][CONFIGURATION_KEY]
    return text
