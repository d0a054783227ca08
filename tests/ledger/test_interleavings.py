"""Any interleaving of reservations, writes and late or repeated events keeps the invariants.

The tests compare the ledger with a simple model, which keeps every event and recomputes the holders
from all of them.
"""

# ruff: noqa: D102  # the name of a rule or an invariant is its sentence

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drawbridge.dra.device import Capacity, Device
from drawbridge.dra.inventory import PoolID, build_inventory
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.ledger import codes
from drawbridge.ledger.audit import audit
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import Ledger, Reservation
from drawbridge.solver.world import UNUSED, View, World, view_of_claims
from tests.ledger.claims import DRIVER, POOL, allocation, claim
from tests.thorough import drawn

UIDS = ("a", "b", "c", "d")
RESULTS = ("x", "y", "z", "q/x", "x:1=3G", "x:2=5G", "nic:3=4G", "nic:4=1G", "nic", "z!")
uids = st.sampled_from(UIDS)
grants = st.lists(st.sampled_from(RESULTS), min_size=1, max_size=3, unique=True).map(tuple)


class Event(NamedTuple):
    """What the API server said once: the results a claim has, or that it is gone."""

    version: int
    uid: str
    results: tuple[str, ...] = ()
    gone: bool = False


def has_conflict(several: Iterable[tuple[str, ...]]) -> bool:
    """Return whether a device is held as a whole and also by another holder."""
    taken: dict[str, list[bool]] = {}
    for results in several:
        for text in results:
            if not text.endswith("!"):
                device, _, share = text.partition(":")
                taken.setdefault(device, []).append(bool(share))
    return any(len(shared) > 1 and not all(shared) for shared in taken.values())


def devices(*texts: str) -> set[str]:
    return {text.partition(":")[0] for text in texts if not text.endswith("!")}


def plain(view: View) -> dict[PoolID, object]:
    used = {pool: use for pool, use in view.pools.items() if use is not UNUSED}
    return {pool: (use.dedicated, dict(use.shares)) for pool, use in used.items()}


