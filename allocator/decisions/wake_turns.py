"""What one turn of waking may do, and what it has done."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from allocator.state.pod_table import PodTable
from allocator.state.record_states import RecordEvent

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
