"""Draws clusters with surprises from a seed: nodes, plugins, drivers, workloads and budgets."""

import random
from collections.abc import Iterator
from typing import Any

from tests.audit.test_cases import device_class, node_objects, pod_object

LEGACY, NIC = "nvidia.com/gpu", "openshift.io/sriov"
KINDS = ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Pod")


def draw(seed: int, nodes: int) -> list[dict[str, Any]]:
    """Return the objects of a cluster."""
    return Drawn(seed, nodes).objects


class Drawn:
    """A cluster that is being drawn."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.random = random.Random(seed)
        self.free: dict[str, dict[str, int]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.objects: list[dict[str, Any]] = []
        native = self.chance(0.3)
        self.objects.append(device_class(native=native))
        for number in range(nodes):
            self._add_node(f"n{number:03}", f"pool-{number % self.random.randint(1, 4)}")
        spaces = [f"team-{each}" for each in range(self.random.randint(1, 4))]
        for space in spaces:
            mode = self.random.choice(["", "", "off", "report", "enforce"])
            labels = {"drawbridge.dev/translate": mode} if mode else {}
            self.objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": space, "labels": labels},
                }
            )
        for number in range(self.random.randint(1, max(2, nodes))):
            self._add_workload(self.random.choice(spaces), f"w{number}")

    def chance(self, part: float) -> bool:
        """Return True in so many of all cases."""
        return self.random.random() < part

    def _add_node(self, name: str, pool: str) -> None:
        labels = {"pool": pool} if self.chance(0.8) else {}
        size = self.random.choice([1, 2, 4, 8])
        node: dict[str, Any] = {"name": name, "labels": labels, "cordoned": self.chance(0.05)}
        kind = self.random.choice(["plugin"] * 6 + ["driver", "shared", "both", "cpu", "network"])
        if kind in ("plugin", "both", "network"):
            node |= {"units": {LEGACY: size}, "plugin": ["nvidia"]}
        if kind in ("driver", "both"):
            node["publishes"] = size
        if kind == "shared":
            labels |= {"nvidia.com/gpu.count": f"{size}", "nvidia.com/gpu.replicas": "4"}
            node |= {"units": {LEGACY: size * 4}, "plugin": ["nvidia"]}
        if kind == "network":
            node["units"][NIC] = 4
            node["plugin"].append("sriov")
        if self.chance(0.05):
            node["taints"] = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]
        self.nodes[name] = node
        self.free[name] = dict(node.get("units", {}))
        self.objects += node_objects(node)

    def _add_workload(self, space: str, name: str) -> None:
        kind = self.random.choice(KINDS)
        limits = {LEGACY: self.random.choice([1, 1, 1, 2, 3])}
        if self.chance(0.15):
            limits[NIC] = 1
        if self.chance(0.1):
            limits = {}
        spec: dict[str, Any] = {}
        if self.chance(0.15):
            spec["nodeSelector"] = {"pool": f"pool-{self.random.randint(0, 3)}"}
        if self.chance(0.3):
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        labels = {"app": name}
        if self.chance(0.05):
            labels["drawbridge.dev/translate"] = "off"
        pods = 1 if kind == "Pod" else self.random.randint(1, 5)
        where = [self._place(limits, spec) for _ in range(pods)]
        if kind == "DaemonSet":
            where = [*{each: None for each in where if each}]
        for number, node in enumerate(where):
            pod: dict[str, Any] = {
                "name": f"{space}/{name}-{number}" if kind != "Pod" else f"{space}/{name}",
                "node": node,
                "limits": limits,
                "labels": labels,
                "spec": dict(spec),
                "phase": "Running" if node else "Pending",
            }
            if kind != "Pod":
                pod["owner"] = f"{kind}/{name}"
            self.objects.append(pod_object(pod))
        self.objects += self._owner(kind, space, name, labels, limits, spec, len(where))
        if self.chance(0.25) and kind in ("ReplicaSet", "StatefulSet"):
            rule = self.random.choice(
                [{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 0}]
            )
            budget = {"selector": {"matchLabels": {"app": name}}, **rule}
            self.objects.append(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": name, "namespace": space},
                    "spec": budget,
                }
            )

    def _owner(  # noqa: PLR0917  # the fields of an object
        self,
        kind: str,
        space: str,
        name: str,
        labels: dict[str, str],
        limits: dict[str, int],
        spec: dict[str, Any],
        wanted: int,
    ) -> Iterator[dict[str, Any]]:
        container = {"name": "main", "image": "x", "resources": {"limits": limits}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
        whole: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
        if kind == "Job":
            whole = {"template": template, "backoffLimit": self.random.choice([0, 1, 6])}
            group = "batch/v1"
        else:
            group = "apps/v1"
            if kind != "DaemonSet":
                whole["replicas"] = wanted
        if kind != "Pod":
            metadata = {"name": name, "namespace": space}
            yield {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": whole}

    def _place(self, limits: dict[str, int], spec: dict[str, Any]) -> str:
        """Return a node with room for a pod, and take it; nothing if there is none."""
        names = [*self.nodes]
        self.random.shuffle(names)
        for name in names:
            node = self.nodes[name]
            wanted = spec.get("nodeSelector", {})
            fits = all(self.free[name].get(key, 0) >= n for key, n in limits.items())
            is_near = all(node["labels"].get(key) == text for key, text in wanted.items())
            is_open = not node.get("taints") or "tolerations" in spec or self.chance(0.1)
            if fits and is_near and is_open and "publishes" not in node:
                for key, n in limits.items():
                    self.free[name][key] -= n
                return name
        return ""
