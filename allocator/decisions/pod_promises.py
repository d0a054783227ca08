"""Decides which devices a waiting pod is promised, and whether another answer is possible for it.

A promise is a short reservation: the pod asks again, and gets what is promised to it.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.groups import GroupDecisions
from allocator.decisions.node_searches import answer_key
from allocator.decisions.preemption import DevicePreemption
from allocator.decisions.reserving import find_refusal, reserve_on
from allocator.decisions.shortlist import never
from allocator.state.records import PodRequest
from drawbridge.agreement import allocator_codes as codes

# No other key of a request begins so.
_GROUP: Final = b"group "


class Promise(NamedTuple):
    """Whether a waiting pod got devices on a node, and if not, whether it can.

    The search is `unfinished` while it has not examined all nodes. If it `was_cut` on a node, a
    copy of the process can answer. It is `impossible` for a pod whose claims it cannot use. A pod
    alone that `exceeds` a quota can have no devices of others either. A group `can_evict` others if
    it could not by the answer before.
    """

    node: str = ""
    unfinished: bool = False
    impossible: bool = False
    was_cut: bool = False
    exceeds: bool = False
    can_evict: bool = False
    # All members of a group that got devices together, or the one that asks about it anew.
    members: tuple[str, ...] = ()
    pauses_until: float = 0.0


class PodPromises:
    """The promises to waiting pods."""

    def __init__(self, basis: Basis, groups: GroupDecisions, preemption: DevicePreemption) -> None:
        self._basis, self._state = basis, basis.state
        self._groups, self._preemption = groups, preemption

    def make(
        self,
        pod_uid: str,
        now: float,
        without: Collection[str] = (),
        out_of_time: Callable[[], bool] = never,
    ) -> Promise:
        """Reserve devices for a waiting pod for a short time.

        The pod asks again, and its promise becomes a reservation then.
        """
        request = self._basis.requests.find(pod_uid)
        if request is None or self._basis.requests.find_problem(request):
            return Promise(impossible=True)
        key, own = self._groups.key_of(pod_uid), self._basis.reserved.find(pod_uid)
        is_cut = self._basis.groups.get(key).cut is not None
        if own and not (is_cut or self._groups.interrupted.is_gathering(key)):
            # A member that paused when its group got devices has its part and does not know it.
            return Promise(node=own.node if self._groups.find_hold(pod_uid, now) else "")
        if (others := self._groups.wait_for_others(key, now)) is not None:
            return Promise(pauses_until=others.pauses_until)
        with self._basis.deciding(request.pod.namespace, now, out_of_time):
            if key:
                return self._promise_group(key, pod_uid, now)
            return self._promise_alone(request, now, without)

    def _promise_alone(self, request: PodRequest, now: float, without: Collection[str]) -> Promise:
        pod_uid = request.pod.uid
        search = replace(self._basis.search(request, 1), without=without)
        self._preemption.settle(now)
        if (refusal := find_refusal(self._basis, search)) is not None:
            return Promise(exceeds=refusal.code != codes.CLAIM_BEING_RELEASED.name)
        kept = self._basis.preemptors.find(pod_uid)
        if kept is not None and not kept.pending:
            own = self._preemption.find_kept(replace(search, without=()))
            if own is not None:
                return Promise(node=own.name)  # its devices are kept already
        shortlist = self._basis.searches.run(search, now)
        for fit in self._basis.strategy.best_first(search, shortlist, now):
            if not reserve_on(self._basis, request, fit.name, now, promised=True):
                return Promise(node=fit.name)
        unfinished = not (shortlist.has_ended or shortlist.fitting or without)
        if shortlist.has_ended and not (self._state.planner.was_cut or shortlist.fitting):
            # What became free is kept for others before this pod has its turn.
            taken, ended = self._preemption.take_over(search)
            reserve = self._basis.reserved.reserve
            if taken and not reserve(request, taken, search, now, promised=True):
                return Promise(node=taken.name)
            unfinished = not (ended or without)
        if self._state.planner.was_cut:
            return Promise(unfinished=True, was_cut=True)
        return Promise(unfinished=unfinished, exceeds=bool(shortlist.exceeding))

    def _promise_group(self, key: str, pod_uid: str, now: float) -> Promise:
        if not self._groups.is_known(key):
            return Promise(members=(pod_uid,))  # the scheduler asks about the group anew
        self._preemption.settle(now)
        before = self._basis.groups.get(key).refusal
        answer = self._groups.answer_again(key, now)
        if answer is None:
            return Promise()
        own = self._basis.reserved.find(pod_uid) if pod_uid in answer.placed else None
        # The end of a wait wakes the members otherwise, and some of them after a pause.
        could = before is not None and (before.answer.preemptible or before.answer.waits)
        return Promise(
            own.node if own else "",
            unfinished=not answer.complete,
            was_cut=self._state.planner.was_cut,
            can_evict=answer.preemptible and not could,
            members=(*answer.placed, *self._groups.waiting_alone(key, answer, now)),
            pauses_until=answer.pauses_until,
        )

    def request_key(self, pod_uid: str) -> bytes | None:
        """Return a key that is equal for pods that ask the same."""
        request = self._basis.requests.find(pod_uid)
        if request is None or any(uid not in self._state.claims for uid in request.claims):
            return None
        if group := self._groups.key_of(pod_uid):
            return _GROUP + group.encode()
        return answer_key(self._basis.requests.search(request), self._state)

    def exceeds_quota(self, key: bytes) -> bool:
        """Whether pods alone with this key exceed a quota, in the current state."""
        return self._basis.quotas.is_refused(key) or self._basis.searches.exceeds_quota(key)

    def is_refused(self, key: bytes) -> bool:
        """Whether no node fits for the pods with this key, in the current state."""
        if key.startswith(_GROUP):
            return self._groups.is_refused(key.removeprefix(_GROUP).decode())
        return self._basis.quotas.is_refused(key) or self._basis.searches.is_refused(key)
