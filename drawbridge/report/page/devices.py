"""The devices of each node of the page, with their states and holders."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.dra.counters import (
    Counters,
    Shortage,
    available_counters,
    charge,
    consumed_counters,
)
from drawbridge.dra.device import Device
from drawbridge.dra.generations import current_parts
from drawbridge.dra.inventory import Inventory, Pool, PoolCache, PoolID, is_device_for_node
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import EXCLUDING
from drawbridge.facts.served_names import advertised_resources
from drawbridge.ledger.node_holds import describe_node_hold
from drawbridge.ledger.pods import FINISHED
from drawbridge.names import DUAL_LABEL
from drawbridge.report.device_holders import DeviceUse, HeldObjects, find_holders
from drawbridge.report.inventory import describe_capacity, find_places, find_product
from drawbridge.report.page.model import (
    DeviceOnPage,
    DeviceState,
    Extent,
    HolderOnPage,
    NodeOnPage,
    NUMANodeOnPage,
    PageObjects,
    PCIeRootOnPage,
    PluginOnPage,
)
from drawbridge.report.plugin_units import count_plugin_units

# What one device and one node add to the page at most.
MAX_HOLDERS: Final = 8
MAX_PODS: Final = 4
MAX_OTHERS: Final = 256
_MAX_AMOUNTS: Final = 120
_DeviceID = tuple[str, str, str]


class DevicesOfNodes:
    """Composes the nodes of the page from the objects that were read."""

    def __init__(self, objects: PageObjects, inventory: Inventory) -> None:
        self._inventory = inventory
        self._cache = PoolCache()
        self._holders_known = objects.claims_known is Extent.CLUSTER
        self._slices_known = objects.slices_known is Extent.CLUSTER
        self._pods_known = objects.pods_known is Extent.CLUSTER
        held = find_holders(
            HeldObjects(
                objects.claims,
                objects.pods,
                tuple(map(_as_held, objects.slices)),
                objects.registered,
            )
        )
        self._by_device: dict[_DeviceID, list[DeviceUse]] = defaultdict(list)
        self._by_node: dict[str, list[DeviceUse]] = defaultdict(list)
        for use in held:
            if use.claim is not None:
                self._by_device[use.driver, use.pool, use.device].append(use)
            self._by_node[use.node].append(use)
        self._units = _count_units(objects.pods)

    @property
    def holding_nodes(self) -> Iterable[str]:
        """The names of all nodes with holders, also of those that may not be read."""
        return [name for name in self._by_node if name]

    def describe_node(self, node: Node) -> NodeOnPage:
        """Return a node with its own devices."""
        try:
            pools = self._inventory.pools_for(node, self._cache)
        except NodeSelectorError as error:
            return NodeOnPage(node.name, (f"no device can be allocated: {error}",))
        own = [(pool, [*_own_devices(pool, node)]) for pool in pools]
        published = {
            (pool.id.driver, pool.id.name, device.name)
            for pool, devices in own
            for device in devices
        }
        devices = [each for pool, inside in own for each in self._devices(pool, inside)]
        units = self._units.get(node.name, {})
        others = [
            each
            for each in self._by_node.get(node.name, ())
            if (each.driver, each.pool, each.device) not in published and self._is_local(each)
        ]
        return NodeOnPage(
            name=node.name,
            notes=tuple(_note_node(node, pools)),
            numa_nodes=_place(devices),
            plugins=tuple(
                PluginOnPage(name, offered, units.get(name, 0) if self._pods_known else None)
                for name, offered in sorted(advertised_resources(node).items())
            ),
            others=tuple(
                _describe_other(each, slices_known=self._slices_known)
                for each in others[:MAX_OTHERS]
            ),
            more_others=max(0, len(others) - MAX_OTHERS),
            states=_count(device for _, _, device in devices),
        )

    def describe_shared_pools(self) -> Iterator[NodeOnPage]:
        """Yield the pools with devices that several nodes may reach."""
        for pool_id, indexed in sorted(self._inventory.pools.items()):
            if all(each.node_name for each in indexed.slices):
                continue
            for part in current_parts(indexed.slices):
                wide = tuple(each for each in part if not each.node_name)
                pool = Pool(
                    pool_id,
                    wide[0].generation if wide else 0,
                    slices=wide,
                    other_slices=tuple(each for each in part if each.node_name),
                    counter_sets={e.name: e for each in part for e in each.shared_counters},
                )
                inside = [device for each in wide for device in each.devices]
                devices = [*self._devices(pool, inside)]
                if devices:
                    yield NodeOnPage(
                        f"{pool_id.driver}, pool {pool_id.name}",
                        ("devices that several nodes may reach",),
                        _place(devices),
                        states=_count(device for _, _, device in devices),
                    )

    def _is_local(self, use: DeviceUse) -> bool:
        """Whether a device that the node does not publish is missing, and not of a wider pool."""
        indexed = self._inventory.pools.get(PoolID(use.driver, use.pool))
        return indexed is None or all(each.node_name for each in indexed.slices)

    def _devices(
        self, pool: Pool, devices: Sequence[Device]
    ) -> Iterator[tuple[str, Device, DeviceOnPage]]:
        driver, name = pool.id
        # Devices of other nodes consume the same counters.
        published = [e for each in (*pool.slices, *pool.other_slices) for e in each.devices]
        uses = {e.name: self._by_device.get((driver, name, e.name), ()) for e in published}
        allocated = {device for device, held in uses.items() if any(use.takes for use in held)}
        counters = available_counters(pool.counter_sets, published, allocated)
        for device in devices:
            holders = uses[device.name]
            yield (
                driver,
                device,
                DeviceOnPage(
                    name=device.name,
                    driver=driver,
                    product=find_product(device),
                    capacity=describe_capacity(device),
                    state=self._find_state(device, holders, counters),
                    taints=tuple(f"{each.key}:{each.effect}" for each in device.taints),
                    holders=tuple(map(_describe_holder, holders[:MAX_HOLDERS])),
                    more_holders=max(0, len(holders) - MAX_HOLDERS),
                ),
            )

    def _find_state(
        self, device: Device, holders: Sequence[DeviceUse], counters: Counters
    ) -> DeviceState:
        if any(use.takes for use in holders):
            can_share = bool(device.allow_multiple_allocations)
            return DeviceState.SHARED if can_share else DeviceState.HELD
        if any(each.effect in EXCLUDING for each in device.taints):
            return DeviceState.TAINTED
        if device.consumes_counters and isinstance(
            charge(counters, consumed_counters(device)), Shortage
        ):
            return DeviceState.BLOCKED
        return DeviceState.FREE if self._holders_known else DeviceState.UNKNOWN


def _own_devices(pool: Pool, node: Node) -> Iterator[Device]:
    for member, device in pool.devices():
        if member.node_name and is_device_for_node(member, device, node):
            yield device


def _as_held(slice_: Slice) -> Value:
    """Return what `find_holders` reads of a slice."""
    node: Value = slice_.node_name or ""
    return {"spec": {"driver": slice_.driver, "nodeName": node, "pool": {"name": slice_.pool}}}


def _place(devices: Sequence[tuple[str, Device, DeviceOnPage]]) -> tuple[NUMANodeOnPage, ...]:
    shown = {id(device): on_page for _, device, on_page in devices}
    places = find_places([(driver, device) for driver, device, _ in devices])
    return tuple(
        NUMANodeOnPage(
            numa,
            tuple(
                PCIeRootOnPage(root, tuple(shown[id(device)] for _, device in inside))
                for root, inside in roots
            ),
        )
        for numa, roots in places
    )


def _count(devices: Iterable[DeviceOnPage]) -> Mapping[DeviceState, int]:
    counted = Counter(each.state for each in devices)
    return {state: counted[state] for state in DeviceState if counted[state]}


def _note_node(node: Node, pools: Iterable[Pool]) -> Iterator[str]:
    if not node.ready:
        yield "not ready"
    if node.unschedulable:
        yield "cordoned"
    if node.hold:
        yield describe_node_hold(node.hold)
    if DUAL_LABEL in node.labels:
        yield "dual: a device plugin and a driver offer the same devices"
    for pool in pools:
        if pool.incomplete:
            yield f"pool {pool.id.name} of {pool.id.driver}: incomplete, cannot be allocated"
        elif pool.invalid:
            yield f"pool {pool.id.name} of {pool.id.driver}: invalid, {pool.invalid}"


def _describe_holder(use: DeviceUse) -> HolderOnPage:
    groups = tuple(f"PodGroup {each}" for each in use.groups)
    pods = (*use.pods, *groups)
    amounts = ", ".join(f"{key} {amount}" for key, amount in use.amounts.items() if amount)
    return HolderOnPage(
        claim=use.claim or "",
        pods=pods[:MAX_PODS],
        amounts=amounts[:_MAX_AMOUNTS],
        since=use.since or "",
        more_pods=max(0, len(pods) - MAX_PODS),
    )


def _describe_other(use: DeviceUse, *, slices_known: bool) -> HolderOnPage:
    """Describe a holder of something that is no published device, with its name."""
    described = _describe_holder(use)
    if not use.is_known:
        return described
    where = f"{use.driver}/{use.pool}/{use.device}" if use.claim else use.device
    text = f"{where}, not published" if use.claim and slices_known else where
    amounts = f"{text}: {described.amounts}" if described.amounts else text
    return HolderOnPage(
        described.claim, described.pods, amounts, described.since, described.more_pods
    )


def _count_units(pods: Iterable[Value]) -> Mapping[str, Mapping[str, int]]:
    """Return the units of device plugins that running pods hold, by node."""
    by_node: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        node = get_value(pod, ("spec", "nodeName"))
        if isinstance(node, str) and get_value(pod, ("status", "phase")) not in FINISHED:
            by_node[node].update(count_plugin_units(pod))
    return by_node


def describe_states(states: Mapping[DeviceState, int]) -> str:
    """Return the devices by state in words: `8 devices: 6 held, 2 free`."""
    total = count_noun(sum(states.values()), "device")
    return f"{total}: " + ", ".join(f"{number:,} {state}" for state, number in states.items())
