"""A run: a script of events against a cluster of models and real allocators, from one seed."""

import asyncio
import functools
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast
from unittest import mock

from allocator.state import pod_table
from allocator.state.pauses import WAKE_PAUSES
from controller.reconcile import Schedule
from controller.reconcilers import SCHEDULES
from controller.usage_books import NAME as USAGE
from drawbridge.cluster.history import RESTORE_SECONDS
from drawbridge.ledger.ledger import Ledger
from tests.cluster.fake.kinds import JSON, Kind, named
from tests.cluster.fake.store import Change, Saved, Store
from tests.cluster.fake.trouble import Seen
from tests.world import (
    clock,
    controller_events,
    faults,
    gang_events,
    invariants,
    machine_events,
    rival_invariants,
)
from tests.world.admission import Webhook
from tests.world.admitted_pods import AdmittedPods
from tests.world.allocations import is_marked
from tests.world.asked import is_waiting
from tests.world.asks import count_asks
from tests.world.books import Books
from tests.world.conditions import draw_conditions
from tests.world.control import Controllers
from tests.world.controllers import ClaimController
from tests.world.copies import Copies
from tests.world.election import find_holder
from tests.world.events import EVENTS
from tests.world.fabric import Fabric
from tests.world.fence import DeviceFence
from tests.world.foreign_taints import ForeignTaints
from tests.world.gangs import is_reserved_for
from tests.world.holders import Holders
from tests.world.large import LargeClaims
from tests.world.machines import Machine
from tests.world.mirrors import refuse_mirror
from tests.world.namespaces import Namespaces
from tests.world.network import LATEST_SECONDS, Network
from tests.world.newcomers import Newcomers
from tests.world.nodes import Kubelet, claim_names, consumers_of, devices_of
from tests.world.objects import ALL_NODES, SCALED, has_owners, is_over
from tests.world.opened_fences import OpenedFences
from tests.world.other_webhooks import OtherWebhooks
from tests.world.pair import Pair
from tests.world.placed_pods import is_placed
from tests.world.quotas import Quotas
from tests.world.rivals import Rivals
from tests.world.scheduler import NAME, SLOWEST_BINDING, UNWOKEN_SECONDS
from tests.world.script import Event
from tests.world.start import list_models, list_objects
from tests.world.stock import StockScheduler
from tests.world.uses import Uses
from tests.world.waiting_pods import Answer
from tests.world.watches import Front
from tests.world.whole_gangs import WholeGangs

HOSTS = ("host-a", "host-b")
# Victims of pods that evict after a delay can go so long at the end.
_LONGEST_EVICTIONS = 30.0
# After the faults, everything must be well within this time, with the longest hold and Lease.
SETTLE_SECONDS = 240
# Books of usage are written more often than each minute, because a run has few of these.
_USAGE = Schedule(min_interval=3, resync=10, max_retry=20)
# An API server sends bookmarks as often when nothing else happens.
_BOOKMARK_SECONDS = 50.0


@dataclass
class Outcome:
    """What a run showed."""

    seed: int
    script: tuple[Event, ...]
    violation: str = ""
    story: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    happened: int = 0
    defects: frozenset[str] = frozenset()

    @property
    def events(self) -> int:
        """Events of the script, and the writes and preparations that followed."""
        return self.happened + self.counted["write"] + self.counted.get("preparation", 0)

    @property
    def faults(self) -> int:
        """What failed: requests, processes, hosts, servers, drivers and machines."""
        modules = (faults, controller_events, gang_events, machine_events)
        names = (name for module in modules for name in module.FAULT_NAMES)
        return sum(self.counted.get(name, 0) for name in names)


def play(seed: int, script: Iterable[Event], defects: Collection[str] = ()) -> Outcome:
    """Play a script to its end, or to the first violation.

    The stock scheduler has these defects of Kubernetes.
    """
    outcome = Outcome(seed, tuple(script), defects=frozenset(defects))
    copies = Copies(seed)

    async def run() -> None:
        world = World(outcome, copies)
        with (
            mock.patch.object(pod_table, "MAX_RECORDS", world.conditions.most_records),
            mock.patch.dict(SCHEDULES, {USAGE: _USAGE}),
            mock.patch.object(Ledger, "assume", rival_invariants.note_promises(world)),
        ):
            await world.run()

    clock.run(run, seed, copies)
    return outcome


