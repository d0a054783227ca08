"""Faults of objects: each begins on a cluster, and returns what it was and what ends it."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from e2e.bridge.placement import LEASE, OWNED
from e2e.controlplane.client import JSON, ApiError, Client
from e2e.installed.installation import NAMESPACE
from e2e.nodes import slices
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.objects import RESOURCE
from e2e.scenarios.stage import LABEL
from e2e.soak.cluster import SoakCluster, tolerant
from e2e.soak.pods import NODES, node_plans
from e2e.soak.process_faults import Begun, nothing

POLICIES = "/apis/admissionregistration.k8s.io/v1"
FINALIZER = "rig.drawbridge.dev/stays"
TAINT = {"key": "rig.drawbridge.dev/bad", "effect": "NoSchedule", "value": "soak"}


def take_lease(cluster: SoakCluster) -> Begun:
    """Give the Lease to somebody who does not exist; it expires as any other."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"holderIdentity": "nobody_0", "acquireTime": now, "renewTime": now}
    cluster.client.patch(LEASE, {"spec": body})
    return "nobody holds it", nothing


def _plan(cluster: SoakCluster, node: str) -> NodePlan:
    labels = {LABEL: cluster.stage.name, **OWNED}
    position = cluster.nodes.index(node) % len(NODES)
    return node_plans([node] * len(NODES), labels)[position]


def remove_node(cluster: SoakCluster) -> Begun:
    """Delete a node with its slices; what ran there is gone. It comes back empty."""
    (node,) = cluster.take_nodes(1)
    cluster.attempt(partial(cluster.stage.fleet.remove, [node]))

    def come_back() -> None:
        _forget_pods(cluster.client, node)
        try:
            cluster.stage.fleet.add_all([_plan(cluster, node)])
        except ApiError:
            # It is there in part: the next attempt begins anew.
            cluster.stage.fleet.remove([node])
            _delete_slices(cluster.client, node)
            raise
        cluster.touched.discard(node)

    return node, come_back


def _delete_slices(client: Client, node: str) -> None:
    selector = f"spec.nodeName={node}"
    for item in client.get(slices.PATH, fieldSelector=selector)["items"]:
        tolerant(partial(client.delete, f"{slices.PATH}/{item['metadata']['name']}"))


def _forget_pods(client: Client, node: str) -> None:
    """Delete the pods of a machine that is gone: nobody confirms that they ended."""
    pods = client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    for pod in pods:
        tolerant(partial(client.delete, _path(pod)))


def cordon(cluster: SoakCluster) -> Begun:
    """Cordon some nodes."""
    names = cluster.take_nodes(cluster.random.randrange(1, 6))

    for name in names:
        body = {"spec": {"unschedulable": True}}
        cluster.attempt(partial(cluster.client.patch, f"/api/v1/nodes/{name}", body))

    def uncordon() -> None:
        for name in names:
            cluster.client.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
        cluster.touched.difference_update(names)

    return ", ".join(names), uncordon


def _pool(cluster: SoakCluster) -> tuple[str, str]:
    """Draw a pool of a node that no other fault has."""
    (node,) = cluster.take_nodes(1)
    keys = sorted(key for key in cluster.layouts if key[1] == node)
    return cluster.random.choice(keys)


def _restore(cluster: SoakCluster, key: tuple[str, str]) -> None:
    cluster.stage.fleet.publish(cluster.layouts[key])
    cluster.touched.discard(key[1])


def withdraw_pool(cluster: SoakCluster) -> Begun:
    """Delete the slices of a pool, as a kubelet does when the driver is gone."""
    key = _pool(cluster)
    layout = cluster.stage.fleet.layout(*key)
    cluster.attempt(partial(slices.withdraw, cluster.client, layout))
    return f"{key[0]} of {key[1]}", partial(_restore, cluster, key)


def publish_half(cluster: SoakCluster) -> Begun:
    """Publish half of the next generation of a pool."""
    key = _pool(cluster)
    layout = cluster.layouts[key]
    cluster.attempt(partial(cluster.stage.fleet.publish, layout, whole=False))
    return f"{key[0]} of {key[1]}", partial(_restore, cluster, key)


def publish_again(cluster: SoakCluster) -> Begun:
    """Publish some pools again, in another order, as drivers that start."""
    keys = [_pool(cluster) for _ in range(5)]

    def publish() -> None:
        while keys:
            _restore(cluster, keys[-1])
            keys.pop()

    return ", ".join(node for _, node in keys), publish


