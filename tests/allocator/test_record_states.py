"""The states of the records: every pair of a state and an event, and what the histories reach."""

from datetime import UTC, datetime
from itertools import count, product
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from allocator.scheduler.protocol import ProtocolError, SchedulingPod
from allocator.state.pod_table import BEGINS, PodTable
from allocator.state.record_states import (
    STAYS,
    TRANSITIONS,
    RecordEvent,
    RecordState,
    is_expected,
    state_of,
)
from allocator.state.records import (
    Paired,
    Pause,
    PodRequest,
    PodReservation,
    Preemptor,
    Record,
    RecordStep,
    ReservedDevices,
    VictimQuestion,
    Waiting,
    WaitingPlace,
)
from allocator.state.reserved_pods import RESERVATION_SECONDS
from allocator.state.transitions import (
    MAX_STEPS,
    Expect,
    GiveBack,
    HavePart,
    Keep,
    LookAgain,
    LoseDevices,
    MoveKey,
    MovePlace,
    Reserve,
    move,
)
from drawbridge.dra.allocation import AllocatedDevices, Allocation
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import Ledger, Reservation
from drawbridge.ledger.node_holds import NodeHold
from tests.allocator.clusters import Cluster, ask_group, claim, members_of
from tests.allocator.contests import Contest
from tests.allocator.histories import History

UID = "p"
POD = SchedulingPod(namespace="default", name=UID, uid=UID)
KEPT = Preemptor(POD, frozenset(), "n1", frozenset(), frozenset(), (), 1.0)
PLAN = NodeHold(f"default/{UID}", UID, datetime(2026, 1, 1, tzinfo=UTC), ())
DEVICES = ReservedDevices(PodReservation("default", UID, UID, "n1"), {}, since=0.0, until=1.0)
PARTS: dict[RecordState, dict[str, Any]] = {
    RecordState.UNKNOWN: {},
    RecordState.SEEN: {"request": PodRequest(POD, ())},
    RecordState.WAITING: {"waiting": Waiting(WaitingPlace(0, 0.0, UID), b"key")},
    RecordState.PREEMPTING: {"kept": KEPT},
    RecordState.HELD: {"kept": replace(KEPT, planned=PLAN)},
    RecordState.PROMISED: {"devices": replace(DEVICES, promised=True)},
    RecordState.RESERVED: {"devices": DEVICES},
    RecordState.WRITING: {"devices": replace(DEVICES, writing=True)},
}


@pytest.mark.parametrize("state", RecordState)
def test_a_record_is_in_the_state_of_its_parts(state: RecordState) -> None:
    assert state_of(Record(UID, **PARTS[state])) is state


@pytest.mark.parametrize(("state", "event"), [*product(RecordState, RecordEvent)])
def test_what_cannot_follow_is_counted(state: RecordState, event: RecordEvent) -> None:
    nothing = {"request": None, "waiting": None, "kept": None, "devices": None}
    for later in RecordState:
        table = PodTable(Ledger())
        table.change(UID, RecordEvent.ASKED, namespace="default", **PARTS[state])
        before = table.unexpected
        begins = {"namespace": "default"} if event in BEGINS else {}
        # Something changes also where the state stays.
        other = {"expired_on": "n9"} if later is not RecordState.UNKNOWN else {}
        table.change(UID, event, **{**nothing, **PARTS[later], **begins, **other})
        is_ignored = state is RecordState.UNKNOWN and not begins
        assert state_of(table.get(UID)) is (state if is_ignored else later)
        is_changed = begins or not state is later is RecordState.UNKNOWN
        unexpected = bool(is_changed) and not is_expected(state, event, later)
        assert table.unexpected - before == unexpected


def test_no_record_begins_without_a_namespace() -> None:
    table = PodTable(Ledger())
    for event in BEGINS:
        table.change(UID, event, **PARTS[RecordState.HELD])
    assert (len(table), table.unexpected) == (0, len(BEGINS))


def test_no_record_with_devices_is_dropped() -> None:
    table = PodTable(Ledger())
    for state, parts in PARTS.items():
        table.change(state, RecordEvent.ASKED, namespace="default", **{**parts, "waiting": None})
    table.change("late", RecordEvent.ASKED, namespace="default", group="default/g")
    table.limit, before = 0, table.unexpected
    table.trim(("late",))
    kept = (RecordState.PREEMPTING, RecordState.HELD)
    reserved = (RecordState.PROMISED, RecordState.RESERVED, RecordState.WRITING)
    assert sorted(table) == sorted([*kept, *reserved, "late"])
    assert table.unexpected == before


