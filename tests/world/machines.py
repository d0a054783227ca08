"""The nodes of the world with their drivers: what they publish, and how they come and go."""

import asyncio
import random
from collections.abc import Callable, Collection, Container, Mapping
from typing import Any

from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.server import Server
from tests.world.full_nodes import FullNodes
from tests.world.nodes import Kubelet
from tests.world.objects import (
    BROKEN,
    BROKEN_TAINTS,
    DRIVER,
    NIC_DRIVER,
    NODES,
    NOT_READY,
    OUT_OF_SERVICE,
    RESOURCE,
    SCALED,
    SWAPPED,
    Shape,
    make_node,
    make_slices,
)
from tests.world.publications import Publications

_SLICE, _NODE = named("resourceslices"), named("nodes")
# A request that was decided before a drain has arrived or failed by then.
_FREE_SECONDS = 60
# From its registration until a node is ready.
READY_SECONDS = 5.0


class Machine:
    """One node. What happens to it for a while ends by itself, or with `heal`."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        server: Server,
        kubelet: Kubelet,
        *,
        has_nics: bool = False,
    ) -> None:
        self.name, self.shape, self.kubelet = name, shape, kubelet
        self.is_there, self.is_owned = name not in SCALED, name in NODES or name in SCALED
        self._server = server
        self._generation = 0
        self._lasting = BROKEN_TAINTS if name == BROKEN else {}
        self._taints: dict[str, JSON] = {**self._lasting}
        self._left_out = ""
        self._shares = True
        self.published = Publications(shape)
        self._drivers = {DRIVER} if name != SWAPPED else set[str]()
        self._drivers |= {NIC_DRIVER} if has_nics and shape.nics else set()
        kubelet.plugin = tuple(shape.devices) if name == SWAPPED else ()
        self._ends: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    def register(self) -> None:
        """Create the node, and publish its devices.

        A kubelet changes neither labels nor taints of a node that a restore has brought back.
        """
        self.is_there = True
        if self._server.store.find(_NODE, "", self.name) is None:
            self._server.put(make_node(self.name, is_owned=self.is_owned))
        self._for("start", READY_SECONDS, lambda: self._remove_taint(NOT_READY))
        self._show_plugin()
        self.publish()
        self.kubelet.start_again()

    def publish(self, pause: float = 0.0) -> None:
        """Publish the devices in a new generation, one slice after the other with a pause."""
        self._generation += 1
        generation = self._generation
        self.published.note(self._left_out, self._taints, shares=self._shares)
        shape = self.shape if self._shares else self.shape.without_shares()
        slices = make_slices(self.name, shape, generation, self._left_out, dict(self._taints))
        for number, slice_ in enumerate(slices):
            if not pause or not number:
                self._put(slice_, generation)
            else:
                loop = asyncio.get_running_loop()
                loop.call_later(pause * number, self._put, slice_, generation)
        self._withdraw({each["metadata"]["name"] for each in slices})

    def _put(self, slice_: JSON, generation: int) -> None:
        is_driver_there = slice_["spec"]["driver"] in self._drivers
        if self.is_there and is_driver_there and generation == self._generation:
            self._server.put(slice_)

    def _withdraw(self, kept: Container[str] | None = None) -> None:
        """Delete the slices of drivers that are not there; all if the machine is gone.

        Of the others, only those with these names are `kept`, if any are given.
        """
        for slice_ in [*self._server.store.among(_SLICE, "", "", f"spec.nodeName={self.name}")]:
            is_there = self.is_there and slice_["spec"]["driver"] in self._drivers
            if not is_there or (kept is not None and slice_["metadata"]["name"] not in kept):
                self._server.store.delete(_SLICE, slice_)

    def heal(self) -> None:
        """End at once what happens for a while; a new node becomes ready in its time."""
        ends = {what: each for what, each in self._ends.items() if what != "start"}
        for what in ends:
            del self._ends[what]
        for timer, end in ends.values():
            timer.cancel()
            end()
        self.kubelet.runs.set()
        if self.name in SCALED and not self.is_there:
            self.remove_objects()
        elif self._server.store.find(_NODE, "", self.name) is None:
            self.register()
        else:
            # A restore can have brought back what had ended, also the time before it was ready.
            node = self._server.store.find(_NODE, "", self.name) or {}
            ended = (OUT_OF_SERVICE, *(() if "start" in self._ends else (NOT_READY,)))
            self._change({"unschedulable": False, "taints": _without(ended, node)})
            self.show_owner()
            self._show_plugin()
            self.publish()
            self._withdraw()

    def _for(self, what: str, seconds: float, end: Callable[[], None]) -> None:
        if what in self._ends:
            self._ends.pop(what)[0].cancel()

        def finish() -> None:
            del self._ends[what]
            end()

        timer = asyncio.get_running_loop().call_later(seconds, finish)
        self._ends[what] = timer, end

    # --- what happens for a while ---

    def leave_out(self, device: str, seconds: float) -> None:
        """Publish the pool without a device."""
        self._left_out = device
        self.publish()

        def end() -> None:
            self._left_out = ""
            self.publish()

        self._for("device", seconds, end)

    def end_sharing(self, seconds: float) -> None:
        """Publish the devices with shares as whole ones."""
        self._shares = False
        self.publish()

        def end() -> None:
            self._shares = True
            self.publish()

        self._for("sharing", seconds, end)

    def taint(self, device: str, effect: str, seconds: float) -> None:
        """Publish a device with a taint."""
        self._taints[device] = {"key": "d.io/broken", "effect": effect}
        self.publish()

        def end() -> None:
            self._taints = {**self._lasting}
            self.publish()

        self._for("taint", seconds, end)

    def fail_to_prepare(self, devices: Collection[str], seconds: float) -> None:
        """Let the driver fail to prepare some devices."""
        self.kubelet.failing.update(devices)
        self._for("preparation", seconds, self.kubelet.failing.clear)

    def stop_driver(self, seconds: float) -> None:
        """Delete all slices of a driver, as one that is removed does."""
        self.withdraw_driver()
        self._for("driver", seconds, self.start_driver)

    def withdraw_driver(self) -> None:
        """Remove the driver with its slices."""
        self._drivers.discard(DRIVER)
        self._withdraw()

    def start_driver(self) -> None:
        """Start the driver, unless a plugin has its place again."""
        if not self.kubelet.plugin or "plugin" in self._ends:
            self._drivers.add(DRIVER)
        if self.is_there:
            self.publish()

    def stop_nic_driver(self, seconds: float) -> None:
        """Remove the other driver with its slices."""
        if NIC_DRIVER not in self._drivers:
            return
        self._drivers.discard(NIC_DRIVER)
        self._withdraw()

        def start() -> None:
            self._drivers.add(NIC_DRIVER)
            if self.is_there:
                self.publish()

        self._for("other driver", seconds, start)

    def replace_plugin(self, pauses: tuple[float, float, float]) -> None:
        """Give the devices to a driver on an owned node, in any order, while pods run on."""

        def own() -> None:
            self.is_owned = True
            self.show_owner()

        loop = asyncio.get_running_loop()
        parts = (own, self.start_driver, self._stop_plugin)
        self._for("plugin", max(pauses) + 0.1, lambda: None)
        for pause, part in zip(pauses, parts, strict=True):
            loop.call_later(pause, part)

    def return_plugin(self, is_free: Callable[[], bool]) -> None:
        """Give the devices back to the plugin, as soon as a drained node has been free for long."""
        self.is_owned = False
        self.show_owner()
        self.withdraw_driver()

        def look(since: int) -> None:
            since = since + 1 if is_free() else 0
            if since < _FREE_SECONDS:
                asyncio.get_running_loop().call_later(1.0, look, since)
                return
            self.kubelet.plugin = tuple(self.shape.devices)
            self._show_plugin()
            self._change({"unschedulable": False})

        self._change({"unschedulable": True})
        look(0)

    def _stop_plugin(self) -> None:
        self.kubelet.plugin = ()
        self._show_plugin()

    def _show_plugin(self) -> None:
        """Say in the status of the node what the plugin offers; its capacity lasts."""
        node = self._server.store.find(_NODE, "", self.name)
        if node is None or self.name != SWAPPED:
            return
        count = len(self.kubelet.plugin)
        capacity = f"{len(self.shape.devices)}"
        status = {"allocatable": {RESOURCE: f"{count}"}, "capacity": {RESOURCE: capacity}}
        self._server.put({**node, "status": status})

    def stop_kubelet(self, seconds: float) -> None:
        """Stop the kubelet; containers run on."""
        self.kubelet.runs.clear()
        self._for("kubelet", seconds, self._start_kubelet)

    def _start_kubelet(self) -> None:
        if self.is_there and "power" not in self._ends:
            self.kubelet.runs.set()

    def cordon(self, seconds: float) -> None:
        """Let no new pods start."""
        self._change({"unschedulable": True})
        self._for("cordon", seconds, lambda: self._change({"unschedulable": False}))

    def fill(self, seconds: float, full: FullNodes) -> None:
        """Let pods without devices use all that is left."""
        full.add(self.name)
        self._for("full", seconds, lambda: full.remove(self.name))

    def open_again(self) -> None:
        """Let new pods start, before the time of a cordon is over."""
        self._change({"unschedulable": False})

    def _change(self, spec: Mapping[str, Any]) -> None:
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            self._server.put({**node, "spec": {**node["spec"], **spec}})

    def _remove_taint(self, key: str) -> None:
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            self._change({"taints": _without((key,), node)})

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Write annotations of the node."""
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            both = {**(node["metadata"].get("annotations") or {}), **annotations}
            self._server.put({**node, "metadata": {**node["metadata"], "annotations": both}})

    def change_owner(self) -> bool:
        """Let the node become owned, or give it back; return whether it is owned now."""
        self.is_owned = not self.is_owned
        self.show_owner()
        return self.is_owned

    def show_owner(self) -> None:
        """Label the node as it is owned; our controller keeps the fence."""
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            labels = {**node["metadata"]["labels"], "pool": "bridge" if self.is_owned else "native"}
            self._server.put({**node, "metadata": {**node["metadata"], "labels": labels}})

    def lose(self, seconds: float) -> None:
        """Let the machine lose its power; an administrator says so by a taint until it is back."""
        if not self.is_there:
            return
        self.kubelet.vanish()
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            lost = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}
            taints = [*_without((OUT_OF_SERVICE,), node), lost]
            self._change({"taints": taints})

        def end() -> None:
            self._remove_taint(OUT_OF_SERVICE)
            self.kubelet.start_again()

        self._for("power", seconds, end)

    def remove(self, seconds: float) -> None:
        """Delete the machine with its containers; another one comes with its name."""
        if not self.is_there:
            return
        self.is_there = False
        self.kubelet.vanish()
        self.remove_objects()
        if self.name not in SCALED:
            self._for("machine", seconds, self.register)

    def remove_objects(self) -> None:
        """Delete the node and its slices."""
        self._withdraw()
        node = self._server.store.find(_NODE, "", self.name)
        if node is not None:
            self._server.store.delete(_NODE, node)


def _without(keys: Collection[str], node: JSON) -> list[JSON]:
    taints = node["spec"].get("taints") or ()
    return [taint for taint in taints if taint["key"] not in keys]


def draw_seconds(drawn: int, most: int = 20) -> float:
    """Return a time in seconds for what lasts a while, or a moment."""
    seconds = random.Random(drawn)
    return seconds.uniform(0.2, 2.0) if seconds.random() < 1 / 3 else seconds.uniform(2, 2 + most)
