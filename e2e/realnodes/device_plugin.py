"""Runs a device plugin for a real kubelet's device manager (v1beta1).

It advertises the units of one resource and answers which devices a container gets. Like a real
plugin it does not learn for which pod, nor that a pod has ended.
"""

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from e2e.nodes.messages import message_classes
from e2e.nodes.plugin import WORLD, physical
from e2e.nodes.record import Record, Violation
from e2e.nodes.service import FailedError, Method, Service, call
from e2e.realnodes.cdi import FOLDER
from e2e.realnodes.node import RealNode

VERSION = "v1beta1"
VARIABLE = "UNITS_"
LOOK_SECONDS = 0.2
M = message_classes(
    VERSION,
    {
        "DevicePluginOptions": (
            "pre_start_required:bool",
            "get_preferred_allocation_available:bool",
        ),
        "RegisterRequest": ("version", "endpoint", "resource_name", "options:DevicePluginOptions"),
        "Empty": (),
        "Device": ("ID", "health"),
        "ListAndWatchResponse": ("*devices:Device",),
        "ContainerAllocateRequest": ("*devices_ids",),
        "AllocateRequest": ("*container_requests:ContainerAllocateRequest",),
        "DeviceSpec": ("container_path", "host_path", "permissions"),
        "ContainerAllocateResponse": ("{}envs", "", "*devices:DeviceSpec"),
        "AllocateResponse": ("*container_responses:ContainerAllocateResponse",),
    },
)


def variable(resource: str) -> str:
    """Return the name of the variable that lists a container's units of a resource."""
    return VARIABLE + re.sub(r"[^A-Za-z0-9]+", "_", resource).upper()


def device_path(unit: str) -> str:
    """Return the device node of a unit in a container."""
    return f"{FOLDER}/unit_{re.sub(r'[^A-Za-z0-9]+', '_', unit).lower()}"


class DevicePlugin:
    """One resource on one node; registers again when the kubelet was started anew."""

    def __init__(
        self, node: RealNode, resource: str, units: tuple[str, ...], record: Record
    ) -> None:
        self.node = node
        self.resource = resource
        self.units = units
        self.record = record
        self.registrations = 0
        self._folder = node.path("kubelet", "device-plugins")
        self._socket = self._folder / f"{resource.replace('/', '-')}.sock"
        self._ended = threading.Event()
        self._service: Service | None = None
        self._watch = threading.Thread(target=self._keep_registered, daemon=True)

    def start(self) -> None:
        """Serve and register; a kubelet that starts anew is noticed."""
        self._register()
        self._watch.start()

    def stop(self) -> None:
        """End, as when the plugin's process ends."""
        self._ended.set()
        self._watch.join()
        if self._service:
            self._service.stop(0)
        self._socket.unlink(missing_ok=True)
        self.release(())

    def _keep_registered(self) -> None:
        # A kubelet that starts empties the folder; a plugin has no other sign of it.
        while not self._ended.wait(LOOK_SECONDS):
            if not self._socket.exists():
                with contextlib.suppress(FailedError):
                    self._register()

    def _register(self) -> None:
        if self._service:
            self._service.stop(0)
        methods = {
            "GetDevicePluginOptions": Method(M["Empty"], M["DevicePluginOptions"], self._options),
            "ListAndWatch": Method(M["Empty"], M["ListAndWatchResponse"], self._list, stream=True),
            "Allocate": Method(M["AllocateRequest"], M["AllocateResponse"], self._allocate),
        }
        self._service = Service(self._socket, f"{VERSION}.DevicePlugin", methods)
        request = M["RegisterRequest"](
            version=VERSION, endpoint=self._socket.name, resource_name=self.resource
        )
        try:
            call(
                self._folder / "kubelet.sock",
                f"/{VERSION}.Registration/Register",
                request,
                M["Empty"],
            )
        except FailedError:
            self._socket.unlink(missing_ok=True)  # tried again
            raise
        self.registrations += 1

    def _options(self, _request: Any, _metadata: Mapping[str, str]) -> Any:  # noqa: ANN401  # protobuf
        return M["DevicePluginOptions"]()

    def _list(self, _request: Any, _metadata: Mapping[str, str]) -> Iterator[Any]:  # noqa: ANN401  # protobuf
        service = self._service
        yield M["ListAndWatchResponse"](
            devices=[M["Device"](ID=unit, health="Healthy") for unit in self.units]
        )
        while not self._ended.wait(LOOK_SECONDS) and service is self._service:
            pass

    def _allocate(self, request: Any, _metadata: Mapping[str, str]) -> Any:  # noqa: ANN401  # protobuf
        answer = M["AllocateResponse"]()
        for container in request.container_requests:
            units = sorted(container.devices_ids)
            self._hold(units)
            answer.container_responses.add(
                envs={variable(self.resource): ",".join(units)},
                devices=[
                    M["DeviceSpec"](
                        container_path=device_path(unit), host_path="/dev/null", permissions="rw"
                    )
                    for unit in units
                ],
            )
        return answer

    def _hold(self, units: list[str]) -> None:
        """Record units as held; one that a driver holds is given all the same, as it is unknown."""
        elsewhere = self.record.elsewhere(WORLD)
        self.record.add(
            Violation(
                "HandedOutTwice",
                WORLD,
                self.node.name,
                self.resource,
                unit,
                f"{physical(unit)} is held by {elsewhere[physical(unit)]}",
            )
            for unit in units
            if physical(unit) in elsewhere
        )
        for unit in units:
            self.record.hold(WORLD, self._holder(unit), [physical(unit)])

    def release(self, used: "tuple[str, ...]") -> None:
        """Record units as free that no container uses, which only the kubelet knows."""
        for unit in set(self.units) - set(used):
            self.record.release(WORLD, self._holder(unit))

    def _holder(self, unit: str) -> str:
        return f"{self.node.name}/{self.resource}/{unit}"
