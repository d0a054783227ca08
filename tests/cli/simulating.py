"""A small cluster, one-line pods and claims, and a runner, for the tests of `simulate`."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.cli.running import command

SAMPLES = Path(__file__).parent.parent.parent / "examples"

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {zone: b}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: d.io
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: x}, {name: w}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s2}
spec:
  driver: d.io
  nodeName: n2
  pool: {name: n2, generation: 1, resourceSliceCount: 1}
  devices:
  - name: z
    allowMultipleAllocations: true
    capacity: {memory: {value: 10Gi}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec:
  metadata: {labels: {l: v}}
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: share}
spec:
  spec:
    devices:
      requests:
      - name: r
        exactly: {deviceClassName: gpu, capacity: {requests: {memory: 6Gi}}}
"""
ONLY_N1 = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
}


def pod(
    name: str, claims: str = "{name: g, resourceClaimTemplateName: one}", spec: str = ""
) -> str:
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  resourceClaims: [{claims}]
  containers: [{{name: main}}]
  {spec}
"""


def claim(name: str, allocation: str = "", count: int = 1) -> str:
    status = f"status: {{allocation: {allocation}}}" if allocation else ""
    return f"""\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu, count: {count}}}}}]}}}}
{status}
"""


X = "{devices: {results: [{request: r, driver: d.io, pool: n1, device: x}]}}"


class Run:
    """Runs the command on files in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, pods: str, *arguments: str, cluster: str = CLUSTER) -> tuple[int, Any, str]:
        """Return the exit code, the JSON output and the error output."""
        (self.folder / "cluster.yaml").write_text(cluster)
        (self.folder / "pods.yaml").write_text(pods)
        options = ["--cluster", str(self.folder / "cluster.yaml")]
        if pods:
            options += ["-f", str(self.folder / "pods.yaml")]
        code, out, err = simulate(*options, *arguments, "-o", "json")
        return code, json.loads(out), err


simulate = partial(command, "simulate")


def nodes(printed: Any) -> list[str | None]:  # noqa: ANN401  # JSON
    return [each["node"] for each in printed["pods"]]


def devices(entry: Any) -> list[str]:  # noqa: ANN401  # JSON
    allocations = (each["allocation"] for each in entry["claims"])
    return [
        result["device"]
        for allocation in allocations
        for result in allocation["devices"].get("results", [])
    ]


def codes(entry: Any) -> list[str]:  # noqa: ANN401  # JSON
    return [each["code"] for each in entry["reasons"]]
