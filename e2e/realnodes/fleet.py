"""Gives hardware, drivers and plugins to real nodes, by the interface of the simulated fleet."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from e2e.controlplane.client import Client
from e2e.nodes import slices
from e2e.nodes.driver import Driver
from e2e.nodes.family import FAMILIES
from e2e.nodes.fleet import STOPPED_SECONDS, Fleet, NodePlan
from e2e.nodes.layout import Layout
from e2e.nodes.machine import Machine
from e2e.nodes.node import node
from e2e.realnodes import pod_resources
from e2e.realnodes.device_plugin import DevicePlugin
from e2e.realnodes.driver import RegisteredDriver
from e2e.realnodes.node import RealNode
from e2e.realnodes.pod_resources import ContainerShare
from e2e.realnodes.rig import NodeRig

T = TypeVar("T")
OURS = "drawbridge.dev/"
# The kubelet's own labels.
KEPT = ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch")


class RealFleet(Fleet):
    """The real nodes of one rig; a scenario gives them hardware and takes it away again."""

    def __init__(self, rig: NodeRig, *, seed: int | None = None) -> None:
        super().__init__(rig.plane.admin, asleep=True, seed=seed)
        self.rig = rig
        self.plugins: dict[str, dict[str, DevicePlugin]] = {}
        self._units: dict[tuple[str, str], tuple[str, ...]] = {}
        self._labels: dict[str, list[str]] = {}
        self._clients: dict[str, Client] = {}

    def __exit__(self, *_: object) -> None:
        # Their threads would keep the process.
        for plugins in self.plugins.values():
            for plugin in plugins.values():
                plugin.stop()
        super().__exit__()

    def real_node(self, name: str) -> RealNode:
        """Return the processes of a node."""
        return self.rig.nodes[name]

    def registered(self, driver: str) -> RegisteredDriver:
        """Return a driver, with its places on the nodes."""
        registered = self.driver(driver)
        assert isinstance(registered, RegisteredDriver)
        return registered

    def node_client(self, name: str) -> Client:
        """Return the account of the node's kubelet, which its drivers use."""
        if name not in self._clients:
            token = self.rig.plane.tokens[f"system:node:{name}"]
            self._clients[name] = self.rig.plane.client(token)
        return self._clients[name]

    def _make_driver(self, name: str, folder: Path) -> Driver:
        family = FAMILIES[name]
        return RegisteredDriver(family, self.node_client, self.client, self.record, folder)

    def _for_each(self, work: Callable[[T], None], items: Iterable[T]) -> None:
        # A process ends with the thread that started it, so no other thread may start a kubelet.
        for item in items:
            work(item)

    def _start_node(self, plan: NodePlan, hardware: Machine) -> None:
        """Label the node, register its drivers, and start its plugins."""
        path = f"/api/v1/nodes/{plan.name}"
        labels = node(hardware, plan.labels)["metadata"]["labels"]
        wanted = {name: text for name, text in labels.items() if name not in KEPT}
        patched = self.client.patch(path, {"metadata": {"labels": wanted}})
        self._labels[plan.name] = list(wanted)
        self.owners[plan.name] = patched["metadata"]["uid"]
        real = self.real_node(plan.name)
        for name in plan.drivers:
            self.registered(name).attach(real)
        for resource, units in plan.plugins.items():
            self._units[plan.name, resource] = units
            self.plug(plan.name, resource)

    def drive(self, layout: Layout) -> None:
        """Start a driver on a node, which publishes a pool."""
        self.driver(layout.driver)
        self.registered(layout.driver).attach(self.real_node(layout.node))
        self.publish(layout)

    def withdraw(self, driver: str, name: str) -> None:
        """End a driver on a node, whose kubelet deletes the slices after a while."""
        self.registered(driver).stop_on(name)
        del self.published[driver, name]

    def plugged(self) -> set[str]:
        """Return the nodes with a plugin."""
        return {node for node, plugins in self.plugins.items() if plugins}

    def unplug(self, name: str, resource: str) -> None:
        """End a plugin of a node; its kubelet would keep the capacity for five minutes."""
        self.plugins[name].pop(resource).stop()
        self.wait_allocatable(name, resource, 0)
        time.sleep(STOPPED_SECONDS)
        self.restart_kubelet(name)

    def plug(self, name: str, resource: str) -> None:
        """Start a plugin on a node."""
        units = self._units[name, resource]
        plugin = DevicePlugin(self.real_node(name), resource, units, self.record)
        self.plugins.setdefault(name, {})[resource] = plugin
        plugin.start()
        self.wait_allocatable(name, resource, len(units))

    def wait_allocatable(self, name: str, resource: str, count: int) -> None:
        """Wait until a node offers so many units of a resource."""

        def offered() -> bool:
            status = self.client.get(f"/api/v1/nodes/{name}")["status"]
            return int(status["allocatable"].get(resource, "0")) == count

        self.rig.wait(f"{name} offers {resource}: {count}", offered)

    def forget_capacity(self, name: str, *resources: str) -> None:
        """Let a new kubelet forget what plugins that have ended offered."""
        self.real_node(name).restart_kubelet()
        for resource in resources:
            self._wait_no_capacity(name, resource)

    def _end_node(self, name: str) -> None:
        """Take everything from the node, with the labels that a scenario has set."""
        plugins = self.plugins.pop(name, {})
        for plugin in plugins.values():
            plugin.stop()
        if plugins:
            self.forget_capacity(name, *plugins)
        path = f"/api/v1/nodes/{name}"
        metadata = self.client.get(path)["metadata"]
        ours = (each for each in metadata["labels"] if each.startswith(OURS))
        labels = dict.fromkeys((*self._labels.pop(name, ()), *ours))
        self.client.patch(path, {"metadata": {"labels": labels}})

    def restart_kubelet(self, name: str) -> None:
        """Restart a kubelet, which deletes all slices of its node; the drivers publish again."""
        drivers = [driver for driver, node in self.published if node == name]
        before = {driver: self.registered(driver).acceptances(name) for driver in drivers}
        self.real_node(name).restart_kubelet()
        self.rig.wait(f"the kubelet of {name} deletes its slices", lambda: not self._slices(name))

        def accepted() -> bool:
            return all(self.registered(one).acceptances(name) > before[one] for one in drivers)

        self.rig.wait(f"the kubelet of {name} accepts its drivers again", accepted)
        for driver in drivers:
            self.publish(self.layout(driver, name))

    def _slices(self, name: str) -> list[object]:
        """List the slices of a node."""
        published: list[object] = self.client.get(
            slices.PATH, fieldSelector=f"spec.nodeName={name}"
        )["items"]
        return published

    def kill_node(self, name: str) -> None:
        """End a node with its containers and drivers, as a power failure does."""
        self.real_node(name).kill()
        for driver in self.drivers:
            if name in self.registered(driver).seats:
                self.registered(driver).stop_on(name)

    def start_node(self, name: str) -> None:
        """Start a node that died, and the drivers on it, which publish again."""
        self.real_node(name).start()
        self.rig.wait(f"the kubelet of {name} deletes its slices", lambda: not self._slices(name))
        for driver in self.drivers:
            if name in self.registered(driver).seats:
                self.registered(driver).start_on(name)
                self.publish(self.layout(driver, name))

    def _wait_no_capacity(self, name: str, resource: str) -> None:
        def forgotten() -> bool:
            status = self.client.get(f"/api/v1/nodes/{name}")["status"]
            return status["capacity"].get(resource, "0") == "0" and self.rig.ready(name)

        self.rig.wait(f"{name} has no capacity {resource}", forgotten)

    def shares(self, pod: Mapping[str, Any]) -> list[ContainerShare]:
        """List what the kubelet says the containers of a pod have."""
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        listed = pod_resources.shares(self.real_node(pod["spec"]["nodeName"]))
        return [one for one in listed if (one.namespace, one.pod) == key]

    def held_by(self, pod: Mapping[str, Any]) -> list[str]:
        """List the devices that the kubelet says a pod has, as driver/pool/device."""
        return sorted(map(str, {device for one in self.shares(pod) for device in one.devices}))

    def units(self, pod: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Return the units that the kubelet says a pod has, by resource."""
        units_by_name: dict[str, tuple[str, ...]] = {}
        for share in self.shares(pod):
            for resource, units in share.units.items():
                units_by_name[resource] = (*units_by_name.get(resource, ()), *units)
        return units_by_name
