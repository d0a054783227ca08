"""Formats placements as text, as JSON, and as trees of the nodes."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dra.finding import Finding
from dra.inventory import Inventory, PoolCache, PoolID
from dra.nodes import Node
from ledger.holdings import Hold
from ledger.ledger import Ledger
from ledger.placing import PodPlacement
from report import placement as drawing
from report.placement import DeviceHolder
from report.tables import ASCII, UNICODE, align_columns, draw_tree, escape_unprintable
from solver.reasons import Reason
from solver.results import AllocationJSON

NOTE = (
    "Note: the simulation checks nodeName, nodeSelector, node affinity and unschedulable of a node."
    " It ignores CPU, memory, taints and affinity to pods, which only the scheduler checks."
)


def placements_as_data(
    placements: Iterable[PodPlacement], ledger: Ledger, findings: Iterable[Finding]
) -> dict[str, object]:
    """Convert placements and the ledger to the data of the JSON output."""
    return {
        "pods": [_placement(each) for each in placements],
        "ledger": {
            "devices": list(_devices(ledger)),
            "findings": [msgspec.to_builtins(each) for each in findings],
        },
    }


def _placement(each: PodPlacement) -> AllocationJSON:
    return {
        "pod": each.pod,
        "node": each.node,
        "claims": [{"claim": name, "allocation": written} for name, written in each.claims],
        "reasons": [msgspec.to_builtins(reason) for reason in each.reasons],
    }


def _devices(ledger: Ledger) -> Iterator[AllocationJSON]:
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


def _holder(ledger: Ledger, uid: str, hold: Hold) -> AllocationJSON:
    state = "reserved" if uid in ledger.reservations else "allocated"
    data: AllocationJSON = {"claim": ledger.claims[uid].name, "state": state}
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
    """Draw the nodes that got a pod, with all devices that are held there."""
    touched = {each.node for each in placements if each.node is not None and each.claims}
    holders, memo = _holders(ledger), PoolCache()
    for node in nodes:
        if node.name in touched:
            yield ""
            drawn = drawing.draw_node(inventory, node, holders, memo)
            yield from draw_tree(drawn, UNICODE if unicode else ASCII)


def format_audit(findings: Iterable[Finding]) -> Iterator[str]:
    """Format the findings of the audit of the ledger."""
    for finding in findings:
        yield ""
        yield escape_unprintable(
            f"{finding.severity}: {finding.object}: {finding.message} [{finding.code}]"
        )
        yield escape_unprintable(f"    {finding.remedy}")


def format_placement(each: PodPlacement) -> Iterator[str]:
    """Format a placement: the node and the devices, or the reasons for none."""
    subject = each.pod or "claims " + ", ".join(name for name, _ in each.claims)
    yield escape_unprintable(
        f"{subject}: " + ("not placed" if each.node is None else f"on {each.node}")
    )
    yield from (f"  {line}" for line in align_columns(list(_rows(each))))
    yield from (escape_unprintable(f"  {_reason(reason)}") for reason in each.reasons)


def _rows(each: PodPlacement) -> Iterator[tuple[str, ...]]:
    for name, written in each.claims:
        devices = (written.get("devices") if written else None) or {}
        for i, result in enumerate(devices.get("results") or ()):
            where = f"{result['driver']}/{result['pool']}/{result['device']}"
            consumed = (result.get("consumedCapacity") or {}).items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in consumed)
            admin = "admin access" if result.get("adminAccess") else ""
            yield (name if not i else "", result["request"], where, share or admin)


def _reason(reason: Reason) -> str:
    nodes = "1 node" if reason.nodes == 1 else f"{reason.nodes} nodes"
    prefix = f"{nodes}: " if reason.nodes else ""
    example = f" (for example {reason.example})" if reason.example and reason.nodes > 1 else ""
    return f"{prefix}{reason.message}{example} [{reason.code}]"


def _holders(ledger: Ledger) -> dict[PoolID, dict[str, tuple[DeviceHolder, ...]]]:
    found: dict[PoolID, dict[str, tuple[DeviceHolder, ...]]] = {}
    for device in ledger.devices():
        found.setdefault(device.pool, {})[device.name] = tuple(
            DeviceHolder(
                ledger.claims[uid].name,
                ", ".join(f"{k.rpartition('/')[2]} {v}" for k, v in sorted(hold.consumed.items())),
                uid in ledger.reservations,
            )
            for uid, held in ledger.holders(device).items()
            for hold in held
        )
    return found
