"""One kube-scheduler and its allocator, with the real decisions, write path, recovery and waking.

The scheduler takes one pod at a time and binds in the background. It holds some pods for a while
before, and names them each second. A process can be stopped for a while, and killed at any moment.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterable
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from allocator.decisions.basis import Surroundings
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.calls import SchedulerCalls
from allocator.scheduler.lease import SchedulerLease, Term
from allocator.scheduler.protocol import (
    PodOnNode,
    PodReference,
    PotentialVictim,
    PreemptionNode,
    PreemptRequest,
    PreFilterRequest,
    ProtocolError,
    SchedulingPod,
    StatusRequest,
    UnreserveRequest,
)
from allocator.state.caches import AllocatorCaches
from allocator.state.cluster_state import AllocatorState
from allocator.state.live_state import PENALTY_SECONDS
from allocator.state.reserved_pods import RESERVATION_SECONDS, HoldLimits
from allocator.term import TermKeeper
from allocator.writes.binding import BindingTimes, PodBinder
from allocator.writes.recovery import Recovery
from drawbridge.dra.claim import Claim
from drawbridge.dra.nodes import Node
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from tests.allocator.clusters import gpu_class, gpu_slice, owns_all, pod_fields
from tests.allocator.simulated_api import SimulatedApi, SimulatedPod, SimulatedWrites

_PODS = pod_reader()
LIMITS = HoldLimits(seconds=50)
# A volume that takes this long is not given up before the limit, as the scheduler should.
NEVER_SECONDS = 80.0


def priority_of(uid: str) -> int:
    """Return the priority of a pod, which its name has."""
    return int(uid.removeprefix("p")) % 3


class SimulatedPair:
    """A process on a host; it stops when it is killed, and another one can start there."""

    def __init__(self, api: SimulatedApi, host: str, nodes: dict[str, int]) -> None:
        self.api, self.host = api, host
        self.runs = asyncio.Event()
        self.runs.set()
        self.synced = False
        self._cache: dict[str, Claim] = {}
        self._pods: dict[str, Pod] = {}
        self._activated: asyncio.Queue[str] = asyncio.Queue()
        self._held: dict[str, object] = {}  # the latest hold of each pod
        self._binding: Counter[str] = Counter()
        numbers = itertools.count()
        self.state = AllocatorState(Planner(), Ledger(), owns_all)
        self.state.ids = lambda: f"{host}-{next(numbers)}"
        self.state.apply(None, gpu_class())
        for name, count in nodes.items():
            self.state.apply(None, Node(name, {"name": name}))
            self.state.apply(None, gpu_slice(name, count))
        self.decisions = PodDecisions(self.state, Surroundings(limits=LIMITS))
        self.waiting = WaitingPods(self.decisions)
        self._connect()
        self._tasks: set[asyncio.Task[None]] = set()

    def _written_state(self) -> Any:  # noqa: ANN401  # parts of the real state
        return SimpleNamespace(
            reservations=self.decisions.reservations,
            claims_of=self.decisions.requests.claims_of,
            find_pod=self.find_pod,
            cluster=self.state,
            observe_claim=self.state.observe_claim,
            hold_marked=self.state.ledger.hold_marked,
            begin_term=self.decisions.begin_term,
            users_of=lambda _: (),
            list_claims=lambda: tuple(self._cache.values()),
            times=self.state.records.times,
            wake_at=self._wake_at,
            penalise=lambda device: self.state.penalise(device, _time() + PENALTY_SECONDS),
            report=lambda *_: None,
            server_time=lambda: 1_700_000_000 + _time(),
            ready=True,
            find_problems=lambda: [] if self.synced else ["not synced"],
            begin_look=lambda: None,
            decisions=self.decisions,
            waiting=self.waiting,
        )

    def _wake_at(self, pod_uid: str, at: float) -> None:
        times = self.state.records.times
        times.set("retry", pod_uid, min(at, times.get("retry", pod_uid) or at))

    def _connect(self) -> None:
        writes = SimulatedWrites(self.api, self.host, self.runs)
        written = self._written_state()
        self.binder = PodBinder(
            written,
            writes,
            cast("AllocatorCaches", self),
            leads=lambda: self.keeper.leading,
            # Longer than a request can take here.
            times=BindingTimes(wait=110, timeout=600, late=8),
        )
        self.recovery = Recovery(written, writes, self.binder)
        self.keeper = TermKeeper(
            cast("SchedulerLease", self),
            self.recovery,
            written,
            on_leading=lambda: self._activate(tuple(each.uid for each in self._pods_to_bind())),
            random_fraction=self.api.random.random,
        )
        self.calls = SchedulerCalls(
            state=written,
            leadership=self.keeper,
            binder=self.binder,
            publish=self._activate,
            report=lambda _: None,
            changed=asyncio.Event(),
            now=_time,
        )

    # --- what the parts need of the process ---

    @property
    def term(self) -> Term | None:
        """The term, while this host leads."""
        return Term(self.host, self.api.terms) if self.api.leader == self.host else None

    def describe(self) -> str:
        """Say who leads."""
        return f"{self.api.leader} leads"

    def find_pod(self, _namespace: str, name: str) -> Pod | None:
        """Find a pod of the only namespace."""
        return self._pods.get(name)

    def get(self, _: str, name: str) -> Claim | None:
        """Return a claim of the cache."""
        return self._cache.get(name)

    def next_change(self, _: Claim) -> "asyncio.Future[None]":
        """Return what is done after a moment."""
        loop = asyncio.get_running_loop()
        change = loop.create_future()
        loop.call_later(0.5, change.set_result, None)
        return change

    def end_waiting(self, _: str) -> None:
        """Do nothing: the moment is short."""

    # --- the process ---

    def start(self) -> None:
        """Run until killed."""
        parts = (
            self._watch(),
            self.keeper.run(),
            self.calls.wake_pods(),
            self._schedule(),
            self._ask_status(),
        )
        for part in parts:
            self._spawn(part)

    def _spawn(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(part)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.api.violations.append(f"{self.host}: {error!r}")

    async def kill(self) -> None:
        """End everything at once; what was sent still arrives."""
        self.runs.clear()
        undoing = (task for _, task in self.binder.undoing._running.values())  # noqa: SLF001
        ending: Any = (*self._tasks, *self.calls._releases, *undoing)  # noqa: SLF001
        # In the order in which they began, which a set does not have.
        ending = sorted(ending, key=lambda task: int(task.get_name().removeprefix("Task-")))
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _watch(self) -> None:
        """Follow the claims and pods, behind by a random time."""
        self._cache, position = dict(self.api.claims), len(self.api.history)
        for claim in self._cache.values():
            self.state.apply(None, claim)
        while True:
            self._follow_pods(self.api.pods.values())
            self.synced = True
            for before, after in self.api.history[position:]:
                self._follow(before, after)
            position = len(self.api.history)
            await asyncio.sleep(self.api.random.expovariate(30))
            await self.runs.wait()

    def _follow(self, before: Claim | None, after: Claim | None) -> None:
        self.state.apply(before, after)
        self.calls._changed.set()  # noqa: SLF001  # as the live state does
        name = (after or before).metadata.name  # type: ignore[union-attr]  # one of them exists
        if after is None:
            self._cache.pop(name, None)
        else:
            self._cache[name] = after

    def _follow_pods(self, pods: Iterable[SimulatedPod]) -> None:
        for pod in tuple(pods):
            before = self._pods.get(pod.uid)
            if pod.deleted and before is not None:
                del self._pods[pod.uid]
                self.state.apply(before, None)
            elif not pod.deleted and (before is None or before.spec.node_name != pod.node):
                after = _PODS.read(
                    pod_fields(
                        pod.uid, *pod.claims, node=pod.node, resourceVersion=f"{pod.version}"
                    )
                )
                assert isinstance(after, Pod)
                self._pods[pod.uid] = after
                self.state.apply(before, after)

    # --- the scheduler ---

    def _activate(self, uids: tuple[str, ...]) -> None:
        for uid in uids:
            self._activated.put_nowait(uid)

    async def _schedule(self) -> None:
        """Try pods for ever: those that are woken, and the others now and then."""
        while True:
            await asyncio.sleep(self.api.random.expovariate(30))  # as often as it sees changes
            await self.runs.wait()
            with contextlib.suppress(ProtocolError):
                for uid in self._choose():
                    await self._try(self.api.pods[uid])

    def _choose(self) -> Iterable[str]:
        if not self._activated.empty():
            return (self._activated.get_nowait(),)
        open_pods = [each.uid for each in self._pods_to_bind()]
        return self.api.random.sample(open_pods, min(len(open_pods), 1))

    def _pods_to_bind(self) -> Iterable[SimulatedPod]:
        return (each for each in self.api.pods.values() if not each.deleted and not each.node)

    async def _try(self, pod: SimulatedPod) -> None:
        claims = [self._cache.get(name) for name in pod.claims]
        if any(each is None for each in claims) or self.binder.is_writing(pod.uid):
            return
        if pod.uid in self._held and self.api.random.random() >= self.api.faults.retried:
            return
        self._held.pop(pod.uid, None)
        encoded = tuple(msgspec.Raw(msgspec.json.encode(each, enc_hook=str)) for each in claims)
        about = SchedulingPod(
            namespace="default", name=pod.uid, uid=pod.uid, priority=priority_of(pod.uid)
        )
        is_former = int(pod.uid.removeprefix("p")) % 2  # the plugin of the release before
        reply = self.calls.prefilter(
            PreFilterRequest(pod=about, claims=encoded, max_nodes=2, reserve=not is_former)
        )
        await asyncio.sleep(self.api.random.expovariate(500))
        if reply.preemptible and not reply.fit:
            await self._preempt(pod.uid)
        if not reply.fit:
            return
        node = self.api.random.choice(reply.fit).node
        choice = self.api.random.random()
        if choice < 0.05:
            await self.calls.release(PodReference(pod_uid=pod.uid))
        elif (
            node == reply.reserved_on
            or self.calls.reserve(PodOnNode(pod_uid=pod.uid, node=node)).reserved
        ):
            if choice < 0.1:
                self.calls.unreserve(UnreserveRequest(pod_uid=pod.uid))
            else:
                self._spawn(self._bind(pod.uid, node, self.term))

    async def _preempt(self, uid: str) -> None:
        """Ask for victims and evict them; the process can be killed in between."""
        bound: dict[str, list[str]] = {name: [] for name in self.state.nodes_with_pools}
        for pod in self.api.pods.values():
            if pod.node and not pod.deleted:
                bound[pod.node].append(pod.uid)
        nodes = tuple(
            PreemptionNode(
                node=name,
                pods=tuple(PotentialVictim(uid=one, priority=priority_of(one)) for one in uids),
                running=tuple(uids),
            )
            for name, uids in bound.items()
        )
        reply = self.calls.preempt(PreemptRequest(pod_uid=uid, nodes=nodes))
        for victim in reply.victims:
            await asyncio.sleep(self.api.random.expovariate(100))
            await self.runs.wait()
            if priority_of(victim) >= priority_of(uid):
                self.api.violations.append(f"{victim} is evicted for {uid}")
            self.api.evicted.append(victim)
            self.api.delete_pod(victim)

    async def _bind(self, uid: str, node: str, term: Term | None) -> None:
        self._binding[uid] += 1
        is_alive = await self._hold(uid, term)
        await self.runs.wait()
        with contextlib.suppress(ProtocolError):
            if is_alive:
                await self.calls.bind(PodOnNode(pod_uid=uid, node=node))
            self.calls.unreserve(UnreserveRequest(pod_uid=uid))
        self._binding[uid] -= 1

    async def _hold(self, uid: str, term: Term | None) -> bool:
        """Wait for the volumes of a pod; return whether it still exists.

        It keeps its devices meanwhile, up to the limit, unless the term ends, or they are those of
        an earlier attempt that is being undone.
        """
        seconds = self._choose_hold()
        is_alone = self._binding[uid] == 1 and not self.decisions.reservations.is_writing(uid)
        self._held[uid] = hold = object()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        # As often as kube-scheduler.
        while (rest := end - loop.time()) > 0 and not self.api.pods[uid].deleted:  # noqa: ASYNC110
            await asyncio.sleep(min(rest, 1))
        is_held = self._held.get(uid) is hold
        if is_held:
            del self._held[uid]
        is_alive = not self.api.pods[uid].deleted
        # An earlier attempt can have bound the pod meanwhile.
        waits = is_alive and not self.api.pods[uid].node
        if is_alone and is_held and waits and self.term == term is not None:
            has_devices = self.decisions.reservations.find(uid) is not None
            self.api.expect(has_devices == (seconds < LIMITS.seconds), f"{uid} held {seconds} s")
            self.api.long_holds += seconds > RESERVATION_SECONDS
        return is_alive

    def _choose_hold(self) -> float:
        random = self.api.random
        short, slow = random.expovariate(20), random.uniform(1, LIMITS.seconds - 5)
        return float(random.choices((short, slow, NEVER_SECONDS), (75, 20, 5))[0])

    async def _ask_status(self) -> None:
        """Name the held pods each second; some calls are lost, and some are late."""
        while True:
            await asyncio.sleep(1)
            request = StatusRequest(held_pods=(*self._held, "unknown"))
            await asyncio.sleep(self.api.random.expovariate(5))
            await self.runs.wait()
            if self.api.random.random() < 0.8:
                self.calls.status(request)


def _time() -> float:
    return asyncio.get_running_loop().time()
