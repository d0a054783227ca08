"""The pods that wait for devices, and which of them to wake after a change.

Only the allocator wakes them, after its own state has changed, so that a pod never asks before its
answer can be another one. A pod is woken with a promise: a short reservation on the node that was
found. So 16 free devices wake 16 pods, in the order of priority and then of time.

A pod can have devices and lack something else that only the scheduler knows, for example CPU. It is
woken only for a node that its last answer did not have, and each time later.

A search that was cut on a node is set aside. Copies of the process decide about these pods one
after the other, in turns by namespace, so that they delay only each other; with what a copy tells,
the search goes on. The search for a group that was too long for one turn is set aside, too: each
turn continues one, the next one at first.

The members of a group are one question, which is asked once for all of them.

The work of one turn is limited. After a change the first pods are tried again, and then those that
follow the last one of the previous turn: however many pods wait and whatever changes, each has its
turn.
"""

import logging
import math
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from allocator.decisions.pauses import FIRST_PAUSE_SECONDS, Pauses
from allocator.decisions.pod_devices import PodDecisions, Promise
from allocator.decisions.searches_aside import CutSearches, SearchesAside
from allocator.decisions.shortlist import never
from allocator.decisions.victim_retries import VictimRetries
from allocator.scheduler.protocol import PreemptRequest
from drawbridge.solver.ahead import Tell

_LOG: Final = logging.getLogger("allocator.decisions.waiting")
MAX_WAITING: Final = 65536
TRIES_PER_TURN: Final = 32
# To pass over a pod that cannot be woken now takes microseconds.
VISITS_PER_TURN: Final = 2048
FEW_KEYS: Final = 64
# A pod that got nodes has this time to be reserved before another node is searched for it.
SCHEDULING_SECONDS: Final = 1.0


class Turn(NamedTuple):
    """The pods to wake, and whether there is more to do in the current state.

    A copy of the process has to decide about the pod `aside`, if there is one.
    """

    woken: tuple[str, ...]
    unfinished: bool
    aside: str = ""


class _Place(NamedTuple):
    """The place of a pod among those that wait; a higher priority comes first."""

    priority: int
    since: float
    uid: str


# Before all priorities.
_FIRST: Final = -(1 << 63)
# The place behind all pods.
_BEHIND_ALL: Final = _Place(1 << 63, math.inf, "")


class _WaitingPod(msgspec.Struct, frozen=True):
    """A pod that waits.

    `seen` has the nodes of its last answer, `tried` the state in which no other node was found.
    """

    place: _Place
    key: bytes
    seen: Collection[str] = ()
    tried: int = -1


