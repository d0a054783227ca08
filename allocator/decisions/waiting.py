"""The pods that wait for devices, and which of them to wake after a change.

Only the allocator wakes them, after its own state has changed, so that a pod never asks before its
answer can be another one. A pod is woken with a promise: a short reservation on the node that was
found. So 16 free devices wake 16 pods, in the order of priority and then of time.

A pod can have devices and lack something else that only the scheduler knows, for example CPU. It is
woken only for a node that its last answer did not have, and each time later.

The work of one turn is limited. After a change the first pods are tried again, and then those that
follow the last one of the previous turn: however many pods wait and whatever changes, each has its
turn.
"""

import heapq
import logging
import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from allocator.decisions.pod_devices import PodDecisions, Promise
from allocator.decisions.shortlist import never

_LOG: Final = logging.getLogger("allocator.decisions.waiting")
MAX_WAITING: Final = 65536
TRIES_PER_TURN: Final = 32
# To pass over a pod that cannot be woken now takes microseconds.
VISITS_PER_TURN: Final = 2048
FEW_KEYS: Final = 64
FIRST_BACK_OFF_SECONDS: Final = 1.0
MAX_BACK_OFF_SECONDS: Final = 60.0
# A pod that got nodes has this time to be reserved before another node is searched for it.
SCHEDULING_SECONDS: Final = 1.0


class Turn(NamedTuple):
    """The pods to wake, and whether there is more to do in the current state."""

    woken: tuple[str, ...]
    unfinished: bool


class _Place(NamedTuple):
    """The place of a pod among those that wait; a higher priority comes first."""

    priority: int
    since: float
    uid: str


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


