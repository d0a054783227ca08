"""Formats placements as text, as JSON, and as trees of the nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from drawbridge.dra.allocation import Allocation, to_json
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.dra.inventory import Inventory, PoolCache, PoolID
from drawbridge.dra.nodes import Node
from drawbridge.finding import Finding
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.placing import NodeRating, PodPlacement
from drawbridge.ledger.planned_holds import HELD_FOR
from drawbridge.ledger.replicas import ReplicaPlacement
from drawbridge.report import placement as drawing
from drawbridge.report.placement import DeviceHolder
from drawbridge.report.tables import ASCII, UNICODE, align_columns, draw_tree
from drawbridge.solver.reasons import Reason, ReasonOfExample, say_with_subject

_CHECKED: Final = (
    "Note: the simulation checks nodeName, nodeSelector, node affinity, unschedulable and taints of"
    " a node"
)
NOTE: Final = (
    f"{_CHECKED}, and its CPU, memory and other resources. It ignores rules about other pods,"
    " volumes and host ports, which only the scheduler checks."
)
# Where the pods on the nodes are not known.
DEVICES_NOTE: Final = (
    f"{_CHECKED}. It ignores CPU, memory and rules about other pods, volumes and host ports, which"
    " only the scheduler checks."
)


# Lines of the text output: the nodes of one workload, and the devices on one of them.
_MOST_NODES: Final = 8
_MOST_DEVICES: Final = 4
_MOST_PARTS: Final = 3
_MOST_DRAWN: Final = 20


class WorkloadPlacement(NamedTuple):
    """The placed pods of one template of a workload."""

    workload: str
    path: str
    name: str  # of the template, if there are several
    replicas: ReplicaPlacement


JSON: TypeAlias = dict[str, Any]
Entry: TypeAlias = PodPlacement | WorkloadPlacement


def tried_pods(entry: Entry) -> tuple[PodPlacement, ...]:
    """Return the pods of an entry that were placed, and the first one that was not."""
    if isinstance(entry, PodPlacement):
        return (entry,)
    refused = entry.replicas.refused
    return entry.replicas.placed if refused is None else (*entry.replicas.placed, refused)


def is_placed(entry: Entry) -> bool:
    """Tell whether all pods are placed."""
    if isinstance(entry, PodPlacement):
        return entry.node is not None
    return entry.replicas.refused is None and not entry.replicas.untried


def placements_as_data(
    entries: Sequence[Entry],
    ledger: Ledger,
    findings: Iterable[Finding],
    written: Mapping[str, tuple[Allocation | None, JSON]],
) -> dict[str, object]:
    """Convert placements and the ledger to the data of the JSON output.

    `written` has the allocations of the input by claim, decoded and with all their fields.
    """
    workloads = [each for each in entries if isinstance(each, WorkloadPlacement)]
    return {
        "pods": [_placement(each, written) for entry in entries for each in tried_pods(entry)],
        "ledger": {
            "devices": list(_devices(ledger)),
            "findings": [msgspec.to_builtins(each) for each in findings],
        },
        "workloads": [_workload(each) for each in workloads],
    }


def _placement(
    placement: PodPlacement, written: Mapping[str, tuple[Allocation | None, JSON]]
) -> JSON:
    claims: list[JSON] = []
    for name, allocation in placement.claims:
        decoded, as_written = written.get(name, (None, None))
        shown = to_json(allocation) if allocation is not None else None
        kept = allocation is not None and allocation is decoded
        claims.append({"claim": name, "allocation": as_written if kept else shown})
    rating = placement.rating
    return {
        "pod": placement.pod,
        "node": placement.node,
        "claims": claims,
        "reasons": [msgspec.to_builtins(reason) for reason in placement.reasons],
        "preempted": list(placement.preempted),
        **({} if rating is None else {"rating": rating_as_data(rating)}),
    }


def rating_as_data(rating: NodeRating) -> JSON:
    """Return the score of a node and its parts, with the weights that were given."""
    parts = [{"name": each.name, "value": each.value} for each in rating.parts]
    weights = {"weights": dict(rating.weights)} if rating.weights else {}
    rated = {"strategy": rating.strategy, **weights, "score": rating.score, "parts": parts}
    return {**rated, "unpublished": [*rating.unpublished]} if rating.unpublished else rated


def _workload(placement: WorkloadPlacement) -> dict[str, object]:
    """Convert the counts of a workload; its pods are in the list of pods."""
    refused = placement.replicas.refused
    return {
        "workload": placement.workload,
        "path": placement.path,
        "pods": placement.replicas.number,
        "placed": placement.replicas.fits,
        "notTried": placement.replicas.untried,
        "reasons": [msgspec.to_builtins(reason) for reason in refused.reasons] if refused else [],
    }


def _devices(ledger: Ledger) -> Iterator[JSON]:
    for device in ledger.devices():
        holders = [
            _holder(ledger, uid, hold)
            for uid, held in ledger.holders(device).items()
            for hold in held
        ]
        pool = device.pool
        yield {
            "driver": pool.driver, "pool": pool.name, "device": device.name, "holders": holders,
        }  # fmt: skip


def _holder(ledger: Ledger, uid: str, hold: Hold) -> JSON:
    state = "reserved" if uid in ledger.reservations else "allocated"
    if uid in ledger.kept:
        data: JSON = {"pod": uid.removeprefix(HELD_FOR), "state": "held"}
    else:
        data = {"claim": ledger.claims[uid].name, "state": state}
    if hold.consumed:
        data["consumedCapacity"] = {k: f"{v}" for k, v in sorted(hold.consumed.items())}
    return data


def draw_nodes(
    placements: Sequence[PodPlacement],
    ledger: Ledger,
    inventory: Inventory,
    nodes: Iterable[Node],
    *,
    unicode: bool,
) -> Iterator[str]:
    """Draw the first nodes that got a pod, with all devices that are held there."""
    named = {each.node for each in placements if each.node is not None and each.claims}
    touched = [node for node in nodes if node.name in named]
    holders, memo = _holders(ledger), PoolCache()
    for node in touched[:_MOST_DRAWN]:
        yield ""
        drawn = drawing.draw_node(inventory, node, holders, memo)
        yield from draw_tree(drawn, UNICODE if unicode else ASCII)
    more = len(touched) - _MOST_DRAWN
    if more > 0:
        yield ""
        yield f"{count_noun(more, 'more node')} with placed pods; -o json prints all devices"


def count_placed(entries: Iterable[Entry]) -> tuple[int, int]:
    """Return how many pods are placed, and how many there are."""
    placed = total = 0
    for entry in entries:
        if isinstance(entry, PodPlacement):
            placed, total = placed + is_placed(entry), total + 1
        else:
            placed, total = placed + entry.replicas.fits, total + entry.replicas.number
    return placed, total


def format_audit(findings: Iterable[Finding]) -> Iterator[str]:
    """Format the findings of the audit of the ledger."""
    for finding in findings:
        yield ""
        yield f"{finding.severity}: {finding.object}: {finding.message} [{finding.code}]"
        yield f"    {finding.remedy}"


def format_entries(entries: Iterable[Entry]) -> Iterator[str]:
    """Format the placements of pods and of workloads; equal reasons are printed once."""
    first: dict[tuple[Reason, ...], str] = {}
    for entry in entries:
        if isinstance(entry, PodPlacement):
            yield from _format_placement(entry, first)
        else:
            yield from _format_workload(entry, first)


def _format_reasons(
    placement: PodPlacement, subject: str, indent: str, first: dict[tuple[Reason, ...], str]
) -> Iterator[str]:
    """Format the reasons of a pod, or name the first pod that has the same ones."""
    before = first.setdefault(placement.reasons, subject)
    if before != subject and len(placement.reasons) > 1:
        yield f"{indent}for the same reasons as {before}"
        return
    yield from format_reasons(placement.reasons, indent)


def format_reasons(reasons: Iterable[Reason], indent: str) -> Iterator[str]:
    """Format why no node takes a pod."""
    yield from (f"{indent}{_reason(reason)}" for reason in reasons)


def _format_workload(
    entry: WorkloadPlacement, first: dict[tuple[Reason, ...], str]
) -> Iterator[str]:
    """Format how many pods fit, the devices by node, and what the first other pod lacks."""
    replicas = entry.replicas
    name = f"{entry.workload} ({entry.name})" if entry.name else entry.workload
    pods = count_noun(replicas.number, "pod")
    yield f"{name}: {replicas.fits:,} of {pods} placed"
    by_node: dict[str, list[PodPlacement]] = {}
    for placed in replicas.placed:
        if placed.claims:
            by_node.setdefault(placed.node or "", []).append(placed)
    rows = [
        _node_row(node, pods_there) for node, pods_there in islice(by_node.items(), _MOST_NODES)
    ]
    yield from (f"  {line}" for line in align_columns(rows))
    if len(by_node) > _MOST_NODES:
        more = sum(len(each) for each in islice(by_node.values(), _MOST_NODES, None))
        nodes = count_noun(len(by_node) - _MOST_NODES, "other node")
        yield f"  {more:,} more on {nodes}"
    if replicas.refused is not None:
        yield f"  {replicas.refused.pod} is not placed:"
        yield from _format_reasons(replicas.refused, f"{replicas.refused.pod}", "    ", first)


def _node_row(node: str, pods: Sequence[PodPlacement]) -> tuple[str, ...]:
    devices = [row[2] for each in pods for row in _rows(each)]
    shown = list_some(devices, _MOST_DEVICES, "device")
    return (f"on {node}", count_noun(len(pods), "pod"), shown)


def _format_placement(
    placement: PodPlacement, first: dict[tuple[Reason, ...], str]
) -> Iterator[str]:
    """Format a placement: the node and the devices, or the reasons for none."""
    subject = placement.pod or "claims " + ", ".join(name for name, _ in placement.claims)
    yield f"{subject}: {'not placed' if placement.node is None else f'on {placement.node}'}"
    if placement.preempted:
        yield f"  evicts {', '.join(placement.preempted)}"
    yield from (f"  {line}" for line in align_columns(list(_rows(placement))))
    if placement.rating is not None and placement.claims:
        yield f"  {format_rating(placement.rating)}"
    yield from _format_reasons(placement, subject, "  ", first)


def format_rating(rating: NodeRating) -> str:
    """Format a score with its largest parts."""
    parts = [each for each in rating.parts if each.value]
    parts.sort(key=lambda each: -abs(each.value))
    shown = [f"{each.name} {each.value:+,}" for each in parts[:_MOST_PARTS]]
    more = [f"{len(parts) - _MOST_PARTS} more"] if len(parts) > _MOST_PARTS else []
    listed = f" ({', '.join((*shown, *more))})" if shown else ""
    weights = ", ".join(f"{name}={weight}" for name, weight in rating.weights)
    weighted = f" with weights {weights}" if weights else ""
    unpublished = list_some(rating.unpublished, _MOST_PARTS, "name")
    nothing = f"; no device publishes {unpublished}" if rating.unpublished else ""
    return f"strategy {rating.strategy}{weighted}: score {rating.score:,}{listed}{nothing}"


def _rows(placement: PodPlacement) -> Iterator[tuple[str, ...]]:
    for name, allocation in placement.claims:
        for i, result in enumerate(allocation.devices.results if allocation is not None else ()):
            where = f"{result.driver}/{result.pool}/{result.device}"
            consumed = result.consumed_capacity.items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in consumed)
            admin = "admin access" if result.admin_access else ""
            yield (name if not i else "", result.request, where, share or admin)


def _reason(reason: Reason) -> str:
    prefix = f"{count_noun(reason.nodes, 'node')}: " if reason.nodes else ""
    message = reason.message
    if reason.example and reason.nodes > 1:
        message += f" (for example {reason.example})"
    elif isinstance(reason, ReasonOfExample):
        message = say_with_subject(reason)
    return f"{prefix}{message} [{reason.code}]"


def _holders(ledger: Ledger) -> dict[PoolID, dict[str, tuple[DeviceHolder, ...]]]:
    holders: dict[PoolID, dict[str, tuple[DeviceHolder, ...]]] = {}
    for device in ledger.devices():
        holders.setdefault(device.pool, {})[device.name] = tuple(
            DeviceHolder(
                uid if uid in ledger.kept else ledger.claims[uid].name,
                ", ".join(f"{k.rpartition('/')[2]} {v}" for k, v in sorted(hold.consumed.items())),
                uid in ledger.reservations,
            )
            for uid, held in ledger.holders(device).items()
            for hold in held
        )
    return holders
