"""A namespace of a cluster for one reproduction, with nodes and a driver of its own.

Everything goes through `kubectl proxy`, which knows how to authenticate. Nobody stands behind nodes
and ResourceSlices: the scheduler decides by objects alone, and no kubelet runs pods.
"""

import contextlib
import http.client
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

JSON = dict[str, Any]
Seen = TypeVar("Seen")
RESOURCE = "/apis/resource.k8s.io/v1"
# How long the scheduler has for what it can do at once, also after it waited for a retry.
PATIENCE = 20.0
# How long something must not happen.
QUIET = 6.0
LOOK = 0.1


class DefectError(AssertionError):
    """The cluster does what it must not do."""


class UnclearError(RuntimeError):
    """The cluster did not come to the point where the defect shows."""


class ApiError(RuntimeError):
    """An answer of 400 and above."""

    def __init__(self, code: int, answer: JSON) -> None:
        super().__init__(f"{code}: {answer.get('message', answer)}")
        self.code = code


class Api:
    """Talks to the API server through a `kubectl proxy`."""

    def __init__(self, port: int) -> None:
        self.port = port

    def call(self, method: str, path: str, body: JSON | None = None, kind: str = "json") -> Any:  # noqa: ANN401  # JSON
        """Make one request; ApiError if it fails."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": f"application/{kind}"})
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, answer)
        return answer

    def find_version(self, group: str, resource: str) -> str:
        """Return the newest served version of a group that has a resource; empty if none has."""
        try:
            versions = self.call("GET", f"/apis/{group}")["versions"]
        except ApiError:
            return ""
        for version in versions:
            served = self.call("GET", f"/apis/{version['groupVersion']}")["resources"]
            if any(one["name"] == resource for one in served):
                return str(version["version"])
        return ""


@contextlib.contextmanager
def connected(kubeconfig: Path, kubectl: str) -> Iterator[Api]:
    """Start a proxy to the cluster of a kubeconfig."""
    command = [kubectl, f"--kubeconfig={kubeconfig}", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout
            port = re.search(r":(\d+)", proxy.stdout.readline())
            if not port:
                raise UnclearError("kubectl proxy does not start")
            yield Api(int(port[1]))
        finally:
            proxy.terminate()


class Place:
    """What one reproduction works in; it has one name for its namespace, class and driver."""

    def __init__(self, api: Api, name: str, labels: dict[str, str]) -> None:
        self.api, self.name, self.labels = api, name, labels
        self.driver = f"{name}.example.com"
        self._made: list[str] = []
        self._nodes = 0

    def __enter__(self) -> Self:
        self.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        expression = f"device.driver == '{self.driver}'"
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        self.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": self.name}, "spec": spec})
        return self

    def __exit__(self, *_: object) -> None:
        """Remove everything; pods first and at once, for no kubelet confirms their end."""
        for pod in self.objects("pods"):
            self.remove_pod(pod["metadata"]["name"])
        for path in reversed(self._made):
            with contextlib.suppress(ApiError):
                self.api.call("DELETE", path)

    def create(self, path: str, body: JSON) -> JSON:
        """Create an object, which is removed in the end."""
        made: JSON = self.api.call("POST", path, body)
        self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    def path(self, plural: str, name: str = "") -> str:
        """Return the path of objects of the namespace."""
        group = RESOURCE if plural.startswith("resourceclaim") else "/api/v1"
        return f"{group}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def objects(self, plural: str) -> list[JSON]:
        """Return the objects of the namespace."""
        return list(self.api.call("GET", self.path(plural))["items"])

    # What an administrator and a driver write.

    def node(self) -> str:
        """Create a node that is ready."""
        self._nodes += 1
        name = f"{self.name}-{self._nodes}"
        labels = {"kubernetes.io/hostname": name, **self.labels}
        self.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True", "reason": "Written"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        path = f"/api/v1/nodes/{name}/status"
        self.api.call("PATCH", path, {"status": status}, "merge-patch+json")
        return name

    def publish(
        self,
        node: str,
        devices: Sequence[JSON],
        counters: Sequence[JSON] = (),
        missing: int = 0,
    ) -> str:
        """Publish the pool of a node; return the path of the slice with the devices."""
        parts: list[JSON] = [{"devices": list(devices)}]
        parts += [{"sharedCounters": list(counters)}] if counters else []
        pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts) + missing}
        path = f"{RESOURCE}/resourceslices"
        for number, part in enumerate(parts):
            spec = {"driver": self.driver, "nodeName": node, "pool": pool, **part}
            self.create(path, {"metadata": {"name": f"{node}-{number}"}, "spec": spec})
        return f"{path}/{node}-0"

    # What a user writes.

    def template(self, *requests: JSON, name: str = "claim") -> str:
        """Create a template of claims with these requests."""
        body = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}
        self.create(self.path("resourceclaimtemplates"), body)
        return name

    def wanted(self, name: str = "r", **fields: Any) -> JSON:  # noqa: ANN401  # JSON
        """Return a request for devices of the driver."""
        return {"name": name, "exactly": self.choice(**fields)}

    def choice(self, selector: str = "", **fields: Any) -> JSON:  # noqa: ANN401  # JSON
        """Return the fields of a request, or of one of its alternatives."""
        chosen = [{"cel": {"expression": selector}}] if selector else []
        return {"deviceClassName": self.name, "selectors": chosen, **fields}

    def pod(self, name: str, template: str = "", claim: str = "", **spec: Any) -> JSON:  # noqa: ANN401  # JSON
        """Create a pod with a claim from a template, or with a named one."""
        source = {"resourceClaimTemplateName": template} if template else {}
        source |= {"resourceClaimName": claim} if claim else {}
        container: JSON = {"name": "c", "image": "none.invalid/none"}
        body: JSON = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
        if source:
            body["resourceClaims"] = [{"name": "devices", **source}]
            container["resources"] = {"claims": [{"name": "devices"}]}
        if limits := spec.pop("limits", None):
            container["resources"] = {"limits": limits}
        body |= {"terminationGracePeriodSeconds": 0, **spec}
        made: JSON = self.api.call(
            "POST", self.path("pods"), {"metadata": {"name": name}, "spec": body}
        )
        return made

    def remove_pod(self, name: str) -> None:
        """Delete a pod with force."""
        with contextlib.suppress(ApiError):
            self.api.call("DELETE", self.path("pods", name), {"gracePeriodSeconds": 0})

    def end_pod(self, name: str) -> None:
        """End a pod as a kubelet does: its containers and devices first, the object last."""
        status = {"status": {"phase": "Succeeded"}}
        path = f"{self.path('pods', name)}/status"
        self.api.call("PATCH", path, status, "merge-patch+json")
        self.remove_pod(name)

    # What is looked at.

    def get_pod(self, name: str) -> JSON:
        """Read a pod."""
        pod: JSON = self.api.call("GET", self.path("pods", name))
        return pod

    def devices(self, pod: str) -> list[str]:
        """Return pool and name of the devices allocated to the claims that are a pod's."""
        uid = self.get_pod(pod)["metadata"]["uid"]
        claims = [
            claim
            for claim in self.objects("resourceclaims")
            if any(each["uid"] == uid for each in claim["metadata"].get("ownerReferences", ()))
        ]
        return [each for claim in claims for each in allocated(claim)]

    def explain(self, pod: str) -> str:
        """Return what the scheduler says of a pod; empty if it has a node or nothing was said."""
        pod_object = self.get_pod(pod)
        conditions = pod_object.get("status", {}).get("conditions", ())
        said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        return "" if pod_object["spec"].get("nodeName") else " ".join(said)

    def has_node(self, pod: str) -> bool:
        """Return whether a pod is bound."""
        return bool(self.get_pod(pod)["spec"].get("nodeName"))

    def prepare_scheduled(self, *pods: str) -> None:
        """Wait for pods that any scheduler binds; UnclearError if it does not."""
        if not happens(lambda: all(map(self.has_node, pods))):
            raise UnclearError(f"{', '.join(pods)}: not bound: {self.explain(pods[-1])}")

    def expect_scheduled(self, *pods: str) -> None:
        """Raise DefectError if pods are not bound although there is a place for all."""
        if not happens(lambda: all(map(self.has_node, pods))):
            late = [pod for pod in pods if not self.has_node(pod)]
            said = self.explain(late[0]) if late else ""
            raise DefectError(
                f"{', '.join(late)} not bound: {said or 'the scheduler says nothing'}"
            )

    def expect_waiting(self, pod: str) -> None:
        """Raise DefectError if a pod is bound although there is no place for it."""
        if happens(lambda: self.has_node(pod), QUIET):
            raise DefectError(f"{pod} is bound, with {', '.join(self.devices(pod))}")


def allocated(claim: JSON) -> list[str]:
    """Return pool and name of the devices of a claim."""
    allocation = claim.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", ())
    return [f"{each['pool']}/{each['device']}" for each in results]


def happens(look: Callable[[], Seen], seconds: float = PATIENCE) -> Seen | None:
    """Return the first true answer; none if there is none in time."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(ApiError):
            if seen := look():
                return seen
        if time.monotonic() > end:
            return None
        time.sleep(LOOK)


def counter_set(amount: int, name: str = "set") -> JSON:
    """Return a set with one counter."""
    return {"name": name, "counters": {"units": {"value": f"{amount}"}}}


def device(name: str, consumed: int = 0, **fields: Any) -> JSON:  # noqa: ANN401  # JSON
    """Return a device that may consume the counter of the set."""
    if consumed:
        units = {"units": {"value": f"{consumed}"}}
        fields["consumesCounters"] = [{"counterSet": "set", "counters": units}]
    return {"name": name, **fields}


def kind_of(driver: str, value: str) -> str:
    """Return a selector of devices whose attribute `kind` has this value."""
    return f"device.attributes['{driver}'].kind == '{value}'"


def has_kind(value: str) -> JSON:
    """Return the attribute `kind`."""
    return {"kind": {"string": value}}