class _BackOff(NamedTuple):
    wakes: int = 0
    until: float = 0.0


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

    def __init__(self, decisions: PodDecisions) -> None:
        self._decisions = decisions
        self._state = decisions.state
        self._pods: dict[str, _WaitingPod] = {}
        self._places: list[_Place] = []
        self._keys: Counter[bytes] = Counter()  # how many pods ask the same
        self._back_offs: dict[str, _BackOff] = {}
        self._ends: list[tuple[float, str]] = []  # a heap of the ends of back-offs
        # Pods that wait for the end of a search; that got no victims; that ask for victims again.
        self._unanswered: set[str] = set()
        self._refused: set[str] = set()
        self._to_retry: set[str] = set()
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
        priority: int,
        fitting: Collection[str],
        now: float,
        *,
        complete: bool = True,
    ) -> None:
        """Keep a pod that was answered, until it is reserved."""
        waiting = self._pods.get(uid)
        since = waiting.place.since if waiting else now
        self._remove(uid)
        key = self._decisions.request_key(uid)
        if key is None or len(self._pods) >= MAX_WAITING:
            return  # the scheduler itself tries it again, later
        wakes, until = self._back_offs.get(uid, _BackOff())
        if fitting:
            until = max(until, now + SCHEDULING_SECONDS)
        if until > now:
            self._back_off(uid, _BackOff(wakes, until))
        self._insert(_WaitingPod(_Place(-priority, since, uid), key, frozenset(fitting)))
        if not fitting and not complete:
            self._unanswered.add(uid)

    def note_reservation(self, uid: str, *, reserved: bool) -> None:
        """Keep a pod no longer that is reserved; one that is refused can be woken for any node."""
        if reserved:
            self._remove(uid)
        elif uid in self._pods:
            self._pods[uid] = replace(self._pods[uid], seen=(), tried=-1)
            self._again = True

    def note_preemption(self, uid: str, *, refused: bool, again: bool = False) -> None:
        """Follow what is kept for a pod now, which other pods that ask the same do not get.

        A pod that was `refused` victims asks again when another pod has ended, or soon (`again`).
        """
        pod, key = self._pods.get(uid), self._decisions.request_key(uid)
        if pod is not None and key is not None:
            self._remove(uid)
            self._insert(replace(pod, key=key, seen=(), tried=-1))
            if refused:
                self._refused.add(uid)
            if again:
                self._to_retry.add(uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or deleted."""
        self._remove(uid)
        self._back_offs.pop(uid, None)
        self._decisions.forget(uid)

    def forget_settled(self) -> None:
        """Forget the pods that were bound, ended or deleted since the last call."""
        settled = self._state.pods.take_settled()
        for uid in settled:
            self.forget(uid)
        if settled:
            self._to_retry |= self._refused

    # --- waking ---

    def wake(
        self, now: float, tries: int = TRIES_PER_TURN, out_of_time: Callable[[], bool] = never
    ) -> Turn:
        """Promise free devices to waiting pods; the work is limited by searches and by time."""
        self.forget_settled()
        self._decisions.expire(now)
        self._end_back_offs(now)
        work = _Work(now, out_of_time)
        work.woken += self._end_searches()
        work.woken += self._retry_preemption(work)
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
        return Turn(tuple(dict.fromkeys(work.woken)), bool(self._places) and self._continue_pass())

    def _end_searches(self) -> list[str]:
        """Return the pods whose search has found nothing by now, so that they can preempt."""
        ended = [
            uid
            for uid in islice(self._unanswered, VISITS_PER_TURN)
            if self._decisions.is_refused(self._pods[uid].key)
        ]
        self._unanswered.difference_update(ended)
        return ended

    def _retry_preemption(self, work: _Work) -> list[str]:
        """Return the pods for which preemption may have another result now."""
        lost = [uid for uid in self._decisions.take_pods_to_retry() if uid in self._pods]
        some = tuple(islice(self._to_retry, VISITS_PER_TURN))
        for uid in (each for each in some if self._has_no_pause(each, work.now)):
            self._to_retry.discard(uid)
            self._refused.discard(uid)
            self._pause(uid, work.now)
            lost.append(uid)
        return lost

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
        promise = self._promise(uid, work)
        while promise.unfinished and not work.is_over:
            promise = self._promise(uid, work)
        # An unfinished search goes on in the next pass, so that others have their turn before.
        self._again |= promise.unfinished
        return True

    def _is_due(self, uid: str, now: float) -> bool:
        """Whether a pod may be woken now, and another answer is possible."""
        pod = self._pods[uid]
        return (
            self._has_no_pause(uid, now)
            and pod.tried != self._state.epoch()
            and not self._decisions.is_refused(pod.key)
        )

    def next_time(self) -> float | None:
        """Return when a waiting pod ends its back-off; None if none does."""
        while self._ends:
            until, uid = self._ends[0]
            if uid in self._pods and self._back_offs.get(uid, _BackOff()).until == until:
                return until
            heapq.heappop(self._ends)
        return None

    def _has_no_pause(self, uid: str, now: float) -> bool:
        return self._back_offs.get(uid, _BackOff()).until <= now

    def _pause(self, uid: str, now: float) -> None:
        """Let a pod that is woken now be woken again later and later."""
        wakes = self._back_offs.get(uid, _BackOff()).wakes + 1
        # A bounded exponent, because the number of wakes is not.
        pause = min(FIRST_BACK_OFF_SECONDS * 2 ** min(wakes - 1, 10), MAX_BACK_OFF_SECONDS)
        self._back_off(uid, _BackOff(wakes, now + pause))

    def _back_off(self, uid: str, back_off: _BackOff) -> None:
        self._back_offs[uid] = back_off
        heapq.heappush(self._ends, (back_off.until, uid))

    def _end_back_offs(self, now: float) -> None:
        while (until := self.next_time()) is not None and until <= now:
            heapq.heappop(self._ends)
            self._again = True

    def _promise(self, uid: str, work: _Work) -> Promise:
        pod = self._pods[uid]
        work.tries -= 1
        try:
            promise = self._decisions.promise(uid, work.now, pod.seen, work.out_of_time)
        except Exception:  # noqa: BLE001  # a bug for one pod must not end the process
            _LOG.exception("unhandled exception while a pod is woken")
            promise = Promise(impossible=True)
        if promise.node:
            self._pause(uid, work.now)
            work.woken.append(uid)
        elif promise.impossible:
            # The scheduler itself tries the pod again when its claims change.
            self._remove(uid)
        elif not promise.unfinished:
            self._pods[uid] = replace(pod, tried=self._state.epoch())
        return promise

    def _insert(self, pod: _WaitingPod) -> None:
        self._pods[pod.place.uid] = pod
        insort(self._places, pod.place)
        self._keys[pod.key] += 1
        self._again = True

    def _remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        for others in (self._unanswered, self._refused, self._to_retry):
            others.discard(uid)
        if pod is not None:
            del self._places[bisect_left(self._places, pod.place)]
            self._keys[pod.key] -= 1
            if not self._keys[pod.key]:
                del self._keys[pod.key]
