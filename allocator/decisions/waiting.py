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

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.pod_promises import Promise
from allocator.decisions.pod_tries import PodTries
from allocator.decisions.shortlist import never
from allocator.decisions.unfinished_searches import UnfinishedSearches
from allocator.decisions.wake_turns import (
    VISITS_PER_TURN,
    BoundVictims,
    ToldPods,
    Turn,
    TurnWork,
    VictimQuestions,
)
from allocator.scheduler.protocol import PreemptRequest
from allocator.state.pauses import WAKE_PAUSES
from allocator.state.record_states import RecordEvent
from allocator.state.records import VictimQuestion, Waiting, WaitingPlace
from allocator.state.seen_pods import UNSEEN, UNSEEN_SECONDS
from drawbridge.solver.ahead import Tell

TRIES_PER_TURN: Final = 32
# A pod that got nodes has this time to be reserved before another node is searched for it.
SCHEDULING_SECONDS: Final = 1.0
# Before all priorities.
_FIRST: Final = -(1 << 63)


class WaitingPods:
    """The waiting pods, in the order of their priority and then of time."""

    def __init__(self, decisions: PodDecisions, *, eviction_delay: float = 0.0) -> None:
        """Create the pods; each waits for `eviction_delay` seconds before it evicts others."""
        self._decisions, self._promises = decisions, decisions.promises
        self._preemptors = decisions.preemptors
        self._eviction_delay = eviction_delay
        self._state = decisions.state
        self._records = decisions.state.records
        self._settled: list[str] = []  # the pods that have ended and have a record; the next last
        self._questions = VictimQuestions(self._records, self._state)
        self._bound = BoundVictims(self._records, self._state.pods)
        self._searches = UnfinishedSearches(self._records)
        self._is_cut_anew = False  # whether the last pass has cut a search that it began
        self._told = ToldPods(self._records)
        self._tries = PodTries(decisions, self._searches, self._questions, self._told)
        # A pass tries all pods; it takes as many turns as needed.
        self._pass = self._records.to_try
        self._pass_epoch = -1  # when it began
        self._again = False  # whether a pod changed since the pass began
        self._first_epoch = -1  # when the first pods were tried

    def __len__(self) -> int:
        return len(self._pass.places)

    # --- what the scheduler does ---

    def note_answer(
        self, uid: str, fitting: Collection[str], now: float, *, complete: bool = True
    ) -> None:
        """Keep a pod that was answered, until it is reserved."""
        key, record = self._promises.request_key(uid), self._records.get(uid)
        if key is None or record.request is None:
            self.stop_waking(uid)
            return  # the scheduler itself tries it again, later
        earlier, request, groups = record.waiting, record.request, self._decisions.groups
        # A group of which a part is bound comes first, since that part runs for nothing.
        rank = _FIRST if record.group in groups.interrupted else -request.pod.priority
        place = WaitingPlace(rank, earlier.place.since if earlier else now, uid)
        if fitting:
            pause = record.device_pause.extended(now + SCHEDULING_SECONDS)
            victims = None
        else:
            # It lacks nothing but devices, so that it must not miss those that become free.
            pause = record.device_pause.shrunk(now + WAKE_PAUSES.first)
            victims = record.victims
        paused = 0.0 if fitting else groups.waits_until(record.group, now)
        exceeds = not fitting and self._promises.exceeds_quota(key)
        waiting = Waiting(place, key, frozenset(fitting), exceeds=exceeds)
        parts = {"device_pause": pause, "victims": victims, "unanswered": False}
        self._change(uid, RecordEvent.ANSWERED, waiting, **parts)
        if record.group:
            self._again |= self._records.move_alike(key, rank)
        if not fitting and not complete:
            self._records.change(uid, RecordEvent.SEARCHED, unanswered=True)
        if paused > now:
            # Until then, it is not asked whether it can preempt others.
            self._questions.ask_again(uid, paused)

    def _change(self, uid: str, event: RecordEvent, waiting: Waiting, **parts: Any) -> None:  # noqa: ANN401
        self._records.change(uid, event, waiting=waiting, **parts)
        self._again = True

    def note_reservation(self, uid: str, *, reserved: bool) -> None:
        """Keep a pod no longer that is reserved; one that is refused can be woken for any node."""
        if reserved:
            self.stop_waking(uid)
        elif (pod := self._find(uid)) is not None:
            self._change(uid, RecordEvent.SEARCHED, replace(pod, seen=(), tried=-1))

    def note_preemption(
        self,
        uid: str,
        *,
        refused: bool,
        again: bool = False,
        at: float = 0.0,
        cut: PreemptRequest | None = None,
    ) -> None:
        """Follow what is kept for a pod now, which other pods that ask the same do not get.

        A pod that was `refused` victims asks again when another pod has ended, soon (`again`), or
        at the end of the pause of its group (`at`). A search that was `cut` on a node is set aside.
        """
        pod, key = self._find(uid), self._promises.request_key(uid)
        if pod is not None and key is not None:
            self._searches.leave(uid)
            victims = VictimQuestion(changed=self._questions.changed) if refused else None
            waiting = Waiting(pod.place, key, exceeds=self._promises.exceeds_quota(key))
            self._change(uid, RecordEvent.ASKS_VICTIMS, waiting, victims=victims, unanswered=False)
            if cut is not None:
                self._set_preemption_aside(uid, cut)
            elif again and self._decisions.groups.key_of(uid):
                self._searches.add(uid, self._searches.for_victims)
            elif again or (refused and at):
                self._questions.ask_again(uid, at)

    def delay_preemption(self, uid: str, now: float) -> float:
        """Return for how long a pod still waits for a new node before it evicts others.

        It is woken at the end. The condition of the pod tells since when it waits if another
        process, or earlier decisions, have answered it first.
        """
        pod = self._find(uid)
        if pod is None or not self._eviction_delay:
            return 0.0
        told = self._state.pods.get(uid).unschedulable_since
        waited = 0.0 if told is None else self._decisions.server_time() - told
        end = min(pod.place.since, now - waited) + self._eviction_delay
        if end > now:
            self.note_preemption(uid, refused=True, again=True)
            pause = self._records.get(uid).victim_pause.extended(end)
            self._records.change(uid, RecordEvent.PAUSED, victim_pause=pause)
        return max(0.0, end - now)

    def end(self, uid: str) -> None:
        """Remember nothing more of a pod that is bound, ended or deleted."""
        self._searches.leave(uid)
        self._again |= self._decisions.end(uid)

    def note_minimum(self, key: str) -> None:
        """Try a group again, because another number of its members must run together."""
        self._again |= self._decisions.groups.forget_refusal(key)

    def stop_waking(self, uid: str) -> None:
        """Wake a pod no more, until the scheduler itself tries it again."""
        self._searches.leave(uid)
        self._records.change(uid, RecordEvent.LEFT, waiting=None, victims=None, unanswered=False)

    def end_settled(self, now: float, out_of_time: Callable[[], bool] = never) -> bool:
        """End the records of pods that were bound, ended or deleted; return whether all have ended.

        Others that were refused victims can have some now. A pod that no watch has shown for long,
        and nobody asks about, has gone.
        """
        settled, beside = self._state.pods.take_settled(), tuple(self._state.take_users_beside())
        self._settled[:0] = tuple(settled)[::-1]
        self._bound.note((*settled, *beside))
        if self._state.take_freed() or beside or self._settled:
            self._questions.note_ended()
        while (uid := self._records.times.take_first("unseen", now)) is not None:
            self._end_unseen(uid, now)
            if out_of_time():
                return False
        while self._settled:
            self.end(self._settled.pop())
            if out_of_time():
                return not self._settled
        return True

    def _end_unseen(self, uid: str, now: float) -> None:
        """End a pod that no watch has shown for long, unless its end is followed otherwise."""
        if self._state.pods.get(uid) is not UNSEEN:
            return
        # The watch shows members of groups without claims, whose end nobody follows.
        if self._records.get(uid).devices or self._decisions.requests.is_watched(uid):
            self._records.times.set("unseen", uid, now + UNSEEN_SECONDS)
        else:
            self.end(uid)

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
        if not self.end_settled(now, out_of_time):
            return Turn((), unfinished=True)  # nobody gets what a pod has that has ended
        self._decisions.expire(now)
        work = TurnWork(now, out_of_time)
        self._end_pauses(work)
        self._told.tell(work)
        work.woken += self._records.times.take("retry", now)
        work.woken += self._end_searches(work)
        work.woken += self._find_waiting(self._preemptors.take_to_retry())
        for uid in (*self._find_waiting(self._preemptors.take_to_ask()), *self._bound.take(work)):
            self._questions.ask_again(uid)
        self._questions.tell(work)
        if self._is_cut_anew:
            # Pods behind the group must not get its devices because a turn was too short for it.
            self._is_cut_anew = False
            self._continue(self._searches.in_turns.take(), work)
        if self._state.epoch() != self._first_epoch:
            self._first_epoch = self._state.epoch()
            work.tries = tries // 2
            self._try_each(self._pass.places_from_first(), work)
        work.tries += tries - tries // 2
        while self._continue_pass():
            has_ended = self._try_each(iter(self._pass.take, None), work)
            # The pod that was reached may be removed, also if it was the last one.
            if has_ended or not self._pass:
                self._pass.end()
            if work.is_over:
                break
        self._continue(self._searches.in_turns.take(), work)
        self._continue_victims(work)
        # The search about which a copy has decided is the last one if it is cut again.
        self._continue(self._searches.on_nodes.take_answered(), work)
        aside = self._continue_aside(work) if may_copy else ""
        unfinished = bool(self._pass.places) and (
            self._continue_pass() or self._questions.may_ask(now)
        )
        searches = self._searches
        unfinished |= any((self._told, searches.in_turns, searches.for_victims, self._bound))
        unfinished |= may_copy and not aside and bool(searches.on_nodes)
        records = map(self._records.get, set(work.woken))
        woken = tuple(each.uid for each in sorted(records, key=lambda each: each.place))
        return Turn(woken, unfinished, aside)

    def decide_ahead(self, uid: str, now: float, tell: Tell, clock: Callable[[], float]) -> None:
        """Decide about a pod in a copy of the process, and tell what is computed."""
        self._state.planner.become_copy(tell, clock)
        self._decisions.planned_holds.try_again(uid)
        pod, request = self._find(uid), self._searches.on_nodes.preemption(uid)
        self._promises.make(uid, now, pod.seen if pod else ())
        if request is not None:
            self._decisions.preempt(request, now)

    def note_copy(self, uid: str, seconds: float) -> None:
        """Note how long the last copy took, also if the system refused it."""
        self._searches.on_nodes.note_copy(seconds)
        self._decisions.groups.note_copy(uid)

    def note_end(self, *, killed: bool) -> bool:
        """Note how the last copy ended; return whether too many were killed for its search."""
        return self._searches.on_nodes.note_end(killed=killed)

    def note_ahead(self, uid: str) -> None:
        """Go on with a pod about which a copy of the process has decided."""
        self._searches.note_answered(uid)
        self._decisions.planned_holds.try_again(uid)

    def _continue_aside(self, work: TurnWork) -> str:
        """Continue one search that was cut on a node; return its pod if a copy has to decide."""
        on_nodes = self._searches.on_nodes
        uid = on_nodes.take()
        return uid if uid and (self._continue(uid, work) or on_nodes.preemption(uid)) else ""

    def _continue(self, uid: str | None, work: TurnWork) -> bool:
        """Continue a search that was set aside, if any; return whether it was cut on a node."""
        if uid is None:
            return False
        if self._find(uid) is None:
            self._again = True  # other members of its group may wait
            return False
        if not self._tries.is_due(uid, work.now):
            return False
        promise = self._try_once(uid, work)
        if promise.unfinished:
            self._searches.set_aside(uid, was_cut=promise.was_cut)
        # A pod whose search has ended is told so in the next turn.
        self._again |= self._records.get(uid).unanswered and not promise.unfinished
        return promise.was_cut

    def _continue_victims(self, work: TurnWork) -> None:
        """Continue one search for pods to evict of a group; at its end, a member asks for it."""
        uid = self._searches.for_victims.take()
        if uid is None or self._find(uid) is None:
            return
        asked, ended = self._decisions.continue_preemption(uid, work.now, work.out_of_time)
        if ended:
            self._questions.ask_again(asked.pod_uid if self._find(asked.pod_uid) else uid)
        elif self._state.planner.was_cut:
            self._set_preemption_aside(uid, asked)
        else:
            self._searches.add(uid, self._searches.for_victims)

    def _set_preemption_aside(self, uid: str, request: PreemptRequest) -> None:
        for each in filter(self._find, self._searches.add_preemption(uid, request)):
            self._questions.ask_again(each)

    def _end_pauses(self, work: TurnWork) -> None:
        """Begin a pass if the pause of a pod has ended."""
        while self._records.times.take_first("device pause", work.now) is not None:
            self._again = True
            if work.out_of_time():
                return

    def _end_searches(self, work: TurnWork) -> list[str]:
        """Return the pods whose search has found nothing by now, so that they can preempt.

        The others are behind those that were not looked at.
        """
        ended = []
        for uid in tuple(islice(self._records.with_part("unanswered"), VISITS_PER_TURN)):
            record = self._records.get(uid)
            if record.waiting is None or self._promises.is_refused(record.key):
                self._records.change(uid, RecordEvent.SEARCHED, unanswered=False)
                ended.append(uid)
            else:
                self._records.move_to_end("unanswered", uid)
            if work.out_of_time():
                break
        return ended

    def _find_waiting(self, uids: Iterable[str]) -> Iterator[str]:
        """Yield those that wait, and for a member that was not asked about itself one that was."""
        for uid in uids:
            if self._find(uid) is not None:
                yield uid
            elif self._records.get(uid).group and (key := self._promises.request_key(uid)):
                yield from islice(self._records.alike.get(key), 1)

    def _find(self, uid: str) -> Waiting | None:
        return self._records.get(uid).waiting

    def _continue_pass(self) -> bool:
        """Begin a pass if something has changed; return whether one is unfinished."""
        is_over = self._pass.places and not self._pass
        if is_over and (self._again or self._pass_epoch != self._state.epoch()):
            self._pass.visit_all()
            self._again, self._pass_epoch = False, self._state.epoch()
        return bool(self._pass)

    def _try_each(self, places: Iterator[WaitingPlace], work: TurnWork) -> bool:
        """Try pods until the turn is over; return whether all that wait are refused."""
        if not work.tries:
            return False
        if self._tries.are_all_refused():
            return True
        for place in places:
            was_due = self._try(place.uid, work)
            if work.is_over:
                return False
            if was_due and self._tries.are_all_refused():
                return True
        return False

    def _try(self, uid: str, work: TurnWork) -> bool:
        """Search nodes for a pod, until its search or the turn ends; False if it is not due."""
        work.visits -= 1
        if not self._tries.is_due(uid, work.now):
            return False
        is_alone = not self._decisions.groups.key_of(uid)
        promise = self._try_once(uid, work)
        while is_alone and promise.unfinished and not promise.was_cut and not work.is_over:
            promise = self._try_once(uid, work)
        if promise.was_cut or (promise.unfinished and not is_alone):
            self._searches.set_aside(uid, was_cut=promise.was_cut)
            self._is_cut_anew |= not promise.was_cut
        else:
            # An unfinished search goes on in the next pass, so that others have their turn before.
            self._again |= promise.unfinished
        return True

    def _try_once(self, uid: str, work: TurnWork) -> Promise:
        promise = self._tries.run(uid, work)
        if promise.impossible:
            # The scheduler itself tries the pod again when its claims change.
            self.stop_waking(uid)
        return promise

    def next_time(self) -> float | None:
        """Return when the pause of a pod ends; None if none does."""
        times = self._records.times
        ends = (times.next("device pause"), self._questions.next_time(), times.next("retry"))
        return min((end for end in ends if end is not None), default=None)
