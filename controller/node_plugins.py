"""What nodes say of the device plugin of each driver's devices, and since when one is away.

A kubelet keeps the name of a plugin that is gone, so the status of a node tells of it. What a node
says besides changes all the time, and decides nothing here.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from controller.protocols import WatchedObject
from controller.watched_objects import WatchedNode, WatchedNodeStatus
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import DualNode
from drawbridge.facts.withheld import drivers_by_resource, find_drivers
from drawbridge.translate.context import TranslationContext

# Who is away for longer does not restart. A kubelet keeps what a plugin offered for as long.
ABSENCE_SECONDS: Final = 300.0
# The drivers that publish devices which plugins can have allocated, by node.
Publishing: TypeAlias = Mapping[str, frozenset[str]]
DriverOnNode: TypeAlias = tuple[str, str]  # the node, then the driver
_NONE: Final = frozenset[str]()


class PluginState(enum.IntEnum):
    """What a node says of the device plugin of a driver's devices; nothing if there was none.

    A kubelet keeps the name of one that is gone. Of several plugins, the highest counts.
    """

    GONE = 1
    STOPS = 2  # or restarts: the kubelet keeps its capacity for some minutes
    SERVES = 3


class DriversByName:
    """The drivers whose devices a resource may count; each name is looked up once.

    If a class maps a name and selects no device yet, the name stands for its driver. Equal
    `meanings` give the same drivers.
    """

    def __init__(self, context: TranslationContext) -> None:
        classes, configuration = (
            context.facts.classes if context.facts else (),
            context.configuration,
        )
        self._families = known_families(configuration)
        self._extended = drivers_by_resource(classes)
        self.meanings: object = (configuration.targets, configuration.legacy, self._extended)
        self._drivers: dict[str, frozenset[str]] = {}

    def find(self, name: str) -> frozenset[str]:
        """Return the drivers."""
        drivers = self._drivers.get(name)
        if drivers is None:
            drivers = self._drivers[name] = self._look_up(name)
        return drivers

    def _look_up(self, name: str) -> frozenset[str]:
        if "/" not in name:
            return _NONE
        drivers = find_drivers(name, self._families, self._extended)
        return drivers or frozenset({name} & self._extended.keys())


def read_plugins(
    capacity: Mapping[str, Any], allocatable: Mapping[str, Any], drivers: DriversByName
) -> dict[str, PluginState]:
    """Return what a node says of the plugin of the devices of each driver that may have one."""
    plugins: dict[str, PluginState] = {}
    for name in {**capacity, **allocatable}:
        for driver in drivers.find(name):
            said = PluginState.STOPS if is_available(capacity, name) else PluginState.GONE
            if is_available(allocatable, name):
                said = PluginState.SERVES
            plugins[driver] = max(said, plugins.get(driver, said))
    return plugins


def is_available(amounts: Mapping[str, Any], name: str) -> bool:
    """Whether a node has other than 0 of a resource."""
    return f"{amounts.get(name, 0)}" != "0"


def find_stopped(dual_nodes: Iterable[DualNode], drivers: DriversByName) -> Iterator[DriverOnNode]:
    """Yield the drivers of whose devices the plugin of a node has stopped."""
    for node in dual_nodes:
        for name in node.names if node.stopped else ():
            yield from ((node.node, driver) for driver in drivers.find(name))


class _State(NamedTuple):
    """What a status says of plugins, with the drivers whose plugin serves, and is gone."""

    status: WatchedNodeStatus
    plugins: Mapping[str, PluginState]
    serving: frozenset[str]
    gone: frozenset[str]


def _read_state(status: WatchedNodeStatus, drivers: DriversByName) -> _State:
    plugins = read_plugins(status.capacity or {}, status.allocatable or {}, drivers)
    serving, gone = (
        frozenset(driver for driver, said in plugins.items() if said is plugin)
        if plugins
        else _NONE
        for plugin in (PluginState.SERVES, PluginState.GONE)
    )
    return _State(status, plugins, serving, gone)


class NodesWithoutPlugin:
    """The nodes whose plugin is gone, which pods may outlive.

    The amounts of each are read once a change, and its pods are listed until none has devices of
    the plugin.
    """

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}
        self._free: dict[str, frozenset[str]] = {}  # by node, the drivers
        self._meanings: object = None

    def find(
        self,
        nodes: Iterable[WatchedObject[WatchedNode]],
        publishing: Publishing,
        drivers: DriversByName,
    ) -> dict[str, frozenset[str]]:
        """Return the nodes whose pods are not known, with the drivers of which none serves.

        All are known if no driver publishes.
        """
        if drivers.meanings != self._meanings:
            # What a node says, and what its pods hold, can mean something else now.
            self._meanings, self._states, self._free = drivers.meanings, {}, {}
        states: dict[str, _State] = {}
        free: dict[str, frozenset[str]] = {}
        unknown: dict[str, frozenset[str]] = {}
        for node in nodes if publishing else ():
            name, status = node.name, node.value.status
            state = self._states.get(name)
            if state is None or (state.status is not status and state.status != status):
                state = _read_state(status, drivers)
            states[name] = state
            if name in self._free:
                free[name] = self._free[name] - state.serving
            asked = state.gone.union(publishing.get(name, ())) - state.serving
            if left := asked - free.get(name, _NONE):
                unknown[name] = left
        self._states, self._free = states, free
        return unknown

    def list_drivers(self, plugin: PluginState) -> set[DriverOnNode]:
        """Return the drivers and nodes that say this of their plugin."""
        return {
            (node, driver)
            for node, state in self._states.items()
            for driver, said in state.plugins.items()
            if said is plugin
        }

    def note_free(self, node: str, drivers: Iterable[str]) -> None:
        """Note that no pod of a node has devices of the plugins of these drivers' devices."""
        self._free[node] = self._free.get(node, _NONE).union(drivers)


class Absences:
    """Since when nodes that lose their label lack a plugin or its driver, by the own clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[DriverOnNode, tuple[PluginState, float]] = {}
        self._stopped: set[DriverOnNode] = set()

    def follow(self, nodes: Collection[str], stopped: Iterable[DriverOnNode]) -> None:
        """Forget all nodes but those that can lose the label, and plugins that stop."""
        self._since = {at: each for at, each in self._since.items() if at[0] in nodes}
        self._stopped = {*stopped, *(each for each in self._stopped if each[0] in nodes)}

    def find(
        self, node: str, plugins: Mapping[str, PluginState], publishing: Collection[str]
    ) -> list[PluginState]:
        """Return what the node says of plugins of which one, or its driver, can come back.

        The first call begins the time after which they are gone for good.
        """
        return [
            plugin
            for driver, plugin in plugins.items()
            if not self._is_over((node, driver), plugin, publishes=driver in publishing)
        ]

    def _is_over(self, at: DriverOnNode, plugin: PluginState, *, publishes: bool) -> bool:
        now, is_served = self._now(), plugin is PluginState.SERVES
        if is_served:
            self._stopped.discard(at)
        elif plugin is PluginState.STOPS:
            self._stopped.add(at)
        before, since = self._since.get(at, (plugin, now))
        if before is not plugin or (is_served and publishes):
            since = now
        self._since[at] = plugin, since
        return at in self._stopped or now - since >= ABSENCE_SECONDS