class _Work:
    """What one turn may still do, and the pods that it woke."""

    def __init__(self, now: float, out_of_time: Callable[[], bool]) -> None:
        self.now = now
        self.tries = 0
        self.visits = VISITS_PER_TURN
        self.out_of_time = out_of_time
        self.woken: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether the turn may do no more."""
        return not self.tries or not self.visits or self.out_of_time()


class WaitingPods:
    """The waiting pods, in the order of their priority and then of time."""

    def __init__(
        self,
        decisions: PodDecisions,
        *,
        eviction_delay: float = 0.0,
        server_time: Callable[[], float] = time.time,
    ) -> None:
        """Create the pods; each waits for `eviction_delay` seconds before it evicts others.

        `server_time` is the Unix time by which the conditions of pods are read.
        """
        self._decisions = decisions
        self._eviction_delay = eviction_delay
        self._server_time = server_time
        self._state = decisions.state
        self._pods: dict[str, _WaitingPod] = {}
        self._places: list[_Place] = []
        self._keys: dict[bytes, set[str]] = {}  # the pods that ask the same
        self._device_pauses = Pauses()
        self._retries = VictimRetries()
        # Pods that wait for the end of a search, in order, which a set of texts is not.
        self._unanswered: dict[str, None] = {}
        # Groups are set aside by their keys, pods alone by their UIDs.
        self._aside = CutSearches()
        self._cut = SearchesAside()
        self._is_cut_anew = False  # whether the last pass has cut a search that it began
        self._victims = SearchesAside()
        # A pass visits all pods; it takes as many turns as needed.
        self._passing = False
        self._reached: _Place | None = None
        self._pass_epoch = -1
        self._again = False  # whether a pod changed since the pass began
        self._first_epoch = -1  # when the first pods were tried

    def __len__(self) -> int:
        return len(self._pods)

    # --- what the scheduler does ---

    def note_answer(
        self,
        uid: str,
        fitting: Collection[str],
        now: float,
        *,
        complete: bool = True,
    ) -> None:
        """Keep a pod that was answered, until it is reserved."""
        waiting = self._pods.get(uid)
        since = waiting.place.since if waiting else now
        key, request = self._decisions.request_key(uid), self._decisions.requests.find(uid)
        self._take(uid)
        if key is None or request is None or len(self._pods) >= MAX_WAITING:
            self._remove(uid)
            return  # the scheduler itself tries it again, later
        if fitting:
            self._device_pauses.extend(uid, now + SCHEDULING_SECONDS)
            self._retries.stop_asking(uid)
        else:
            # It lacks nothing but devices, so that it must not miss those that become free.
            self._device_pauses.shrink(uid, now + FIRST_PAUSE_SECONDS)
            if self._state.pods.nominated_node(uid):
                # kube-scheduler asks for no victims of a pod while others end on this node.
                self._retries.refuse(uid)
        # A group of which a part is bound comes first, since that part runs for nothing.
        group = self._decisions.groups.key_of(uid)
        rank = _FIRST if self._decisions.groups.is_interrupted(uid) else -request.pod.priority
        self._insert(_WaitingPod(_Place(rank, since, uid), key, frozenset(fitting)))
        if group:
            self._move_members(key, rank)
        self._unanswered.pop(uid, None)
        if not fitting and not complete:
            self._unanswered[uid] = None

    def _move_members(self, key: bytes, rank: int) -> None:
        """Move all members of a group to one rank, which another member has changed."""
        for uid in tuple(self._keys[key]):
            pod = self._pods[uid]
            if pod.place.priority != rank:
                self._take(uid)
                self._insert(replace(pod, place=pod.place._replace(priority=rank)))

    def note_reservation(self, uid: str, *, reserved: bool) -> None:
        """Keep a pod no longer that is reserved; one that is refused can be woken for any node."""
        if reserved:
            self._remove(uid)
        elif uid in self._pods:
            self._pods[uid] = replace(self._pods[uid], seen=(), tried=-1)
            self._again = True

    def note_preemption(
        self, uid: str, *, refused: bool, again: bool = False, cut: PreemptRequest | None = None
    ) -> None:
        """Follow what is kept for a pod now, which other pods that ask the same do not get.

        A pod that was `refused` victims asks again when another pod has ended, or soon (`again`).
        A search that was `cut` on a node is set aside.
        """
        pod, key = self._pods.get(uid), self._decisions.request_key(uid)
        if pod is not None and key is not None:
            self._remove(uid)
            self._insert(replace(pod, key=key, seen=(), tried=-1))
            if refused:
                self._retries.refuse(uid)
            if cut is not None:
                namespace = self._decisions.requests.namespace_of(uid)
                self._aside.add_preemption(namespace, uid, self._name_of(uid), cut)
            elif again and self._decisions.groups.key_of(uid):
                self._set_aside(uid, self._victims)
            elif again:
                self._retries.retry(uid)

    def delay_preemption(self, uid: str, now: float) -> float:
        """Return for how long a pod still waits for a new node before it evicts others.

        It is woken at the end. The condition of the pod tells since when it waits if another
        process, or earlier decisions, have answered it first.
        """
        pod = self._pods.get(uid)
        if pod is None or not self._eviction_delay:
            return 0.0
        told = self._state.pods.unschedulable_since(uid)
        waited = 0.0 if told is None else self._server_time() - told
        end = min(pod.place.since, now - waited) + self._eviction_delay
        if end > now:
            self.note_preemption(uid, refused=True, again=True)
            self._retries.pause(uid, end)
        return max(0.0, end - now)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or deleted."""
        self._remove(uid)
        self._device_pauses.forget(uid)
        self._retries.forget(uid)
        self._decisions.forget(uid)

    def give_up(self, uid: str) -> None:
        """Wake a pod no more, until the scheduler itself tries it again."""
        self._remove(uid)

    def forget_settled(self) -> None:
        """Forget the pods that were bound, ended or deleted since the last call."""
        settled = self._state.pods.take_settled()
        for uid in settled:
            self.forget(uid)
        freed = self._state.take_freed()
        if settled or freed:
            self._retries.retry_refused()

    # --- waking ---

    def wake(
        self,
        now: float,
        tries: int = TRIES_PER_TURN,
        out_of_time: Callable[[], bool] = never,
        *,
        may_copy: bool = True,
    ) -> Turn:
        """Promise free devices to waiting pods; the work is limited by searches and by time.

        Without `may_copy`, no search continues that was cut on a node.
        """
        self.forget_settled()
        self._decisions.expire(now)
        self._again |= self._device_pauses.take_ended(now, self._pods)
        work = _Work(now, out_of_time)
        work.woken += self._end_searches()
        work.woken += [each for each in self._decisions.take_pods_to_retry() if each in self._pods]
        work.woken += self._retries.take_due(now, self._pods, VISITS_PER_TURN, self._place_of)
        if self._is_cut_anew:
            # Pods behind the group must not get its devices because a turn was too short for it.
            self._is_cut_anew = False
            self._continue_cut(work)
        if self._state.epoch() != self._first_epoch:
            self._first_epoch = self._state.epoch()
            work.tries = tries // 2
            self._try_behind(None, work)
        work.tries += tries - tries // 2
        while self._continue_pass():
            self._reached = self._try_behind(self._reached, work) or self._reached
            # The pod that was reached may be removed, also if it was the last one.
            self._passing = self._position_behind(self._reached) < len(self._places)
            if work.is_over:
                break
        self._continue_cut(work)
        self._continue_victims(work)
        aside = self._continue_aside(work) if may_copy else ""
        unfinished = bool(self._places) and (self._continue_pass() or self._retries.may_be_due)
        unfinished |= (
            bool(self._cut) or bool(self._victims) or (may_copy and not aside and bool(self._aside))
        )
        woken = tuple(sorted(set(work.woken), key=self._place_of))
        return Turn(woken, unfinished, aside)

    def decide_ahead(self, uid: str, now: float, tell: Tell, clock: Callable[[], float]) -> None:
        """Decide about a pod in a copy of the process, and tell what is computed."""
        self._state.planner.become_copy(tell, clock)
        self._decisions.try_again(uid)
        pod, request = self._pods.get(uid), self._aside.preemption(uid)
        self._decisions.promise(uid, now, pod.seen if pod else ())
        if request is not None:
            self._decisions.preempt(request, now)
        if self._name_of(uid) in self._victims:
            self._decisions.continue_preemption(uid, now, never)

    def note_ahead(self, uid: str) -> None:
        """Go on with a pod about which a copy of the process has decided."""
        self._aside.note_answered(self._name_of(uid))
        self._decisions.try_again(uid)
        if self._aside.end_preemption(uid):
            self._retries.retry(uid)

    def _continue_aside(self, work: _Work) -> str:
        """Continue one search that was cut on a node; return its pod if a copy has to decide."""
        uid = self._aside.take()
        if uid is None:
            return ""
        was_cut = self._continue(uid, work) or self._aside.preemption(uid) is not None
        return uid if was_cut or self._name_of(uid) in self._victims else ""

    def _continue(self, uid: str, work: _Work) -> bool:
        """Continue a search that was set aside; return whether it was cut on a node."""
        if uid not in self._pods:
            self._again = True  # other members of its group may wait
            return False
        if not self._is_due(uid, work.now):
            return False
        promise = self._promise(uid, work)
        if promise.unfinished:
            self._set_aside(uid, self._aside if promise.was_cut else self._cut)
        # A pod whose search has ended is told so in the next turn.
        self._again |= uid in self._unanswered and not promise.unfinished
        return promise.was_cut

    def _continue_cut(self, work: _Work) -> None:
        """Continue one search that was too long for a turn."""
        if (uid := self._cut.take()) is not None:
            self._continue(uid, work)

    def _continue_victims(self, work: _Work) -> None:
        """Continue one search for pods to evict; at its end, a member asks for its result."""
        uid = self._victims.take()
        if uid is None or uid not in self._pods:
            return
        asker = self._decisions.continue_preemption(uid, work.now, work.out_of_time)
        if asker is None:
            self._set_aside(uid, self._victims)
            if self._state.planner.was_cut:
                self._set_aside(uid, self._aside)
        else:
            self._retries.retry(asker if asker in self._pods else uid)

    def _end_searches(self) -> list[str]:
        """Return the pods whose search has found nothing by now, so that they can preempt.

        The others are behind those that were not looked at.
        """
        ended = []
        for uid in tuple(islice(self._unanswered, VISITS_PER_TURN)):
            del self._unanswered[uid]
            if self._decisions.is_refused(self._pods[uid].key):
                ended.append(uid)
            else:
                self._unanswered[uid] = None
        return ended

    def _place_of(self, uid: str) -> _Place:
        pod = self._pods.get(uid)
        return pod.place if pod else _BEHIND_ALL

    def _continue_pass(self) -> bool:
        """Begin a pass if something has changed; return whether one is unfinished."""
        if not self._passing and (self._again or self._pass_epoch != self._state.epoch()):
            self._passing, self._reached = True, None
            self._again, self._pass_epoch = False, self._state.epoch()
        return self._passing

    def _position_behind(self, place: _Place | None) -> int:
        """Return the position of the first pod behind a place, whose pod may be removed."""
        return 0 if place is None else bisect_right(self._places, place)

    def _try_behind(self, reached: _Place | None, work: _Work) -> _Place | None:
        """Try the pods behind a place until the turn is over; return the last one reached."""
        if not work.tries:
            return None
        if self._are_all_refused():
            return _BEHIND_ALL
        last = None
        while (position := self._position_behind(last or reached)) < len(self._places):
            last = self._places[position]
            was_due = self._try(last.uid, work)
            if work.is_over:
                break
            if was_due and self._are_all_refused():
                return _BEHIND_ALL
        return last

    def _are_all_refused(self) -> bool:
        """Whether no waiting pod can be woken in the current state."""
        # With many keys, to look at all of them takes longer than to look at the pods.
        return len(self._keys) <= FEW_KEYS and all(map(self._decisions.is_refused, self._keys))

    def _try(self, uid: str, work: _Work) -> bool:
        """Search nodes for a pod, until its search or the turn ends; False if it is not due."""
        work.visits -= 1
        if not self._is_due(uid, work.now):
            return False
        is_alone = not self._decisions.groups.key_of(uid)
        promise = self._promise(uid, work)
        while is_alone and promise.unfinished and not promise.was_cut and not work.is_over:
            promise = self._promise(uid, work)
        if promise.was_cut or (promise.unfinished and not is_alone):
            self._set_aside(uid, self._aside if promise.was_cut else self._cut)
            self._is_cut_anew |= not promise.was_cut
        else:
            # An unfinished search goes on in the next pass, so that others have their turn before.
            self._again |= promise.unfinished
        return True

    def _set_aside(self, uid: str, aside: SearchesAside) -> None:
        """Set a search aside that has not ended."""
        aside.add(self._decisions.requests.namespace_of(uid), uid, self._name_of(uid))

    def _name_of(self, uid: str) -> str:
        """Return the name of a search: that of all members of a group is the same."""
        return self._decisions.groups.key_of(uid) or uid

    def _is_due(self, uid: str, now: float) -> bool:
        """Whether a pod may be woken now, and another answer is possible."""
        pod, name = self._pods[uid], self._name_of(uid)
        return (
            name not in self._aside
            and name not in self._cut
            and self._device_pauses.is_over(uid, now)
            and pod.tried != self._state.epoch()
            and not self._decisions.is_refused(pod.key)
        )

    def next_time(self) -> float | None:
        """Return when the pause of a pod ends; None if none does."""
        ends = (self._device_pauses.next_end(self._pods), self._retries.next_end(self._pods))
        return min((end for end in ends if end is not None), default=None)

    def _promise(self, uid: str, work: _Work) -> Promise:
        pod = self._pods[uid]
        # The members of a group have the same answer. Of pods alone, thousands can ask the same.
        group = self._decisions.groups.key_of(uid)
        members = self._keys[pod.key] if group else (uid,)
        alike = [each for each in members if self._name_of(each) == (group or uid)]
        work.tries -= 1
        try:
            promise = self._decisions.promise(uid, work.now, pod.seen, work.out_of_time)
        except Exception:  # noqa: BLE001  # a bug for one pod must not end the process
            _LOG.exception("unhandled exception while a pod is woken")
            promise = Promise(impossible=True)
        if promise.node or promise.members:
            # The members of a group are woken together.
            for member in promise.members or (uid,):
                self._device_pauses.grow(member, work.now)
                work.woken.append(member)
        elif promise.pauses_until:
            for each in alike:
                self._device_pauses.extend(each, promise.pauses_until)
        elif promise.impossible:
            # The scheduler itself tries the pod again when its claims change.
            self._remove(uid)
        elif not promise.unfinished:
            for each in alike:
                self._pods[each] = replace(self._pods[each], tried=self._state.epoch())
        return promise

    def _insert(self, pod: _WaitingPod) -> None:
        self._pods[pod.place.uid] = pod
        insort(self._places, pod.place)
        self._keys.setdefault(pod.key, set()).add(pod.place.uid)
        self._again = True

    def _remove(self, uid: str) -> None:
        self._take(uid)
        self._aside.discard(uid)
        self._cut.discard(uid)
        self._aside.end_preemption(uid)
        self._unanswered.pop(uid, None)
        self._retries.stop_asking(uid)

    def _take(self, uid: str) -> None:
        """Take a pod out of the order."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            del self._places[bisect_left(self._places, pod.place)]
            self._keys[pod.key].discard(uid)
            if not self._keys[pod.key]:
                del self._keys[pod.key]
