"""What one turn of waking may do, and what it has done."""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Final, NamedTuple

from allocator.state.pod_table import PodTable
from allocator.state.record_states import RecordEvent
from allocator.state.records import WaitingPlace
from allocator.state.seen_pods import SeenPods

# To pass over a pod that cannot be woken now takes microseconds.
VISITS_PER_TURN: Final = 2048


class Turn(NamedTuple):
    """The pods to wake, and whether there is more to do in the current state.

    A copy of the process has to decide about the pod `aside`, if there is one.
    """

    woken: tuple[str, ...]
    unfinished: bool
    aside: str = ""


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
        self._reached: WaitingPlace | None = None  # the last pod that was taken since then

    def __bool__(self) -> bool:
        """Whether there are pods that were not taken yet."""
        return self._lowest < math.inf

    def note(self, settled: Iterable[str]) -> None:
        """Note which pods were bound."""
        for seen in map(self._pods.get, settled):
            # kube-scheduler evicts none that ends already.
            if seen.node and not seen.ended and not seen.terminating:
                self._lowest = min(self._lowest, seen.priority)
                self._reached = None

    def take(self) -> Collection[str]:
        """Return some pods that can have victims now, and do not ask for them."""
        if not self:
            return ()
        above = self._records.find_waiting_above(self._lowest, self._reached)
        able = (each for each in above if not self._pods.get(each.uid).never_preempts)
        some = tuple(islice(able, VISITS_PER_TURN))
        if len(some) < VISITS_PER_TURN:
            self._lowest = math.inf
        else:
            self._reached = some[-1]
        return [each.uid for each in some]