def test_a_table_ends_empty_whatever_the_record_was() -> None:
    for state in RecordState:
        table = PodTable(Ledger())
        table.change(UID, RecordEvent.ASKED, namespace="default", **PARTS[state])
        table.end(UID)
        assert len(table) == (state is RecordState.WRITING)


def test_histories_move_pods_only_as_they_can() -> None:
    for seed in range(40):
        history = History(seed)
        history.play()
        records = history.state.records
        assert not records.unexpected, (seed, records.moves)


def test_no_event_moves_a_record_to_where_it_is() -> None:
    for moves in TRANSITIONS.values():
        assert all(state not in later for state, later in moves.items())


def test_every_event_moves_a_record_or_changes_it() -> None:
    assert TRANSITIONS.keys() | STAYS.keys() == set(RecordEvent)


def test_a_claim_stays_reserved_until_the_last_pod_that_shares_it_goes() -> None:
    cluster = Cluster(n1=1)
    for uid in ("a", "b"):
        cluster.schedule(uid, claim("shared"))
    cluster.decisions.unreserve("a")
    assert cluster.held() == ["n1/gpu-0"]
    assert cluster.state.records.reserved_for("shared") == ("b",)
    cluster.decisions.end("b")
    assert cluster.held() == []


def test_only_a_reservation_that_expired_is_made_again_at_the_write() -> None:
    cluster = Cluster(n1=2)
    for uid in ("promised", "reserved"):
        cluster.schedule(uid, claim(f"of-{uid}"))
    reservations = cluster.decisions.reservations
    assert reservations.hold("promised", 0.0)
    cluster.decisions.expire(RESERVATION_SECONDS)
    assert reservations.has_expired("reserved", "n1")
    assert not reservations.has_expired("promised", "n1")


def test_a_group_is_decided_about_as_a_whole_at_the_limit_of_records() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", "a", "b", min_count=4)  # two others do not exist yet
    cluster.prefilter("other", claim("of-other", 9))
    cluster.state.records.limit = 4
    cluster.now = 5.0
    reply = cluster.ask_group("default/g", "a", "b", "d", "e", min_count=4)
    assert reply.fit, reply.message
    records = cluster.state.records
    assert sorted(records) == ["a", "b", "d", "e"]
    assert {records.get(uid).group for uid in records} == {"default/g"}
    assert {records.get(uid).namespace for uid in records} == {"default"}
    for uid in ("a", "b", "d", "e"):
        assert not cluster.reserve(uid, "n1")


def test_a_large_group_takes_no_record_of_another_namespace() -> None:
    """The scheduler asks with some members at a time, and there can be any number of them."""
    cluster = Cluster(n1=0)
    cluster.prefilter("other", claim("of-other", namespace="small"), namespace="small")
    cluster.state.records.limit = 5
    for number in range(0, 8, 2):
        cluster.ask_group("default/g", f"m{number}", f"m{number + 1}")
    assert sorted(cluster.state.records) == ["m4", "m5", "m6", "m7", "other"]


def test_the_members_of_a_call_have_their_records_when_a_claim_of_it_cannot_be_read() -> None:
    cluster = Cluster(n1=4)
    cluster.state.records.limit = 1
    cluster.prefilter("other", claim("of-other"))
    request = members_of(cluster, ("a", "b", "c"))
    *readable, last = request.members or ()
    broken = replace(request, members=(*readable, replace(last, claims=(Raw(b"{}"),))))
    with pytest.raises(ProtocolError):
        ask_group(cluster.decisions, broken, cluster.now)
    records = cluster.state.records
    assert sorted(records) == ["a", "b"]
    assert not records.unexpected


def test_a_dropped_pod_is_not_remembered_because_a_copy_has_decided() -> None:
    contest = Contest(n1=1)
    contest.run("x", "n1", 0)
    assert contest.ask("p") == []
    contest.waiting.note_preemption("p", refused=True, cut=contest.preemption("p"))
    records = contest.cluster.state.records
    records.limit = 1
    contest.ask("q")  # drops the record of p
    contest.waiting.note_ahead("p")
    assert list(records) == ["q"]
    assert not records.unexpected


