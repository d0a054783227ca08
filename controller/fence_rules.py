"""Keeps the fence around the devices of owned pools, for entries with `fence: rules`.

`drawbridge.agreement.device_fence` says what the fence is. This reconciler writes the pools into
the policy that refuses others their allocation, and a DeviceTaintRule for each of them. If the
cluster cannot keep this fence, the nodes get their taint. So does a node alone that publishes more
pools than a driver on it should, together with those that still leave: there is one policy for all
nodes. Which node a pool was on is for this alone. A process that leads anew does not know it of
pools that nobody publishes, and counts these for no node until they have left.

A client that sets the list of pools again and again, such as a GitOps tool, opens the fence each
time. Then the nodes have their taint as well, until that has ended.

A pool that is no longer wanted stays in the policy until the taint of its node has settled, so that
the allocator can use it all the time. Then an annotation of the policy says that the pool leaves,
and the policy names it until no allocator of ours writes to it any more (controller.giving_back).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from controller.current_writes import write_unless_changed
from controller.fair_queue import FairQueue
from controller.giving_back import GivingBack
from controller.new_findings import NewFindings
from controller.owned_nodes import MAX_CHANGES
from controller.protocols import ObjectCache, ObjectReference, ObjectStore, Reporter, Unstructured
from controller.reconcile import FailedLast
from controller.steps import iterate_in_steps
from controller.watched_objects import WatchedNode
from drawbridge.agreement.device_fence import (
    MAX_CHARACTERS,
    MAX_CHARACTERS_OF_NODE,
    MOST_CHARACTERS,
    FencePart,
    FenceParts,
    find_fence_problem,
    find_nodes_to_taint,
    find_nodes_without_room,
    find_open_node,
    group_slices,
    is_our_rule,
    make_rule,
    policy_spec,
    read_leaving,
    read_pools,
    rule_name,
    selects_as,
    write_pools,
)
from drawbridge.agreement.operation_codes import FENCE_RULE_REFUSED, FENCE_WITHOUT_RULES
from drawbridge.agreement.owned_pools import FENCE, SETTLE_SECONDS
from drawbridge.api_error import ApiError
from drawbridge.cluster.discovery import find_taint_rules
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import POLICIES, POLICY_BINDINGS, Resource
from drawbridge.cluster.session import Session
from drawbridge.config.model import Configuration, OwnedPool
from drawbridge.config.placement import owned_pools
from drawbridge.dra.counted import list_some
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.names import FACTS_CONFIG_MAP, FENCE_POLICY, LEAVING_POOLS_ANNOTATION

_LOG: Final = logging.getLogger("controller.rules")
NAME: Final = "rules"
# Until the taint that replaces the fence is there and has settled. Nodes get it one after another:
# so many at a time (controller.owned_nodes), in about a second, and a second passes in between.
KEEP_SECONDS: Final = 2 * SETTLE_SECONDS
SECONDS_PER_CHANGES: Final = 2
# A rule that somebody removed is back by then. Until then other schedulers are refused later.
RULE_SECONDS: Final = 15.0
# Of a slow API server, the policy is read in between.
MAX_RULES: Final = 100
# A second `kubectl apply` is no reason to close nodes.
MAX_LOSSES: Final = 3
LOSS_SECONDS: Final = 600.0
_MAX_NAMED_NODES: Final = 10


class FenceSources(NamedTuple):
    """What is published, and where."""

    slices: ObjectCache[Slice | tuple[Finding, ...]]
    nodes: ObjectCache[WatchedNode]


class FenceStores(NamedTuple):
    """Where the parts of the fence are; `find_rules` returns None where no rules are served."""

    policies: ObjectStore
    bindings: ObjectStore
    find_rules: Callable[[], Awaitable[ObjectStore | None]]


def make_fence_stores(session: Session, store: Callable[[Resource], ObjectStore]) -> FenceStores:
    """Return the stores of an API server, each made by `store`."""

    async def find_rules() -> ObjectStore | None:
        served = await find_taint_rules(session)
        return None if served is None else store(served)

    return FenceStores(store(POLICIES), store(POLICY_BINDINGS), find_rules)


class FenceRuleReconciler:
    """Writes the pools and the rules. `now` is the time of a clock that is never set."""

    name = NAME

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        sources: FenceSources,
        stores: FenceStores,
        *,
        namespace: str,
        configuration: Callable[[], Configuration],
        reporter: Reporter,
        giving_back: GivingBack[PoolID],
        now: Callable[[], float],
    ) -> None:
        self._giving_back = giving_back
        self._log = FailureLog(_LOG, "pools can leave the policy again after %.0f s", now)
        self._sources = sources
        self._stores = stores
        self._namespace = namespace
        self._configuration = configuration
        self._reporter = reporter
        self._now = now
        self._reference = ObjectReference("ConfigMap", FACTS_CONFIG_MAP, namespace)
        self._unwanted: dict[PoolID, float] = {}  # that the policy names, since when
        self._nodes: dict[PoolID, str] = {}  # of what the policy names or a driver publishes
        self._named: frozenset[PoolID] = frozenset()  # what the policy named after the last write
        self._losses, self._lost_at = 0, float("-inf")  # how often it did not any more
        self._rules_at = float("-inf")
        self._is_clean = False  # whether nothing is left of an earlier configuration
        self._rules, self._refusal = _Rules(), ""
        self._new_findings = NewFindings(reporter, "TaintNodes")
        self._holds: bool | None = None
        self._tainted: frozenset[str] = frozenset()
        self.policy_version = ""  # as it was read last
        self.listener: Callable[[], None] = lambda: None

    def holds(self, node: str) -> bool | None:
        """Whether this fence suffices for a node; None while that is not known."""
        return self._holds and node not in self._tainted

    async def reconcile(self) -> None:
        """Write what changed of the pools, and from time to time all rules."""
        owned = owned_pools(self._configuration())
        wants = [i for i, each in enumerate(owned) if each.by_rules]
        if not wants and self._is_clean:
            self._conclude(wants, _Outcome("no entry asks for it"))
            return
        try:
            outcome = await self._write_all(owned, is_wanted=bool(wants))
        except ApiError as error:
            if not error.refused or error.conflict:
                raise  # the next run reads what has changed
            if wants or self._named:
                self._conclude(wants, _Outcome(f"{error}"))
                raise
            # Without the component for bridge placement, there is no right and nothing to clean up.
            outcome = _Outcome(is_done=True)
        self._is_clean = outcome.is_done and not wants
        self._conclude(wants, outcome)
        if outcome.error is not None:
            raise outcome.error

    async def _write_all(self, owned: tuple[OwnedPool, ...], *, is_wanted: bool) -> "_Outcome":
        parts = await self._read_parts()
        rules = await self._stores.find_rules()
        installed = find_fence_problem(parts, self._namespace)
        published = await self._find_pools(owned) if is_wanted else {}
        named = read_pools(parts.policy.spec) if parts.policy and not installed else frozenset()
        contest = self._find_contest(frozenset() if installed else self._named - named)
        if not installed:
            self._named &= named  # each loss counts once, also if the write that mends it fails
        announced = read_leaving(parts.policy) if named else frozenset()
        self.policy_version = parts.policy.metadata.resource_version if parts.policy else ""
        self._nodes = {pool: self._nodes[pool] for pool in named & self._nodes.keys()} | published
        tainted = find_nodes_to_taint(self._nodes)
        wanted = {pool: node for pool, node in published.items() if node not in tainted}
        problem = installed
        if rules is None:
            problem = "the API server does not serve DeviceTaintRules"
        if problem:
            wanted = {}
        tainted |= find_nodes_without_room(named, self._nodes, wanted)
        wanted = {pool: node for pool, node in wanted.items() if node not in tainted}
        # The administrator replaces the policy, perhaps.
        directed = published if installed else ()
        written = await self._write(rules, _Named(named, announced), wanted, directed)
        return written._replace(problem=problem or contest, tainted=tainted)

    def _find_contest(self, lost: frozenset[PoolID]) -> str:
        """Say that another client removes pools from the policy; empty if none does."""
        now = self._now()
        if now - self._lost_at >= LOSS_SECONDS:
            self._losses = 0
        if lost:
            self._losses, self._lost_at = self._losses + 1, now
        if self._losses < MAX_LOSSES:
            return ""
        return (
            f"another client changes the variable pools of ValidatingAdmissionPolicy {FENCE_POLICY}"
            " again and again; have it ignore spec.variables"
        )

    def _conclude(self, wants: list[int], outcome: "_Outcome") -> None:
        """Tell which nodes need their taint, and report why."""
        before = (self._holds, self._tainted)
        self._holds = bool(wants) and not outcome.problem
        self._tainted = outcome.tainted
        findings = {}
        if wants and (outcome.problem or outcome.tainted):
            message = f"ownedPools[{wants[0]}] sets fence: rules, but {_describe(outcome)} the"
            message += f" taint {FENCE.key}:{FENCE.effect}"
            finding = FENCE_WITHOUT_RULES.at("ownedPools", message, object="Configuration")
            findings[finding] = self._reference
        is_refused = isinstance(outcome.error, ApiError) and outcome.error.refused
        # That of the first rule, while there are any.
        self._refusal = self._refusal or f"{outcome.error}" if is_refused else ""
        if self._refusal:
            message = f"a DeviceTaintRule cannot be written: {self._refusal}"
            finding = FENCE_RULE_REFUSED.at("ownedPools", message, object="Configuration")
            findings[finding] = self._reference
        self._new_findings.report(findings)
        if before != (self._holds, self._tainted):
            self.listener()

    async def _find_pools(self, owned: tuple[OwnedPool, ...]) -> dict[PoolID, str]:
        """Return the owned pools on the nodes without the taint, with these nodes."""
        values = (cached.value for cached in self._sources.slices.all())
        published = [value for value in values if isinstance(value, Slice)]
        pools = {}
        async for pool, slices in iterate_in_steps(group_slices(owned, published).items()):
            node = find_open_node(owned, pool, slices, self._find_node)
            if node is not None:
                pools[pool] = node
        return pools

    def _find_node(self, name: str) -> Node | None:
        cached = self._sources.nodes.get(name)
        return None if cached is None else Node(name, labels=cached.value.metadata.labels or {})

    async def _read_parts(self) -> FenceParts:
        stores = (self._stores.policies, self._stores.bindings)
        return FenceParts(*[_read_part(await each.read(FENCE_POLICY)) for each in stores])

    async def _write(
        self,
        rules: ObjectStore | None,
        before: "_Named",
        wanted: Mapping[PoolID, str],
        directed: Iterable[PoolID],
    ) -> "_Outcome":
        """Write the pools, given with their nodes, then the rules; tell how far that is.

        The rules of pools that the policy names stay, and those of `directed`.
        """
        now, unwanted = self._now(), before.pools - wanted.keys()
        self._unwanted = {each: self._unwanted.get(each, now) for each in unwanted}
        nodes = {self._nodes.get(each, each) for each in unwanted}
        seconds = KEEP_SECONDS + SECONDS_PER_CHANGES * (len(nodes) // MAX_CHANGES)
        old = {each for each, since in self._unwanted.items() if now - since >= seconds}
        old |= before.leaving & unwanted  # also if an earlier leader has said so
        over = await self._find_ended(old & before.leaving)
        names = before.pools.difference(over).union(wanted)
        self._named &= names  # of a write without a response, nobody knows
        await self._name(before, _Named(names, names & old))
        self._named = names
        # The first time also without pools: the rules were perhaps not served when the pools ended.
        if names != before.pools or now - self._rules_at >= RULE_SECONDS:
            self._rules_at = float("-inf")
            if rules is not None:
                written = await self._rules.write(rules, wanted, names.union(directed))
                if not written.is_done:
                    return written
            self._rules_at = now
        return _Outcome(is_done=not names)

    async def _find_ended(self, leaving: Collection[PoolID]) -> Collection[PoolID]:
        """Return the pools that need the fence no more; what is wanted does not wait for it."""
        try:
            ended = await self._giving_back.find_ended(leaving)
        except ApiError as error:
            text = "pools stay in the policy %s: %s"
            self._log.fail(error, text, FENCE_POLICY, error, level=logging.WARNING)
            return ()
        self._log.succeed()
        return ended

    async def _name(self, before: "_Named", after: "_Named") -> None:
        """Have the policy name other pools than before, or say of others that they leave."""
        if after == before:
            return
        variables = policy_spec(after.pools, self._namespace)["variables"]
        text = write_pools(after.leaving) if after.leaving else None
        annotations = {LEAVING_POOLS_ANNOTATION: text}
        # A request that takes long must not undo what later ones write.
        metadata = {"resourceVersion": self.policy_version, "annotations": annotations}
        change = {"metadata": metadata, "spec": {"variables": variables}}
        await self._stores.policies.merge(FENCE_POLICY, change)
        self._reporter.count(NAME, "written")


class _Rules:
    """Writes the rules. What others have made or changed meanwhile is left to a later run."""

    def __init__(self) -> None:
        self._parts, self._created, self._deleted = FailedLast(), FailedLast(), FailedLast()

    async def write(
        self, store: ObjectStore, wanted: Mapping[PoolID, str], kept: Iterable[PoolID]
    ) -> "_Outcome":
        """Create the rules of these pools, and delete others of ours but those that are kept.

        Nodes take turns, and the oldest rules go first. Tell whether that is all, or what failed: a
        rule only spares other schedulers the attempt, so the fence holds all the same.
        """
        missing = {(rule := make_rule(pool))["metadata"]["name"]: rule for pool in wanted}
        names, wrong = {*map(rule_name, kept)}, []
        async for rule in store.iterate():
            name = rule["metadata"]["name"]
            if name in missing and selects_as(rule, missing[name]):
                del missing[name]
            elif name in missing or (name not in names and is_our_rule(rule)):
                wrong.append(rule)

        wrong.sort(key=lambda each: each["metadata"].get("creationTimestamp") or "")
        deleted = {rule["metadata"]["name"]: rule for rule in wrong}
        created = _order(missing, wanted)
        delete, create = partial(_delete_rule, store), partial(_create_rule, store)
        parts = {
            "delete": partial(self._deleted.process_each, deleted, delete, MAX_RULES),
            "create": partial(self._created.process_each, created, create, MAX_RULES),
        }
        try:
            await self._parts.process_each(parts, lambda _, part: part())
        except (ApiError, OSError) as error:
            return _Outcome(error=error)
        return _Outcome(is_done=max(len(deleted), len(created)) <= MAX_RULES)


def _order(
    missing: Mapping[str, dict[str, Any]], wanted: Mapping[PoolID, str]
) -> dict[str, dict[str, Any]]:
    """Return the missing rules, first those that a run can create."""
    turns = FairQueue()
    named = ((node, rule_name(pool)) for pool, node in wanted.items())
    turns.update(key for key in named if key[1] in missing)
    return {name: missing[name] for _, name in islice(turns.drain(), MAX_RULES)} | {**missing}


async def _delete_rule(store: ObjectStore, name: str, rule: Unstructured) -> None:
    metadata = rule["metadata"]
    version = metadata["resourceVersion"]
    await write_unless_changed(store.delete(name, uid=metadata["uid"], version=version))


async def _create_rule(store: ObjectStore, _: str, rule: Unstructured) -> None:
    try:
        await store.create(rule)
    except ApiError as error:
        if not error.exists:
            raise


class _Outcome(NamedTuple):
    """Why the cluster cannot keep the fence, the nodes that need the taint, and if all is gone.

    `error` is that of a rule.
    """

    problem: str = ""
    tainted: frozenset[str] = frozenset()
    is_done: bool = False
    error: Exception | None = None


class _Named(NamedTuple):
    """The pools that the policy names, and which of them leave."""

    pools: frozenset[PoolID]
    leaving: frozenset[PoolID]


def _describe(outcome: _Outcome) -> str:
    if outcome.problem:
        return f"{outcome.problem}; the nodes have"
    nodes = list_some(sorted(outcome.tainted), _MAX_NAMED_NODES, "node")
    return (
        f"the policy has no room for the pools of {nodes}: a node has {MAX_CHARACTERS_OF_NODE}"
        f" characters with those that leave, and all have {MAX_CHARACTERS}, or {MOST_CHARACTERS}"
        " with those that leave; there is"
    )


def _read_part(value: Unstructured | None) -> FencePart | None:
    return None if value is None else msgspec.convert(value, FencePart)
