"""Decides for each DeviceClass whether its fleet is closed: no other kinds of devices will come.

In a closed fleet, a request that no published device satisfies is an error. In an open fleet it is
a warning, because an autoscaler or an administrator can add other devices.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from drawbridge.config.model import Fleet
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice

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

# Karpenter simulates an instance type, the autoscalers of node groups a node of the group.
_KARPENTER_POOL = "karpenter.sh/nodepool"
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"

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


def find_autoscaler(nodes: Iterable[Node]) -> str:
    """Return a sign that an autoscaler can add nodes, as a reason; empty if there is none."""
    for node in nodes:
        label = next((each for each in node.labels if each.startswith(_NODE_GROUP_LABELS)), "")
        if label:
            return f"node {node.name} has label {label}, so an autoscaler can add nodes"
        if node.provider_id and not node.provider_id.startswith(_LOCAL_PROVIDERS):
            provider = node.provider_id.partition(":")[0]
            return f"node {node.name} is of cloud provider {provider}, which can add nodes"
    return ""


def find_node_group(node: Node) -> str:
    """Return whose nodes an autoscaler takes for alike; empty if no label shows it."""
    if pool := node.labels.get(_KARPENTER_POOL):
        return f"{pool} {node.labels.get(_INSTANCE_TYPE, '')}".rstrip()
    return next((node.labels[each] for each in _NODE_GROUP_LABELS if node.labels.get(each)), "")


def find_silent_node(nodes: Iterable[Node], slices: Iterable[Slice]) -> str:
    """Return a node that may publish other devices, as a reason; empty if there is none.

    A node that is not ready can have lost its slices, and one that joins has none yet.
    """
    silent = [each for each in nodes if not each.ready]
    if not silent:
        return ""
    publishing = {name for each in slices for name in _find_node_names(each)}
    for node in silent:
        if node.name not in publishing:
            return f"node {node.name} is not ready, and no driver publishes devices for it"
    return ""


def _find_node_names(published: Slice) -> Iterator[str | None]:
    """Return the nodes that a slice with devices names."""
    if published.devices:
        yield published.node_name
    if published.per_device_node_selection:
        yield from (device.node_name for device in published.devices)


def fleet_verdicts(
    fleet: Iterable[Fleet], published: Mapping[str, PublishedClass], coming: str = ""
) -> Mapping[str, FleetVerdict]:
    """Return the verdict of each published or configured class.

    `coming` describes a sign that nodes or devices can come; empty if there is none.
    """
    entries = {f"{entry.class_}": entry for entry in reversed(tuple(fleet))}
    return {
        name: _verdict(
            entries.get(name), published.get(name, UNKNOWN_CLASS), f"class {name}", coming
        )
        for name in sorted({*entries, *published})
    }


def _verdict(
    entry: Fleet | None, published: PublishedClass, about: str, coming: str
) -> FleetVerdict:
    expected = entry.expected_shapes if entry else ()
    closed = entry.closed if entry else "auto"
    if closed is False:
        return FleetVerdict(closed=False, reason=OPEN_BY_SETTING, expected=expected)
    if published.doubt:
        # While a pool is being published, its doubt overrides the setting of the administrator.
        return FleetVerdict(closed=False, reason=published.doubt, expected=expected)
    if closed is True:
        return FleetVerdict(closed=True, expected=expected)
    if not published.devices:
        reason = f"{about} has no device in a complete pool yet"
        return FleetVerdict(closed=False, reason=reason, expected=expected)
    more = coming or published.left_to_plugin
    return FleetVerdict(closed=not more, reason=more, expected=expected)
