"""A kube-scheduler with our plugin: its Lease, its queue, and its cycles with the allocator.

It does what `bridge/plugin` does. A pod that was refused is tried again only when the allocator
wakes it, when its own claims change, or after its back-off: a wake that is missing shows.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from allocator.process import _Parts
from allocator.scheduler.protocol import (
    PodOnNode,
    PodReference,
    PreemptReply,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
    ProtocolError,
    StatusRequest,
    UnreserveRequest,
)
from allocator.state.reserved_pods import RESERVATION_SECONDS
from tests.cluster.fake.kinds import JSON
from tests.world.asked import (
    describe_waiting,
    encode,
    has_allocation,
    is_waiting,
    must_be_tried,
)
from tests.world.conditions import Conditions
from tests.world.election import Election
from tests.world.network import Network
from tests.world.nodes import PODS, Client, claim_names, path_of
from tests.world.objects import is_open
from tests.world.preemptions import Preemptions, any_ends_for, list_victims, nominated_node
from tests.world.seen_gangs import SeenGangs
from tests.world.tries import Tries
from tests.world.watches import Follower

NODES = "/api/v1/nodes"
NAME = "drawbridge"
_MAX_NODES = 2
# kube-scheduler tries a pod again that nobody wakes (podMaxInUnschedulablePodsDuration).
UNWOKEN_SECONDS = 300
SLOWEST_BINDING = 45


class Scheduler:
    """One process; it ends when it loses the Lease, and another one starts in its place."""

    def __init__(
        self,
        network: Network,
        host: str,
        number: int,
        parts: Callable[[], _Parts | None],
        conditions: Conditions,
    ) -> None:
        self.network = network
        self._has_group_cycles, self._flushes = conditions.has_group_cycles, conditions.forgets_pods
        self._reserves_early = conditions.reserves_early
        self._hold_seconds = conditions.holding.seconds
        self.slow_bindings = conditions.slow_bindings
        self.tries = Tries()
        self.expired: list[str] = []  # pods whose reservations expired although they were held
        self._parts = parts
        who = f"scheduler {host}"
        self._client = Client(network, who)
        self._election = Election(network, self._client, host, number)
        front = network.fronts[number % len(network.fronts)]
        self.evictions = Preemptions(network, who, front, conditions.eviction_delay)
        self._pods = Follower(network, who, "pods", front=front)
        self._claims = Follower(network, who, "resourceclaims", front=front)
        self._nodes = Follower(network, who, "nodes", front=front)
        self._groups = Follower(network, who, conditions.group_kind.long_name, front=front)
        self._gangs = SeenGangs(
            self._pods, self._groups, self._find_claims, lambda uid: uid in self._busy
        )
        network.full.tell(self._try_refused)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._calls: dict[asyncio.Task[Any], None] = {}  # in the allocator
        self._work = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        """Be a process that has just started."""
        self._active: dict[str, None] = {}
        self._busy: dict[str, str] = {}  # the node, from Reserve until the watch shows it
        self._held: dict[str, None] = {}  # between Reserve and Bind
        self._renewed: dict[str, float] = {}  # when the allocator was told so for the last time
        self._unanswered, self._every_node = set[str](), set[str]()
        self._attempts: dict[str, int] = {}
        self._refused: dict[str, None] = {}  # which another filter keeps from what fits

    @property
    def leads(self) -> bool:
        """Whether this process believes that it holds the Lease."""
        return self._election.leads

    @property
    def assumed(self) -> set[str]:
        """The pods that are bound, or being bound, and that the watch has not shown so."""
        return {*self._busy}

    def parts_of(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs until the process ends."""
        return (
            self._pods.run(self._pod_changed),
            self._claims.run(self._claim_changed),
            self._nodes.run(self._node_changed),
            self.evictions.run(),
            self._groups.run(self._group_changed),
            self._election.run(self._start_again, self._work.set),
            self._follow_events(),
            self._follow_status(),
            self._schedule(),
            *([self._flush()] if self._flushes else []),
        )

    def die(self, *, releases: bool = False, pause: float = 0.0) -> None:
        """End, so that another process starts in its place, after a pause.

        One that is stopped releases its Lease, as kube-scheduler does.
        """
        self._election.end(releases=releases, pause=pause)

    async def end_tasks(self) -> None:
        """End the bindings in progress."""
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def fail_calls(self) -> None:
        """Let the calls in progress fail, because the allocator ended."""
        busy = [*self._busy]
        for call in tuple(self._calls):
            call.cancel()
        await self.end_tasks()
        for uid in sorted(busy):
            pod = self._pods.objects.get(uid)
            self._busy.pop(uid, None)
            self._held.pop(uid, None)
            if pod is not None and is_waiting(pod):
                self._retry(uid)

    async def _start_again(self) -> None:
        """Be another process, which knows nothing and takes part in the election."""
        self.network.count("lost Lease")
        await self.end_tasks()
        self._forget()
        for pod in self._pods.objects.values():
            self._pod_changed(None, pod)

    # --- the queue ---

    def _pod_changed(self, before: JSON | None, after: JSON | None) -> None:
        uid = (after or before or {})["metadata"]["uid"]
        if after is None or "nodeName" in after["spec"]:
            self._unanswered.discard(uid)
            self._every_node.discard(uid)
            for noted in (self._busy, self._attempts):
                noted.pop(uid, None)
        elif must_be_tried(before, after):
            self._activate([uid])

    def _claim_changed(self, before: JSON | None, after: JSON | None) -> None:
        if after is None or (before is not None and before.get("status") == after.get("status")):
            return
        name = after["metadata"]["name"]
        users = (pod for pod in self._pods.objects.values() if name in claim_names(pod))
        self._activate(pod["metadata"]["uid"] for pod in users)

    def _group_changed(self, before: JSON | None, after: JSON | None) -> None:
        """Try the members of a PodGroup or Workload that is created or changes."""
        if after is not None and (before is None or before["spec"] != after["spec"]):
            self._activate(self._gangs.find_affected(after))

    def _node_changed(self, before: JSON | None, after: JSON | None) -> None:
        """Try the pods again that other filters refused, when a node takes pods."""
        if after is not None and is_open(after) and (before is None or not is_open(before)):
            self._try_refused()

    def _try_refused(self) -> None:
        refused, self._refused = self._refused, {}
        self._activate(refused)

    def _activate(self, uids: Iterable[str]) -> None:
        for uid in uids:
            pod = self._pods.objects.get(uid)
            if pod is not None and is_waiting(pod) and uid not in self._busy:
                self._active[uid] = None
                self._work.set()

    def _retry(self, uid: str) -> None:
        """Try a pod again after its back-off."""
        attempts = self._attempts[uid] = self._attempts.get(uid, 0) + 1
        pause = min(10.0, 2.0 ** min(attempts - 1, 4))
        asyncio.get_running_loop().call_later(pause, lambda: self._activate([uid]))

    async def _flush(self) -> None:
        """Try the pods again that nobody has woken for long."""
        while True:
            await asyncio.sleep(UNWOKEN_SECONDS)
            self._activate([*self._pods.objects])

    async def _follow_events(self) -> None:
        while True:
            parts = self._parts()
            if parts is None:
                await asyncio.sleep(0.5)
                continue
            async with contextlib.aclosing(parts.streams.events()) as events:
                async for event in events:
                    if self._parts() is not parts:
                        break
                    self._activate([*self._pods.objects] if event.activate_all else event.activate)

    async def _follow_status(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            parts = self._parts()
            if parts is None or not self.leads:
                continue
            reply = parts.calls.status(StatusRequest(held_pods=tuple(self._held)))
            self._renewed = dict.fromkeys(self._held, asyncio.get_running_loop().time())
            if reply.ready and reply.leading and self._unanswered:
                unanswered, self._unanswered = self._unanswered, set()
                self._activate(sorted(unanswered))

    async def _schedule(self) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(self.network.random.expovariate(100))
            if not self._active or not self.leads:
                self._work.clear()
                continue
            chosen = min(self._active, key=self._rank)
            del self._active[chosen]
            pod, parts = self._pods.objects.get(chosen), self._parts()
            if pod is None or not is_waiting(pod) or chosen in self._busy:
                continue
            self.tries.note(chosen, asyncio.get_running_loop().time())
            try:
                if parts is None:
                    self._unanswered.add(chosen)
                else:
                    await self._try(parts, pod)
            except ProtocolError:
                self._unanswered.add(chosen)

    def _rank(self, uid: str) -> tuple[int, str]:
        pod = self._pods.objects.get(uid)
        if pod is None:
            return 0, ""
        return -pod["spec"].get("priority", 0), pod["metadata"]["name"]

    # --- a cycle ---

    def _find_claims(self, pod: JSON) -> list[JSON] | None:
        by_name = {
            (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim
            for claim in self._claims.objects.values()
        }
        space, names = pod["metadata"]["namespace"], claim_names(pod)
        if len(names) != len(pod["spec"].get("resourceClaims", ())):
            return None
        claims = [by_name.get((space, name)) for name in names]
        usable = [
            claim for claim in claims if claim and "deletionTimestamp" not in claim["metadata"]
        ]
        return usable if len(usable) == len(names) else None

    async def _try(self, parts: _Parts, pod: JSON) -> None:
        if self._gangs.is_held_back(pod):
            return
        group, members = self._gangs.find(pod)
        has_cycle = self._has_group_cycles or "schedulingGroup" in pod["spec"]
        # A scheduler that does not know how many members must run has no cycle for them.
        if group is None or not (has_cycle and group.min_count) or len(members) < 2:
            await self._try_alone(parts, pod)
            return
        self.network.count("cycle of a gang")
        pods = [self._pods.objects[each.pod.uid] for each in members]
        if await self._try_together(parts, pods, group.min_count - group.scheduled):
            # Each is tried again that gets no answer.
            self._unanswered.update(each["metadata"]["uid"] for each in pods)
            for member in pods:
                await self._try_alone(parts, member)
                self._unanswered.discard(member["metadata"]["uid"])
        else:
            for each in pods[1:]:
                self._active.pop(each["metadata"]["uid"], None)

    async def _try_together(self, parts: _Parts, pods: Iterable[JSON], least: int) -> bool:
        """Reserve all members that fit, and give them back; return whether enough fit.

        Their devices are held then, because the scheduler reserves them again at once.
        """
        reserved, failed = [], None
        for pod in pods:
            uid, claims = pod["metadata"]["uid"], self._find_claims(pod)
            if claims is None or uid in self._busy:
                continue
            reply = await self._ask(parts, pod, claims)
            node = self._choose(pod, reply)
            if not node:
                failed = failed or (pod, reply, claims)
            elif parts.calls.reserve(PodOnNode(pod_uid=uid, node=node)).reserved:
                reserved.append(uid)
        is_enough = len(reserved) >= least
        for uid in reserved:
            parts.calls.unreserve(UnreserveRequest(pod_uid=uid, cycle=True, hold=is_enough))
        if failed is not None and not is_enough:
            pod, reply, claims = failed
            self._find_none(parts, pod, reply, is_allocated=has_allocation(claims))
        elif not is_enough:
            for uid in reserved:
                self._retry(uid)
        return bool(reserved) and is_enough

    async def _try_alone(self, parts: _Parts, pod: JSON) -> None:
        uid, claims = pod["metadata"]["uid"], self._find_claims(pod)
        if claims is None or uid in self._busy:
            return
        reply = await self._ask(parts, pod, claims, reserve=True)
        if not (node := self._choose(pod, reply)):
            if reply.reserved_on:
                parts.calls.unreserve(UnreserveRequest(pod_uid=uid))
            self._find_none(parts, pod, reply, is_allocated=has_allocation(claims))
            return
        place = PodOnNode(pod_uid=uid, node=node)
        if node != reply.reserved_on and not parts.calls.reserve(place).reserved:
            self._active.pop(uid, None)
            self._retry(uid)
            return
        self._active.pop(uid, None)
        self._every_node.discard(uid)
        self._busy[uid] = node
        self._held[uid] = None
        self._start(self._bind(parts, place))

    async def _ask(
        self, parts: _Parts, pod: JSON, claims: Iterable[JSON], *, reserve: bool = False
    ) -> PreFilterReply:
        uid, (group, members) = pod["metadata"]["uid"], self._gangs.find(pod)
        reply = parts.calls.prefilter(
            PreFilterRequest(
                pod=self._gangs.describe(pod),
                claims=encode(claims),
                max_nodes=0 if uid in self._every_node else _MAX_NODES,
                group=group,
                reserve=reserve and group is None and self._reserves_early,
            )
        )
        if reply.members_needed and group is not None:
            self.network.count("question about a gang")
            reply = await parts.calls.prefilter_group(
                PreFilterGroupRequest(pod_uid=uid, group=group, members=members, max_nodes=0)
            )
        if not reply.fit and not reply.complete:
            self.tries.note_cut(uid, asyncio.get_running_loop().time())
        return reply

    def _choose(self, pod: JSON, reply: PreFilterReply) -> str:
        """Return the nominated node or one of the best nodes; empty if there is none."""
        fitting = [score for score in reply.fit if self._accepts(score.node)]
        if not fitting:
            return ""
        best = max(score.score for score in fitting)
        nodes = [score.node for score in fitting if score.score == best]
        chosen, nominated = self.network.random.choice(nodes), nominated_node(pod)
        return nominated if any(score.node == nominated for score in fitting) else chosen

    def _accepts(self, node: str) -> bool:
        """Return what the filters of the scheduler say of a node."""
        nodes = {each["metadata"]["name"]: each for each in self._nodes.objects.values()}
        return node in nodes and is_open(nodes[node]) and node not in self.network.full

    def _find_none(
        self, parts: _Parts, pod: JSON, reply: PreFilterReply, *, is_allocated: bool
    ) -> None:
        """Do what PostFilter does, and say that the pod waits."""
        uid = pod["metadata"]["uid"]
        if not is_allocated:
            self._start(self._tell_waiting(pod, "no devices"))
        if reply.fit and not reply.complete and uid not in self._every_node:
            self._every_node.add(uid)
            self._activate([uid])
            return
        if reply.fit:
            # Another filter refuses the nodes; an event about them activates the pod.
            self._refused[uid] = None
        if is_allocated:
            self.network.count("allocation to take back")
            self._start(self._release(parts, pod, reply))
        else:
            self._ask_victims(parts, pod, reply)

    def _ask_victims(self, parts: _Parts, pod: JSON, reply: PreFilterReply) -> None:
        """Ask also if nodes fit that other filters refuse; a member of a gang only for all."""
        if reply.group_preemptible:
            self._preempt(parts, pod, reply, is_alone=False)
        elif reply.preemptible and not self._gangs.is_member(pod):
            self._preempt(parts, pod, reply, is_alone=True)

    async def _tell_waiting(self, pod: JSON, message: str) -> None:
        """Write the condition of a pod that waits, if it says something else."""
        if (condition := describe_waiting(pod, message)) is not None:
            change = {"metadata": {"uid": pod["metadata"]["uid"]}}
            await self._client.ask(
                "PATCH",
                path_of(PODS, pod, "status"),
                {**change, "status": {"conditions": [condition]}},
            )

    async def _release(self, parts: _Parts, pod: JSON, reply: PreFilterReply) -> None:
        """Have an allocation taken back, or others evicted if there is nothing to take back.

        An allocator that ends lets the call fail, and the pod is tried again.
        """
        uid = pod["metadata"]["uid"]
        try:
            answer = await parts.calls.release(PodReference(pod_uid=uid))
            if not answer.released and not answer.message and uid not in self._busy:
                self._ask_victims(parts, pod, reply)
        except ProtocolError:
            self._unanswered.add(uid)
        await self._tell_waiting(pod, "allocated")  # after PostFilter

    def _preempt(self, parts: _Parts, pod: JSON, answer: PreFilterReply, *, is_alone: bool) -> None:
        priority = pod["spec"].get("priority", 0)
        candidates, by_node = [], dict[str, list[JSON]]()
        for each in self._pods.objects.values():
            by_node.setdefault(self._node_of(each), []).append(each)
        nominated = nominated_node(pod)
        fits = self._accepts(nominated) and any(each.node == nominated for each in answer.fit)
        if is_alone and fits and any_ends_for(pod, by_node.get(nominated, ())):
            return
        for node in sorted(value["metadata"]["name"] for value in self._nodes.objects.values()):
            candidate = self.evictions.describe_node(node, by_node.get(node, ()), priority)
            if candidate.pods and self._accepts(node):
                candidates.append(candidate)
        reply = self.evictions.ask(parts, pod, candidates) if candidates else PreemptReply()
        if not reply.waiting:
            self._start(self._evict(pod, reply, is_alone=is_alone))

    def _node_of(self, pod: JSON) -> str:
        """Return the node of a pod, also if it is being bound."""
        return str(pod["spec"].get("nodeName") or self._busy.get(pod["metadata"]["uid"], ""))

    def _start(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(part)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _evict(self, pod: JSON, reply: PreemptReply, *, is_alone: bool) -> None:
        """Evict the victims of a pod; one alone is nominated to their node, or to none."""
        for uid in list_victims(reply):
            if (victim := self._pods.objects.get(uid)) is not None:
                await self.evictions.evict(victim)
        if is_alone and nominated_node(pod) != reply.node:
            await self.evictions.nominate(pod, reply.node)

    async def _bind(self, parts: _Parts, place: PodOnNode) -> None:
        """Do what the binding cycle does: PreBind of others, Bind, Unreserve after a failure."""
        random, uid = self.network.random, place.pod_uid
        is_slow = random.random() < self.slow_bindings  # a volume, for example
        seconds = random.uniform(5, SLOWEST_BINDING) if is_slow else random.expovariate(20)
        await asyncio.sleep(seconds)
        fails = random.random() < 0.03
        self._held.pop(uid, None)
        if seconds < self._hold_seconds:
            self._note_expired(parts, place)
        is_bound = False
        with contextlib.suppress(ProtocolError):
            is_bound = not fails and await self._ask_to_bind(parts, place)
            if not is_bound:
                parts.calls.unreserve(UnreserveRequest(pod_uid=uid))
        if not is_bound:
            self._busy.pop(uid, None)
            self._retry(uid)

    def _note_expired(self, parts: _Parts, place: PodOnNode) -> None:
        """Note a pod that lost its devices to time, although the allocator knew that it is held."""
        age = asyncio.get_running_loop().time() - self._renewed.get(place.pod_uid, 0.0)
        if age < RESERVATION_SECONDS and parts is self._parts() and parts.state.ready:
            reservations = parts.state.decisions.reservations
            if reservations.has_expired(place.pod_uid, place.node):
                self.expired.append(place.pod_uid)

    async def _ask_to_bind(self, parts: _Parts, place: PodOnNode) -> bool:
        """Return whether the allocator has bound a pod; it goes on if this process ends."""
        call = asyncio.ensure_future(parts.calls.bind(place))
        self._calls[call] = None
        call.add_done_callback(self._calls.pop)
        return (await asyncio.shield(call)).bound
