"""Reads what the nodes of a live cluster hold for pods that wait."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cli.input import live_cluster
from drawbridge.cluster import resources
from drawbridge.documents.values import Value, as_mapping
from drawbridge.ledger.node_holds import NodeHold, read_node_hold
from drawbridge.ledger.planned_holds import PlannedHold
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.names import HOLD_ANNOTATION

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


async def read_planned_holds(
    session: "Session", objects: Iterable[Mapping[str, Value]]
) -> list[PlannedHold]:
    """Return the holds of the nodes among objects that last, whose pods wait for devices."""
    holds: list[PlannedHold] = []
    for node, hold in _find_holds(objects, session.clock.now()):
        namespace, _, name = hold.pod.partition("/")
        if not name:
            continue
        value = await live_cluster.read_object(session, resources.PODS, name, namespace)
        pod = pod_reader().read({"apiVersion": "v1", "kind": "Pod", **(value or {})})
        if isinstance(pod, Pod) and pod.metadata.uid == hold.uid and not pod.spec.node_name:
            holds.append(PlannedHold(node, hold, pod))
    return holds


def _find_holds(
    objects: Iterable[Mapping[str, Value]], now: float
) -> Iterable[tuple[str, NodeHold]]:
    for obj in objects:
        metadata = as_mapping(obj.get("metadata"))
        text = as_mapping(metadata.get("annotations")).get(HOLD_ANNOTATION)
        if obj.get("kind") == "Node" and isinstance(text, str):
            hold = read_node_hold(text)
            if isinstance(hold, NodeHold) and hold.lasts(now):
                yield f"{metadata.get('name')}", hold
