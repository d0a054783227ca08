"""Explains a node: what its drivers and device plugins offer, what is held, and what is wrong.

Takes plain objects, and ignores malformed parts of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.dra.quantity import format_amount
from drawbridge.ledger.node_holds import describe_node_hold
from drawbridge.names import DUAL_LABEL, HOLD_ANNOTATION
from drawbridge.report.device_holders import DeviceUse, HeldObjects
from drawbridge.report.events import SeenEvent, describe_events, is_about
from drawbridge.translate.legacy.pod_view import is_device_resource

_MAX_FREE = 8
_CLAIM, _SLICE = "ResourceClaim", "ResourceSlice"


class PoolOnNode(msgspec.Struct, frozen=True):
    """The newest generation of a pool of the node; `missing` slices are not published yet.

    Without the right to read all claims, it is not known which devices are `free`.
    """

    driver: str
    pool: str
    devices: tuple[str, ...]
    free: tuple[str, ...] | None
    missing: int = 0


class NodeExplanation(msgspec.Struct, frozen=True):
    """A node with its pools, the resources of device plugins, and who holds devices.

    `owned` are the drivers whose pools of the node the configuration gives to Drawbridge. Of the
    kinds `unread` there may be more. Without the right to read the node, what it says is None.
    """

    node: str
    ready: bool | None
    unschedulable: bool | None
    dual: bool | None
    taints: tuple[str, ...]
    plugins: Mapping[str, str]
    pools: tuple[PoolOnNode, ...]
    held: tuple[DeviceUse, ...]
    events: tuple[SeenEvent, ...]
    hold: str = ""
    owned: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def explain_node(  # noqa: PLR0913  # all but five by name
    name: str,
    node: Value,
    objects: HeldObjects,
    held: Sequence[DeviceUse],
    events: Iterable[Value],
    *,
    now: datetime,
    owned: Iterable[str] = (),
) -> NodeExplanation:
    """Explain a node; without the right to read it, `node` is None."""
    spec = as_mapping(get_value(node, ("spec",)))
    allocatable = as_mapping(get_value(node, ("status", "allocatable")))
    labels = as_mapping(get_value(node, ("metadata", "labels")))
    taints = map(as_mapping, as_list(spec.get("taints")))
    about = [each for each in events if is_about(each, "Node", {"name": name})]
    is_read = node is not None
    hold = get_value(node, ("metadata", "annotations", HOLD_ANNOTATION))
    return NodeExplanation(
        node=name,
        ready=_is_ready(node),
        unschedulable=spec.get("unschedulable") is True if is_read else None,
        dual=DUAL_LABEL in labels if is_read else None,
        taints=tuple(f"{each.get('key')}:{each.get('effect')}" for each in taints),
        plugins={k: format_amount(e) for k, e in allocatable.items() if is_device_resource(k)},
        pools=tuple(_pools(objects, name, held)),
        held=tuple(held),
        events=tuple(describe_events(about)),
        hold=describe_node_hold(hold, now) if isinstance(hold, str) and hold else "",
        owned=tuple(sorted(owned)),
        unread=tuple(sorted(objects.unread)),
    )


def _is_ready(node: Value) -> bool | None:
    for condition in map(as_mapping, as_list(get_value(node, ("status", "conditions")))):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return None


def _pools(objects: HeldObjects, node: str, held: Sequence[DeviceUse]) -> Iterator[PoolOnNode]:
    by_pool: dict[tuple[str, str], list[Mapping[str, Value]]] = {}
    for spec in (as_mapping(get_value(each, ("spec",))) for each in objects.slices):
        if spec.get("nodeName") == node:
            key = f"{spec.get('driver')}", f"{get_value(spec.get('pool'), ('name',))}"
            by_pool.setdefault(key, []).append(spec)
    taken = {(each.driver, each.pool, each.device) for each in held if each.takes}
    for (driver, pool), specs in sorted(by_pool.items()):
        newest = max(_number(spec, "generation") for spec in specs)
        current = [spec for spec in specs if _number(spec, "generation") == newest]
        names = tuple(
            f"{as_mapping(device).get('name')}"
            for spec in current
            for device in as_list(spec.get("devices"))
        )
        free = tuple(each for each in names if (driver, pool, each) not in taken)
        unheld = None if _CLAIM in objects.unread else free
        wanted = max(_number(spec, "resourceSliceCount") for spec in current)
        yield PoolOnNode(driver, pool, names, unheld, max(0, wanted - len(current)))


def _number(spec: Mapping[str, Value], key: str) -> int:
    number = get_value(spec.get("pool"), (key,))
    return number if isinstance(number, int) else 0


def format_node(explained: NodeExplanation) -> Iterator[str]:
    """Format the node and its pools, without the devices that are held."""
    state = {True: "ready", False: "not ready", None: "state unknown"}[explained.ready]
    yield f"node/{explained.node}: {state}" + (", cordoned" if explained.unschedulable else "")
    if explained.dual:
        yield "  dual: a device plugin and a driver offer the same devices"
    if explained.hold:
        yield f"  {explained.hold}"
    if explained.taints:
        yield f"  taints: {', '.join(explained.taints)}"
    if explained.plugins:
        offers = ", ".join(f"{key} {amount}" for key, amount in explained.plugins.items())
        yield f"  device plugins: {offers}"
    if explained.owned:
        yield f"  owned pools of: {', '.join(explained.owned)}"
    for pool in explained.pools:
        yield f"  {pool.driver}, pool {pool.pool}: {_describe_pool(pool)}"
    if not explained.pools:
        which = " that you may read" if _SLICE in explained.unread else ""
        yield f"  no ResourceSlice{which} for this node"


def _describe_pool(pool: PoolOnNode) -> str:
    text = f"{count_noun(len(pool.devices), 'device')}, "
    text += "allocation unknown" if pool.free is None else f"{len(pool.free):,} not allocated"
    if pool.free:
        more = ", ..." if len(pool.free) > _MAX_FREE else ""
        text += f" ({', '.join(pool.free[:_MAX_FREE])}{more})"
    if pool.missing:
        slices = count_noun(pool.missing, "slice")
        text += f"; incomplete, {slices} missing, so none can be allocated"
    return text