class World:
    """The cluster of one run."""

    def __init__(self, outcome: Outcome, copies: Copies) -> None:
        self.outcome = outcome
        self.copies = copies
        self.random = random.Random(f"world {outcome.seed}")
        self.conditions = draw_conditions(outcome.seed, EVENTS)
        self.network = Network(
            self.random, Store(clock.now, random.Random(outcome.seed), has_owners)
        )
        # In most runs, the number of digits of the versions changes.
        store = self.network.store
        store.version = store.oldest = self.random.choice((95, 850, 9_800, 999_700))
        self.network.open()
        self.server = self.network.fronts[0].server
        self.uses = Uses(self.network, frees_too_early="141471" not in outcome.defects)
        self.holders = Holders()
        self.foreign_taints = ForeignTaints(self.network)
        self.controllers = Controllers(self.network, self.conditions.controllers)
        self._fence = DeviceFence(self.network)
        self.books = Books(self.network, self.controllers)
        self.newcomers = Newcomers(self.network, self.controllers, self._fence)
        self.opened = OpenedFences(self.network, self._fence, self.controllers)
        slow, by_rules = self.conditions.slow_bindings_of_others, self.conditions.fences_devices
        self.stock = StockScheduler(self.network, outcome.defects, slow, obeys_rules=by_rules)
        self.webhook = Webhook(self.network, "hook-a")
        self.fabric = Fabric(self.network)
        self.quotas = Quotas(self.network)
        others = OtherWebhooks(self.network, self.webhook, self.conditions.changed_by_others)
        self.admitted = AdmittedPods(self.network, others, self.quotas, self._say)
        self.claims = ClaimController(self.network, self.quotas)
        self.rivals = Rivals(self.network)
        self.whole_gangs = WholeGangs()
        self.spaces = Namespaces(self.network, self.conditions.selects)
        self.large = LargeClaims(self.network, is_crowded=self.conditions.is_crowded)
        self.checked_writes = 0
        self.answers: dict[object, Answer] = {}  # by invariants of stored objects only
        self.forged: set[str] = set()  # claims whose mark a tenant has changed
        self.pairs: dict[str, Pair] = {}
        self.machines = {name: self._make_machine(name) for name in ALL_NODES}
        self.is_calm = False  # whether all faults have ended
        self.touched = ""  # the node to which something has just happened
        self.bound: JSON = {}  # the pod that was bound last
        self.bound_late: set[str] = set()  # pods that were bound soon after a restore
        # Claims that the stock scheduler allocated with what it knew before a restore.
        self.decided_before_restore: set[str] = set()
        self.taken: list[str] = []  # what our allocators have taken, and must not
        self.released_at = float("-inf")  # when a scheduler released the Lease
        self._number, self._backup = 0, cast("Saved | None", None)
        self._restored_at = self._bound_until = float("-inf")
        self._told = 0
        self._is_over = asyncio.Event()

    def _make_machine(self, name: str) -> Machine:
        kubelet = Kubelet(name, self.network, self._start_use, self._end_use)
        has_nics = self.conditions.asks_for_nics > 0
        return Machine(name, ALL_NODES[name], self.server, kubelet, has_nics=has_nics)

    # --- a run ---

    async def run(self) -> None:
        """Play the script, let everything settle, and check what is left."""
        for value in list_objects(self):
            self.server.put(value)
        self._fence.start_servers()
        self.network.admit = self._admit
        for machine in self.machines.values():
            if machine.name not in SCALED:
                machine.register()
        self.back_up()
        store = self.network.store
        others = (self.newcomers, self._fence, self.opened, self.large, self.whole_gangs)
        others = (*others, self.foreign_taints)
        followers = [each.follow for each in (self.spaces, self.books, *others)]
        store.listeners += [self._follow, *followers]
        tasks = [*map(asyncio.ensure_future, list_models(self))]
        for host in HOSTS:
            self._start_pair(host)
        playing = asyncio.ensure_future(self._play())
        over = asyncio.ensure_future(self._is_over.wait())
        await asyncio.wait((playing, over, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for part in (playing, *tasks):
            if part.done():
                part.result()
        for pair in self.pairs.values():
            await pair.kill()
        tasks += self.admitted.creating
        for task in (*tasks, playing, over):
            task.cancel()
        await asyncio.gather(*tasks, playing, over, return_exceptions=True)
        self.network.counted["write"] = len(self.network.written)
        self.network.counted["cut computation"] = self.copies.cuts
        self.network.counted["copy of a process"] = self.copies.copies
        self.outcome.counted |= self.network.counted

    def _admit(self, who: str, front: Front, seen: Seen) -> None:
        self._fence.check(who, front, seen)
        refuse_mirror(seen)

    async def _play(self) -> None:
        await asyncio.sleep(5)
        self.network.faults = replace(self.conditions.faults)
        self.copies.part = self.conditions.cut_computations
        for event in self.outcome.script:
            await asyncio.sleep(event.after)
            self._happen(event)
            self.check("write")
        await self._settle()

    async def _settle(self) -> None:
        """End all faults, and wait until all is well without a restart; then let work go on."""
        self.is_calm = self.fabric.is_calm = True
        self.network.heal()
        self.copies.part = self.admitted.others.part = 0.0
        for machine in self.machines.values():
            machine.heal()
        self.whole_gangs.begin()
        self._say("the faults end")
        if "restore" in self.network.counted:
            self._restart_schedulers()
        await self._wait_until_well(SETTLE_SECONDS)
        for pair in self.pairs.values():
            pair.scheduler.slow_bindings = 0.0
        loop = asyncio.get_running_loop()
        # Who is being bound may have lost its devices, and takes others afterwards.
        bound = loop.time() + SLOWEST_BINDING
        soon = self.conditions.calm_seconds(has_restored="restore" in self.network.counted)
        for name in self.conditions.calm:
            if self.outcome.violation:
                return
            self.whole_gangs.begin(name)
            self._happen(Event(0.0, name, self.random.getrandbits(16)))
            await asyncio.sleep(self.random.uniform(0.5, 8))
            await self._wait_until_well(soon + max(0.0, bound - loop.time()))

    def _restart_schedulers(self) -> None:
        """Restart the schedulers that have bound pods of which a restore has taken the node.

        A kube-scheduler does not try these again, so the page about restoring says to restart it.
        """
        waiting = {pod["metadata"]["uid"] for pod in filter(is_waiting, self.all("pods"))}
        for pair in self.pairs.values():
            if waiting & pair.scheduler.assumed:
                self.network.count("scheduler to restart after a restore")
                pair.scheduler.die()

    async def _wait_until_well(self, seconds: float) -> None:
        """Wait until all is well, at most for some time."""
        began = (loop := asyncio.get_running_loop()).time()
        # What one of these pods evicts lets others ask for what is left, at the next time.
        end = began + seconds + (2 * UNWOKEN_SECONDS if self.conditions.forgets_pods else 0)
        pauses, evictions = WAKE_PAUSES.longest, _LONGEST_EVICTIONS
        while left := self._find(invariants.AT_THE_END):
            if loop.time() > end:
                self._break(left)
                return
            if invariants.is_gathering(self):
                end += 0.5
            elif pauses > 0 and invariants.is_pausing(self, left):
                end, pauses = end + 0.5, pauses - 0.5
            elif evictions > 0 and invariants.is_evicting(self):
                end, evictions = end + 0.5, evictions - 0.5
            await asyncio.sleep(0.5)
            if (loop.time() - began) % _BOOKMARK_SECONDS < 0.5:
                self.server.bookmark()
        self._say(f"all is well after {loop.time() - began:.1f} s")

    def _follow(self, kind: Kind, change: Change) -> None:
        """Look at what must always hold whenever it can have changed."""
        if kind.plural == "resourceclaims":
            before, after = change.before or {}, change.after or {}
            self._note_taken(before, after)
            if self.holders.follow(before, after):
                if devices_of(after):
                    self._note_decision(after)
                self.check("allocation")
        if kind.plural == "pods" and change.before is not None and change.after is None:
            self.uses.note_gone(change.before)
        if kind.plural == "pods" and _is_bound_by_us(change):
            self.bound = change.after or {}
            self.check("binding")
        if kind.plural == "leases" and find_holder(change.before) and not find_holder(change.after):
            self.released_at = asyncio.get_running_loop().time()
        if kind.plural in ("resourceclaims", "pods", "leases"):
            self.check("write")

    def _note_taken(self, before: JSON, after: JSON) -> None:
        """Note what an allocator of ours has taken from a pod that runs, or from others."""
        who, _, _ = self.network.written[-1] if self.network.written else ("", "", "")
        gone = set(consumers_of(before)).difference(consumers_of(after))
        name = (before or after)["metadata"]["name"]
        if not who.startswith("allocator"):
            return
        if after and devices_of(before) - devices_of(after) and not self.uses.is_ours(before):
            if name in self.forged or is_marked(before):
                self.network.count("allocation of others whose mark is forged, released")
            else:
                self.taken.append(f"{name}, which others have allocated")
        for pod in self.all("pods") if gone and not self.rivals.has(name) else ():
            runs = "nodeName" in pod["spec"] and not is_over(pod) and name in claim_names(pod)
            if runs and is_reserved_for(pod, before) and not is_reserved_for(pod, after):
                self.taken.append(f"{name} of {pod['metadata']['name']}, which runs")

    def check(self, what: str) -> None:
        """Look at what must always hold, and can have changed with a use, allocation or write."""
        if broken := self._find(invariants.ALWAYS[what]):
            self._break(broken)

    def _find(self, wanted: Iterable[Callable[["World"], Iterable[str]]]) -> str:
        for invariant in wanted:
            for found in invariant(self):
                return f"{invariant.__name__}: {found}"
        return ""

    def _break(self, violation: str) -> None:
        if not self.outcome.violation:
            self.outcome.violation = violation
            self._say(f"BROKEN {violation}")
            self._is_over.set()

    def _say(self, text: str) -> None:
        self._tell_writes()
        self.outcome.story.append(f"{asyncio.get_running_loop().time():9.3f} {text}")

    def _tell_writes(self) -> None:
        """Tell what was written since; each with its version and who sent it."""
        written = self.network.written
        for who, method, path in written[self._told :]:
            if "/leases/" not in path and "/events" not in path:
                self.outcome.story.append(f"          {who}: {method} {path}")
        self._told = len(written)

    def _happen(self, event: Event) -> None:
        self.network.count(event.name)
        self.outcome.happened += 1
        _, function = EVENTS[event.name]
        if told := function(self, event.drawn):
            self._say(f"{event.name}: {told}")

    # --- the cluster ---

    def all(self, plural: str) -> Sequence[JSON]:
        """Return all objects of a kind, as stored; the same list until one of them changes."""
        return self.network.store.listed(named(plural))

    def next_name(self, prefix: str) -> str:
        """Return a new name."""
        self._number += 1
        return f"{prefix}{self._number}"

    def since_restore(self) -> float:
        """Return the seconds since the last restore of a backup."""
        return asyncio.get_running_loop().time() - self._restored_at

    def binds_from_before_restore(self) -> bool:
        """Whether a binding can arrive that was decided on before the last restore."""
        return asyncio.get_running_loop().time() < self._bound_until

    def since_release(self) -> float:
        """Return the seconds since a scheduler has released its Lease."""
        return asyncio.get_running_loop().time() - self.released_at

    def nodes_of_path(self, path: str) -> set[str]:
        """Return the nodes of the devices that a claim has, or the pod that is being bound."""
        name = path.split("/")[-2 if path.endswith(("/binding", "/status")) else -1]
        pods = (pod for pod in self.all("pods") if pod["metadata"]["name"] == name)
        names = {name, *(each for pod in pods for each in claim_names(pod))}
        claims = (claim for (_, each), claim in self.holders.items() if each in names)
        return {node for claim in claims for node, _ in devices_of(claim)}

    def is_free(self, node: str) -> bool:
        """Whether nobody uses a node or holds devices of it."""
        pods = any(pod["spec"].get("nodeName") == node for pod in self.all("pods"))
        held = (device for claim in self.holders.values() for device in devices_of(claim))
        return not pods and all(pool != node for pool, _ in held)

    def _start_pair(self, host: str) -> None:
        self._number += 1
        watch = functools.partial(rival_invariants.watch_writes, self)
        self.pairs[host] = Pair(self.network, host, self._number, self.conditions, watch)
        self.pairs[host].start()

    def _note_decision(self, claim: JSON) -> None:
        """Note who has just allocated a claim, and what it knew."""
        sender, _, host = self.network.written[-1][0].rpartition(" ")
        if sender != "allocator" or host not in self.pairs:
            self.uses.note_decision(claim, None)
            name, let_in = claim["metadata"]["name"], self.rivals.let_in
            (let_in.add if self.opened.lets_in(claim) else let_in.discard)(name)
            self.decided_before_restore.discard(name)
            if self.stock.has_decided_before(self._restored_at, claim):
                self.network.count("allocation of others that was decided before a restore")
                self.decided_before_restore.add(name)
            return
        self.uses.note_decision(claim, self.pairs[host].seen)
        count_asks(self.network, claim, "allocated")
        for name in sorted({node for node, _ in devices_of(claim)}):
            if self.since_restore() == math.inf and not self.opened.is_open(name):
                self.newcomers.note_given(claim["metadata"]["name"], name)

    def _start_use(self, pod: JSON, claim: JSON, node: str) -> None:
        is_late = pod["metadata"]["uid"] in self.bound_late or is_placed(pod)
        if is_late and any(pool != node for pool, _ in devices_of(claim)):
            kind = (
                "that a user placed on"
                if is_placed(pod)
                else "that was bound soon after a restore to"
            )
            self.network.count(f"pod {kind} another node")
            return  # its driver reads the pool, which real ones do not
        self.uses.start(pod, claim, node)
        self.network.count("preparation")
        self._say(f"{node} prepares {claim['metadata']['name']} for {pod['metadata']['name']}")
        self.check("use")

    def _end_use(self, pod_uid: str) -> None:
        for use in self.uses.end(pod_uid):
            self._say(f"containers of {use.pod} have ended, {use.claim} is unprepared")

    def choose_pair(self, drawn: int) -> Pair:
        """Return one of the pairs."""
        return self.pairs[HOSTS[drawn % 2]]

    def kill_pair(self, host: str) -> None:
        """Kill both processes of a host, and start others."""
        pair = self.pairs[host]
        self._start_pair(host)
        asyncio.ensure_future(pair.kill())  # noqa: RUF006  # ends by itself

    def stop_scheduler(self, host: str, pause: float = 0.0) -> None:
        """Let a scheduler release its Lease and end; another one starts after a pause."""
        self.pairs[host].scheduler.die(releases=True, pause=pause)

    def back_up(self) -> int:
        """Take a backup of the storage, and return its version."""
        self._backup = self.server.saved()
        return self._backup.version

    def restore(self, *, later: int = 0) -> int:
        """Put the last backup back while no server runs, and return its version."""
        assert self._backup is not None
        up = asyncio.get_running_loop().time() + self.random.uniform(RESTORE_SECONDS, 5)
        for front in self.network.fronts:
            front.stop(up)
        self.server.restore(self._backup)
        # A watch that was at one of the versions in between can go on there.
        self.network.store.version += later
        self.holders.begin(self.all("resourceclaims"))
        self._fence.start_servers()
        self.opened.note_restored()
        self._restored_at = asyncio.get_running_loop().time()
        still = [self.network.find_still(f"allocator {host}") for host in self.pairs]
        self._bound_until = max(self._restored_at, *still) + LATEST_SECONDS
        pods = {pod["metadata"]["uid"] for pod in self.all("pods")}
        self.uses.compare_restored(self.holders.values(), pods)
        return self.network.store.version


def _is_bound_by_us(change: Change) -> bool:
    """Whether a pod of our schedulers has got its node."""
    before, after = ((each or {}).get("spec", {}) for each in (change.before, change.after))
    has_got_node = bool(after.get("nodeName")) and not before.get("nodeName")
    return bool(before) and has_got_node and after["schedulerName"] == NAME