def test_a_pause_that_shrinks_begins_again_with_a_short_one() -> None:
    pause = Pause(failures=5, until=60.0).shrunk(11.0)
    assert pause == Pause(failures=0, until=11.0)
    assert pause.shrunk(20.0) == pause


def test_a_record_keeps_its_last_steps_with_their_times_and_no_more() -> None:
    table = PodTable(Ledger(), count().__next__)
    table.change(UID, RecordEvent.ASKED, namespace="default", request=PodRequest(POD, ()))
    for number in range(20):
        table.change(UID, RecordEvent.WOKEN, device_pause=Pause(number + 1))
    steps = table.get(UID).steps
    assert [each.at for each in steps] == list(range(21 - MAX_STEPS, 21))
    assert {(each.event, each.state) for each in steps} == {(RecordEvent.WOKEN, RecordState.SEEN)}


def test_what_follows_from_a_move_is_data_and_in_order() -> None:
    waiting = Waiting(WaitingPlace(0, 5.0, UID), b"key")
    before = Record(UID, "default", group="default/g", waiting=waiting, device_pause=Pause(1, 9.0))
    reserved = {"c": Reservation(Allocation(AllocatedDevices(())))}
    after = replace(before, waiting=None, devices=replace(DEVICES, reserved=reserved))
    moved = move(before, RecordEvent.RESERVED, after, now=7.0)
    assert (moved.state, moved.later) == (RecordState.WAITING, RecordState.RESERVED)
    assert moved.record.steps == (RecordStep(7.0, RecordEvent.RESERVED, RecordState.RESERVED),)
    assert moved.effects == [
        HavePart("devices", has=True),
        Reserve(reserved),
        LookAgain("devices", DEVICES.until),
        MovePlace("waiting", waiting.place, None),
        MoveKey("alike", (b"key",), ()),
        LookAgain("device pause", None),
        LookAgain("victim pause", None),
    ]
    back = move(moved.record, RecordEvent.GIVEN_BACK, replace(moved.record, devices=None), now=8.0)
    assert back.effects == [
        HavePart("devices", has=False),
        GiveBack(["c"]),
        LoseDevices("default/g"),
        LookAgain("devices", None),
    ]


def test_what_the_ledger_keeps_follows_what_a_pod_gets_later() -> None:
    own = {"own": Allocation(AllocatedDevices(()))}
    waits = replace(KEPT, claims=frozenset(own), until=30.0, allocations=own)
    hold = Hold(PoolID("gpu.example.com", "n1"), "gpu-0")
    record = Record(UID, "default", kept=waits)
    begun = move(Record(UID), RecordEvent.KEPT, record, now=0.0)
    assert begun.effects[1:] == [Keep(()), LookAgain("kept", 30.0), Expect({}, own)]
    holds = replace(record, kept=replace(waits, held=(hold,)))
    got = move(record, RecordEvent.KEPT_LONGER, holds, now=1.0)
    assert got.effects == [Keep((hold,)), LookAgain("kept", 30.0)]
    ended = move(holds, RecordEvent.NOT_KEPT, replace(holds, kept=None), now=2.0)
    assert ended.effects[1:] == [Keep(()), LookAgain("kept", None), Expect(own, {})]


def test_the_claims_of_a_pod_that_waits_in_two_ways_are_expected_once() -> None:
    own = {"own": None}
    paired = Record(UID, "default", paired=Paired(0, frozenset({"c"}), (), frozenset(own)))
    both = replace(paired, kept=replace(KEPT, claims=frozenset(own)))
    expected = [
        [each for each in move(before, event, after, now=0.0).effects if isinstance(each, Expect)]
        for before, event, after in (
            (Record(UID), RecordEvent.PAIRED, paired),
            (paired, RecordEvent.KEPT, both),
            (both, RecordEvent.UNPAIRED, replace(both, paired=None)),
            (paired, RecordEvent.UNPAIRED, replace(paired, paired=None)),
        )
    ]
    assert expected == [[Expect({}, own)], [], [], [Expect(own, {})]]


def test_a_pod_that_is_answered_again_still_asks_because_something_has_changed() -> None:
    refused = VictimQuestion().refused(3)
    assert not refused.is_due(3)
    assert refused.refused(4).is_due(4)
