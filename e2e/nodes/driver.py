"""Simulates a node driver: one gRPC server on a unix socket for many nodes.

A real driver runs once for each node. Here one process serves all nodes, and the metadata of a call
(`node`) names the kubelet. Prepared claims are kept in a checkpoint file and survive `restart`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from e2e.controlplane.client import JSON, ApiError, Client
from e2e.nodes import order, protocol
from e2e.nodes.checks import DriverState
from e2e.nodes.family import Family
from e2e.nodes.layout import Device, Layout
from e2e.nodes.order import Order
from e2e.nodes.record import Record, Violation

M = protocol.MESSAGES


@dataclass
class Station:
    """What the driver knows of one node."""

    layout: Layout
    retired: dict[str, Device] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    prepared: dict[str, Order] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_POLL_SECONDS = 0.05


@dataclass
class Mood:
    """How the driver misbehaves. Calls that are slow end when the driver is no longer slow."""

    slow_seconds: float = 0
    failures: int = 0
    crash_before_answer: bool = False


class Driver:
    """One driver family on any number of nodes."""

    def __init__(self, family: Family, client: Client, record: Record, folder: Path) -> None:
        self.family = family
        self.client = client
        self.record = record
        self.mood = Mood()
        self.socket = folder / f"{family.driver}.sock"
        self.checkpoint = folder / f"{family.driver}.json"
        self.stations: dict[str, Station] = {}
        self.calls = {protocol.PREPARE: 0, protocol.UNPREPARE: 0}
        self._guard = threading.Lock()
        self._server = self._serve()

    def _serve(self) -> "Server":
        return protocol.serve(self.socket, self.handlers())

    def handlers(self) -> dict[str, protocol.Handler]:
        """Return what answers each call."""
        return {
            protocol.PREPARE: partial(self._each, protocol.PREPARE, self.prepare),
            protocol.UNPREPARE: partial(self._each, protocol.UNPREPARE, self.unprepare),
        }

    def stop(self) -> None:
        """End the server."""
        self._server.stop()

    def restart(self) -> None:
        """End, forget everything that is not in the checkpoint, and start again."""
        self.stop()
        saved = json.loads(self.checkpoint.read_text()) if self.checkpoint.exists() else {}
        for node, station in self.stations.items():
            station.prepared = {uid: _revive(data) for uid, data in saved.get(node, {}).items()}
        self.mood = Mood()
        self._server = self._serve()

    def settle(self, layout: Layout, lost: Iterable[str] = ()) -> None:
        """Take over what is published of a node from now on."""
        station = self.stations.get(layout.node)
        if station is None:
            self.stations[layout.node] = Station(layout, lost=frozenset(lost))
            return
        with station.lock:
            station.retired |= station.layout.devices
            station.lost |= frozenset(lost)
            station.layout = layout

    def forget(self, node: str) -> None:
        """Leave a node that is no more."""
        station = self.stations.pop(node, None)
        for uid in station.prepared if station else ():
            self.record.release(self.family.driver, uid)

    def _each(self, call: str, work: "Work", node: str, request: Any) -> Any:  # noqa: ANN401  # protobuf
        """Answer for every claim that was sent, whatever becomes of the others."""
        answer, entry = M[f"{call}Response"](), M[f"{call[:-1]}Response"]
        self._misbehave(call)
        for claim in request.claims:
            try:
                devices = work(node, claim.namespace, claim.name, claim.uid)
                answer.claims[claim.uid].CopyFrom(entry(**devices))
            except (Refused, ApiError, OSError) as problem:
                answer.claims[claim.uid].CopyFrom(entry(error=str(problem)))
        if self.mood.crash_before_answer:
            self.mood = Mood()
            raise protocol.FailedError("the driver ended before it answered")
        return answer

    def _misbehave(self, call: str) -> None:
        with self._guard:
            self.calls[call] += 1
            failing = self.mood.failures > 0
            self.mood.failures -= failing
        end = time.monotonic() + self.mood.slow_seconds
        while self.mood.slow_seconds and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        if failing:
            raise protocol.FailedError("the driver fails on request")

    def node_client(self, node: str) -> Client:  # noqa: ARG002  # where nodes have accounts, it counts
        """Return the account of the driver on a node."""
        return self.client

    def prepare(self, node: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
        """Prepare one claim on one node, or refuse it and record why."""
        claim = self._fetch(node, namespace, name, uid)
        station = self.stations.get(node)
        if station is None:
            raise Refused(f"the driver does not run on node {node!r}")
        wanted = order.read(self.family.driver, node, claim, partial(self._applies, station))
        with station.lock:
            own = station.prepared.get(uid)
            self._check(station, wanted, own)
            if own is None:
                station.prepared[uid] = wanted
                self._save()
                devices = (
                    station.layout.devices[result.device]
                    for result in wanted.results
                    if not result.admin
                )
                self.record.hold(self.family.driver, uid, [device.physical for device in devices])
        return {"devices": [self._device(node, uid, result) for result in wanted.results]}

    def _applies(self, station: Station, name: str, parameters: JSON) -> bool:
        """Tell whether a configuration for all requests is for the kind of a device."""
        device = station.layout.devices.get(name)
        kind = self.family.configs.get(parameters.get("kind", ""), ("",))[0]
        return device is None or not kind or kind == device.kind

    def _fetch(self, node: str, namespace: str, name: str, uid: str) -> JSON:
        """Do what the driver library does first: get the claim, see that it is the one meant."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
        claim = self.node_client(node).get(path)
        subject = f"{namespace}/{name}"
        if not claim.get("status", {}).get("allocation"):
            self._refuse("NotAllocated", node, subject, "", "the claim is not allocated")
        if claim["metadata"]["uid"] != uid:
            self._refuse("ClaimReplaced", node, subject, "", "the claim has another UID by now")
        return claim

    def _check(self, station: Station, wanted: Order, own: Order | None) -> None:
        others = tuple(held for uid, held in station.prepared.items() if uid != wanted.uid)
        bench = DriverState(
            station.layout,
            station.retired,
            station.lost,
            others,
            own,
            self.record.elsewhere(self.family.driver),
            self.family.configs,
            self.family.group,
        )
        # A repeated call for something prepared is answered from the checkpoint: the hardware may
        # have been lost since, but that is no longer a question of preparing it.
        names = ("AllocationChanged",) if own else self.family.checks
        problems = [
            Violation(
                name, self.family.driver, wanted.node, wanted.claim, trip.device, trip.message
            )
            for name in names
            for trip in self.family.checks[name](wanted, bench)
        ]
        if problems:
            self.record.add(problems)
            raise Refused("; ".join(f"{trip.device}: {trip.message}" for trip in problems))

    def _refuse(self, code: str, node: str, subject: str, device: str, message: str) -> None:
        self.record.add([Violation(code, self.family.driver, node, subject, device, message)])
        raise Refused(message)

    def _device(self, node: str, uid: str, result: order.Result) -> dict[str, Any]:
        share = {"share_id": result.share} if result.share else {}
        suffix = f"-{result.share}" if result.share else ""
        return {
            "request_names": [result.request.partition("/")[0]],
            "pool_name": node,
            "device_name": result.device,
            "cdi_device_ids": [f"k8s.{self.family.driver}/claim={uid}-{result.device}{suffix}"],
            **share,
        }

    def unprepare(self, node: str, _namespace: str, _name: str, uid: str) -> dict[str, Any]:
        """Return back what was prepared; the claim itself may be gone, and so may be the node."""
        station = self.stations.get(node)
        if station:
            with station.lock:
                if station.prepared.pop(uid, None):
                    self.record.release(self.family.driver, uid)
                    self._save()
        return {}

    def _save(self) -> None:
        with self._guard:
            saved = {
                node: {uid: asdict(held) for uid, held in station.prepared.copy().items()}
                for node, station in self.stations.copy().items()
                if station.prepared
            }
            whole = self.checkpoint.with_suffix(".new")
            whole.write_text(json.dumps(saved))
            whole.replace(self.checkpoint)


class Refused(Exception):  # noqa: N818  # an answer, not an accident
    """The driver does not prepare the claim; says why."""


class Server(Protocol):
    """What serves the calls until it is stopped."""

    def stop(self) -> None:
        """End it."""


Work = Callable[[str, str, str, str], dict[str, Any]]


def _revive(data: JSON) -> Order:
    results = tuple(order.Result(**result) for result in data["results"])
    return Order(**{**data, "results": results})
