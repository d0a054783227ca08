"""Takes back allocations of ours whose devices another allocator has given away as well.

Both claims would be prepared, or the second pod would never start. The other allocator does not
look at ours, so ours yields, whoever wrote first: the claim is deallocated and its pods are tried
again, as long as none of them is bound. What another allocator wrote is never changed.

The pod gets other devices, because the ledger counts those of the other allocator. So a fight ends
after one step, unless the other one takes the next devices as well. Then each step costs an attempt
of the scheduler, with its back-off.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from allocator.scheduler.protocol import PostFilterReply
from allocator.state.conflicts import ContestedClaim
from allocator.writes.claims import BindRefusedError
from allocator.writes.cluster_writes import PodName
from allocator.writes.prepare_failures import PENALTY_SECONDS
from allocator.writes.undoing import Undoing
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.allocation import MAX_CONSUMERS, Allocation
from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Code, Finding
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import name_of
from drawbridge.process import metrics


class ContestedState(Protocol):
    """Which allocations of ours have to yield, and who uses them."""

    def find_contest(self, claim_uid: str) -> ContestedClaim | None:
        """Return why an allocation of ours has to yield to one of another allocator."""
        ...

    def list_contests(self) -> list[ContestedClaim]:
        """Return the allocations of ours that have to yield."""
        ...

    def find_claim(self, claim_uid: str) -> Claim | None:
        """Return a claim, as last seen."""
        ...

    def users_of(self, claim: Claim) -> tuple[PodName, ...]:
        """Return the pods that name a claim, as last seen."""
        ...


def describe_contest(contest: ContestedClaim, state: ContestedState) -> str:
    """Say which device of which claim another claim holds as well."""
    claims = (state.find_claim(uid) for uid in (contest.ours, contest.theirs))
    ours, theirs = (name_of(each) if each else "a claim" for each in claims)
    about = contest.conflict.finding.object
    return f"claim {theirs}, which another allocator wrote, contradicts claim {ours}: {about}"


class TakingBack:
    """Deallocates the claims that have to yield, each with its own back-off.

    `release` deallocates the claims of a pod unless it is bound, and `interrupt` ends a call that
    is about to bind it. `wake`, `penalise` and `report` are those of the binder.
    """

    def __init__(  # noqa: PLR0913  # all but one by name
        self,
        state: ContestedState,
        *,
        interrupt: Callable[[str], None],
        release: Callable[[str], Awaitable[PostFilterReply]],
        wake: Callable[[tuple[str, ...]], None],
        penalise: Callable[[DeviceID, float], None],
        report: Callable[[Finding, Claim], None],
    ) -> None:
        self._state = state
        self._interrupt = interrupt
        self._release = release
        self._wake = wake
        self._penalise = penalise
        self._report = report
        self._undoing: Undoing[Claim] = Undoing(
            self._take_back,
            self._report_failure,
            lambda: asyncio.get_running_loop().time(),
        )

    async def run_turn(self) -> None:
        """Take back what has to yield now, for a limited time."""
        for contest in self._state.list_contests():
            claim = self._state.find_claim(contest.ours)
            if claim is not None:
                self._undoing.add(contest.ours, claim.metadata.namespace, claim)
        await self._undoing.run_turn()

    def clear(self) -> None:
        """Take nothing back any more: another term starts."""
        self._undoing.clear()

    async def _take_back(self, seen: Claim) -> None:
        uid = seen.metadata.uid
        contest, claim = self._state.find_contest(uid), self._state.find_claim(uid)
        if contest is None or claim is None or claim.status.allocation is None:
            return
        message = describe_contest(contest, self._state)
        pods = [each.uid for each in claim.status.reserved_for if each.is_pod]
        # A claim that is reserved for a group is that of all its members.
        pods = pods or [each.uid for each in self._state.users_of(claim)[:MAX_CONSUMERS]]
        problem = "none of its pods is known"
        for pod in pods:
            self._interrupt(pod)
            reply = await self._release(pod)
            problem = reply.message or "another client uses it, or a pod of it is bound"
        current = self._state.find_claim(uid)
        if current is not None and current.status.allocation is not None:
            raise BindRefusedError(f"{message}; it is not taken back: {problem}")
        for device in list_devices(claim.status.allocation, contest.conflict.pool):
            self._penalise(device, PENALTY_SECONDS)
        metrics.ALLOCATOR_TAKEN_BACK.inc()
        self._report(_at(codes.ALLOCATION_TAKEN_BACK, claim, message), claim)
        self._wake(tuple(pods))

    def _report_failure(self, claim: Claim, problem: str) -> None:
        self._report(_at(codes.ALLOCATION_NOT_TAKEN_BACK, claim, problem), claim)


def list_devices(allocation: Allocation, pool: PoolID) -> list[DeviceID]:
    """Return the devices of an allocation in a pool."""
    results = (each for each in allocation.devices.results if not each.admin_access)
    devices = (DeviceID(PoolID(each.driver, each.pool), each.device) for each in results)
    return [each for each in devices if each.pool == pool]


def _at(code: Code, claim: Claim, message: str) -> Finding:
    return code.at("status.allocation", message, object=format_object_name(CLAIM, claim.metadata))
