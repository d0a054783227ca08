"""The pods that wait for devices, and which of them to wake after a change.

Only the allocator wakes them, after its own state has changed, so that a pod never asks before its
answer can be another one. A pod is woken with a promise: a short reservation on the node that was
found. So 16 free devices wake 16 pods, in the order of priority and then of time.

A pod can have devices and lack something else that only the scheduler knows, for example CPU. It is
woken only for a node that its last answer did not have, and each time later.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from allocator.decisions import PodDecisions, Promise
from allocator.shortlist import never

MAX_WAITING: Final = 65536
TRIES_PER_TURN: Final = 32
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


class WaitingPods:
    """The waiting pods, in groups that ask the same."""

    def __init__(self, decisions: PodDecisions) -> None:
        self._decisions = decisions
        self._state = decisions.state
        self._pods: dict[str, _WaitingPod] = {}
        self._groups: dict[bytes, list[_Place]] = {}
        self._back_offs: dict[str, _BackOff] = {}

    def __len__(self) -> int:
        return len(self._pods)

    # --- what the scheduler does ---

    def note_answer(self, uid: str, priority: int, fitting: Collection[str], now: float) -> None:
        """Keep a pod that was answered, until it is reserved."""
        known = self._pods.get(uid)
        since = known.place.since if known else now
        self._remove(uid)
        key = self._decisions.request_key(uid)
        if key is None or len(self._pods) >= MAX_WAITING:
            return  # the scheduler itself tries it again, later
        if fitting:
            wakes, until = self._back_offs.get(uid, _BackOff())
            self._back_offs[uid] = _BackOff(wakes, max(until, now + SCHEDULING_SECONDS))
        place = _Place(-priority, since, uid)
        self._pods[uid] = _WaitingPod(place, key, frozenset(fitting))
        insort(self._groups.setdefault(key, []), place)

    def note_reservation(self, uid: str, *, reserved: bool) -> None:
        """Keep a pod no longer that is reserved; one that is refused can be woken for any node."""
        if reserved:
            self._remove(uid)
        elif uid in self._pods:
            self._pods[uid] = replace(self._pods[uid], seen=(), tried=-1)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or deleted."""
        self._remove(uid)
        self._back_offs.pop(uid, None)
        self._decisions.forget(uid)

    # --- waking ---

    def wake(
        self, now: float, tries: int = TRIES_PER_TURN, out_of_time: Callable[[], bool] = never
    ) -> Turn:
        """Promise free devices to waiting pods; the work is limited by searches and by time."""
        for uid in self._state.pods.take_settled():
            self.forget(uid)
        self._decisions.expire(now)
        woken: list[str] = []
        heads = []
        for key in tuple(self._groups):
            places = self._due(key, now)
            for place in places:
                heads.append((place, key, places))
                break
        heapq.heapify(heads)
        for _ in range(tries):
            if not heads or out_of_time():
                break
            place, key, places = heads[0]
            promise = self._promise(place.uid, now, out_of_time)
            if promise.node:
                woken.append(place.uid)
            if promise.unfinished:
                continue  # the search goes on for the same pod
            following = None if self._decisions.is_refused(key) else next(places, None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, key, places))
        return Turn(tuple(woken), bool(heads))

    def next_time(self) -> float | None:
        """Return when a waiting pod ends its back-off; None if none does."""
        return min(
            (each.until for uid, each in self._back_offs.items() if uid in self._pods),
            default=None,
        )

    def _due(self, key: bytes, now: float) -> Iterator[_Place]:
        """Return the places of a group to try now, in order."""
        if self._decisions.is_refused(key):
            return
        # Copied, because a pod can be removed while others are tried.
        for place in tuple(self._groups[key]):
            pod = self._pods[place.uid]
            back_off = self._back_offs.get(place.uid, _BackOff())
            if back_off.until <= now and pod.tried != self._state.epoch():
                yield place

    def _promise(self, uid: str, now: float, out_of_time: Callable[[], bool]) -> Promise:
        pod = self._pods[uid]
        promise = self._decisions.promise(uid, now, pod.seen, out_of_time)
        if promise.node:
            wakes = self._back_offs.get(uid, _BackOff()).wakes + 1
            # A bounded exponent, because the number of wakes is not.
            pause = min(FIRST_BACK_OFF_SECONDS * 2 ** min(wakes - 1, 10), MAX_BACK_OFF_SECONDS)
            self._back_offs[uid] = _BackOff(wakes, now + pause)
        elif promise.impossible:
            # The scheduler itself tries the pod again when its claims change.
            self._remove(uid)
        elif not promise.unfinished:
            self._pods[uid] = replace(pod, tried=self._state.epoch())
        return promise

    def _remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        group = self._groups[pod.key]
        del group[bisect_left(group, pod.place)]
        if not group:
            del self._groups[pod.key]
