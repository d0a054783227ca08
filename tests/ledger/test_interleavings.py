"""Any interleaving of promises, writes, late and repeated news keeps the ledger's invariants.

The ledger is compared with a naive model: it keeps every word that arrived, and works out who
holds what from scratch whenever it is asked.
"""

# ruff: noqa: D102  # the name of a rule or an invariant is its sentence

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dra.device import Capacity, Device
from dra.inventory import PoolID, build_inventory
from dra.quantity import parse
from dra.slices import Slice
from ledger import codes
from ledger.audit import audit
from ledger.ledger import DeviceID, Ledger, Reservation
from solver.world import UNUSED, View, World, view_of_claims
from tests.ledger.claims import DRIVER, POOL, allocation, claim

UIDS = ("a", "b", "c", "d")
RESULTS = ("x", "y", "z", "q/x", "x:1=3G", "x:2=5G", "nic:3=4G", "nic:4=1G", "nic", "z!")
uids = st.sampled_from(UIDS)
grants = st.lists(st.sampled_from(RESULTS), min_size=1, max_size=3, unique=True).map(tuple)


class Word(NamedTuple):
    """What the API server said once: the results a claim has, or that it is gone."""

    version: int
    uid: str
    results: tuple[str, ...] = ()
    gone: bool = False


class Given(NamedTuple):
    """A promise of the model."""

    results: tuple[str, ...]
    until: float | None


