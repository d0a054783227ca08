"""Placements as text and as JSON: who got what, why not, and a picture of the nodes touched.

Knows nothing of how placements come about.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dra.finding import Finding
from dra.inventory import Inventory, Memo, PoolID
from dra.nodes import Node
from ledger.generated_claims import Json
from ledger.holdings import Hold
from ledger.ledger import Ledger
from ledger.placing import Placement
from report import placement as drawing
from report.placement import Held
from report.tables import ASCII, UNICODE, printable, table, tree
from solver.reasons import Reason

NOTE = (
    "Of whether a node fits a pod, only nodeName, nodeSelector and unschedulable were looked at:"
    " cpu, memory, taints and affinity are the scheduler's matter."
)


def plain(done: Iterable[Placement], ledger: Ledger, told: Iterable[Finding]) -> dict[str, object]:
    """Give placements and the ledger as JSON has them."""
    return {
        "pods": [_placement(each) for each in done],
        "ledger": {
            "devices": list(_devices(ledger)),
            "findings": [msgspec.to_builtins(each) for each in told],
        },
    }


def _placement(each: Placement) -> Json:
    return {
        "pod": each.pod,
        "node": each.node,
        "claims": [{"claim": name, "allocation": written} for name, written in each.claims],
        "reasons": [msgspec.to_builtins(reason) for reason in each.reasons],
    }


def _devices(ledger: Ledger) -> Iterator[Json]:
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


def _holder(ledger: Ledger, uid: str, hold: Hold) -> Json:
    state = "reserved" if uid in ledger.promises else "allocated"
    said: Json = {"claim": ledger.claims[uid].name, "state": state}
    if hold.consumed:
        said["consumedCapacity"] = {k: f"{v}" for k, v in sorted(hold.consumed.items())}
    return said


def pictures(
    done: Sequence[Placement],
    ledger: Ledger,
    inventory: Inventory,
    nodes: Iterable[Node],
    *,
    unicode: bool,
) -> Iterator[str]:
    """Draw the nodes on which something was placed, with what is held there by now."""
    touched = {each.node for each in done if each.node is not None and each.claims}
    holders, memo = _holders(ledger), Memo()
    for node in nodes:
        if node.name in touched:
            yield ""
            drawn = drawing.node(inventory, node, holders, memo)
            yield from tree(drawn, UNICODE if unicode else ASCII)


def audited(told: Iterable[Finding]) -> Iterator[str]:
    """Say what does not hold of who holds what; no line of a file is to blame."""
    for finding in told:
        yield ""
        yield printable(f"{finding.severity}: {finding.object}: {finding.message} [{finding.code}]")
        yield printable(f"    {finding.remedy}")


def lines(each: Placement) -> Iterator[str]:
    """Say what became of a pod: its node and devices, or why it has none."""
    who = each.pod or "claims " + ", ".join(name for name, _ in each.claims)
    yield printable(f"{who}: " + ("not placed" if each.node is None else f"on {each.node}"))
    yield from (f"  {line}" for line in table(list(_rows(each))))
    yield from (printable(f"  {_reason(reason)}") for reason in each.reasons)


def _rows(each: Placement) -> Iterator[tuple[str, ...]]:
    for name, written in each.claims:
        devices = (written.get("devices") if written else None) or {}
        for i, result in enumerate(devices.get("results") or ()):
            where = f"{result['driver']}/{result['pool']}/{result['device']}"
            consumed = (result.get("consumedCapacity") or {}).items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in consumed)
            admin = "admin access" if result.get("adminAccess") else ""
            said = (name if not i else "", result["request"], where, share or admin)
            yield said


def _reason(reason: Reason) -> str:
    nodes = "1 node" if reason.nodes == 1 else f"{reason.nodes} nodes"
    before = f"{nodes}: " if reason.nodes else ""
    example = f" (such as {reason.example})" if reason.example and reason.nodes > 1 else ""
    return f"{before}{reason.message}{example} [{reason.code}]"


def _holders(ledger: Ledger) -> dict[PoolID, dict[str, tuple[Held, ...]]]:
    found: dict[PoolID, dict[str, tuple[Held, ...]]] = {}
    for device in ledger.devices():
        found.setdefault(device.pool, {})[device.name] = tuple(
            Held(
                ledger.claims[uid].name,
                ", ".join(f"{k.rpartition('/')[2]} {v}" for k, v in sorted(hold.consumed.items())),
                uid in ledger.promises,
            )
            for uid, held in ledger.holders(device).items()
            for hold in held
        )
    return found
