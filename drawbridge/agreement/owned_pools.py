"""Decides which nodes and pools only the Drawbridge allocator uses.

The webhook, the controller and the allocator must agree on it. An owned pool is local to one node:
other pools span nodes, so that no taint of a node keeps other schedulers away from them.

A node that is taken over can publish slices with the name of any pool. Only its own devices follow
from them: a pool with the name of a node belongs to that node.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from drawbridge.agreement.operation_codes import (
    FENCE_AROUND_ALL_NODES,
    FENCE_DISAGREES,
    FENCE_MISSING,
    FENCE_WITHOUT_RULES,
    OWNED_DRIVER_MISSING,
    OWNED_NODES_MISSING,
    POOL_NOT_LOCAL,
    POOLS_NOT_OWNED,
)
from drawbridge.agreement.slice_limits import within_limits
from drawbridge.config.model import Configuration, OwnedPool
from drawbridge.config.placement import owned_pools, selecting_entries
from drawbridge.dra.counted import count_noun, join_words, list_some
from drawbridge.dra.device import Taint
from drawbridge.dra.families import BY_DRIVER
from drawbridge.dra.generations import current_slices
from drawbridge.dra.inventory import PoolID, group_by_pool
from drawbridge.dra.nodes import Node
from drawbridge.dra.similar_names import suggest
from drawbridge.dra.slices import Slice
from drawbridge.facts.families import known_families
from drawbridge.facts.model import ClassFacts
from drawbridge.facts.withheld import drivers_by_resource, find_withheld_drivers
from drawbridge.finding import Finding
from drawbridge.names import OWNED_TAINT

# The taint that keeps pods of other schedulers off owned nodes.
FENCE: Final = Taint(OWNED_TAINT, "NoSchedule")
# A scheduler can allocate on a node after the taint was added, because its cache is older or it is
# binding a pod, and Drawbridge after the node is no longer owned. Neither starts before the other
# has had this time to finish.
SETTLE_SECONDS: Final = 10.0
_MAX_NAMED_NODES: Final = 10
Labels: TypeAlias = Mapping[str, str]


class PoolOwner(enum.StrEnum):
    """Who allocates from a pool."""

    DRAWBRIDGE = "drawbridge"
    UNFENCED = "unfenced"  # owned, but the node still lacks the taint
    OTHERS = "others"  # another driver, or a node that is not owned
    SHARED = "shared"  # the driver of an owned pool, but not local to one node
    MISNAMED = "misnamed"  # local to one node, with the name of another node


class NodeOwnership(NamedTuple):
    """What the configuration says about one node."""

    entries: tuple[int, ...] = ()  # of `ownedPools`, that select the node
    drivers: frozenset[str] = frozenset()  # whose local pools on the node are owned
    fenced: bool = False  # whether others must be kept away
    by_rules: bool = False  # whether the fence around the devices suffices, without the taint
    disagreeing: bool = False  # whether only some of the entries set `unfenced`

    @property
    def owned(self) -> bool:
        """Whether any pool on the node can be owned."""
        return bool(self.drivers)

    def needs_taint(self, *, rules_hold: bool) -> bool:
        """Whether the node must have the taint; with `rules_hold`, other fences suffice."""
        return self.fenced and not (self.by_rules and rules_hold)


class LocalPool(NamedTuple):
    """The slices of a pool for the one node to which it is local: only they count."""

    node: str
    slices: tuple[Slice, ...]


# What a node says instead of the fence that has settled, before its taint goes.
LEAVING: Final = "leaving"
_NOT_OWNED: Final = NodeOwnership()
OWNED: Final = frozenset({PoolOwner.DRAWBRIDGE, PoolOwner.UNFENCED})


def decide_node(owned: Sequence[OwnedPool], labels: Labels) -> NodeOwnership:
    """Decide the ownership of a node with these labels.

    If entries disagree on the fence, the node has it: the fence of one driver protects only if no
    other entry removes it.
    """
    entries = selecting_entries(owned, labels)
    if not entries:
        return _NOT_OWNED
    unfenced = {owned[i].unfenced for i in entries}
    drivers = frozenset(str(owned[i].driver) for i in entries)
    return NodeOwnership(
        entries,
        drivers,
        fenced=False in unfenced,
        by_rules=False in unfenced and not any(owned[i].tainted for i in entries),
        disagreeing=len(unfenced) > 1,
    )


def decide_pool(
    owned: Sequence[OwnedPool],
    pool: PoolID,
    local: LocalPool | None,
    find_node: Callable[[str], Node | None],
) -> PoolOwner:
    """Decide who allocates from a pool of which this is local to its node.

    `find_node` returns a node, or None if it is not known; its pools are not owned.
    """
    if all(each.driver != pool.driver for each in owned):
        return PoolOwner.OTHERS
    if local is None:
        return PoolOwner.SHARED
    if local.node != pool.name and find_node(pool.name) is not None:
        return PoolOwner.MISNAMED
    node = find_node(local.node)
    decided = decide_node(owned, node.labels) if node is not None else _NOT_OWNED
    if node is None or pool.driver not in decided.drivers:
        return PoolOwner.OTHERS
    if decided.fenced and not has_fence(node.taints):
        return PoolOwner.UNFENCED
    return PoolOwner.DRAWBRIDGE


def find_local_pool(pool: PoolID, slices: Iterable[Slice]) -> LocalPool | None:
    """Return what of a pool is local to its node; None if the pool is not local.

    If slices for several nodes name the pool, it belongs to the node with its name.
    """
    published = tuple(slices)
    current = current_slices(published)
    names = {each.node_name for each in current}
    if any(_is_shared(each) for each in current) or not all(names):
        return None
    node = next(iter(names)) if len(names) == 1 else pool.name
    local = tuple([each for each in published if each.node_name == node])
    return LocalPool(node, local) if node and local else None


def _is_shared(slice_: Slice) -> bool:
    """Whether fields other than the node name select nodes for a slice or its devices."""
    return (
        bool(slice_.all_nodes or slice_.per_device_node_selection)
        or slice_.node_selector is not None
    )


def select_owned_slices(
    configuration: Configuration,
    slices: Sequence[Slice],
    nodes: Iterable[Node],
    classes: Iterable[ClassFacts],
    held: Mapping[str, Collection[str]],
) -> tuple[Slice, ...]:
    """Return the slices of the pools that the allocator uses; all without bridge placement.

    Nodes without the taint count as if the controller had added it. `held` has the names that pods
    hold from device plugins, by node.
    """
    owned = owned_pools(configuration)
    if not owned:
        return tuple(slices)
    families, extended = known_families(configuration), drivers_by_resource(classes)
    by_name = {each.name: each for each in nodes}
    withheld = {
        name: find_withheld_drivers(node, families, extended, held.get(name, ()))
        for name, node in by_name.items()
    }
    used: set[str] = set()
    for pool, published in group_by_pool(within_limits(slices)).items():
        local = find_local_pool(pool, published)
        if local is None or decide_pool(owned, pool, local, by_name.get) not in OWNED:
            continue
        if pool.driver not in withheld[local.node]:
            used.update(each.name for each in local.slices)
    return tuple(each for each in slices if each.name in used)


def report_unused_pools(slices: Iterable[Slice], used: Iterable[Slice]) -> Finding | None:
    """Report how many pools `select_owned_slices` left out."""
    all_pools, used_pools = (
        {PoolID(each.driver, each.pool) for each in several} for several in (slices, used)
    )
    left = len(all_pools) - len(used_pools)
    if not left:
        return None
    message = f"the allocator of Drawbridge does not use {left} of "
    message += count_noun(len(all_pools), "pool")
    return POOLS_NOT_OWNED.at("ownedPools", message, object="Configuration")


def report_shared_pools(owned: Sequence[OwnedPool], slices: Sequence[Slice]) -> tuple[Finding, ...]:
    """Report the pools of owned drivers that are not local to one node, by driver and name.

    Slices of nodes that publish too much do not count, as for the allocator.
    """
    drivers = frozenset(str(each.driver) for each in owned)
    counted = within_limits(slices) if drivers else ()
    pools = group_by_pool(each for each in counted if each.driver in drivers)
    return tuple(
        report_shared_pool(pool, pools[pool])
        for pool in sorted(pools)
        if find_local_pool(pool, pools[pool]) is None
    )


def report_shared_pool(pool: PoolID, slices: Iterable[Slice]) -> Finding:
    """Report a pool of an owned driver that is not local; the allocator does not use it."""
    newest = sorted(slices, key=lambda each: (-each.generation, each.name))
    message = f"pool {pool.name} of driver {pool.driver} is not local to one node: {_reach(newest)}"
    return POOL_NOT_LOCAL.at("spec", message, object=f"ResourceSlice/{newest[0].name}")


def _reach(slices: Iterable[Slice]) -> str:
    for slice_ in slices:
        if slice_.all_nodes:
            return f"ResourceSlice {slice_.name} sets allNodes"
        if slice_.per_device_node_selection:
            return f"ResourceSlice {slice_.name} sets perDeviceNodeSelection"
        if slice_.node_selector is not None:
            return f"ResourceSlice {slice_.name} sets nodeSelector"
    return "its ResourceSlices name several nodes"


def find_unfenced_nodes(
    owned: Sequence[OwnedPool], nodes: Iterable[Node], *, rules_hold: bool = False
) -> tuple[str, ...]:
    """Return the names of the owned nodes without the taint that they must have, sorted.

    With `rules_hold`, the fence around the devices replaces it where that is configured.
    """
    return tuple(
        sorted(
            node.name
            for node in nodes
            if decide_node(owned, node.labels).needs_taint(rules_hold=rules_hold)
            and not has_fence(node.taints)
        )
    )


def has_fence(taints: Iterable[Taint]) -> bool:
    """Tell whether a node with these taints has the fence; its value is irrelevant."""
    return any(each.key == FENCE.key and each.effect == FENCE.effect for each in taints)


def find_fence(taints: Iterable[Taint]) -> Taint | None:
    """Return the taint of a node that is its fence."""
    return next((each for each in taints if has_fence((each,))), None)


def name_fence(fence: Taint, uid: str) -> str:
    """Return what tells a fence of the node with this UID from an earlier one: its time.

    Without a time, the kubelet has registered the node with it, so that there was no earlier one.
    """
    return fence.time_added or uid


def leaves(node: Node) -> bool:
    """Whether the fence of a node counts no more: its taint goes when each allocator knows it."""
    return node.settled_fence == LEAVING


def has_settled(node: Node, fence: Taint) -> bool:
    """Whether the controller says that it has watched this fence of a node for the settle time."""
    return bool(node.settled_fence) and node.settled_fence == name_fence(fence, node.uid)


def report_unfenced_nodes(names: Sequence[str]) -> Finding | None:
    """Report owned nodes without the taint. The allocator does not use their pools."""
    if not names:
        return None
    verb = "lacks" if len(names) == 1 else "lack"
    return FENCE_MISSING.at(
        "spec.taints", f"{_list_nodes(names)} {verb} the taint {OWNED_TAINT}:{FENCE.effect}"
    )


def report_contested_nodes(names: Sequence[str]) -> Finding | None:
    """Report owned nodes that lose the taint each time that they get it."""
    if not names:
        return None
    text = f"{_list_nodes(names)} lost the taint {OWNED_TAINT}:{FENCE.effect} again and again: "
    return FENCE_MISSING.at("spec.taints", f"{text}another client removes it")


def report_closed_nodes(owned: Sequence[OwnedPool], nodes: Iterable[Node]) -> Finding | None:
    """Report nodes that the configuration leaves open, and that have the taint all the same."""
    names = sorted(
        node.name
        for node in nodes
        if decide_node(owned, node.labels).by_rules and has_fence(node.taints)
    )
    if not names:
        return None
    verb = "has" if len(names) == 1 else "have"
    message = f"{_list_nodes(names)} {verb} the taint {OWNED_TAINT}:{FENCE.effect} despite "
    message += "fence: rules; the events of ConfigMap drawbridge-facts say why"
    return FENCE_WITHOUT_RULES.at("ownedPools", message, object="Configuration")


def report_all_unfenced(
    owned: Sequence[OwnedPool], nodes: Iterable[Node], *, rules_hold: bool = False
) -> Finding | None:
    """Report the owned nodes without the taint if the allocator can use no other node."""
    owned_nodes = [node for node in nodes if decide_node(owned, node.labels).owned]
    unfenced = find_unfenced_nodes(owned, owned_nodes, rules_hold=rules_hold)
    return report_unfenced_nodes(unfenced) if len(unfenced) == len(owned_nodes) else None


def report_disagreement(nodes: Mapping[str, NodeOwnership]) -> Finding | None:
    """Report the nodes for which the entries disagree on the fence."""
    names = sorted(name for name, each in nodes.items() if each.disagreeing)
    if not names:
        return None
    numbers = sorted({number for name in names for number in nodes[name].entries})
    entries = join_words([f"ownedPools[{number}]" for number in numbers], "and")
    message = (
        f"{entries} select {_list_nodes(names)}, and only some of these entries set unfenced: "
        "true, so the taint stays"
    )
    return FENCE_DISAGREES.at("ownedPools", message, object="Configuration")


def report_selection(
    owned: Sequence[OwnedPool], nodes: Mapping[str, NodeOwnership]
) -> Finding | None:
    """Report entries that select no node, or a fence around every node of the cluster."""
    used = {i for each in nodes.values() for i in each.entries}
    unused = [f"ownedPools[{i}]" for i in range(len(owned)) if i not in used]
    if unused:
        verb = "selects" if len(unused) == 1 else "select"
        message = f"{', '.join(unused)} {verb} no node"
        return OWNED_NODES_MISSING.at(unused[0], message, object="Configuration")
    if nodes and all(each.needs_taint(rules_hold=True) for each in nodes.values()):
        message = f"every node of the cluster needs the taint {OWNED_TAINT}:{FENCE.effect}"
        return FENCE_AROUND_ALL_NODES.at("ownedPools", message, object="Configuration")
    return None


def report_missing_drivers(
    owned: Sequence[OwnedPool], slices: Iterable[Slice]
) -> Iterator[Finding]:
    """Report the drivers of entries that publish no slice, where others do."""
    drivers = {each.driver for each in slices}
    for i, entry in enumerate(owned if drivers else ()):
        if entry.driver not in drivers:
            # The name of another vendor's driver is similar to one that is written correctly.
            hint = "" if entry.driver in BY_DRIVER else suggest(entry.driver, drivers)
            message = f"no ResourceSlice is of driver {entry.driver}{hint}"
            yield OWNED_DRIVER_MISSING.at(
                f"ownedPools[{i}].driver", message, object="Configuration"
            )


def _list_nodes(names: Sequence[str]) -> str:
    noun = "node" if len(names) == 1 else "nodes"
    return f"{noun} {list_some(names, _MAX_NAMED_NODES, 'node')}"
