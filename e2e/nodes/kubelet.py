"""Simulates the kubelets of all nodes.

Watches pods, and for each pod on one of its nodes runs the device checks in upstream's order, calls
NodePrepareResources over gRPC and the device plugin, and sets phase Running. When the pod ends it
calls NodeUnprepareResources. It runs no containers. e2e/README.md lists where the real one differs.
"""

import contextlib
import heapq
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.controlplane.client import JSON, ApiError, Client
from e2e.controlplane.watch import ListWatch
from e2e.nodes import podclaims, protocol
from e2e.nodes.driver import Driver
from e2e.nodes.plugin import Plugin
from e2e.nodes.record import Record, Violation

WORKERS = 8
BACKOFF_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
PREPARE_SECONDS = 10.0
NOT_FOUND, CONFLICT = 404, 409
STRATEGIC = "application/strategic-merge-patch+json"
CHECKS: Mapping[str, Callable[[JSON, JSON], str]] = {
    "NotOwned": podclaims.not_owned,
    "NotReserved": podclaims.not_reserved,
    "NotAllocated": podclaims.not_allocated,
}


class Retry(Exception):  # noqa: N818  # a request, not an accident
    """The pod cannot go on now; says why."""


@dataclass
class Prepared:
    """A claim of a node that one or more pods use; `done` when its drivers have prepared it."""

    node: str
    uid: str
    namespace: str
    name: str
    drivers: list[str]
    done: bool = False
    devices: list[Any] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    # Held during a call: preparing for one pod and unpreparing for another must not overlap.
    lock: threading.Lock = field(default_factory=threading.Lock)


