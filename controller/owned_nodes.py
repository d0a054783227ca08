"""Keeps the taint of owned nodes, so that pods of other schedulers stay off their devices.

`drawbridge.agreement.owned_pools` decides which nodes need the taint. This reconciler changes only
its own taint: it writes the whole list of taints, because Kubernetes cannot merge it, and the API
server rejects the write if the node has changed since.

The allocator does not use a node before the other schedulers have seen the taint. It counts that
time itself; for allocators that start later, this reconciler notes on the node which taint it has
watched for as long. That time is of a clock that is never set.

A node that is no longer owned keeps the taint until no allocator of ours writes to its devices any
more (controller.giving_back). The name of a node that was deleted counts like a node: another one
that registers with it, and is not owned, has the taint until then. While it is not ready, no pod
starts on it, so that this comes in time unless this process is away. Where a policy takes the place
of the taint, the node says that the taint leaves, and keeps it until each allocator knows that.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controller.current_writes import write_unless_changed
from controller.former_nodes import FormerNodes
from controller.giving_back import GivingBack
from controller.kept_writes import merge_kept
from controller.new_findings import NewFindings
from controller.protocols import (
    Gauge,
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    WatchedObject,
)
from controller.reconcile import FailedLast
from controller.watched_objects import WatchedNode
from drawbridge.agreement.owned_pools import (
    FENCE,
    LEAVING,
    SETTLE_SECONDS,
    NodeOwnership,
    decide_node,
    find_fence,
    has_fence,
    name_fence,
    report_contested_nodes,
    report_disagreement,
    report_selection,
    report_unfenced_nodes,
)
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.names import SETTLED_ANNOTATION

NAME: Final = "owned"
# With one run a second this also is the rate: a mistake in a selector can be corrected early.
MAX_CHANGES: Final = 50
# What each of additions, removals and notes gets of them, whatever the others have to write.
_LEAST_CHANGES: Final = 10
# A node that got its taint so often within this time loses it through another client.
_LOSSES: Final = 3
_LOSS_SECONDS: Final = 300.0

_Taints = list[dict[str, Any]]


class TaintChange(NamedTuple):
    """A node whose taints have to change; sorts additions first.

    With `settled`, the taint stays, and the node says that the taint of this name has settled.
    """

    removed: bool
    node: str
    settled: str = ""


def taint_changes(
    nodes: Iterable[WatchedObject[WatchedNode]],
    decided: Mapping[str, NodeOwnership],
    *,
    former: Collection[str] = (),
    rules_hold: Callable[[str], bool | None],
) -> list[TaintChange]:
    """Return the nodes that lack the taint, then those that have it without need.

    Nodes with a name of `former` need it although they are not owned. `rules_hold` tells of a node
    whether the fence of rules holds. While that is not known, nodes that depend on it stay as they
    are.
    """
    changes = []
    for node in nodes:
        ownership, has = decided[node.name], has_fence(node.value.spec.taints or ())
        holds = rules_hold(node.name)
        if holds is None and ownership.by_rules:
            continue
        needs = ownership.needs_taint(rules_hold=bool(holds))
        needs |= not ownership.owned and node.name in former
        changes += [TaintChange(not needs, node.name)] if needs != has else []
    return sorted(changes)


def change_taints(current: _Taints, added_at: float | None) -> _Taints:
    """Return the taints of a node with the fence since a Unix time, or without it; others stay."""
    others = [each for each in current if not _is_fence(each)]
    if added_at is None:
        return others
    time = dt.datetime.fromtimestamp(added_at, dt.UTC)
    fence = {"key": FENCE.key, "effect": FENCE.effect, "timeAdded": f"{time:%Y-%m-%dT%H:%M:%SZ}"}
    return [*others, fence]


def _owns(decided: Mapping[str, NodeOwnership], name: str) -> bool:
    return name in decided and decided[name].owned


def _is_fence(taint: dict[str, Any]) -> bool:
    return taint.get("key") == FENCE.key and taint.get("effect") == FENCE.effect


class OwnedNodeReconciler:
    """Adds and removes the taint, and reports what keeps the fence from being complete.

    `now` is the Unix time of the API server for persons to read, and `elapsed` a clock that is
    never set. `rules_hold` is whether the fence of rules replaces the taint of a node where that is
    configured; None while that is not known.
    """

    name = NAME

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        nodes: ObjectCache[WatchedNode],
        store: ObjectStore,
        *,
        configuration: Callable[[], Configuration],
        reporter: Reporter,
        reference: ObjectReference,
        giving_back: GivingBack[str],
        former: FormerNodes,
        now: Callable[[], float],
        elapsed: Callable[[], float],
        rules_hold: Callable[[str], bool | None] = lambda _node: None,
    ) -> None:
        self._nodes = nodes
        self._store = store
        self._configuration = configuration
        self._reporter = reporter
        self._reference = reference
        self._giving_back = giving_back
        self._former = former
        self._now, self._elapsed = now, elapsed
        self._rules_hold = rules_hold
        # Since when this process sees the taints of nodes, by node and the name of the taint.
        self._seen: dict[tuple[str, str], float] = {}
        self._leaving: frozenset[str] = frozenset()  # the former nodes when it last found removals
        self._parts, self._additions = FailedLast(), FailedLast(elapsed)
        self._removals, self._notes = FailedLast(elapsed), FailedLast(elapsed)
        self._written = 0  # by this run
        self._waiting: dict[FailedLast, Collection[TaintChange]] = {}  # what it has still to write
        # When nodes got the taint lately, by UID.
        self._tainted: dict[str, list[float]] = {}
        # Since when owned nodes have the taint without need.
        self._left: dict[str, float] = {}
        self._new_findings = NewFindings(reporter, "TaintNodes")

    async def reconcile(self) -> None:
        """Change the taints of a bounded number of nodes; their watch events start the next run."""
        owned = owned_pools(self._configuration())
        nodes = tuple(self._nodes.all())
        decided = {
            node.name: decide_node(owned, node.value.metadata.labels or {}) for node in nodes
        }
        for node in nodes:
            if decided[node.name].owned and has_fence(node.value.spec.taints or ()):
                self._former.discard(node.name)
        changes = taint_changes(nodes, decided, former=self._former, rules_hold=self._rules_hold)
        added = [each for each in changes if not each.removed]
        unfenced = sorted(each.node for each in added if decided[each.node].owned)
        unneeded = [each for each in changes if each.removed]
        settled = self._find_settled(nodes, decided, {each.node for each in unneeded})
        self._reporter.set_gauge(Gauge.OWNED_NODES, sum(each.owned for each in decided.values()))
        self._reporter.set_gauge(Gauge.UNFENCED_NODES, len(unfenced))
        self._written = 0
        self._waiting = {self._additions: added, self._removals: unneeded, self._notes: settled}

        async def add() -> None:
            # Others are about to use a node that has the name of an owned one.
            added.sort(key=lambda each: each.node not in self._former)
            await self._write_each(self._additions, added)

        async def remove() -> None:
            removed = await self._find_removed(unneeded, decided)
            await self._write_each(self._removals, removed)

        async def note() -> None:
            await self._write_each(self._notes, settled)

        try:
            # What keeps nodes from their taint is no reason to keep others closed.
            parts = {"add": add, "remove": remove, "note": note}
            await self._parts.process_each(parts, lambda _, part: part())
        finally:
            findings = (
                report_selection(owned, decided),
                report_disagreement(decided),
                report_unfenced_nodes(list(filter(self._additions.results.get, unfenced))),
                report_contested_nodes(self._find_contested(nodes)),
            )
            present = filter(None, findings)
            self._new_findings.report(dict.fromkeys(present, self._reference))

    async def _write_each(self, failed_last: FailedLast, changes: Iterable[TaintChange]) -> None:
        """Write as many changes as this run has left; those that failed take nothing of it.

        What always comes again, as a taint that somebody removes, keeps nothing else waiting.
        """

        async def write(_: str, change: TaintChange) -> None:
            await self._write(change)
            self._written += 1

        self._waiting.pop(failed_last, None)
        others = sum(map(bool, self._waiting.values()))
        most = MAX_CHANGES - self._written - _LEAST_CHANGES * others
        by_node = {change.node: change for change in changes}
        await failed_last.process_each(by_node, write, most)

    async def _find_removed(
        self, changes: Collection[TaintChange], decided: Mapping[str, NodeOwnership]
    ) -> list[TaintChange]:
        """Return the removals that nothing has to wait for any more."""
        now, before, self._left = self._elapsed(), self._left, {}
        due, leaving = [], set(self._former)
        for change in changes:
            if not decided[change.node].owned:
                leaving.add(change.node)
                continue
            self._left[change.node] = before.get(change.node, now)
            if self._says(change.node) == LEAVING:
                leaving.add(change.node)
            elif now - self._left[change.node] >= SETTLE_SECONDS:
                by_rules = decided[change.node].by_rules
                said = TaintChange(removed=False, node=change.node, settled=LEAVING)
                due.append(said if by_rules else change)
        self._former.add(leaving)
        self._leaving = frozenset(leaving)
        ended = await self._giving_back.find_ended(leaving)
        for name in ended:
            self._former.discard(name)
        unneeded = {change.node for change in changes}
        free = [name for name in ended if name in unneeded or not _owns(decided, name)]
        return sorted([*due, *(TaintChange(removed=True, node=name) for name in free)])

    def _says(self, node: str) -> str:
        """Return which fence of a node has settled, as it says, or that its fence leaves."""
        cached = self._nodes.get(node)
        annotations = cached.value.metadata.annotations if cached else None
        return (annotations or {}).get(SETTLED_ANNOTATION, "")

    def _find_settled(
        self,
        nodes: Iterable[WatchedObject[WatchedNode]],
        decided: Mapping[str, NodeOwnership],
        unneeded: Collection[str],
    ) -> list[TaintChange]:
        """Return the nodes whose taint has settled and is needed, and which do not say so."""
        now = self._elapsed()
        before, self._seen, settled = self._seen, {}, []
        for node in nodes:
            fence = find_fence(node.value.spec.taints or ())
            if fence is None or not decided[node.name].owned:
                continue
            name = name_fence(fence, node.uid)
            since = self._seen[node.name, name] = before.get((node.name, name), now)
            is_due = now - since >= SETTLE_SECONDS and node.name not in unneeded
            if is_due and self._says(node.name) != name:
                settled.append(TaintChange(removed=False, node=node.name, settled=name))
        return settled

    async def _write(self, change: TaintChange) -> None:
        cached = self._nodes.get(change.node)
        was_owned = change.node in self._leaving and not self._giving_back.has_ended(change.node)
        if cached is None or (change.removed and was_owned):
            return
        if change.settled in ("", LEAVING) and not self._is_needed(change, cached):
            return
        if change.settled:
            await self._merge(cached, {SETTLED_ANNOTATION: change.settled}, {})
            return
        spec = msgspec.json.decode(cached.raw).get("spec") or {}
        added_at = None if change.removed else self._now()
        taints = change_taints(spec.get("taints") or [], added_at)
        if await self._merge(
            cached, {SETTLED_ANNOTATION: None}, {"spec": {"taints": taints or None}}
        ):
            self._reporter.count(NAME, "untainted" if change.removed else "tainted")
            if change.removed:
                self._tainted.pop(cached.uid, None)
            else:
                self._tainted.setdefault(cached.uid, []).append(self._elapsed())

    def _find_contested(self, nodes: Iterable[WatchedObject[WatchedNode]]) -> list[str]:
        """Return the nodes whose taint somebody removes again and again."""
        since = self._elapsed() - _LOSS_SECONDS
        lately = {uid: [at for at in times if at > since] for uid, times in self._tainted.items()}
        self._tainted = {uid: times for uid, times in lately.items() if times}
        counts = {node.name: len(self._tainted.get(node.uid, ())) for node in nodes}
        return sorted(name for name, count in counts.items() if count >= _LOSSES)

    def _is_needed(self, change: TaintChange, node: WatchedObject[WatchedNode]) -> bool:
        """Whether a change is needed still: what the run has asked for in between takes time.

        A taint leaves before it is removed.
        """
        owned = owned_pools(self._configuration())
        decided = {node.name: decide_node(owned, node.value.metadata.labels or {})}
        needed = taint_changes([node], decided, former=self._former, rules_hold=self._rules_hold)
        return TaintChange(change.removed or change.settled == LEAVING, change.node) in needed

    async def _merge(
        self,
        cached: WatchedObject[WatchedNode],
        annotations: Mapping[str, str | None],
        fields: Mapping[str, Any],
    ) -> bool:
        """Change a node; False if it was deleted, or has changed."""
        metadata = {"resourceVersion": cached.version, "annotations": dict(annotations)}
        change = {"metadata": metadata, **fields}
        return await write_unless_changed(merge_kept(self._store, cached.name, change))
