"""Manages simulated nodes with their drivers, plugins and kubelet on any API server.

with Fleet(client) as fleet:
    fleet.add("gpu-1", "dgx-a100", drivers={"gpu.nvidia.com": "full", "dra.net": None})
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from e2e.controlplane.client import Client
from e2e.nodes import node, slices
from e2e.nodes.driver import Driver
from e2e.nodes.family import FAMILIES
from e2e.nodes.kubelet import Kubelet
from e2e.nodes.layout import Layout
from e2e.nodes.machine import Machine, machine
from e2e.nodes.plugin import Plugin
from e2e.nodes.record import Record

WRITERS = 8
# Until the controller has seen that a plugin has ended.
STOPPED_SECONDS = 5.0
T = TypeVar("T")


@dataclass(frozen=True)
class NodePlan:
    """One node to be: its shape, drivers with their modes, plugins as resource -> units.

    The kubelet registers the node with the taints.
    """

    name: str
    shape: str
    drivers: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


class Fleet:
    """All simulated nodes of one rig; `asleep` ones publish, but no pod ever starts on them.

    With a seed, drivers publish their devices in an order that depends on it and on how often they
    have published; without, in the order of the machine.
    """

    def __init__(self, client: Client, *, asleep: bool = False, seed: int | None = None) -> None:
        self.client = client
        self.asleep = asleep
        self.seed = seed
        self.record = Record()
        self.kubelet = Kubelet(client, self.record)
        self.machines: dict[str, Machine] = {}
        self.published: dict[tuple[str, str], Layout] = {}
        self.times_published: Counter[tuple[str, str]] = Counter()
        self.owners: dict[str, str] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="drawbridge-nodes-")

    def __enter__(self) -> Self:
        if not self.asleep:
            self.kubelet.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.asleep:
            self.kubelet.stop()
        for driver in self.drivers.values():
            driver.stop()
        self._folder.cleanup()

    @property
    def drivers(self) -> dict[str, Driver]:
        """Return the drivers started so far."""
        return self.kubelet.drivers

    def driver(self, name: str) -> Driver:
        """Return a driver, started when it is first needed."""
        if name not in self.drivers:
            self.drivers[name] = self._make_driver(name, Path(self._folder.name))
        return self.drivers[name]

    def _make_driver(self, name: str, folder: Path) -> Driver:
        return Driver(FAMILIES[name], self.client, self.record, folder)

    def node_client(self, _name: str) -> Client:
        """Return the account that publishes the devices of a node."""
        return self.client

    def add(  # a node's plan, field by field
        self,
        name: str,
        shape: str,
        drivers: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str] | None = None,
        plugins: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Machine:
        """Create one node and publish its devices."""
        plan = NodePlan(name, shape, drivers or {}, labels or {}, plugins or {})
        self.add_all([plan])
        return self.machines[name]

    def add_all(self, plans: Iterable[NodePlan]) -> None:
        """Create many nodes at once."""
        plans = list(plans)
        for plan in plans:
            for name in plan.drivers:
                self.driver(name)
        self._for_each(self._add, plans)

    def _for_each(self, work: Callable[[T], None], items: Iterable[T]) -> None:
        """Do the same for many nodes at once."""
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(work, items))

    def _add(self, plan: NodePlan) -> None:
        hardware = machine(plan.name, plan.shape)
        self.machines[plan.name] = hardware
        self._start_node(plan, hardware)
        for name, mode in plan.drivers.items():
            self.publish(FAMILIES[name].publish(hardware, mode))

    def _start_node(self, plan: NodePlan, hardware: Machine) -> None:
        """Create the node with its plugins, before its drivers publish."""
        counts = {resource: len(units) for resource, units in plan.plugins.items()}
        body = node.node(hardware, plan.labels, counts, plan.taints)
        self.owners[plan.name] = self.client.create("/api/v1/nodes", body)["metadata"]["uid"]
        self.kubelet.plugins[plan.name] = {
            resource: Plugin(plan.name, resource, units, self.record)
            for resource, units in plan.plugins.items()
        }
        self.kubelet.nodes.add(plan.name)

    def publish(self, layout: Layout, *, lost: Iterable[str] = (), whole: bool = True) -> None:
        """Publish a pool, or what it is now."""
        key = (layout.driver, layout.node)
        self.driver(layout.driver).settle(layout, lost)
        self.times_published[key] += 1
        client, owner = self.node_client(layout.node), self.owners.get(layout.node, "")
        slices.publish(client, self._in_order(layout), owner, whole=whole)
        self.published[key] = layout

    def drive(self, layout: Layout) -> None:
        """Start a driver on a node, which publishes a pool."""
        self.publish(layout)

    def withdraw(self, driver: str, name: str) -> None:
        """End a driver on a node: its slices go."""
        slices.withdraw(self.client, self.published.pop((driver, name)))

    def plugged(self) -> set[str]:
        """Return the nodes with a plugin."""
        return {node for node, plugins in self.kubelet.plugins.items() if plugins}

    def unplug(self, name: str, resource: str) -> None:
        """End a plugin of a node."""
        self._offer(name, resource, 0, len(self.kubelet.plugins[name][resource].units))
        self.kubelet.unplug(name, resource)
        # A kubelet keeps the capacity for five minutes.
        time.sleep(STOPPED_SECONDS)
        self._offer(name, resource, 0, 0)

    def plug(self, name: str, resource: str) -> None:
        """Start a plugin that has ended, with what its pods still have."""
        count = self.kubelet.plug(name, resource)
        self._offer(name, resource, count, count)

    def _offer(self, name: str, resource: str, count: int, capacity: int) -> None:
        amounts = {"allocatable": {resource: f"{count}"}, "capacity": {resource: f"{capacity}"}}
        status = {"status": amounts}
        self.client.patch(f"/api/v1/nodes/{name}/status", status)

    def _in_order(self, layout: Layout) -> Layout:
        """Put devices in the order in which the driver lists them this time."""
        if self.seed is None:
            return layout
        times = self.times_published[layout.driver, layout.node]
        # Threads publish in no order, so each pool has its own sequence.
        return layout.shuffled(random.Random(f"{self.seed} {layout.driver} {layout.node} {times}"))

    @contextmanager
    def listing_in_order(self) -> Iterator[None]:
        """Let drivers publish their devices in the order of the machine meanwhile."""
        seed, self.seed = self.seed, None
        try:
            yield
        finally:
            self.seed = seed

    def layout(self, driver: str, name: str) -> Layout:
        """Return what a driver publishes of a node now."""
        return self.published[driver, name]

    def lose(self, driver: str, name: str, device: str) -> None:
        """Let a device fail: the driver publishes the pool without it."""
        self.publish(self.layout(driver, name).without([device]), lost=[device])

    def taint(self, driver: str, name: str, device: str, taint: dict[str, Any]) -> None:
        """Publish a pool with one device tainted."""
        self.publish(self.layout(driver, name).tainted(device, taint))

    def remove(self, names: Iterable[str] | None = None) -> None:
        """Delete nodes (all, if none are named) with everything published of them."""
        gone = list(self.machines) if names is None else list(names)
        self._for_each(self._remove, gone)

    def _remove(self, name: str) -> None:
        for key in [key for key in list(self.published) if key[1] == name]:
            layout = self.published.pop(key)
            slices.withdraw(self.client, layout)
            self.driver(layout.driver).forget(name)
        self.machines.pop(name, None)
        self._end_node(name)

    def _end_node(self, name: str) -> None:
        """Delete the node; its kubelet forgets it."""
        self.kubelet.forget(name)
        self.client.delete_if_there(f"/api/v1/nodes/{name}")

    def held_by(self, pod: Mapping[str, Any]) -> list[str]:
        """List what the drivers prepared for a pod, as driver/pool/device."""
        uid = pod["metadata"]["uid"]
        return sorted(
            f"{driver}/{device.pool_name}/{device.device_name}"
            for held in list(self.kubelet.prepared.values())
            if uid in held.pods
            for driver, device in held.devices
        )

    def units(self, pod: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Return the units that the plugins have given a pod, by resource."""
        return self.kubelet.units.get(pod["metadata"]["uid"], {})

    def prepared(self, driver: str, name: str) -> list[str]:
        """List the UIDs of the claims that a driver has prepared on a node."""
        station = self.driver(driver).stations.get(name)
        return sorted(station.prepared) if station else []
