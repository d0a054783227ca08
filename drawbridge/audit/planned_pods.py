"""Where the pods are during the steps of a plan, by counts of units and devices of node groups.

A pod that leaves a node finds a plugin only on nodes of the same kind: other devices may not be
what it asks for. A plugin or a driver counts only where the pod may start (`allowed_nodes`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.scope import Mode
from drawbridge.audit.model import Expected, Fate, NamespaceAudit, WorkloadAudit
from drawbridge.audit.node_groups import Group
from drawbridge.audit.workloads import NOBODY, has_claims

_SLACK: Final = 1e-9


class Moved(NamedTuple):
    """The entries whose pods left their nodes, with the number of pods.

    `daemons` are those of DaemonSets, with their namespace.
    """

    entries: tuple[tuple[WorkloadAudit, int], ...]
    daemons: tuple[tuple[str, WorkloadAudit], ...] = ()

    @property
    def pods(self) -> int:
        """The number of pods."""
        return sum(number for _, number in self.entries)


class PlannedPods:
    """The pods of all entries. `kept` are the nodes that keep their plugin."""

    def __init__(
        self, namespaces: Sequence[NamespaceAudit], groups: Sequence[Group], kept: frozenset[str]
    ) -> None:
        self.enforced = {e.namespace for e in namespaces if e.mode is Mode.ENFORCE}
        self._entries = [
            (each.namespace, number, entry)
            for each in namespaces
            for number, entry in enumerate(each.workloads)
        ]
        self._kept = kept
        self._free = {each.name: _multiply(each.units, _count_open(each)) for each in groups}
        self._free[""] = Counter()  # of nodes that were not read
        self._by_plugin = {each.name: each for each in groups if each.has_plugin}
        self._devices = dict[str, dict[str, float]]()  # that drivers have free, by group
        self._each = {each.name: each.after.classes for each in groups}
        self._sought = Counter(name for *_, each in self._entries for name in each.allowed_nodes)
        self._held = dict[tuple[str, int], Counter[str]]()
        self._pending = Counter[tuple[str, int]]()
        self._on_plugins = self._on_drivers = self._waiting = 0
        self._plugin_nodes = sum(len(each.nodes) for each in self._by_plugin.values())
        drivers = [each for each in groups if not each.has_plugin and each.now.classes]
        self._driver_nodes = sum(len(each.nodes) for each in drivers)
        # Admission translates pods for devices that some node has to itself.
        self._drivers = {name for each in drivers for name in each.now.drivers}
        for group in drivers:
            self._add_devices(group.name, group.now.classes, len(group.nodes))
        for where, number, entry in self._entries:
            self._begin((where, number), entry)

    def _begin(self, key: tuple[str, int], entry: WorkloadAudit) -> None:
        if entry.served_by == NOBODY:
            self._waiting += entry.pods
        elif has_claims(entry):
            self._on_drivers += entry.running
            for group, pods in entry.nodes.items():
                self._add_devices(group, entry.demand.devices, -pods)
        else:
            self._on_plugins += entry.running
            self._held[key] = Counter(entry.nodes)
            for group, pods in entry.nodes.items():
                self._free[group].subtract(_open_units(entry, group, pods))

    def expected(self) -> Expected:
        """Return the counts as they are now."""
        return Expected(
            self._on_plugins,
            self._on_drivers,
            self._waiting,
            self._plugin_nodes,
            self._driver_nodes,
        )

    def movable(self, group: Group) -> list[str]:
        """Return the nodes of a group that need not keep their plugin."""
        return [each.name for each in group.nodes if each.name not in self._kept]

    def is_running(self, driver: str) -> bool:
        """Whether a driver has nodes without a plugin of the same devices."""
        return driver in self._drivers

    # --- node groups -------------------------------------------------------------------------

    def stranded(self, group: Group) -> list[tuple[str, int]]:
        """Return namespaces whose pods find no plugin on other nodes, and how many pods."""
        free = {name: Counter(units) for name, units in self._free.items()}
        stranded = Counter[str]()
        for where, _, entry, pods in self._leaving(group):
            if entry.fate is Fate.TO_TRANSLATE and not self._is_translated(where, group):
                room = sum(n for _, n in self._find_room(group, entry, pods, free))
                stranded[where] += pods - room
        return [(where, number) for where, number in stranded.items() if number]

    def cost(self, group: Group) -> tuple[object, ...]:
        """Order groups: those with devices offered twice, then those with least pods to move."""
        held = sum(pods for *_, pods in self._leaving(group))
        waiting = sum(number for _, number in self.stranded(group))
        return not group.now.dual, waiting, held, len(group.nodes), group.name

    def move(self, group: Group) -> Moved:
        """Move the nodes of a group to their driver, with the pods on them."""
        number_of_nodes = len(self.movable(group))
        leaving = [(*each, self._is_translated(each[0], group)) for each in self._leaving(group)]
        del self._by_plugin[group.name]
        self._drivers.add(group.driver)
        self._plugin_nodes -= number_of_nodes
        self._driver_nodes += number_of_nodes
        self._add_devices(group.name, group.after.classes, number_of_nodes)
        for where, number, entry, pods, is_translated in leaving:
            key = where, number
            del self._held[key][group.name]
            self._on_plugins -= pods
            if entry.fate is Fate.BY_CLASS or is_translated:
                self._place(key, entry, pods)
                continue
            for name, room in self._find_room(group, entry, pods, self._free):
                self._held[key][name] += room
                self._on_plugins += room
                pods -= room  # noqa: PLW2901  # the rest
            self._waiting += pods
            self._pending[key] += pods
        return Moved(
            tuple((entry, pods) for *_, entry, pods, _ in leaving),
            tuple((where, entry) for where, _, entry, *_ in leaving if entry.is_daemon),
        )

    def _is_translated(self, namespace: str, group: Group) -> bool:
        """Whether the pods of a namespace get claims when they leave a group.

        Admission leaves requests as they are while no node offers the devices to claims.
        """
        return namespace in self.enforced and group.driver in self._drivers

    def _leaving(self, group: Group) -> Iterator[tuple[str, int, WorkloadAudit, int]]:
        """Yield the entries with pods on a group that do not need its plugin."""
        for where, number, entry in self._entries:
            pods = self._held.get((where, number), Counter())[group.name]
            if pods and entry.fate is not Fate.STAYS:
                yield where, number, entry, pods

    def _find_room(
        self, group: Group, entry: WorkloadAudit, pods: int, free: Mapping[str, Counter[str]]
    ) -> Iterator[tuple[str, int]]:
        """Yield other groups of the same kind with the pods that fit there, and take the units.

        A pod of a DaemonSet belongs to its node.
        """
        if entry.is_daemon:
            return
        for name, other in self._by_plugin.items():
            if name == group.name or _kind(other) != _kind(group) or not pods:
                continue
            units = {key: n for key, n in entry.demand.units.items() if key in other.units}
            if not units or any(n > other.units[key] for key, n in units.items()):
                continue
            nodes = entry.allowed_nodes.get(name, 0)
            most = (min(free[name][key], nodes * other.units[key]) for key in units)
            room = max(
                0, min(pods, *(n // each for n, each in zip(most, units.values(), strict=True)))
            )
            free[name].subtract(_multiply(units, room))
            pods -= room
            if room:
                yield name, room

    # --- namespaces --------------------------------------------------------------------------

    def enforce(self, namespace: NamespaceAudit, *, only_waiting: bool = False) -> Moved:
        """Create the pods of a namespace again with claims, or those of workloads that wait."""
        where = namespace.namespace
        self.enforced.add(where)
        again = []
        for number, entry in enumerate(namespace.workloads):
            key = where, number
            pods = self._without_claims(key, entry)
            if entry.fate is not Fate.TO_TRANSLATE or not pods:
                continue
            if only_waiting and not self._pending[key]:
                continue
            held_by_group = Counter() if entry.is_daemon else self._held.pop(key, Counter())
            for group, held in held_by_group.items():
                self._on_plugins -= held
                self._free[group].update(_open_units(entry, group, held))
            self._waiting -= self._pending.pop(key, 0)
            again.append((entry, pods))
            self._place(key, entry, pods)
        return Moved(tuple(again))

    def retry(self) -> None:
        """Give devices to pods that waited for a driver."""
        for where, number, entry in self._entries:
            key = where, number
            if self._pending[key] and (where in self.enforced or entry.fate is Fate.BY_CLASS):
                pods = self._pending.pop(key)
                self._waiting -= pods
                self._place(key, entry, pods)

    def count_held(self, namespace: NamespaceAudit) -> int:
        """Return the pods of a namespace that still have devices of a plugin."""
        numbers = range(len(namespace.workloads))
        return sum(self._held.get((namespace.namespace, n), Counter()).total() for n in numbers)

    def remains(self, namespace: NamespaceAudit) -> bool:
        """Whether a namespace is not translated, or has pods without claims that can have them."""
        where = namespace.namespace
        return any(
            entry.fate is Fate.TO_TRANSLATE
            and (where not in self.enforced or self._can_restart((where, number), entry))
            for number, entry in enumerate(namespace.workloads)
        )

    def has_devices(self, namespace: NamespaceAudit) -> bool:
        """Whether any pod of a namespace that waits for its translation finds a driver's node."""
        return any(
            entry.fate is Fate.TO_TRANSLATE
            and any(
                all(_fit(self._each[name], key, n) for key, n in entry.demand.devices.items() if n)
                for name in self._devices.keys() & entry.allowed_nodes
            )
            for entry in namespace.workloads
        )

    def has_room(self, namespace: NamespaceAudit) -> bool:
        """Whether the drivers have the devices of a namespace, or of one pod of idle workloads."""
        devices = {name: dict(free) for name, free in self._devices.items()}
        for number, entry in enumerate(namespace.workloads):
            if entry.fate is Fate.TO_TRANSLATE:
                idle = 1 if not entry.running else 0
                key = namespace.namespace, number
                if entry.is_daemon and self._held.get(key, Counter()).total():
                    return False  # its nodes have to move first
                pods = self._without_claims(key, entry) or idle
                if self._give(entry, pods, devices) < pods:
                    return False
        return True

    def _without_claims(self, key: tuple[str, int], entry: WorkloadAudit) -> int:
        return self._can_restart(key, entry) + self._pending[key]

    def _can_restart(self, key: tuple[str, int], entry: WorkloadAudit) -> int:
        """Return the pods with devices of a plugin that can start elsewhere.

        Those of a DaemonSet start again when their node moves.
        """
        return 0 if entry.is_daemon else self._held.get(key, Counter()).total()

    def _place(self, key: tuple[str, int], entry: WorkloadAudit, pods: int) -> None:
        """Give pods devices of drivers, as far as there are any."""
        placed = self._give(entry, pods, self._devices)
        self._on_drivers += placed
        self._waiting += pods - placed
        self._pending[key] += pods - placed

    def _give(
        self, entry: WorkloadAudit, pods: int, devices: Mapping[str, dict[str, float]]
    ) -> int:
        """Take devices for pods where they may start, and return for how many there were any.

        What others seek least goes first.
        """
        left = pods
        for name in sorted(devices.keys() & entry.allowed_nodes, key=self._order):
            demand, nodes = self._each[name], entry.allowed_nodes[name]
            rooms = [
                min(
                    int((devices[name].get(key, 0) + _SLACK) / share),
                    nodes * _fit(demand, key, share),
                )
                for key, share in entry.demand.devices.items()
                if share
            ]
            room = max(0, min([left, *rooms]))
            for key, share in entry.demand.devices.items():
                devices[name][key] = devices[name].get(key, 0) - share * room
            left -= room
        return pods - left

    def _order(self, group: str) -> tuple[object, ...]:
        return self._sought[group], group

    def _add_devices(self, group: str, demand: Mapping[str, float], number: int) -> None:
        devices = self._devices.setdefault(group, {})
        for name, share in demand.items():
            devices[name] = devices.get(name, 0) + share * number


def _open_units(entry: WorkloadAudit, group: str, pods: int) -> Counter[str]:
    """Return the units of pods of a group that run on nodes where new pods can start."""
    return _multiply(entry.demand.units, max(0, pods - entry.on_cordoned.get(group, 0)))


def _fit(offered: Mapping[str, int], name: str, share: float) -> int:
    """Return how many pods with a share of a class fit on one node."""
    return int((offered.get(name, 0) + _SLACK) / share)


def _count_open(group: Group) -> int:
    return sum(not each.unschedulable for each in group.nodes)


def _multiply(units: Mapping[str, int], number: int) -> Counter[str]:
    return Counter({name: each * number for name, each in units.items()})


def _kind(group: Group) -> tuple[str, Iterable[str]]:
    """Return what groups have in common between which pods can move."""
    return group.driver, group.product