def clashing(several: Iterable[tuple[str, ...]]) -> bool:
    """Whether a device is had as a whole by one and in any way by another."""
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
    """The API server, what of it has arrived, what is promised; and the ledger beside it."""

    @initialize()
    def start(self) -> None:
        self.ledger = Ledger()
        self.version = 0
        self.now = 0.0
        self.said: list[Word] = []
        self.arrived: set[Word] = set()
        self.seen_to = -1
        self.promised: dict[str, Given] = {}
        self.kept: list[tuple[View, object]] = []
        self.newest: dict[str, int] = {}
        self.slices: tuple[Slice, ...] = ()
        for uid in UIDS:
            self.deliver(self.say(uid))

    # --- the model ---

    def say(self, uid: str, *results: str, gone: bool = False) -> Word:
        self.version += 1
        self.said.append(Word(self.version, uid, results, gone))
        return self.said[-1]

    def truth(self, uid: str, said: Sequence[Word] | None = None) -> Word | None:
        """The newest word about a claim; None before there is one."""
        words = [word for word in (self.said if said is None else said) if word.uid == uid]
        return max(words, default=None)

    def known(self, uid: str) -> Word | None:
        """What can be known of a claim that is not gone, by what has arrived."""
        words = [word for word in self.arrived if word.uid == uid]
        if any(word.gone for word in words):
            return None
        return max(words, default=None)

    def allocated(self, uid: str) -> tuple[str, ...]:
        word = self.known(uid)
        return word.results if word else ()

    def deliver(self, word: Word) -> None:
        before = self.known(word.uid)
        was_gone = any(w.gone for w in self.arrived if w.uid == word.uid)
        fresh = not was_gone and (before is None or word.version > before.version or word.gone)
        # What is older than all that was seen, of a claim nobody knows, was gone before.
        hidden = before is None and not word.gone and word.version <= self.seen_to
        if word.gone:
            told = self.ledger.vanish(word.uid, f"{word.version}")
        else:
            told = self.ledger.observe(claim(word.uid, word.version, *word.results))
        if not hidden:
            self.arrived.add(word)
        if not was_gone or not word.gone:
            assert told == (fresh and not hidden)
        if fresh and not hidden and (word.gone or word.results):
            self.promised.pop(word.uid, None)

    def holdings(self) -> dict[str, tuple[str, ...]]:
        held = {uid: self.allocated(uid) for uid in UIDS if self.allocated(uid)}
        return held | {uid: given.results for uid, given in self.promised.items()}

    # --- the API server ---

    @rule(uid=uids, results=grants)
    def somebody_allocates(self, uid: str, results: tuple[str, ...]) -> None:
        word = self.truth(uid)
        if word and not word.gone and not word.results:
            self.say(uid, *results)

    @rule(uid=uids)
    def somebody_takes_back(self, uid: str) -> None:
        word = self.truth(uid)
        if word and not word.gone:
            self.say(uid)

    @rule(uid=uids)
    def somebody_deletes(self, uid: str) -> None:
        word = self.truth(uid)
        if word and not word.gone:
            self.say(uid, gone=True)

    @rule(data=st.data())
    def news_arrive_in_any_order_and_again(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.said)))

    @rule(uid=uids)
    def news_of_a_claim_arrive_backwards(self, uid: str) -> None:
        for word in reversed([word for word in self.said if word.uid == uid]):
            self.deliver(word)

    @rule()
    def the_watch_catches_up(self) -> None:
        for word in self.said:
            if word.version > self.seen_to:
                self.deliver(word)
        self.settle(self.version)

    def settle(self, version: int) -> None:
        self.ledger.settle(f"{version}")
        self.seen_to = max(self.seen_to, version)

    @rule(back=st.integers(0, 3))
    def everything_is_listed_anew_maybe_from_an_old_cache(self, back: int) -> None:
        version = max(self.version - back, 0)
        past = [word for word in self.said if word.version <= version]
        words = [word for uid in UIDS if (word := self.truth(uid, past)) and not word.gone]
        before = {uid: self.known(uid) for uid in UIDS}
        self.ledger.relist([claim(w.uid, w.version, *w.results) for w in words], f"{version}")
        for uid in UIDS:
            known, word = before[uid], next((w for w in words if w.uid == uid), None)
            if known is not None and word is None and known.version <= version:
                # It is not in the list: somewhere before, it was said to be gone.
                self.arrived.add(next(w for w in self.said if w.uid == uid and w.gone))
                self.promised.pop(uid, None)
            elif word is not None and (known is None or word.version > known.version):
                gone = any(w.gone for w in self.arrived if w.uid == uid)
                if known is not None or (not gone and word.version > self.seen_to):
                    self.arrived.add(word)
                    if word.results:
                        self.promised.pop(uid, None)
        self.seen_to = max(self.seen_to, version)

    # --- what we promise ---

    @rule(wanted=st.dictionaries(uids, grants, min_size=1, max_size=2), lasts=st.integers(1, 4))
    def assume(self, wanted: dict[str, tuple[str, ...]], lasts: int) -> None:
        self.assume_on(self.ledger.view(), wanted, lasts)

    @precondition(lambda self: bool(self.promised))
    @rule(data=st.data(), lasts=st.integers(1, 4))
    def assume_the_same_again(self, data: st.DataObject, lasts: int) -> None:
        uid = data.draw(st.sampled_from(sorted(self.promised)))
        before = self.ledger.view()
        self.assume_on(View(), {uid: self.promised[uid].results}, lasts)
        assert self.ledger.view() is before

    @precondition(lambda self: bool(self.kept))
    @rule(data=st.data(), wanted=st.dictionaries(uids, grants, min_size=1, max_size=2))
    def assume_on_an_old_view(
        self, data: st.DataObject, wanted: dict[str, tuple[str, ...]]
    ) -> None:
        self.assume_on(data.draw(st.sampled_from(self.kept))[0], wanted, 2)

    def assume_on(self, view: View, wanted: dict[str, tuple[str, ...]], lasts: int) -> None:
        until = self.now + lasts
        promises = {uid: Reservation(allocation(*results)) for uid, results in wanted.items()}
        new, allowed = {}, True
        for uid, results in wanted.items():
            word, given = self.known(uid), self.promised.get(uid)
            fulfilled = word is not None and word.results in ((), results)
            if not fulfilled or (given is not None and given.results != results):
                allowed = False
            elif given is None and word is not None and not word.results:
                new[uid] = results
        others = [held for uid, held in self.holdings().items() if uid not in new]
        touched = {device for results in new.values() for device in devices(*results)}
        near = [tuple(t for t in held if devices(t) & touched) for held in others]
        pools = {PoolID(DRIVER, d.partition("/")[0] if "/" in d else POOL) for d in touched}
        stale = any(view.use(pool) is not self.ledger.view().use(pool) for pool in pools)
        allowed = allowed and not clashing([*new.values(), *near]) and not stale
        refusal = self.ledger.assume(promises, until=until, view=view)
        assert (refusal is None) == allowed
        if not allowed:
            return
        for uid, results in wanted.items():
            known = self.promised.get(uid)
            if uid in new:
                self.promised[uid] = Given(results, until)
            elif known is not None and known.until is not None:
                self.promised[uid] = Given(results, max(until, known.until))

    @rule(several=st.sets(uids, min_size=1, max_size=2))
    def commit(self, several: set[str]) -> None:
        allowed = all(uid in self.promised or self.allocated(uid) for uid in several)
        mine = {uid: self.promised[uid].results for uid in several if uid in self.promised}
        touched = {device for results in mine.values() for device in devices(*results)}
        others = [
            tuple(text for text in held if devices(text) & touched)
            for uid, held in self.holdings().items()
            if uid not in mine
        ]
        allowed = allowed and not clashing([*mine.values(), *others])
        assert (self.ledger.commit(sorted(several)) is None) == allowed
        if allowed:
            self.promised |= {uid: Given(results, None) for uid, results in mine.items()}

    @rule(uid=uids)
    def forget(self, uid: str) -> None:
        self.ledger.forget([uid])
        if uid in self.promised and self.promised[uid].until is not None:
            del self.promised[uid]

    @rule(uid=uids)
    def rollback(self, uid: str) -> None:
        self.ledger.rollback([uid])
        self.promised.pop(uid, None)

    @precondition(lambda self: bool(self.promised))
    @rule(data=st.data())
    def our_write_succeeds(self, data: st.DataObject) -> None:
        """The answer arrives at once; the watch brings it, and what was before it, later."""
        uid = data.draw(st.sampled_from(sorted(self.promised)))
        word = self.truth(uid)
        if word and word == self.known(uid) and self.promised[uid].until is None:
            self.say(uid)  # the finalizer
            self.deliver(self.say(uid, *self.promised[uid].results))

    @rule(step=st.integers(1, 3))
    def time_passes(self, step: int) -> None:
        self.now += step
        over = {u for u, g in self.promised.items() if g.until is not None and g.until <= self.now}
        assert set(self.ledger.expire(self.now)) == over
        for uid in over:
            del self.promised[uid]

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
    def holders_are_those_of_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        claims = [claim(uid, 1, *results) for uid, results in self.holdings().items()]
        assert plain(self.ledger.view()) == plain(view_of_claims(claims))
        told: dict[str, set[str]] = {}
        for uid, results in self.holdings().items():
            for device in devices(*results):
                told.setdefault(device, set()).add(uid)
        for device, holders in told.items():
            pool, slash, name = device.rpartition("/")
            where = DeviceID(PoolID(DRIVER, pool if slash else POOL), name)
            assert set(self.ledger.holders(where)) == holders
        assert len(self.ledger.devices()) == len(told)

    @invariant()
    def we_promise_nothing_twice(self) -> None:
        if hasattr(self, "ledger"):
            promises = [
                [f"{h.pool.name}/{h.device}" + (":s" if h.shared else "") for h in each.holds]
                for each in self.ledger.promises.values()
            ]
            assert not clashing(map(tuple, promises))

    @invariant()
    def versions_never_go_back(self) -> None:
        if hasattr(self, "ledger"):
            for uid, known in self.ledger.claims.items():
                assert known.version >= self.newest.get(uid, 0)
                self.newest[uid] = known.version

    @invariant()
    def views_stay_what_they_were(self) -> None:
        if hasattr(self, "ledger"):
            for view, was in self.kept:
                assert plain(view) == was
            if not self.kept or self.kept[-1][0] is not self.ledger.view():
                self.kept = [*self.kept[-3:], (self.ledger.view(), plain(self.ledger.view()))]

    @invariant()
    def the_audit_finds_what_is_there_and_nothing_else(self) -> None:
        if hasattr(self, "ledger"):
            found = audit(self.ledger, World(build_inventory(self.slices)))
            by_code: dict[str, set[str]] = {}
            for each in found:
                by_code.setdefault(each.code, set()).add(each.object.rpartition("/")[2])
            assert codes.LEDGER_INCONSISTENT.name not in by_code
            assert by_code.get(codes.DEVICE_LOST.name, set()) == self.lost()
            assert by_code.get(codes.CAPACITY_EXCEEDED.name, set()) <= {"nic", "x"}
            twice = clashing(self.holdings().values())
            assert (codes.HELD_TWICE.name in by_code) == twice

    def lost(self) -> set[str]:
        if not self.slices or self.slices[0].slice_count != 1:
            return set()
        there = {device.name for device in self.slices[0].devices}
        held = {d for results in self.holdings().values() for d in devices(*results)}
        return {device for device in held if "/" not in device} - there


Interleavings.TestCase.settings = settings(
    # Shrinking a failure of this machine takes minutes; its steps are printed all the same.
    phases=(Phase.explicit, Phase.generate),
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
)
TestInterleavings = Interleavings.TestCase
