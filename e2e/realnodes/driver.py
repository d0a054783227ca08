"""Runs a simulated driver on real nodes: one server and one registration on each node.

What it publishes, checks and records is that of `e2e.nodes`. Here it also writes the CDI specs of
what it prepares, and each node's driver has the account of its kubelet.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.controlplane.client import Client
from e2e.nodes import protocol
from e2e.nodes.driver import Driver
from e2e.nodes.family import Family
from e2e.nodes.record import Record
from e2e.nodes.service import Service
from e2e.realnodes import cdi
from e2e.realnodes.node import RealNode
from e2e.realnodes.registration import Registration

# The kubelet's folder of plugins, as the kubelet sees it.
PLUGINS = Path("/var/lib/kubelet/plugins")
ACCEPTED_SECONDS = 30


@dataclass
class Seat:
    """A driver's place on one node: its sockets and its servers while it runs."""

    node: RealNode
    service: Service | None = None
    registration: Registration | None = None
    injected: dict[str, Path] = field(default_factory=dict)

    def stop(self) -> None:
        """End both servers, as when the driver's process ends."""
        for server in (self.registration, self.service):
            if server is not None:
                server.stop()
        self.registration = self.service = None


class RegisteredDriver(Driver):
    """One driver family on any number of real nodes."""

    def __init__(
        self,
        family: Family,
        client_of: Callable[[str], Client],
        admin: Client,
        record: Record,
        folder: Path,
    ) -> None:
        self.seats: dict[str, Seat] = {}
        self._client_of = client_of
        super().__init__(family, admin, record, folder)

    def node_client(self, node: str) -> Client:
        """Return the account of the node's kubelet."""
        return self._client_of(node)

    def _serve(self) -> "RegisteredDriver":
        for seat in self.seats.values():
            self._serve_on(seat)
        return self

    def stop(self) -> None:
        """End the driver on every node."""
        for seat in self.seats.values():
            seat.stop()

    # --- one node ------------------------------------------------------------------------------

    def attach(self, node: RealNode) -> None:
        """Run on a node; returns when the kubelet has accepted the driver."""
        if node.name in self.seats:
            self.seats[node.name].stop()
        self.seats[node.name] = Seat(node)
        self.start_on(node.name)

    def start_on(self, name: str) -> None:
        """Start on a node, also after `stop_on`; returns when the kubelet has accepted it."""
        seat = self.seats[name]
        self._serve_on(seat)
        self.wait_accepted(name)

    def acceptances(self, name: str) -> int:
        """Return how often the kubelet of a node has accepted the driver since it started."""
        registration = self.seats[name].registration
        return registration.acceptances if registration else 0

    def wait_accepted(self, name: str) -> None:
        """Wait until the kubelet of a node has accepted the driver."""
        registration = self.seats[name].registration
        assert registration is not None, f"{self.family.driver} does not run on {name}"
        accepted = registration.accepted.wait(ACCEPTED_SECONDS)
        assert accepted, f"the kubelet of {name} refuses {self.family.driver}: {registration.error}"

    def _serve_on(self, seat: Seat) -> None:
        name = self.family.driver
        folder = seat.node.path("kubelet", "plugins", name)
        folder.mkdir(parents=True, exist_ok=True)
        seat.service = protocol.serve(folder / "dra.sock", self.handlers(), seat.node.name)
        watched = seat.node.path("kubelet", "plugins_registry", f"{name}-reg.sock")
        seat.registration = Registration(watched, name, PLUGINS / name / "dra.sock")

    def stop_on(self, name: str) -> None:
        """End on one node, as when the driver's process there is killed."""
        self.seats[name].stop()

    def forget(self, node: str) -> None:
        """Leave a node for good."""
        seat = self.seats.pop(node, None)
        if seat is not None:
            seat.stop()
            for spec in seat.injected.values():
                spec.unlink(missing_ok=True)
        super().forget(node)

    # --- what containers get ---------------------------------------------------------------------

    def prepare(self, node: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
        """Prepare one claim, and tell containerd what its containers get."""
        answer = super().prepare(node, namespace, name, uid)
        seat = self.seats[node]
        devices = self.injected(node, uid)
        path = seat.node.path("cdi", f"{self.family.driver}-{uid}.json")
        whole = path.with_suffix(".part")
        whole.write_text(json.dumps(cdi.spec(self.kind, devices)), encoding="utf-8")
        whole.replace(path)
        seat.injected[uid] = path
        return answer

    @property
    def kind(self) -> str:
        """Return the CDI kind of the driver's devices."""
        return f"k8s.{self.family.driver}/claim"

    def injected(self, node: str, uid: str) -> list[cdi.InjectedDevice]:
        """List what the containers of a prepared claim get, in the order of its results."""
        station = self.stations[node]
        devices = {**station.retired, **station.layout.devices}
        return [
            cdi.InjectedDevice(
                self._device(node, uid, result)["cdi_device_ids"][0].partition("=")[2],
                self.family.driver,
                result.pool,
                result.device,
                devices[result.device].physical,
                result.share,
                result.consumed,
            )
            for result in station.prepared[uid].results
        ]

    def unprepare(self, node: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
        """Return what was prepared; containerd forgets it too."""
        answer = super().unprepare(node, namespace, name, uid)
        seat = self.seats.get(node)
        path = seat.injected.pop(uid, None) if seat else None
        if path:
            path.unlink(missing_ok=True)
        return answer
