"""What one turn of waking may do, and what it has done."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from allocator.state.cluster_state import AllocatorState
from allocator.state.pauses import NO_PAUSE, WAKE_PAUSES, Pause
from allocator.state.pod_table import PodTable
from allocator.state.record_states import RecordEvent
from allocator.state.records import Record, VictimQuestion
from allocator.state.seen_pods import SeenPods

# kube-scheduler can hear of a node so much later than the allocator, and lists no victims there.
SCHEDULER_SECONDS: Final = 5.0
# To pass over a pod that cannot be woken now takes microseconds.
VISITS_PER_TURN: Final = 2048


class Turn(NamedTuple):
    """The pods to wake, and whether there is more to do in the current state.

    A copy of the process has to decide about the pod `aside`, if there is one.
    """

    woken: tuple[str, ...]
    unfinished: bool
    aside: str = ""


def is_woken_by_member(record: Record, now: float, *, is_kept: bool = True) -> bool:
    """Whether another member of its group, which was answered now, wakes a pod.

    One that was answered itself and has not started is woken at the end of its pause: two of them
    would else wake each other without end. So would two whose records are not kept until then, as
    that of a pod with devices is.
    """
    is_kept |= record.waiting is not None or record.devices is not None
    return is_kept and not record.pauses(now)


class TurnWork:
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


class ToldPods:
    """The pods that are to be woken, or that pause until a time.

    All members of a group are told together, as many in one turn as there is time for.
    """

    def __init__(self, records: PodTable) -> None:
        self._records = records
        self._left: OrderedDict[str, float | None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, uids: Iterable[str], work: TurnWork, *, until: float | None = None) -> None:
        """Wake pods, or let them pause until a time."""
        self._left.update(dict.fromkeys(uids, until))
        self.tell(work)

    def tell(self, work: TurnWork) -> None:
        """Tell the next pods, until the turn has no time left; at least one."""
        while self._left:
            uid, until = self._left.popitem(last=False)
            record = self._records.get(uid)
            if record.request is None:
                continue  # it has ended meanwhile
            pause = record.device_pause
            if until is None:
                self._records.change(uid, RecordEvent.WOKEN, device_pause=pause.grown(work.now))
                work.woken.append(uid)
            else:
                self._records.change(uid, RecordEvent.PAUSED, device_pause=pause.extended(until))
            if work.out_of_time():
                return


class BoundVictims:
    """Which pods can have victims that were bound after their answer.

    kube-scheduler asks for no victims of a pod while the pods that have the devices are not bound.
    """

    def __init__(self, records: PodTable, pods: SeenPods) -> None:
        self._records = records
        self._pods = pods
        self._lowest = math.inf  # the lowest priority of a pod that was bound

    def __bool__(self) -> bool:
        """Whether there are pods that were not taken yet."""
        return self._lowest < math.inf

    def note(self, settled: Iterable[str]) -> None:
        """Note which pods were bound."""
        for seen in map(self._pods.get, settled):
            # kube-scheduler evicts none that ends already.
            if seen.node and not seen.ended and not seen.terminating:
                self._lowest = min(self._lowest, seen.priority)
                self._records.unasked.visit_all()

    def take(self, work: TurnWork) -> Iterator[str]:
        """Yield pods that can have victims now, and do not ask for them, while there is time."""
        unasked = self._records.unasked
        while self:
            place = unasked.take()
            if place is None or place.priority >= -self._lowest:
                self._lowest = math.inf
                return
            request = self._records.get(place.uid).request
            if self._pods.get(place.uid).never_preempts:
                unasked.move(place, None)  # so that nobody passes over it each time
            elif request is not None and request.pod.priority > self._lowest:
                yield place.uid
            if work.out_of_time():
                return


class VictimQuestions:
    """The pods that ask for victims again: when others can have some, or their pause is over."""

    def __init__(self, records: PodTable, state: AllocatorState) -> None:
        self._records, self._changes, self._quotas = records, state.changes, state.ledger.quotas
        self._ended, self._told, self._offers = 0, 0, self._changes.of_offers
        self._heard_at: float | None = None  # when kube-scheduler has heard of the last offer

    @property
    def changed(self) -> int:
        """How often others could have victims.

        Pods ended, nodes changed and were heard of, or quotas apply to other namespaces.
        """
        return self._ended + self._changes.of_offers + self._quotas.selections

    def may_ask(self, now: float) -> bool:
        """Whether a pod may ask now."""
        end = self.next_time()
        return bool(self._records.asking) or (end is not None and end <= now)

    def next_time(self) -> float | None:
        """Return when a pause ends, or pods that were refused ask again."""
        ends = (self._records.times.next("victim pause"), self._heard_at)
        return min((end for end in ends if end is not None), default=None)

    def note_ended(self) -> None:
        """Note that other pods have ended."""
        self._ended += 1

    def ask_again(self, uid: str, at: float = 0.0) -> None:
        """Let a pod ask for victims again, at the end of its pause and not before a time."""
        record = self._records.get(uid)
        parts = {
            "victims": (record.victims or VictimQuestion())._replace(asks=True),
            "victim_pause": record.victim_pause.extended(at),
        }
        self._records.change(uid, RecordEvent.ASKS_VICTIMS, **parts)

    def ask_soon(self, uid: str, now: float) -> None:
        """Let a pod ask for victims that could not have any so far; no long pause is left of that.

        It does not ask more often than once a second: others can take turns with what allows it.
        """
        end = self._records.get(uid).victim_pause.until
        pause = Pause(until=end) if end <= now + WAKE_PAUSES.first else NO_PAUSE
        self._records.change(uid, RecordEvent.ASKS_VICTIMS, victim_pause=pause)
        self.ask_again(uid)

    def tell(self, work: TurnWork) -> None:
        """Wake the first pods that ask, and begin their pauses, while there is time.

        A pod whose pause has ended can come before the others, so none is woken before all pauses
        have ended.
        """
        if self._offers != self._changes.of_offers:
            self._offers, self._heard_at = self._changes.of_offers, work.now + SCHEDULER_SECONDS
        elif self._heard_at is not None and self._heard_at <= work.now:
            self._heard_at = None
            self.note_ended()
        if self._told != self.changed:
            self._told = self.changed
            self._records.asking.visit_all()
        while self._records.end_victim_pause(work.now):
            if work.out_of_time():
                return
        while (place := self._records.asking.take()) is not None:
            record = self._records.get(place.uid)
            if record.victims and record.victims.is_due(self.changed):
                # It stays refused, and is woken again if this wake is lost.
                victims = record.victims.asked(self.changed)
                parts = {"victims": victims, "victim_pause": record.victim_pause.grown(work.now)}
                self._records.change(record.uid, RecordEvent.WOKEN, **parts)
                work.woken.append(record.uid)
            if work.out_of_time():
                return
