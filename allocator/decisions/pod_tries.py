"""Tries to give devices to a waiting pod, and notes for which pods that need not be done again."""

import logging
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.pod_promises import Promise
from allocator.decisions.unfinished_searches import UnfinishedSearches
from allocator.decisions.wake_turns import ToldPods, TurnWork, VictimQuestions
from allocator.state.record_states import RecordEvent
from allocator.state.records import BEHIND_ALL, Waiting

_LOG: Final = logging.getLogger("allocator.decisions.pod_tries")
FEW_KEYS: Final = 64


class PodTries:
    """The tries to give devices to waiting pods."""

    def __init__(
        self,
        decisions: PodDecisions,
        searches: UnfinishedSearches,
        questions: VictimQuestions,
        told: ToldPods,
    ) -> None:
        self._state, self._records = decisions.state, decisions.state.records
        self._promises, self._preemption = decisions.promises, decisions.preemption
        self._searches, self._questions, self._told = searches, questions, told

    def are_all_refused(self) -> bool:
        """Whether no waiting pod can be woken in the current state."""
        keys, exceeding = self._records.alike, self._records.exceeding
        first = next(iter(self._records.to_try.places), BEHIND_ALL)
        if self._preemption.lowest_priority() < -first.priority:
            return False
        # With many keys, to look at all of them takes longer than to look at the pods.
        if len(keys) > FEW_KEYS or not all(map(self._promises.is_refused, keys)):
            return False
        return all(map(self._promises.exceeds_quota, exceeding))

    def is_due(self, uid: str, now: float) -> bool:
        """Whether a pod may be woken now, and another answer is possible."""
        record = self._records.get(uid)
        pod = record.waiting
        if pod is None or self._searches.has(uid):
            return False
        if record.pauses(now) or pod.tried == self._state.epoch() or self._state.pods.get(uid).node:
            return False  # kube-scheduler can ask before it hears that a pod is bound
        if pod.exceeds:
            # Room in a quota is another answer, also without a free device.
            return not self._promises.exceeds_quota(record.key)
        is_refused = self._promises.is_refused(record.key)
        return not is_refused or self._preemption.may_take_over(record)

    def run(self, uid: str, work: TurnWork) -> Promise:
        """Promise devices to a pod, or note what keeps it and those that are alike from them."""
        record = self._records.get(uid)
        pod, key, group = record.waiting, record.key, record.group
        if pod is None:
            return Promise(impossible=True)
        # The members of a group have the same answer. Of pods alone, thousands can ask the same.
        members = self._records.alike.get(key) if group else (uid,)
        alike = [each for each in members if self._records.get(each).group == group]
        work.tries -= 1
        promise = self._decide(uid, pod, work)
        if promise.node or promise.members:
            self._told.add(promise.members or (uid,), work)
        elif promise.pauses_until:
            self._told.add(alike, work, until=promise.pauses_until)
        elif not (promise.unfinished or promise.impossible):
            if promise.can_evict or (pod.exceeds and not promise.exceeds):
                # Fewer members must run, for example, or its quota has room for what it preempts.
                self._questions.ask_soon(uid, work.now)
            # A group that is refused needs no other note that its members were tried, which would
            # outlast the refusal. A member that pauses is tried at the end of its pause.
            if not (group and self._promises.is_refused(key)):
                self._note_tried(alike, promise, work)
        return promise

    def _note_tried(self, uids: Collection[str], promise: Promise, work: TurnWork) -> None:
        for record in map(self._records.get, uids):
            if record.waiting is not None:
                tried = -1 if record.pauses(work.now) else self._state.epoch()
                waiting = replace(record.waiting, tried=tried, exceeds=promise.exceeds)
                self._records.change(record.uid, RecordEvent.SEARCHED, waiting=waiting)

    def _decide(self, uid: str, pod: Waiting, work: TurnWork) -> Promise:
        try:
            return self._promises.make(uid, work.now, pod.seen, work.out_of_time)
        except Exception:  # noqa: BLE001  # a bug for one pod must not end the process
            _LOG.exception("unhandled exception while a pod is woken")
            return Promise(impossible=True)
