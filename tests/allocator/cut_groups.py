"""Generated orders of events between the steps of decisions about gangs, and what holds after each.

A decision about a gang is cut after each step, or after a few. Between two of its steps there are
other calls for the same pods, changes of the cluster, another leader, new decisions for another
configuration, and records that are dropped. An order depends on its seed only:

    PYTHONHASHSEED=0 python -m tests.allocator.cut_groups --seeds 0 1000
"""

import argparse
import logging
import os
import random
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import count
from typing import Any

from allocator.decisions.pod_devices import ReceivedGroup
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
    ProtocolError,
)
from allocator.state.cluster_state import AllocatorState
from allocator.state.group_holds import MAX_HOLD_SECONDS
from drawbridge.dra.nodes import Node
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.quota_use import QuotaUse
from tests.allocator.clusters import ask_group, gpu_class, gpu_slice, owns_all
from tests.allocator.histories import History
from tests.allocator.history_cluster import Member

# What others than the allocator give to claims, and what a driver or a rival takes, it cannot help.
OTHERS = frozenset({"change_claim", "change_node", "plan", "begin_term", "rebuild"})
QUIET_TURNS = 1500


class BrokenError(AssertionError):
    """What must hold does not, after an event."""


class CutGroups(History):
    """One order of events around gangs; `events` are those that were played."""

    def __init__(self, seed: int) -> None:
        self.receiving: list[tuple[Member, Generator[None, None, ReceivedGroup]]] = []
        self.events: list[str] = []
        self.is_cut = True
        self.before: dict[object, set[str]] = {}
        self.is_small = False
        super().__init__(seed)
        self._shrink_records()

    def _shrink_records(self) -> None:
        """Let some allocators remember few groups."""
        self.is_small = self.is_small or self.random.random() < 0.1
        if self.is_small:
            groups = self.decisions.groups._groups._records  # noqa: SLF001  # its limit
            groups._max_cost = 60  # noqa: SLF001  # as well

    def _limit(self) -> Callable[[], bool]:
        if not self.is_cut:
            return lambda: False
        left = count(self.random.choice((0, 0, 0, 1, 2, 5, 1 << 30)), -1)
        return lambda: next(left) <= 0

    def create(self) -> Member:
        """Create a pod, which is watched from the beginning."""
        member = super().create()
        if member.seen is None:
            self.show(member)
        return member

    def create_gang(self) -> None:
        """Create a gang of several pods."""
        namespace, number = self.random.choice(("default", "blue")), len(self.pods)
        size = self.random.choice((2, 3, 3, 4, 6))
        least = self.random.choice((0, 2, size, size))
        priority = self.random.choice((0, 0, 5))
        for index in range(size):
            uid = f"p{number + index + 1}"
            names = [f"of-{uid}"]
            if self.random.random() < 0.1:
                names = [f"shared-{namespace}-{number}"]
            elif self.random.random() < 0.1:
                names.append(f"more-{uid}")
            for name in names:
                if name not in self.counts:
                    self.counts[name] = self.random.choice((1, 1, 1, 1, 2))
                    self._put_claim(name, namespace)
            group = (f"{namespace}/g{number}", least)
            member = Member(uid, namespace, tuple(names), priority, group)
            self.pods[uid] = member
            self.show(member)

    def _steps(self) -> dict[Callable[[], object], float]:
        return {
            **super()._steps(),
            self.create: 2,
            self.fill: 2,
            self.schedule_group: 14,
            self.create_gang: 6,
            self.begin_receiving: 4,
            self.receive_on: 10,
            self.wake: 40,
            self.pass_time: 5,
            self.rebuild: 0.5,
            self.forget_group: 0.5,
            self.recreate_claim: 2,
            self.regroup: 1,
            self.copy: 0.2,
        }

    def play(self, steps: int = 120) -> list[str]:
        """Play all steps, look after each, and then let nothing happen any more."""
        played, weights = zip(*self._steps().items(), strict=True)
        for _ in range(steps):
            (step,) = self.random.choices(played, weights)
            self.do(step)
        self.do(self.let_settle)
        self.do(self.drain)
        return self.events

    def do(self, step: Callable[[], object]) -> None:
        """Play one event, and look at what must hold."""
        name = getattr(step, "__name__", "")
        self.events.append(name)
        step()
        self.waiting.end_settled(self.now)
        self.look(name)

    # --- events ---

    def begin_receiving(self) -> None:
        """Begin a call for a group, which goes on while others are made."""
        members = [each for each in self.alive(bound=False) if each.group]
        if (member := self.choose(members)) is not None:
            self.receiving.append((member, self._receive(member)))

    def _receive(self, member: Member) -> Generator[None, None, ReceivedGroup]:
        assert member.group is not None
        key, least = member.group
        alive = [each for each in self.alive() if each.group == member.group]
        bound = [each for each in alive if each.node]
        group = GroupReference(key=key, min_count=least, scheduled=len(bound))
        members = tuple(
            GroupMember(pod=each.described, claims=self._claims(each))
            for each in alive
            if not each.node
        )
        request = PreFilterGroupRequest(pod_uid=member.uid, group=group, members=members)
        return self.decisions.receive_group(request, self.now)

    def receive_on(self) -> None:
        """Go on with a call for a group, as the server does."""
        if not self.receiving:
            return
        at = self.random.randrange(len(self.receiving))
        member, steps = self.receiving[at]
        try:
            for _ in range(self.random.choice((1, 1, 3, 50))):
                next(steps)
        except StopIteration as end:
            del self.receiving[at]
            with suppress(ProtocolError):
                reply = self.decisions.prefilter_group(end.value, self.now, self._limit())
                self.note(member, reply)
        except ProtocolError:
            del self.receiving[at]

    def note(self, member: Member, reply: PreFilterReply) -> None:
        """Note an answer, which the scheduler reads unless it has given up."""
        nodes = [each.node for each in reply.fit]
        self.waiting.note_answer(member.uid, nodes, self.now, complete=reply.complete)
        if self.random.random() < 0.5:
            self.fitting[member.uid] = nodes

    def rebuild(self) -> None:
        """Make all decisions anew, for another configuration."""
        old = self.state
        quotas = QuotaUse(old.ledger.quotas.quotas)
        self.state = AllocatorState(Planner(), Ledger(quotas=quotas), owns_all, None)
        self.state.apply(None, gpu_class())
        for member in self.pods.values():
            if member.seen is not None:
                self.state.apply(None, member.seen)
        for node in old.planner.nodes.values():
            self.state.apply(None, node)
            if node.name in self.sizes:
                later = gpu_slice(node.name, self.sizes[node.name], generation=next(self.versions))
                self.state.apply(None, later)
        for claim in old.claims.values():
            self.state.apply(None, claim)
        self._decide_anew()
        self._shrink_records()
        self.receiving.clear()  # the server refuses these calls
        self.writing.clear()
        self.held.clear()
        self.fitting.clear()

    def forget_group(self) -> None:
        """Let the record of a group be dropped."""
        records = self.decisions.groups._groups._records  # noqa: SLF001  # no call does only that
        if (key := self.choose(sorted(records))) is not None:
            records.pop(key)

    def recreate_claim(self) -> None:
        """Delete the claim of a pod, and perhaps make it again."""
        name = self.choose([each for each in sorted(self.counts) if each in self.state.claims])
        if name is None or self.allocation(name) is not None:
            return
        namespace = self.state.claims[name].metadata.namespace
        self.state.apply(self.state.claims[name], None)
        if self.random.random() < 0.7:
            self._put_claim(name, namespace)

    def regroup(self) -> None:
        """Let a pod belong to another group, as its labels can."""
        member = self.choose([each for each in self.alive(bound=False) if each.group])
        if member is None:
            return
        keys = sorted({each.group for each in self.alive() if each.group})
        same = [each for each in keys if each[0].startswith(f"{member.namespace}/")]
        member.group = self.choose([*same, None])
        self.show(member)

    def copy(self) -> None:
        """Let a copy of the process decide about a pod."""
        uid = self.choose(sorted(self.state.records))
        if uid is None:
            return
        child = os.fork()
        if not child:
            status = 1
            try:
                self.decisions.promises.make(uid, self.now)
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status:
            raise BrokenError("the copy failed")

    # --- what must hold ---

    def look(self, name: str) -> None:
        """Look at what must hold after an event."""
        records = self.state.records
        if records.unexpected:
            raise BrokenError("a record has moved as it cannot")
        self._look_at_devices(name)
        self._look_at_promises()
        self._look_at_holds()

    def _look_at_devices(self, name: str) -> None:
        ledger, claims = self.state.ledger, self.state.claims
        held: dict[object, set[str]] = defaultdict(set)
        for device in ledger.devices():
            held[device] = {uid for uid in ledger.holders(device) if uid in claims}
            new = held[device] - self.before.get(device, set())
            if len(held[device]) > 1 and new and name not in OTHERS:
                text = f"{device} is held by {sorted(held[device])}, anew by {sorted(new)}"
                raise BrokenError(text)
        if name not in OTHERS:
            self._look_at_quotas()
        self.before = held
        every = [self.state.records.get(uid) for uid in self.state.records]
        reserved = {uid for each in every if each.devices for uid in each.devices.reserved}
        if not ledger.reservations.keys() <= reserved:
            raise BrokenError("devices are reserved for no pod")

    def _look_at_quotas(self) -> None:
        for line in self.state.ledger.quotas.list_lines():
            reserved = [
                uid
                for uid in self.state.ledger.reservations
                if uid in self.state.claims
                and self.state.claims[uid].metadata.namespace == line.namespace
            ]
            allocated = any(each.status.allocation for each in self.state.claims.values())
            if line.used > line.limit and reserved and not allocated:
                raise BrokenError(f"{line.namespace} uses {line.used} of {line.limit}")

    def _look_at_promises(self) -> None:
        pods, records = self.state.pods, self.state.records
        for record in map(records.get, records):
            devices = record.devices
            if pods.is_gone(record.uid) and not (devices and devices.writing):
                raise BrokenError(f"there is a record of {record.uid}, which is gone")
            if devices and devices.promised and devices.until > self.now + MAX_HOLD_SECONDS:
                raise BrokenError(f"the promise to {record.uid} lasts too long")
            if devices and devices.writing and record.uid not in self.writing:
                raise BrokenError(f"nobody writes for {record.uid}")
        for uid, written in self.writing.items():
            has = records.get(uid).devices
            if has is not None and (not has.writing or has.reservation.node != written.node):
                raise BrokenError(f"what is written for {uid} was replaced")

    def _look_at_holds(self) -> None:
        groups, get = self.decisions.groups, self.state.records.get
        groups.holds._end_lost(self.now)  # noqa: SLF001  # as each question does
        for hold in groups._groups.holds():  # noqa: SLF001  # its holds
            for record in map(get, hold.left):
                devices = record.devices
                if devices is None and hold.until > self.now:
                    raise BrokenError(f"{hold.key} is held without a part for {record.uid}")
                if devices is not None and devices.promised and devices.until < hold.until:
                    raise BrokenError(f"the part of {record.uid} ends before its hold")
        if not self.is_small and "forget_group" not in self.events:
            self._look_for_owners()

    def _look_for_owners(self) -> None:
        """What is promised for long belongs to a hold, or to a decision that goes on."""
        groups = self.decisions.groups
        for record in map(self.state.records.get, self.state.records):
            group, devices = groups._groups.get(record.group), record.devices  # noqa: SLF001  # its record
            owners = set(group.hold.left if group.hold else ())
            owners.update(group.cut.promised if group.cut else ())
            is_long = devices and devices.promised and devices.until > self.now + 16
            is_gathered = groups.interrupted.is_gathering(record.group)
            if record.group and is_long and record.uid not in owners and not is_gathered:
                raise BrokenError(f"{record.uid} is promised devices for nobody")

    # --- the end ---

    def let_settle(self) -> None:
        """Let a scheduler work that does all that it is told; nothing else changes."""
        self.receiving.clear()
        for uid in sorted(self.writing):
            self.end_write(uid)
        for uid in sorted(self.held):
            self.decisions.unreserve(uid, self.now)
        self.held.clear()
        for node in self.sizes:
            self.state.apply(None, Node(node, {"name": node}))
        for member in self.alive(bound=False):
            self._serve(member)
        busy = 0
        for _ in range(QUIET_TURNS):
            told = self.waiting.wake(self.now, out_of_time=self._limit(), may_copy=False)
            for uid in told.woken:
                if uid in self.pods and not self.pods[uid].gone and not self.pods[uid].node:
                    self._serve(self.pods[uid])
            self.now += 0.02 if told.unfinished else 0.5
            self.look("wake")
            busy = busy + 1 if told.unfinished else 0
            if busy > QUIET_TURNS // 4:
                raise BrokenError("the turns of waking do not end")
        self._look_for_forgotten()

    def _serve(self, member: Member) -> None:
        self.ask_rightly(member)
        nodes = self.fitting.get(member.uid) or []
        if nodes and self.decisions.reserve(member.uid, nodes[0], self.now).reserved:
            self.waiting.note_reservation(member.uid, reserved=True)
            self.held[member.uid] = nodes[0]
            self._bind_held(member)

    def _bind_held(self, member: Member) -> None:
        """Bind all members of a group once all are reserved, or a pod alone."""
        together = [
            each for each in self.alive(bound=False) if each is member or each.group == member.group
        ]
        some = together if member.group else [member]
        least = member.group[1] if member.group else 1
        bound = [each for each in self.alive(bound=True) if each.group == member.group]
        held = [each for each in some if each.uid in self.held]
        if len(held) + len(bound) < (least or len(some) + len(bound)):
            return
        for holder in held:
            node, find = self.held.pop(holder.uid), self.decisions.reservations.find
            if self.decisions.reservations.begin_write(holder.uid):
                continue
            part = find(holder.uid)
            assert part is not None
            for reserved in part.claims:
                self._write_claim(holder.uid, reserved)
            self.decisions.reservations.end_write(holder.uid, written=True)
            holder.node = node
            self.show(holder)

    def ask_rightly(self, member: Member) -> PreFilterReply | None:
        """Ask as the scheduler does, about a pod and then its group."""
        draw, self.random = self.random, _Always()
        try:
            return self.ask(member)
        finally:
            self.random = draw

    def _look_for_forgotten(self) -> None:
        """No gang waits that fits."""
        self.is_cut = False
        waiting = [each for each in self.alive(bound=False) if each.group]
        for key in sorted({each.group for each in waiting if each.group}):
            members = [each for each in waiting if each.group == key]
            groups = self.decisions.groups
            if groups._groups.paused_until(key[0], "pause") > self.now:  # noqa: SLF001  # no call tells
                continue
            if not all(self.state.records.get(each.uid).waiting for each in members):
                continue  # the scheduler itself tries them when their claims change
            reserved = [e for e in members if self.decisions.reservations.find(e.uid)]
            if reserved:
                raise BrokenError(f"{key} has devices and does not use them")
            bound = [each for each in self.alive(bound=True) if each.group == key]
            group = GroupReference(key=key[0], min_count=key[1], scheduled=len(bound))
            asked = tuple(GroupMember(pod=e.described, claims=self._claims(e)) for e in members)
            request = PreFilterGroupRequest(pod_uid=members[0].uid, group=group, members=asked)
            was = self.decisions.groups.find_refusal(members[0].uid, group, self.now)
            try:
                replies = [ask_group(self.decisions, request, self.now) for _ in range(12)]
            except ProtocolError:
                continue
            reply = replies[-1]  # each call looks at some nodes
            if reply.fit:
                raise BrokenError(f"{key} waits and fits; {was}")
            if not reply.complete:
                raise BrokenError(f"{key} has no answer: {reply.message}")

    def drain(self) -> None:
        """Without pods and claims, nothing is held or remembered."""
        for member in self.alive():
            if member.seen is not None:
                self.state.apply(member.seen, None)
            member.seen, member.gone = None, True
        for node in self.sizes:
            self.state.apply(None, Node(node, {"name": node}))
        for claim in tuple(self.state.claims.values()):
            self.state.apply(claim, None)
        for _ in range(100):
            self.now += 1000
            self.waiting.wake(self.now, out_of_time=self._limit())
        if self.state.ledger.reservations or list(self.state.ledger.devices()):
            raise BrokenError("devices are held for nobody")
        if len(self.state.records):
            raise BrokenError(f"records of {list(self.state.records)} are left")