class Interleavings(RuleBasedStateMachine):
    """The events of the API server, the reservations of the model, and the ledger."""

    @initialize()
    def start(self) -> None:
        self.ledger = Ledger()
        self.version = 0
        self.history: list[Event] = []
        self.arrived: set[Event] = set()
        self.seen_to = -1
        self.reserved: dict[str, tuple[str, ...]] = {}
        self.kept: list[tuple[View, object]] = []
        self.newest: dict[str, int] = {}
        self.slices: tuple[Slice, ...] = ()
        for uid in UIDS:
            self.deliver(self.emit(uid))

    # --- the model ---

    def emit(self, uid: str, *results: str, gone: bool = False) -> Event:
        self.version += 1
        self.history.append(Event(self.version, uid, results, gone))
        return self.history[-1]

    def latest(self, uid: str, history: Sequence[Event] | None = None) -> Event | None:
        """Return the latest event of a claim, if any."""
        events = [
            event for event in (self.history if history is None else history) if event.uid == uid
        ]
        return max(events, default=None)

    def observed(self, uid: str) -> Event | None:
        """Return the latest delivered event of a claim that is not deleted."""
        events = [event for event in self.arrived if event.uid == uid]
        if any(event.gone for event in events):
            return None
        return max(events, default=None)

    def allocated(self, uid: str) -> tuple[str, ...]:
        event = self.observed(uid)
        return event.results if event else ()

    def deliver(self, event: Event) -> None:
        before = self.observed(event.uid)
        was_gone = any(w.gone for w in self.arrived if w.uid == event.uid)
        fresh = not was_gone and (before is None or event.version > before.version or event.gone)
        # An unknown claim with an older version than the bookmark was deleted before.
        hidden = before is None and not event.gone and event.version <= self.seen_to
        if event.gone:
            accepted = self.ledger.observe_deletion(event.uid, f"{event.version}")
        else:
            accepted = self.ledger.observe(claim(event.uid, event.version, *event.results))
        if not hidden:
            self.arrived.add(event)
        if not was_gone or not event.gone:
            assert accepted == (fresh and not hidden)
        if fresh and not hidden and (event.gone or event.results):
            self.reserved.pop(event.uid, None)

    def expected_holds(self) -> dict[str, tuple[str, ...]]:
        held = {uid: self.allocated(uid) for uid in UIDS if self.allocated(uid)}
        return held | self.reserved

    # --- the API server ---

    @rule(uid=uids, results=grants)
    def another_scheduler_allocates(self, uid: str, results: tuple[str, ...]) -> None:
        event = self.latest(uid)
        if event and not event.gone and not event.results:
            self.emit(uid, *results)

    @rule(uid=uids)
    def another_scheduler_deallocates(self, uid: str) -> None:
        event = self.latest(uid)
        if event and not event.gone:
            self.emit(uid)

    @rule(uid=uids)
    def a_user_deletes_a_claim(self, uid: str) -> None:
        event = self.latest(uid)
        if event and not event.gone:
            self.emit(uid, gone=True)

    @rule(data=st.data())
    def events_arrive_in_any_order_and_repeatedly(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.history)))

    @rule(uid=uids)
    def events_of_a_claim_arrive_backwards(self, uid: str) -> None:
        for event in reversed([event for event in self.history if event.uid == uid]):
            self.deliver(event)

    @rule()
    def the_watch_catches_up(self) -> None:
        for event in self.history:
            if event.version > self.seen_to:
                self.deliver(event)
        self.observe_bookmark(self.version)

    def observe_bookmark(self, version: int) -> None:
        self.ledger.observe_bookmark(f"{version}")
        self.seen_to = max(self.seen_to, version)

    # --- reservations ---

    @precondition(lambda self: bool(self.reserved))
    @rule(data=st.data())
    def assume_the_same_again(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.reserved)))
        before = self.ledger.view()
        self.assume({uid: self.reserved[uid]})
        assert self.ledger.view() is before

    @rule(wanted=st.dictionaries(uids, grants, min_size=1, max_size=2))
    def assume(self, wanted: dict[str, tuple[str, ...]]) -> None:
        reservations = {uid: Reservation(allocation(*results)) for uid, results in wanted.items()}
        new, allowed = {}, True
        for uid, results in wanted.items():
            event, reservation = self.observed(uid), self.reserved.get(uid)
            fulfilled = event is not None and event.results in ((), results)
            if not fulfilled or (reservation is not None and reservation != results):
                allowed = False
            elif reservation is None and event is not None and not event.results:
                new[uid] = results
        others = [held for uid, held in self.expected_holds().items() if uid not in new]
        touched = {device for results in new.values() for device in devices(*results)}
        near = [tuple(t for t in held if devices(t) & touched) for held in others]
        allowed = allowed and not has_conflict([*new.values(), *near])
        refusal = self.ledger.assume(reservations)
        assert (refusal is None) == allowed
        if allowed:
            self.reserved |= new

    @rule(several=st.sets(uids, min_size=1, max_size=2))
    def ask_for_conflicts(self, several: set[str]) -> None:
        mine = {uid: self.reserved[uid] for uid in several if uid in self.reserved}
        touched = {device for results in mine.values() for device in devices(*results)}
        others = [
            tuple(text for text in held if devices(text) & touched)
            for uid, held in self.expected_holds().items()
            if uid not in mine
        ]
        expected = has_conflict([*mine.values(), *others])
        assert self.ledger.has_conflict(sorted(several)) == expected

    @rule(uid=uids)
    def rollback(self, uid: str) -> None:
        self.ledger.rollback([uid])
        self.reserved.pop(uid, None)

    @precondition(lambda self: bool(self.reserved))
    @rule(data=st.data())
    def our_write_succeeds(self, data: st.DataObject) -> None:
        """The answer arrives at once; the watch brings it, and what was before it, later."""
        uid = data.draw(st.sampled_from(sorted(self.reserved)))
        event = self.latest(uid)
        if event and event == self.observed(uid):
            self.emit(uid)  # the finalizer
            self.deliver(self.emit(uid, *self.reserved[uid]))

    # --- the slices ---

    @rule(names=st.sets(st.sampled_from(["x", "y", "z", "nic"])), generation=st.integers(1, 3),
          whole=st.booleans(), shared=st.booleans())  # fmt: skip
    def slices_change(
        self,
        names: set[str],
        generation: int,
        whole: bool,  # noqa: FBT001  # drawn
        shared: bool,  # noqa: FBT001  # drawn
    ) -> None:
        capacity = {"bandwidth": Capacity(parse("8G"))}
        made = tuple(
            Device(name, capacity=capacity, allow_multiple_allocations=shared)
            for name in sorted(names)
        )
        count = 1 if whole else 2
        new = Slice("s", DRIVER, POOL, generation, count, all_nodes=True, devices=made)
        self.slices = (new,)

    # --- what must hold ---

    @invariant()
    def holders_equal_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        claims = [claim(uid, 1, *results) for uid, results in self.expected_holds().items()]
        assert plain(self.ledger.view()) == plain(view_of_claims(claims))
        accepted: dict[str, set[str]] = {}
        for uid, results in self.expected_holds().items():
            for device in devices(*results):
                accepted.setdefault(device, set()).add(uid)
        for device, holders in accepted.items():
            pool, slash, name = device.rpartition("/")
            where = DeviceID(PoolID(DRIVER, pool if slash else POOL), name)
            assert set(self.ledger.holders(where)) == holders
        assert len(self.ledger.devices()) == len(accepted)

    @invariant()
    def reservations_do_not_conflict(self) -> None:
        if hasattr(self, "ledger"):
            reservations = [
                [
                    f"{h.pool.name}/{h.device}" + (":s" if h.shared else "")
                    for h in reservation.holds
                ]
                for reservation in self.ledger.reservations.values()
            ]
            assert not has_conflict(map(tuple, reservations))

    @invariant()
    def versions_never_decrease(self) -> None:
        if hasattr(self, "ledger"):
            for uid, observed in self.ledger.claims.items():
                assert observed.version >= self.newest.get(uid, 0)
                self.newest[uid] = observed.version

    @invariant()
    def views_do_not_change(self) -> None:
        if hasattr(self, "ledger"):
            for view, was in self.kept:
                assert plain(view) == was
            if not self.kept or self.kept[-1][0] is not self.ledger.view():
                self.kept = [*self.kept[-3:], (self.ledger.view(), plain(self.ledger.view()))]

    @invariant()
    def the_audit_reports_exactly_the_violations(self) -> None:
        if hasattr(self, "ledger"):
            findings = audit(self.ledger, World(build_inventory(self.slices)))
            by_code: dict[str, set[str]] = {}
            for finding in findings:
                by_code.setdefault(finding.code, set()).add(finding.object.rpartition("/")[2])
            assert codes.LEDGER_INCONSISTENT.name not in by_code
            assert by_code.get(codes.DEVICE_LOST.name, set()) == self.lost()
            assert by_code.get(codes.CAPACITY_EXCEEDED.name, set()) <= {"nic", "x"}
            twice = has_conflict(self.expected_holds().values())
            assert (codes.DEVICE_HELD_TWICE.name in by_code) == twice

    def lost(self) -> set[str]:
        if not self.slices or self.slices[0].slice_count != 1:
            return set()
        there = {device.name for device in self.slices[0].devices}
        held = {d for results in self.expected_holds().values() for d in devices(*results)}
        return {device for device in held if "/" not in device} - there


Interleavings.TestCase.settings = settings(
    # Shrinking a failure of this machine takes minutes; its steps are printed all the same.
    phases=(Phase.explicit, Phase.generate),
    max_examples=drawn(30, thorough=150),
    stateful_step_count=40,
    derandomize=True,
)
TestInterleavings = Interleavings.TestCase