class Kubelet:
    """All kubelets of the rig; `nodes` are the names it answers for."""

    def __init__(self, client: Client, record: Record) -> None:
        self.client = client
        self.record = record
        self.drivers: dict[str, Driver] = {}
        self.nodes: set[str] = set()
        self.plugins: dict[str, dict[str, Plugin]] = {}
        # Those that are gone: pods that have their units keep them.
        self._former: dict[str, dict[str, Plugin]] = {}
        self.prepared: dict[tuple[str, str], Prepared] = {}
        self.units: dict[str, dict[str, tuple[str, ...]]] = {}
        self.running: set[str] = set()
        self._pods: dict[str, JSON] = {}
        self._attempts: dict[str, int] = {}
        self._due: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._wake = threading.Condition()
        self._claims = threading.RLock()
        self._ending = False
        self._watch = ListWatch(client, "/api/v1/pods", self._told)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()
        self._watch.start()

    def stop(self) -> None:
        """End; whatever runs stays as it is."""
        self._watch.stop()
        with self._wake:
            self._ending = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(PREPARE_SECONDS + 5)

    def restart(self) -> None:
        """Forget which pods run, as a kubelet that starts anew: everything is prepared again."""
        with self._claims:
            for held in self.prepared.values():
                held.done, held.devices = False, []
        with self._wake:
            self.running.clear()
            uids = list(self._pods)
        for uid in uids:
            self._enqueue(uid)

    def unplug(self, node: str, resource: str) -> None:
        """End a plugin of a node."""
        self._former.setdefault(node, {})[resource] = self.plugins[node].pop(resource)

    def plug(self, node: str, resource: str) -> int:
        """Start a plugin that has ended; return how many units it offers."""
        plugin = self.plugins[node][resource] = self._former[node].pop(resource)
        return len(plugin.units)

    def forget(self, node: str) -> None:
        """Leave a node that is no more."""
        self.nodes.discard(node)
        self.plugins.pop(node, None)
        self._former.pop(node, None)
        with self._claims:
            self.prepared = {key: held for key, held in self.prepared.items() if key[0] != node}

    def _told(self, kind: str, pod: JSON) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"].get("nodeName") not in self.nodes and uid not in self._pods:
            return
        with self._wake:
            self._pods[uid] = {**pod, "gone": True} if kind == "DELETED" else pod
        self._enqueue(uid)

    def _enqueue(self, uid: str, seconds: float = 0) -> None:
        with self._wake:
            heapq.heappush(self._due, (time.monotonic() + seconds, uid))
            self._wake.notify()

    def _next(self) -> str | None:
        """Wait for a pod whose turn has come and that nobody else works on; None at the end."""
        with self._wake:
            while not self._ending:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    uid = heapq.heappop(self._due)[1]
                    if uid in self._busy:
                        self._again.add(uid)
                        continue
                    self._busy.add(uid)
                    return uid
                self._wake.wait(self._due[0][0] - now if self._due else None)
            return None

    def _work(self) -> None:
        while (uid := self._next()) is not None:
            try:
                self._sync(uid)
                self._attempts.pop(uid, None)
            except (Retry, ApiError, OSError) as problem:
                self._later(uid, str(problem))
            finally:
                with self._wake:
                    self._busy.discard(uid)
                    repeat = uid in self._again
                    self._again.discard(uid)
                if repeat:
                    self._enqueue(uid)

    def _later(self, uid: str, reason: str) -> None:
        """Try again, more and more slowly, and say so in an event, as the kubelet does."""
        attempt = self._attempts.get(uid, 0)
        self._attempts[uid] = attempt + 1
        pod = self._pods.get(uid)
        if pod and not pod.get("gone"):
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {reason}"
            self._event(pod, "FailedPrepareDynamicResources", message)
        self._enqueue(uid, BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)])

    def _sync(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        is_deleted = "deletionTimestamp" in pod["metadata"]
        if pod.get("gone") or is_deleted or _finished(pod):
            self._end(pod)
            if pod.get("gone"):
                self._pods.pop(uid, None)
            elif is_deleted:
                self._confirm_deletion(pod)
        elif uid not in self.running:
            self._begin(pod)

    def _begin(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        # The watch may be behind: what the controllers wrote since is needed here.
        fresh = self.client.get(_path(pod))
        if not _wanted(fresh, metadata["uid"]):
            return
        self.prepare(fresh, self._checked(fresh))
        if self._admit(fresh):
            self.client.patch(f"{_path(pod)}/status", _running(fresh), STRATEGIC)
            self.running.add(metadata["uid"])

    def _checked(self, pod: JSON) -> list[JSON]:
        """Check owner, reservation and allocation of all claims before any call is made."""
        claims = []
        for name, generated in podclaims.names(pod):
            if not name:
                raise Retry("a claim of the pod does not exist yet")
            claim = self.client.get(_claim_path(pod["metadata"]["namespace"], name))
            for code, check in CHECKS.items():
                if code == "NotOwned" and not generated:
                    continue
                if problem := check(pod, claim):
                    self._still_wanted(pod, problem)
                    subject = f"{_subject(pod)} claim {name}"
                    node = pod["spec"]["nodeName"]
                    told = f"{problem}; it has {podclaims.tell_writes(claim)}"
                    told += f"; the pod has {podclaims.tell_writes(pod)}"
                    self.record.add([Violation(code, "kubelet", node, subject, "", told)])
                    raise Retry(f"claim {name}: {problem}")
            claims.append(claim)
        return claims

    def _still_wanted(self, pod: JSON, problem: str) -> None:
        """Retry when the pod is going or gone: its claims are taken apart behind it, rightly.

        The claim was read after the pod, which may have been deleted in between. As a pod is gone
        before its claims are touched, a pod that is still there by now was really wronged.
        """
        try:
            now = self.client.get(_path(pod))
        except ApiError as missing:
            if missing.code != NOT_FOUND:
                raise
            raise Retry(f"the pod is gone, and {problem}") from missing
        if not _wanted(now, pod["metadata"]["uid"]):
            raise Retry(f"the pod is going, and {problem}")

    def prepare(self, pod: JSON, claims: list[JSON]) -> None:
        """Prepare what is not prepared yet, with one call to each driver for all claims.

        Every driver must be registered before the first of them is called.
        """
        held = [self._refer(pod, claim) for claim in claims]
        with contextlib.ExitStack() as locks:
            # In one order, because two pods may share several claims.
            for one in sorted(
                {each.uid: each for each in held}.values(), key=lambda each: each.uid
            ):
                locks.enter_context(one.lock)
            waiting = {one.uid: one for one in held if not one.done}
            for one in waiting.values():
                one.devices = []  # of an attempt that failed at another driver
            for name in sorted({name for one in waiting.values() for name in one.drivers}):
                mine = [one for one in waiting.values() if name in one.drivers]
                for one, answer in self._call(name, protocol.PREPARE, mine):
                    one.devices += [(name, device) for device in answer.devices]
            for one in waiting.values():
                one.done = True

    def _refer(self, pod: JSON, claim: JSON) -> Prepared:
        """Note that a pod uses a claim, as its drivers may have to unprepare it from now on."""
        metadata, node = claim["metadata"], pod["spec"]["nodeName"]
        names = podclaims.drivers(claim)
        for name in names:
            if name not in self.drivers:
                raise Retry(f"driver {name} is not registered")
        key = (node, metadata["uid"])
        new = Prepared(node, metadata["uid"], metadata["namespace"], metadata["name"], names)
        with self._claims:
            held = self.prepared.setdefault(key, new)
            held.pods.add(pod["metadata"]["uid"])
        return held

    def _call(self, name: str, call: str, held: list[Prepared]) -> list[tuple[Prepared, Any]]:
        """Call a driver for claims of one node, over its socket; Retry if it fails for one."""
        driver = self.drivers.get(name)
        if driver is None:
            raise Retry(f"driver {name} is not registered")
        claims = [protocol.reference(one.namespace, one.name, one.uid) for one in held]
        try:
            answer = protocol.ask(driver.socket, call, held[0].node, claims)
        except protocol.FailedError as problem:
            raise Retry(f"{call}: driver {name}: {problem}") from problem
        for claim in held:
            if claim.uid not in answer.claims:
                raise Retry(f"{call}: driver {name} says nothing of claim {claim.name}")
            if reason := answer.claims[claim.uid].error:
                raise Retry(f"{call}: driver {name}: claim {claim.name}: {reason}")
        return [(one, answer.claims[one.uid]) for one in held]

    def _admit(self, pod: JSON) -> bool:
        """Get units from the plugins; a pod that finds too few fails for good."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        plugins = self.plugins.get(node, {})
        for resource, wanted in podclaims.extended(pod, plugins).items():
            units = plugins[resource].allocate(uid, _subject(pod), wanted)
            if units is None:
                failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
                self.client.patch(f"{_path(pod)}/status", {"status": failed}, STRATEGIC)
                return False
            self.units.setdefault(uid, {})[resource] = units
        return True

    def _end(self, pod: JSON) -> None:
        """Return back everything of a pod; a claim only when no other pod here uses it."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        with self._claims:
            mine = [
                (key, held)
                for key, held in self.prepared.items()
                if key[0] == node and uid in held.pods
            ]
        for key, held in mine:
            with held.lock:
                if held.pods == {uid}:
                    for name in held.drivers:
                        self._call(name, protocol.UNPREPARE, [held])
                with self._claims:
                    held.pods.discard(uid)
                    if not held.pods:
                        self.prepared.pop(key, None)
        for plugin in (*self.plugins.get(node, {}).values(), *self._former.get(node, {}).values()):
            plugin.free(uid)
        self.units.pop(uid, None)
        self.running.discard(uid)

    def _confirm_deletion(self, pod: JSON) -> None:
        """Say that the containers have ended, as a kubelet does once devices are unprepared."""
        uid = pod["metadata"]["uid"]
        ended = {"metadata": {"uid": uid}, "status": {"phase": "Failed"}}
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        try:
            self.client.patch(f"{_path(pod)}/status", ended, STRATEGIC)
            self.client.call("DELETE", _path(pod), body)
        except ApiError as problem:
            if problem.code not in (NOT_FOUND, CONFLICT):
                raise

    def _event(self, pod: JSON, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        event = {
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reason": reason,
            "message": message[:1000],
            "type": "Warning",
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
        }
        try:
            self.client.create(f"/api/v1/namespaces/{metadata['namespace']}/events", event)
        except (ApiError, OSError):
            return  # the namespace may be going; an event is a courtesy


def _wanted(pod: JSON, uid: str) -> bool:
    """Return whether it is that very pod, and whether anybody still wants it to run."""
    metadata = pod["metadata"]
    return metadata["uid"] == uid and not metadata.get("deletionTimestamp") and not _finished(pod)


def _finished(pod: JSON) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _path(pod: JSON) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _claim_path(namespace: str, name: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"


def _subject(pod: JSON) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _running(pod: JSON) -> JSON:
    """Return the status of a pod whose containers all run."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kinds = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "simulated",
            "ready": True,
            "restartCount": 0,
            "started": True,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    status = {
        "phase": "Running",
        "startTime": now,
        "conditions": conditions,
        "containerStatuses": containers,
    }
    return {"status": status}