class _Always(random.Random):
    """Draws what a scheduler does that is not interrupted."""

    def random(self) -> float:
        return 0.5

    def choice(self, seq: Any) -> Any:  # noqa: ANN401  # one of them
        return seq[0]


class _Raise(logging.Handler):
    """Notes what the allocator logs about exceptions that it goes on after."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            raise BrokenError("an exception was logged") from record.exc_info[1]


def play(seed: int, steps: int = 120) -> CutGroups:
    """Play an order; raises BrokenError."""
    log = logging.getLogger("allocator.decisions.pod_tries")
    handler = _Raise()
    log.addHandler(handler)
    made = CutGroups(seed)
    try:
        made.play(steps)
    except Exception as error:
        error.add_note(f"seed {seed}, after {len(made.events)} events: {made.events[-12:]}")
        raise
    finally:
        log.removeHandler(handler)
    return made


def main() -> None:
    """Play some orders, and say which ones break what."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 1000))
    options.add_argument("--steps", type=int, default=120)
    options.add_argument("--raise", action="store_true", dest="raises")
    chosen = options.parse_args()
    broken = 0
    for seed in range(*chosen.seeds):
        try:
            play(seed, chosen.steps)
        except Exception as error:
            if chosen.raises:
                raise
            broken += 1
            notes = error.__notes__[0][-150:]
            print(seed, repr(error)[:200], notes, flush=True)  # noqa: T201  # a command
    print(f"{broken} of {len(range(*chosen.seeds))} orders break something")  # noqa: T201  # as well


if __name__ == "__main__":
    main()
