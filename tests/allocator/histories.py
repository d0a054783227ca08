"""Generated histories of the allocator's decisions: whatever a scheduler and an API server can do.

A history depends on its seed only, so that two trees can be compared by what they say:

    PYTHONHASHSEED=0 python -m tests.allocator.histories 0 1000

prints a digest of all answers, wakes and holders of devices for each seed.
"""

import hashlib
import sys
from collections.abc import Callable
from itertools import count

import msgspec

from allocator.decisions.basis import Surroundings
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PotentialVictim,
    PreemptionNode,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
)
from allocator.state.records import ClaimReservation, PodReservation
from allocator.state.reports import EndedHold, Report
from allocator.state.reserved_pods import HoldLimits
from drawbridge.dra.allocation import to_json
from tests.allocator.clusters import START, ask_group, claim, device
from tests.allocator.history_cluster import ChangingCluster, Member

STEPS = 70
SECONDS = (0.1, 0.5, 1.1, 3.0, 12.0, 16.0, 31.0, 65.0)


class History(ChangingCluster):
    """One history, and what was said in it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.said: list[str] = []
        self.fitting: dict[str, list[str]] = {}
        self.held: dict[str, str] = {}
        self.writing: dict[str, PodReservation] = {}
        if self.random.random() < 0.05:
            self.state.records.limit = 5
        self._decide_anew()

    def _decide_anew(self) -> None:
        """Make the decisions about the cluster."""
        self.decisions = PodDecisions(
            self.state,
            Surroundings(
                nodes_per_call=self.random.choice((1000, 1000, 2)),
                limits=HoldLimits(seconds=50, devices=4),
                find_pod=lambda _, name: self.pods[name].seen if name in self.pods else None,
                server_time=lambda: START + self.now,
            ),
        )
        self.waiting = WaitingPods(
            self.decisions,
            eviction_delay=self.random.choice((0.0, 0.0, 0.0, 5.0)),
        )

    def play(self) -> list[str]:
        """Play all steps; return what was said."""
        steps, weights = zip(*self._steps().items(), strict=True)
        for _ in range(STEPS):
            (step,) = self.random.choices(steps, weights)
            step()
            self._look()
        self.now += 10_000
        self.say(self.waiting.wake(self.now))
        self._look()
        return self.said

    def _steps(self) -> dict[Callable[[], object], float]:
        return {
            self.create: 8,
            self.fill: 6,
            self.schedule: 12,
            self.schedule_group: 7,
            self.ask: 5,
            self.reserve: 4,
            self.give_back: 4,
            self.renew: 2,
            self.begin_write: 4,
            self.end_write: 4,
            self.preempt: 9,
            self.terminate: 2,
            self.end: 5,
            self.collect: 3,
            self.change_claim: 3,
            self.change_node: 3,
            self.plan: 3,
            self.pass_time: 7,
            self.wake: 12,
            self.begin_term: 0.4,
            self.penalise: 0.5,
            self.stop_waking: 0.5,
        }

    def say(self, *what: object) -> None:
        """Note an answer."""
        self.said.append(repr(what))

    def _look(self) -> None:
        """Note who has and keeps which devices, and who waits."""
        ledger, find = self.state.ledger, self.decisions.reservations.find
        held = [(each, sorted(ledger.holders(each))) for each in ledger.devices()]
        self.say(self.now, held, sorted(ledger.kept), len(self.waiting))
        reserved = ((uid, find(uid)) for uid in self.pods)
        self.say([(uid, part.node) for uid, part in reserved if part is not None])

    # --- the scheduler ---

    def fill(self) -> None:
        """Create pods that run."""
        for _ in range(self.random.choice((1, 2, 3))):
            member = self.create()
            if member.group is None and self.random.random() < 0.7:
                member.priority = 0
            reply = self.ask(member)
            if reply is not None and reply.fit and self.reserve(member):
                self.begin_write(member)

    def _limit(self) -> Callable[[], bool]:
        """Return what is out of time after a few questions, now and then."""
        left = count(self.random.choice((1, 2, 4, *[1 << 30] * 4)), -1)
        return lambda: next(left) <= 0

    def _claims(self, member: Member) -> tuple[msgspec.Raw, ...]:
        encoded = []
        for name in member.claims:
            is_known = name in self.state.claims
            plain = claim(
                name,
                self.counts[name],
                version=next(self.versions),
                namespace=member.namespace,
                allocation=self.allocation(name) if is_known else None,
                pods=self.users(name) if is_known else (),
            )
            encoded.append(msgspec.Raw(msgspec.json.encode(plain)))
        return tuple(encoded)

    def ask(self, member: Member | None = None) -> PreFilterReply | None:
        """Ask about a pod, and about its group if that is needed."""
        member = member or self.choose(self.alive(bound=False))
        if member is None:
            return None
        group = None
        if member.group and self.random.random() < 0.95:
            bound = [each for each in self.alive(bound=True) if each.group == member.group]
            key, least = member.group
            group = GroupReference(key=key, min_count=least, scheduled=len(bound))
        request = PreFilterRequest(
            pod=member.described,
            claims=self._claims(member),
            max_nodes=self.random.choice((0, 0, 1, 2)),
            group=group,
        )
        reply = self.decisions.prefilter(request, self.now, self._limit())
        if reply.members_needed and group is not None:
            reply = self._ask_group(member, group)
        self.say("answer", member.uid, reply)
        nodes = self.fitting[member.uid] = [each.node for each in reply.fit]
        self.waiting.note_answer(member.uid, nodes, self.now, complete=reply.complete)
        return reply

    def _ask_group(self, member: Member, group: GroupReference) -> PreFilterReply:
        open_pods = [each for each in self.alive(bound=False) if each.group == member.group]
        members = [each for each in open_pods if each.uid not in self.held or each is member]
        asked = tuple(
            GroupMember(pod=each.described, claims=self._claims(each))
            for each in (*members, *([] if member in members else [member]))
        )
        request = PreFilterGroupRequest(pod_uid=member.uid, group=group, members=asked)
        return ask_group(self.decisions, request, self.now, self._limit())

    def reserve(self, member: Member | None = None) -> bool:
        """Reserve a pod on a node that fits, or on another one."""
        fitting = [each for each in self.alive(bound=False) if self.fitting.get(each.uid)]
        member = member or self.choose(fitting)
        if member is None:
            return False
        nodes = self.fitting.get(member.uid) or []
        some = nodes if nodes and self.random.random() < 0.9 else sorted(self.sizes)
        node = self.random.choice(some)
        reply = self.decisions.reserve(member.uid, node, self.now)
        self.waiting.note_reservation(member.uid, reserved=reply.reserved)
        self.say("reserve", member.uid, node, reply)
        if reply.reserved:
            self.held[member.uid] = node
        return reply.reserved

    def schedule(self) -> None:
        """Ask about a pod, reserve it, and write, as far as it goes."""
        member = self.choose(self.alive(bound=False))
        reply = self.ask(member) if member else None
        if reply is not None and reply.fit and self.reserve(member) and self.random.random() < 0.7:
            self.begin_write(member)

    def schedule_group(self) -> None:
        """Take all members of a group through a cycle, or some of them."""
        waiting = [each for each in self.alive(bound=False) if each.uid not in self.held]
        group = self.choose(sorted({each.group for each in waiting if each.group}))
        for member in waiting:
            if member.group == group and group:
                reply = self.ask(member)
                if reply is None or not reply.fit or not self.reserve(member):
                    break
        if self.random.random() < 0.4:
            for uid in [each for each in self.held if self.pods[each].group == group and group]:
                del self.held[uid]
                self.decisions.unreserve(uid, self.now, cycle=True)

    def give_back(self) -> None:
        """Give a reservation back, or hold it for a while."""
        uid = self.choose(sorted(self.held)) or self.choose(sorted(self.pods))
        if uid is not None:
            choice = self.random.random()
            if choice < 0.3:
                self.say("hold", uid, self.decisions.reservations.hold(uid, self.now))
            else:
                self.decisions.unreserve(uid, self.now, cycle=choice < 0.6)
            if self.random.random() < 0.8:
                self.held.pop(uid, None)

    def renew(self) -> None:
        """Name the pods that are held."""
        named = [uid for uid in sorted(self.held) if self.random.random() < 0.8]
        self.decisions.reservations.renew((*named, "unknown"), self.now)
        self.say("renewed", self.decisions.reservations.count_renewed_devices(self.now))

    def begin_write(self, member: Member | None = None) -> None:
        """Begin to write a reservation; one that has expired is made again."""
        uid = member.uid if member else self.choose(sorted(self.held))
        if uid is None:
            return
        reservations, node = self.decisions.reservations, self.held.get(uid, "")
        if reservations.has_expired(uid, node):
            self.say("again", self.decisions.reserve(uid, node, self.now))
        reserved, refusal = reservations.find(uid), reservations.begin_write(uid)
        self.say("write", uid, refusal, reserved)
        if refusal or reserved is None:
            self.held.pop(uid, None)
            return
        self.writing[uid] = reserved
        if self.random.random() < 0.7:
            self.end_write(uid)

    def end_write(self, uid: str | None = None) -> None:
        """Finish a write as the API server answers it."""
        uid = uid or self.choose(sorted(self.writing))
        if uid is None:
            return
        reservation, member = self.writing.pop(uid), self.pods[uid]
        self.held.pop(uid, None)
        is_written = self.random.random() < 0.8
        for reserved in reservation.claims:
            if is_written or self.random.random() < 0.3:
                is_written &= self._write_claim(uid, reserved)
        self.decisions.reservations.end_write(uid, written=is_written)
        self.say("written", uid, is_written)
        if is_written and not member.gone and self.random.random() < 0.9:
            member.node = reservation.node
            self.show(member)

    def _write_claim(self, uid: str, reserved: ClaimReservation) -> bool:
        name = reserved.uid
        if name not in self.state.claims:
            return False
        allocation, users = self.allocation(name), self.users(name)
        if allocation is not None:
            self.allocate(name, allocation, list(dict.fromkeys((*users, uid))))
            return True
        if reserved.allocation is None or not self.decisions.reservations.keeps(reserved):
            return False
        self.allocate(name, to_json(reserved.allocation), [uid])
        return True

    def preempt(self) -> None:
        """Ask for victims of a pod that fits nowhere, and evict them soon or later."""
        open_pods = [e for e in self.alive(bound=False) if not self.fitting.get(e.uid)]
        if not open_pods or self.random.random() < 0.3:
            open_pods = [self.create()]
            open_pods[0].priority = 9
        member = self.random.choice(sorted(open_pods, key=lambda each: -each.priority)[:3])
        reply = self.ask(member)
        if reply is None or reply.fit:
            return
        if delay := self.waiting.delay_preemption(member.uid, self.now):
            self.say("delayed", member.uid, delay)
            return
        nodes = tuple(self._potential_victims(name, member.priority) for name in self.sizes)
        request = PreemptRequest(pod_uid=member.uid, nodes=nodes)
        victims = self.decisions.preempt(request, self.now, self._limit())
        has_victims = bool(victims.node or victims.evictions)
        refused = not (has_victims or victims.waiting)
        self.waiting.note_preemption(member.uid, refused=refused, again=victims.unfinished)
        self.say("preempt", member.uid, victims)
        if victims.node and self.random.random() < 0.5:
            member.nominated = victims.node
            self.show(member)
        for uid in (*victims.victims, *(v for e in victims.evictions for v in e.victims)):
            self._evict(self.pods[uid])

    def _potential_victims(self, node: str, priority: int) -> PreemptionNode:
        on_node = [
            each
            for each in self.alive()
            if node == (each.node or self.held.get(each.uid)) and not each.phase
        ]
        lower = [each for each in on_node if each.priority < priority]
        pods = tuple(PotentialVictim(uid=each.uid, priority=each.priority) for each in lower)
        running = tuple(each.uid for each in on_node) if self.random.random() < 0.7 else None
        return PreemptionNode(node=node, pods=pods, running=running)

    def _evict(self, member: Member) -> None:
        if member.uid in self.held and not member.node:
            del self.held[member.uid]
            self.say("gives back", member.uid, self.decisions.preemptors.is_victim(member.uid))
            self.decisions.unreserve(member.uid, self.now)
        choice = self.random.random()
        if choice < 0.5:
            self.end(member)
        elif choice < 0.8:
            self.terminate(member)

    # --- the allocator itself ---

    def pass_time(self) -> None:
        """Let time pass."""
        self.now += self.random.choice(SECONDS)

    def wake(self) -> None:
        """Wake pods in a few turns; most are asked about."""
        for _ in range(self.random.choice((1, 1, 3))):
            turn = self.waiting.wake(
                self.now,
                tries=self.random.choice((2, 8, 32)),
                out_of_time=self._limit(),
                may_copy=self.random.random() < 0.8,
            )
            self.say("turn", turn, _ended(self.state.take_reports()))
            for uid in turn.woken:
                member = self.pods[uid]
                if not member.gone and self.random.random() < 0.6:
                    reply = self.ask(member)
                    if reply is not None and reply.fit and self.random.random() < 0.7:
                        self.reserve(member)
            if not turn.unfinished:
                break

    def begin_term(self) -> None:
        """Let another process lead, and this one again."""
        self.decisions.begin_term()
        self.writing.clear()
        if self.random.random() < 0.8:
            self.held.clear()

    def penalise(self) -> None:
        """Leave a device out for a while."""
        self.state.penalise(device(self.random.choice(sorted(self.sizes))), self.now + 20)

    def stop_waking(self) -> None:
        """Wake a pod no more."""
        if self.pods:
            self.waiting.stop_waking(self.random.choice(sorted(self.pods)))


def _ended(reports: tuple[Report, ...]) -> list[tuple[str, str, int, int]]:
    """Return which holds have ended, by a member of each."""
    ended = (each for each in reports if isinstance(each, EndedHold))
    return [(each.pod.uid, each.end, each.left, each.members) for each in ended]


def main() -> None:
    """Print a digest for each seed."""
    first, last = map(int, sys.argv[1:3])
    for seed in range(first, last):
        text = "\n".join(History(seed).play())
        print(seed, hashlib.sha256(text.encode()).hexdigest())  # noqa: T201  # a command


if __name__ == "__main__":
    main()
