"""Gives a scenario its namespace, its nodes, and waits with time limits.

Nodes carry the stage's label and its pods select it, so scenarios on one cluster do not use each
other's devices. Works on any API server; `plane` is set if the rig started the control plane.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.plane import ControlPlane
from e2e.nodes.fleet import Fleet
from e2e.nodes.machine import Machine, machine
from e2e.nodes.record import Violation
from e2e.scenarios import objects
from e2e.scenarios.objects import JSON, RESOURCE

T = TypeVar("T")
LABEL = "rig.drawbridge.dev/stage"
WAIT_SECONDS, END_SECONDS = 30.0, 120.0
POLL_SECONDS = 0.02
GONE = 404
CONFLICT = 409


class TimeLimitError(AssertionError):
    """A condition was not met in time; the message contains the last state."""


class Stage:
    """One scenario's part of a cluster."""

    def __init__(
        self, name: str, version: str, client: Client, fleet: Fleet, plane: ControlPlane | None
    ) -> None:
        self.name = name[:40].strip("-")
        self.version = version
        self.client = client
        self.fleet = fleet
        self.plane = plane
        self.namespace = f"e2e-{self.name}"
        self._undo = contextlib.ExitStack()

    @property
    def processes(self) -> ControlPlane:
        """Return the control plane that the rig started."""
        assert self.plane is not None
        return self.plane

    # --- waiting -------------------------------------------------------------------------------

    def wait(self, what: str, question: Callable[[], T], seconds: float = WAIT_SECONDS) -> T:
        """Call until the result is truthy, and return it; TimeLimitError after the time limit."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer: T | None = question()
                seen = "no"
            except ApiError as problem:
                if problem.code != GONE:
                    raise
                answer, seen = None, str(problem)
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise TimeLimitError(f"not within {seconds:g} s: {what} ({seen})")
            time.sleep(POLL_SECONDS)

    def wait_running(self, name: str) -> JSON:
        """Wait until a pod runs, and return it."""
        return (
            self.wait(
                f"pod {name} runs",
                lambda: pod if _phase(pod := self.get_pod(name)) == "Running" else None,
            )
            or {}
        )

    def wait_unschedulable(self, name: str) -> None:
        """Wait until the scheduler reports a pod as unschedulable."""

        def refused() -> bool:
            conditions = self.get_pod(name).get("status", {}).get("conditions", ())
            return any(entry.get("reason") == "Unschedulable" for entry in conditions)

        self.wait(f"pod {name} is refused", refused)

    def wait_gone(self, path: str) -> None:
        """Wait until an object does not exist. A namespace ends with all that is in it."""
        self.wait(f"{path} is gone", lambda: not self.exists(path), END_SECONDS)

    def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        try:
            self.client.get(path)
        except ApiError as problem:
            if problem.code != GONE:
                raise
            return False
        return True

    # --- nodes ---------------------------------------------------------------------------------

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels of this stage's nodes."""
        return {LABEL: self.name}

    def node_name(self, suffix: str) -> str:
        """Return the name of a node of this stage."""
        return f"{self.name}-{suffix}"

    def hardware(self, suffix: str, shape: str) -> Machine:
        """Return the hardware of a node of this stage without adding it."""
        return machine(self.node_name(suffix), shape)

    def node(
        self,
        suffix: str,
        shape: str,
        drivers: Mapping[str, str | None] | None = None,
        plugins: Mapping[str, tuple[str, ...]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Machine:
        """Add a node."""
        own = {**(labels or {}), LABEL: self.name}
        return self.fleet.add(self.node_name(suffix), shape, drivers, own, plugins)

    # --- objects -------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "", group: str = "/api/v1") -> str:
        """Return the path of a collection or object in the stage's namespace."""
        collection = f"{group}/namespaces/{self.namespace}/{kind}"
        return f"{collection}/{name}" if name else collection

    def claim_path(self, name: str = "") -> str:
        """Return the path of a claim, or of all."""
        return self.path("resourceclaims", name, RESOURCE)

    def pod_path(self, name: str = "") -> str:
        """Return the path of a pod, or of all."""
        return self.path("pods", name)

    def get_pod(self, name: str) -> JSON:
        """Read a pod."""
        return self.client.get(self.pod_path(name))

    def get_claim(self, name: str) -> JSON:
        """Read a claim."""
        return self.client.get(self.claim_path(name))

    def pod(self, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Create a pod that selects this stage's nodes."""
        return self.client.create(self.pod_path(), self.pod_object(name, **spec))

    def run_pod(self, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Create a pod, and return it when it runs."""
        self.pod(name, **spec)
        return self.wait_running(name)

    def pod_object(self, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Return the pod without creating it."""
        spec.setdefault("nodeSelector", self.selector)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": objects.pod_spec(**spec),
        }

    def claim(self, name: str, spec: JSON) -> JSON:
        """Create a claim."""
        return self.client.create(self.claim_path(), {"metadata": {"name": name}, "spec": spec})

    def template(self, name: str, spec: JSON) -> JSON:
        """Create a ResourceClaimTemplate."""
        body = {"metadata": {"name": name}, "spec": {"spec": spec}}
        return self.client.create(self.path("resourceclaimtemplates", "", RESOURCE), body)

    def cluster_object(self, collection: str, body: JSON) -> JSON:
        """Create a cluster-scoped object, which is deleted with the stage.

        Waits for the end of an object of that name that an earlier stage deletes.
        """
        try:
            made = self.client.create(collection, body)
        except ApiError as problem:
            if problem.code != CONFLICT:
                raise
            self.wait_gone(f"{collection}/{body['metadata']['name']}")
            made = self.client.create(collection, body)
        self._undo.callback(self._delete, f"{collection}/{made['metadata']['name']}")
        return made

    def later(self, action: Callable[[], object]) -> None:
        """Do something when the stage ends."""
        self._undo.callback(action)

    def enter(self, context: contextlib.AbstractContextManager[T]) -> T:
        """Enter a context until the stage ends."""
        return self._undo.enter_context(context)

    def generated_claim(self, pod: str) -> str:
        """Wait for the first claim generated for a pod, and return its name."""

        def name() -> str:
            statuses = self.get_pod(pod).get("status", {}).get("resourceClaimStatuses", ())
            return str(statuses[0].get("resourceClaimName", "")) if statuses else ""

        return self.wait(f"pod {pod} has its claim", name)

    def allocated(self, name: str) -> list[JSON]:
        """Return the devices allocated to a claim."""
        claim = self.get_claim(name)
        results: list[JSON] = claim["status"]["allocation"]["devices"]["results"]
        return results

    def delete_pod(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        self.client.delete(self.pod_path(name), grace=None)
        self.wait_gone(self.pod_path(name))

    def events(self, name: str) -> list[str]:
        """List the events of a pod."""
        events = self.client.get(self.path("events"), fieldSelector=f"involvedObject.name={name}")
        return [f"{event['reason']}: {event['message']}" for event in events["items"]]

    def violations(self) -> list[Violation]:
        """Take the recorded violations; those that a scenario does not take fail it."""
        return self.fleet.record.take()

    # --- set-up and clean-up -------------------------------------------------------------------

    def set_up(self) -> None:
        """Create the namespace and wait until pods can be created in it."""
        self.client.create(
            "/api/v1/namespaces",
            {
                "metadata": {
                    "name": self.namespace,
                    "labels": {"resource.kubernetes.io/admin-access": "true"},
                }
            },
        )
        account = self.path("serviceaccounts", "default")
        self.wait("the namespace has its account", lambda: self.exists(account))

    def clean_up(self) -> None:
        """Delete everything of this stage and wait until the node side has released it."""
        for pod in self.client.get(self.pod_path())["items"]:
            self._delete(self.pod_path(pod["metadata"]["name"]), grace=None)
        self.wait("the pods are gone", lambda: not self.client.get(self.pod_path())["items"])
        self._undo.close()
        self._delete(f"/api/v1/namespaces/{self.namespace}")
        self.fleet.remove()

    def _delete(self, path: str, *, grace: int | None = 0) -> None:
        try:
            self.client.delete(path, grace=grace)
        except ApiError as problem:
            if problem.code != GONE:
                raise

    def report(self) -> Iterator[str]:
        """Yield the state of pods, claims and quotas, for failed scenarios."""
        for pod in self.client.get(self.pod_path())["items"]:
            name = pod["metadata"]["name"]
            conditions = pod.get("status", {}).get("conditions", ())
            told = [entry["message"] for entry in conditions if entry.get("message")]
            yield f"pod {name}: {_phase(pod)} on {pod['spec'].get('nodeName')}: {told}"
            yield from (f"    {event}" for event in self.events(name)[-5:])
        for claim in self.client.get(self.claim_path())["items"]:
            yield f"claim {claim['metadata']['name']}: {claim.get('status', {})}"
        for quota in self.client.get(self.path("resourcequotas"))["items"]:
            yield f"quota {quota['metadata']['name']}: {quota.get('status', {})}"


def _phase(pod: JSON) -> str:
    return str(pod.get("status", {}).get("phase", ""))