def taint_device(cluster: SoakCluster) -> Begun:
    """Publish a pool with one device tainted."""
    key = _pool(cluster)
    device = cluster.random.choice(sorted(cluster.layouts[key].devices))
    layout = cluster.layouts[key].tainted(device, dict(TAINT))
    cluster.attempt(partial(cluster.stage.fleet.publish, layout))
    return f"{device} of {key[1]}", partial(_restore, cluster, key)


def remove_fence(cluster: SoakCluster) -> Begun:
    """Remove the taints of some nodes; the controller adds them again."""
    names = cluster.random.sample(cluster.nodes, 3)
    for name in names:
        path = f"/api/v1/nodes/{name}"
        tolerant(partial(cluster.client.patch, path, {"spec": {"taints": None}}))
    return ", ".join(names), nothing


def _refuse(cluster: SoakCluster, name: str, rule: JSON, condition: str) -> Callable[[], None]:
    """Let a policy refuse updates; returns what removes it."""
    spec: JSON = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "whom", "expression": condition}],
        "validations": [{"expression": "false", "message": "refused by the rig"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    paths = [
        f"{POLICIES}/validatingadmissionpolicybindings",
        f"{POLICIES}/validatingadmissionpolicies",
    ]
    for path, body in zip(reversed(paths), (spec, binding), strict=True):
        create = partial(cluster.client.create, path, {"metadata": {"name": name}, "spec": body})
        cluster.attempt(create)

    def allow() -> None:
        for path in paths:
            tolerant(partial(cluster.client.delete, f"{path}/{name}"))

    return allow


def _rule(group: str, resource: str) -> JSON:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [resource, f"{resource}/status"],
    }


OURS = f"request.userInfo.username.startsWith('system:serviceaccount:{NAMESPACE}:')"


def freeze_node(cluster: SoakCluster) -> Begun:
    """Remove the fence of a node, and refuse Drawbridge every update of it."""
    (node,) = cluster.take_nodes(1)
    rule = _rule("", "nodes") | {"resourceNames": [node]}
    tolerant(partial(cluster.client.patch, f"/api/v1/nodes/{node}", {"spec": {"taints": None}}))
    allow = _refuse(cluster, f"soak-{node}", rule, OURS)

    def change_again() -> None:
        allow()
        cluster.touched.discard(node)

    return node, change_again


def freeze_claims(cluster: SoakCluster) -> Begun:
    """Refuse Drawbridge every write of claims in one namespace."""
    namespace = cluster.random.choice(cluster.namespaces)
    condition = f"{OURS} && request.namespace == '{namespace}'"
    rule = _rule("resource.k8s.io", "resourceclaims")
    return namespace, _refuse(cluster, f"soak-{namespace}", rule, condition)


def keep_pods(cluster: SoakCluster) -> Begun:
    """Add a finalizer to some bound pods and delete one of them."""
    pods = cluster.some_pods(4, bound=True)
    for pod in pods:
        body = {"metadata": {"finalizers": [FINALIZER]}}
        tolerant(partial(cluster.client.patch, _path(pod), body))
    for pod in pods[:1]:
        tolerant(partial(cluster.client.delete, _path(pod), grace=None))

    def release() -> None:
        for pod in pods:
            body = {"metadata": {"finalizers": None}}
            tolerant(partial(cluster.client.patch, _path(pod), body))

    return ", ".join(pod["metadata"]["name"] for pod in pods), release


def delete_claims(cluster: SoakCluster) -> Begun:
    """Delete the claims of pods that have no node yet, also while they are being bound."""
    names = []
    for pod in cluster.some_pods(3, bound=False):
        for status in pod.get("status", {}).get("resourceClaimStatuses", ()):
            if name := status.get("resourceClaimName"):
                namespace = pod["metadata"]["namespace"]
                path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims/{name}"
                tolerant(partial(cluster.client.delete, path))
                names.append(name)
    return ", ".join(names) or "none", nothing


def delete_pods(cluster: SoakCluster) -> Begun:
    """Delete pods that have no node yet, also while they are being bound.

    The API server removes one at once that had no node when it was read, and its kubelet can have
    begun to prepare the claim.
    """
    pods = cluster.some_pods(5, bound=False)
    for pod in pods:
        tolerant(partial(cluster.waits.delete, _path(pod)))
    return ", ".join(pod["metadata"]["name"] for pod in pods) or "none", nothing


def _path(pod: JSON) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
