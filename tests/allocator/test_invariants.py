"""What holds after any sequence of calls and changes, whatever the order."""

# ruff: noqa: D102  # the name of a rule or an invariant is its sentence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from allocator.decisions import node_searches
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import PotentialVictim, PreemptionNode, PreemptRequest
from allocator.state.transitions import PARTS, place_of_question, place_of_unasked
from drawbridge.dra.allocation import Allocation, to_json
from drawbridge.ledger.audit import audit
from drawbridge.ledger.holdings import DeviceID
from tests.allocator.clusters import Cluster, claim, gpu_slice, pod
from tests.thorough import drawn

NODES = ("n1", "n2", "n3")
PODS = tuple(f"p{i}" for i in range(8))
uids = st.sampled_from(PODS)
# The last three pods share a claim.
PRIORITIES = {uid: number // 2 for number, uid in enumerate(PODS)}
CLAIM_OF = {uid: "shared" if uid in PODS[5:] else f"of-{uid}" for uid in PODS}


class Allocator(RuleBasedStateMachine):
    """An allocator with a scheduler that does whatever it likes, and an API server."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(nodes_per_call=2, n1=1, n2=1, n3=1)
        self.decisions = self.cluster.decisions
        self.waiting = WaitingPods(self.decisions)
        self.version = 10
        self.sizes = {"n1": 1, "n2": 1, "n3": 1}
        self.counts = {uid: 2 if uid == "p0" else 1 for uid in PODS}
        self.writing: set[str] = set()
        # Claims that another client deallocated: a pod that counted on them is told at the write.
        self.deallocated: set[str] = set()

    def next_version(self) -> int:
        self.version += 1
        return self.version

    @rule(uid=uids, limit=st.sampled_from((0, 1)))
    def schedule(self, uid: str, limit: int) -> None:
        for node in self.ask(uid, limit)[:1]:
            self.reserve(uid, node)

    @rule(limit=st.sampled_from((0, 1)))
    def ask_for_all(self, limit: int) -> None:
        for uid in PODS:
            self.ask(uid, limit)

    def ask(self, uid: str, limit: int) -> list[str]:
        name = CLAIM_OF[uid]
        stored = self.cluster.state.claims.get(name)
        version = 1 if stored else self.next_version()
        reply = self.cluster.prefilter(
            uid,
            claim(name, self.counts[uid], version=version),
            limit=limit,
            priority=PRIORITIES[uid],
        )
        fitting = [each.node for each in reply.fit]
        now = self.cluster.now
        self.waiting.note_answer(uid, fitting, now, complete=reply.complete)
        return fitting

    @rule(uid=uids)
    def run(self, uid: str) -> None:
        for node in self.ask(uid, 0)[:1]:
            self.reserve(uid, node)
            if not self.decisions.reservations.begin_write(uid):
                self.finish_write(uid, written=True)

    @rule(uid=uids, ended=st.booleans())
    def preempt(self, uid: str, *, ended: bool) -> None:
        if self.ask(uid, 0):
            return
        others = tuple(PotentialVictim(uid=each, priority=PRIORITIES[each]) for each in PODS)
        nodes = tuple(PreemptionNode(node=name, pods=others) for name in NODES)
        request = PreemptRequest(pod_uid=uid, nodes=nodes)
        reply = self.decisions.preempt(request, self.cluster.now)
        self.waiting.note_preemption(uid, refused=not (reply.node or reply.waiting))
        for victim in reply.victims:
            assert PRIORITIES[victim] < PRIORITIES[uid]
        for victim in reply.victims if ended else ():
            self.settle_pod(victim, deleted=True)
            self.waiting.end_settled(self.cluster.now)
            if CLAIM_OF[victim] in self.cluster.state.claims:
                version = self.next_version()
                plain = claim(CLAIM_OF[victim], self.counts[victim], version=version)
                self.cluster.add_claim(plain)

    @rule(uid=uids, node=st.sampled_from(NODES))
    def reserve(self, uid: str, node: str) -> None:
        refusal = self.cluster.reserve(uid, node)
        self.waiting.note_reservation(uid, reserved=not refusal)

    @rule(uid=uids)
    def unreserve(self, uid: str) -> None:
        self.decisions.unreserve(uid)

    @rule(uid=uids)
    def begin_write(self, uid: str) -> None:
        if not self.decisions.reservations.begin_write(uid):
            self.writing.add(uid)

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), written=st.booleans())
    def end_write(self, data: st.DataObject, *, written: bool) -> None:
        self.finish_write(data.draw(st.sampled_from(sorted(self.writing))), written=written)

    def finish_write(self, uid: str, *, written: bool) -> None:
        self.writing.discard(uid)
        reservation = self.decisions.reservations.find(uid)
        if reservation is None:
            return
        claims = self.cluster.state.claims
        lost = any(each.uid not in claims for each in reservation.claims)
        if written and not lost:
            for reserved in reservation.claims:
                if claims[reserved.uid].status.allocation is None:
                    plain = claim(
                        reserved.uid,
                        self.counts[uid],
                        version=self.next_version(),
                        allocation=to_json(reserved.allocation or Allocation()),
                        pods=[uid],
                    )
                    self.cluster.add_claim(plain)
        self.decisions.reservations.end_write(uid, written=written and not lost)

    @rule(uid=uids)
    def deallocate(self, uid: str) -> None:
        if CLAIM_OF[uid] in self.cluster.state.claims:
            plain = claim(CLAIM_OF[uid], self.counts[uid], version=self.next_version())
            self.cluster.add_claim(plain)
            self.deallocated.add(CLAIM_OF[uid])

    @rule(uid=uids)
    def delete_claim(self, uid: str) -> None:
        if CLAIM_OF[uid] in self.cluster.state.claims and not self.writing:
            self.cluster.delete_claim(CLAIM_OF[uid])

    @rule(uid=uids, deleted=st.booleans())
    def settle_pod(self, uid: str, *, deleted: bool) -> None:
        before = pod(uid, CLAIM_OF[uid])
        self.cluster.state.apply(before, None if deleted else pod(uid, CLAIM_OF[uid], node="n1"))

    @rule(node=st.sampled_from(NODES), more=st.booleans())
    def publish(self, node: str, *, more: bool) -> None:
        held = {each.name for each in self.cluster.state.ledger.devices() if each.pool.name == node}
        generation = self.next_version()
        before, self.sizes[node] = self.sizes[node], max(len(held), 2 if more else 1)
        self.cluster.state.apply(
            gpu_slice(node, before), gpu_slice(node, self.sizes[node], generation=generation)
        )

    @rule(seconds=st.sampled_from((0.5, 3.0, 40.0)))
    def wake_later(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.waiting.wake(self.cluster.now)

    @invariant()
    def no_device_is_held_twice_and_the_index_is_right(self) -> None:
        findings = audit(self.cluster.state.ledger, self.cluster.state.planner.world())
        assert {each.code for each in findings} <= {"DeviceLost"}

    @invariant()
    def the_allocated_claims_are_in_order(self) -> None:
        records = self.cluster.state.ledger.claims.items()
        expected = sorted((each.name, uid) for uid, each in records if each.allocation is not None)
        assert list(self.cluster.state.allocated_claims("")) == expected

    @invariant()
    def what_is_kept_for_a_pod_is_held_by_nobody_else(self) -> None:
        ledger = self.cluster.state.ledger
        for key, holds in ledger.kept.items():
            for hold in holds:
                holders = ledger.holders(DeviceID(hold.pool, hold.device))
                assert list(holders) == [key] or not self.deallocated.isdisjoint(holders)

    @invariant()
    def what_the_ledger_holds_belongs_to_a_record_and_the_indexes_are_right(self) -> None:
        state, records = self.cluster.state, self.cluster.state.records
        every = [records.get(uid) for uid in records]
        reserved = {uid for each in every if each.devices for uid in each.devices.reserved}
        assert state.ledger.reservations.keys() <= reserved
        kept = {each.kept.key: each.kept.held for each in every if each.kept and each.kept.held}
        assert state.ledger.kept == kept
        places = sorted(each.waiting.place for each in every if each.waiting)
        assert records.to_try.places == places
        assert not records.unexpected
        pausing = {uid for uid in records if records.times.get("victim pause", uid) is not None}
        asking = sorted(filter(None, map(place_of_question, every)))
        assert records.asking.places == [each for each in asking if each.uid not in pausing]
        unasked = sorted(filter(None, map(place_of_unasked, every)))
        assert records.unasked.places == unasked
        alike = {uid for key in records.alike for uid in records.alike.get(key)}
        assert alike == {each.uid for each in places}
        waiting = [each for each in every if each.waiting]
        exceeding = {uid for key in records.exceeding for uid in records.exceeding.get(key)}
        assert exceeding == {each.uid for each in waiting if each.waiting.exceeds}
        for part in PARTS:
            assert set(records.with_part(part)) == {e.uid for e in every if getattr(e, part)}
        for uid in reserved:
            users = {e.uid for e in every if e.devices and uid in e.devices.reserved}
            assert {*records.reserved_for(uid)} == users
        for uid, active in state.ledger.reservations.items():
            for user in records.reserved_for(uid):
                devices = records.get(user).devices
                assert devices is not None
                assert devices.reserved[uid].allocation == active.reservation.allocation

    @invariant()
    def what_is_reserved_for_a_pod_is_held(self) -> None:
        claims, reservations = self.cluster.state.claims, self.cluster.state.ledger.reservations
        for uid in PODS:
            reservation = self.decisions.reservations.find(uid)
            for reserved in reservation.claims if reservation else ():
                stored = claims.get(reserved.uid)
                if (
                    stored
                    and stored.status.allocation is None
                    and reserved.uid not in self.deallocated
                ):
                    assert reserved.uid in reservations

    @invariant()
    def a_refusal_is_what_a_new_allocator_would_say(self) -> None:
        for uid in PODS:
            key = self.decisions.promises.request_key(uid)
            if key is not None and self.decisions.promises.is_refused(key):
                request = self.decisions.requests.find(uid)
                assert request is not None
                search = self.decisions.requests.search(request)
                fresh = node_searches.NodeSearches(self.cluster.state)
                assert not fresh.run(search, self.cluster.now).fitting

    def teardown(self) -> None:
        """Without claims and pods nothing is held."""
        for uid in self.writing:
            self.decisions.reservations.end_write(uid, written=False)
        for uid in tuple(self.cluster.state.claims):
            self.cluster.delete_claim(uid)
        self.decisions.expire(float("inf"))
        assert self.cluster.held() == []


@pytest.fixture
def _incremental(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches look only at changed nodes, although there are few."""
    monkeypatch.setattr(node_searches, "FEW_NODES", 0)


TestAllocator = pytest.mark.usefixtures("_incremental")(Allocator.TestCase)
TestAllocator.settings = settings(max_examples=drawn(13, thorough=40), stateful_step_count=50)
