"""Decides for each DeviceClass whether its fleet is closed: no other kinds of devices will come.

In a closed fleet, a request that no published device satisfies is an error. In an open fleet it is
a warning, because an autoscaler or an administrator can add other devices.
"""

from collections.abc import Iterable, Mapping

import msgspec

from config.model import Fleet
from dra.nodes import Node

# Nodes of these providers are machines that somebody set up by hand.
_LOCAL_PROVIDERS = ("kind://", "k3s://", "minikube://")
# The labels with which node groups mark their nodes, by prefix.
_NODE_GROUP_LABELS = (
    "karpenter.sh/",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
    "lke.linode.com/pool-id",
    "vke.vultr.com/node-pool",
    "oci.oraclecloud.com/oke-",
    "ibm-cloud.kubernetes.io/worker-pool-id",
    "node.kubernetes.io/worker-pool",
    "worker.gardener.cloud/pool",
    "alibabacloud.com/nodepool-id",
    "tke.cloud.tencent.com/nodepool-id",
    "machine-pool.cluster.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/",
)

OPEN_BY_SETTING = "the configuration sets fleet[].closed to false for the class"


class FleetVerdict(msgspec.Struct, frozen=True):
    """Whether the fleet of a class is closed, and if not, why.

    `expected` holds the shapes of nodes that the administrator expects in addition.
    """

    closed: bool
    reason: str = ""
    expected: tuple[str, ...] = ()


class PublishedClass(msgspec.Struct, frozen=True):
    """What is published for a class: devices in complete pools, and doubts about the others.

    `doubt` says why more devices may exist than are visible, such as an incomplete pool.
    `left_to_plugin` names a node whose devices a device plugin serves and no driver publishes yet.
    """

    devices: int = 0
    doubt: str = ""
    left_to_plugin: str = ""


UNKNOWN_CLASS = PublishedClass()


def find_autoscaler(nodes: Iterable[Node], objects: Iterable[str] = ()) -> str:
    """Return a sign that an autoscaler can add nodes, as a reason; empty if there is none.

    `objects` names the objects of autoscalers in the cluster, such as `NodePool/default`.
    """
    for name in objects:
        return f"{name} can add nodes"
    for node in nodes:
        label = next((each for each in node.labels if each.startswith(_NODE_GROUP_LABELS)), "")
        if label:
            return f"node {node.name} has label {label}, so an autoscaler can add nodes"
        if node.provider_id and not node.provider_id.startswith(_LOCAL_PROVIDERS):
            provider = node.provider_id.partition(":")[0]
            return f"node {node.name} is of cloud provider {provider}, which can add nodes"
    return ""


def fleet_verdicts(
    fleet: Iterable[Fleet], published: Mapping[str, PublishedClass], autoscaler: str = ""
) -> Mapping[str, FleetVerdict]:
    """Return the verdict of each published or configured class.

    `autoscaler` describes a sign that an autoscaler can add nodes; empty if there is none.
    """
    entries = {f"{entry.class_}": entry for entry in reversed(tuple(fleet))}
    return {
        name: _verdict(
            entries.get(name), published.get(name, UNKNOWN_CLASS), f"class {name}", autoscaler
        )
        for name in sorted({*entries, *published})
    }


def _verdict(
    entry: Fleet | None, published: PublishedClass, about: str, autoscaler: str
) -> FleetVerdict:
    expected = entry.expected_shapes if entry else ()
    closed = entry.closed if entry else "auto"
    if closed is False:
        return FleetVerdict(closed=False, reason=OPEN_BY_SETTING, expected=expected)
    if published.doubt:
        # Not even the administrator knows better than a pool that is being published.
        return FleetVerdict(closed=False, reason=published.doubt, expected=expected)
    if closed is True:
        return FleetVerdict(closed=True, expected=expected)
    if not published.devices:
        reason = f"{about} has no device in a complete pool yet"
        return FleetVerdict(closed=False, reason=reason, expected=expected)
    more = autoscaler or published.left_to_plugin
    return FleetVerdict(closed=not more, reason=more, expected=expected)
