"""Which devices the nodes have that an autoscaler can add, and whether the configuration says so.

A node group without nodes publishes no slice. Where a class is closed, a request that only such a
group would satisfy is denied unless `fleet` expects its nodes. Read in Cluster Autoscaler 1.36.1
(the annotations of Cluster API), and in the providers of Karpenter for AWS and Azure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.agreement.operation_codes import NODES_NOT_EXPECTED
from drawbridge.config.model import Configuration
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.families import BY_SHORT_NAME, VENDORS
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.finding import Finding

NODE_POOL: Final = "NodePool"
# The annotations of Cluster API for groups without nodes.
CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io"
_MAX_SIZE: Final = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
# The labels by which instance types say how many GPUs they have, and whose.
_GPU_LABELS: Final = (
    ("karpenter.k8s.aws/instance-gpu-count", "karpenter.k8s.aws/instance-gpu-manufacturer"),
    ("karpenter.azure.com/sku-gpu-count", "karpenter.azure.com/sku-gpu-manufacturer"),
)
# The driver of each manufacturer itself: it has the name of its family.
_DRIVERS: Final = {
    vendor: BY_SHORT_NAME[vendor].driver for vendor in VENDORS if vendor in BY_SHORT_NAME
}
_NVIDIA: Final = "nvidia"


class ComingNodes(NamedTuple):
    """Nodes that a group can add: the driver or the legacy name of their devices, and how many."""

    object: str
    driver: str = ""
    resource: str = ""
    devices: int = 0


def find_coming_nodes(groups: Iterable[Value]) -> Iterator[ComingNodes]:
    """Return what node groups of Cluster API and NodePools of Karpenter say about their devices."""
    for group in groups:
        kind = f"{get_value(group, ('kind',))}"
        name = f"{kind}/{get_value(group, ('metadata', 'name'))}"
        if kind == NODE_POOL:
            yield from _read_node_pool(name, group)
        else:
            yield from _read_annotations(name, group)


def _read_annotations(name: str, group: Value) -> Iterator[ComingNodes]:
    annotations = as_mapping(get_value(group, ("metadata", "annotations")))
    count = f"{annotations.get(f'{CAPACITY}/gpu-count')}"
    driver = annotations.get(f"{CAPACITY}/dra-driver")
    resource = annotations.get(f"{CAPACITY}/gpu-type")
    can_grow = f"{annotations.get(_MAX_SIZE)}" not in {"None", "0"}
    if can_grow and _is_number(count) and (driver or resource):
        yield ComingNodes(name, f"{driver or ''}", f"{resource or ''}", int(count))


def _read_node_pool(name: str, pool: Value) -> Iterator[ComingNodes]:
    path = ("spec", "template", "spec", "requirements")
    values = {
        f"{each.get('key')}": [f"{value}" for value in as_list(each.get("values"))]
        for each in map(as_mapping, as_list(get_value(pool, path)))
        if each.get("operator") == "In"
    }
    for count_label, manufacturer_label in _GPU_LABELS:
        makers = values.get(manufacturer_label, [_NVIDIA])
        for count in filter(_is_number, values.get(count_label, [])):
            for driver in filter(None, (_DRIVERS.get(each) for each in makers)):
                yield ComingNodes(name, driver, "", int(count))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 5 and int(text) > 0


def report_unexpected_nodes(
    coming: Iterable[ComingNodes], configuration: Configuration, facts: Facts
) -> Iterator[Finding]:
    """Report groups whose devices a closed class does not expect."""
    by_class: dict[str, dict[str, str]] = {}
    for nodes in coming:
        of_nodes = (each for each in facts.classes if _serves(each, nodes))
        for row in of_nodes:
            if row.closed and not _is_expected(row, nodes, configuration):
                by_class.setdefault(row.name, {}).setdefault(f"{nodes.devices}x", nodes.object)
    named = {f"{entry.class_}" for entry in configuration.fleet}
    for class_name, shapes in sorted(by_class.items()):
        yield _report(class_name, shapes, has_entry=class_name in named)


def _serves(row: ClassFacts, nodes: ComingNodes) -> bool:
    if nodes.driver:
        # The class of whole devices has the name of its driver. Of partitions, no group tells.
        return row.name == nodes.driver
    return bool(row.extended) and row.extended == nodes.resource


def _is_expected(row: ClassFacts, nodes: ComingNodes, configuration: Configuration) -> bool:
    """Whether `fleet` has a shape with at least as many devices for the class."""
    return any(
        int(f"{shape}".partition("x")[0]) >= nodes.devices
        for entry in configuration.fleet
        if f"{entry.class_}" == row.name
        for shape in entry.expected_shapes
    )


def _report(class_name: str, shapes: Mapping[str, str], *, has_entry: bool) -> Finding:
    listed = ", ".join(f"{count[:-1]} devices ({group})" for count, group in shapes.items())
    listed_shapes = ", ".join(f'"{count}"' for count in shapes)
    expected = f"expectedShapes: [{listed_shapes}]"
    # The first entry of a class applies.
    where, added = "fleet of the configuration", f"{{class: {class_name}, {expected}}}"
    if has_entry:
        where, added = f"the entry of {class_name} in {where}", expected
    return NODES_NOT_EXPECTED.at(
        "",
        f"node groups can add nodes with {listed}, but class {class_name} is closed: requests that "
        "only these satisfy are denied",
        object=f"DeviceClass/{class_name}",
        remedy=f"Add to {where}: {added}, with the known attributes and capacities of the devices.",
    )
