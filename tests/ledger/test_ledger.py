"""Tests of single behaviors of the ledger; test_interleavings.py combines them."""

import pytest

from drawbridge.dra.claim import Claim
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.quantity import parse
from drawbridge.ledger.allocation_mark import ALLOCATOR, Mark, MarkedDevice, format_mark
from drawbridge.ledger.audit import audit
from drawbridge.ledger.conflicts import find_conflicts
from drawbridge.ledger.holdings import read_marked_holds
from drawbridge.ledger.ledger import Reservation, ReservationRefusal
from tests.ledger.claims import DRIVER, POOL, allocation, claim
from tests.ledger.ledgers import P, held, of, reserve

# --- events of the API server ---


def test_an_allocation_holds_its_devices_until_it_is_removed() -> None:
    ledger = of("a")
    ledger.observe(claim("a", 2, "x", "y"))
    assert held(ledger) == {"x": ["a"], "y": ["a"]}
    ledger.observe(claim("a", 3, "y"))
    assert held(ledger) == {"y": ["a"]}
    ledger.observe(claim("a", 4))
    assert held(ledger) == {}


def test_an_older_event_does_not_undo_a_write() -> None:
    ledger = of("a")
    assert ledger.observe(claim("a", 5, "x"))  # the answer to our write
    assert not ledger.observe(claim("a", 4))  # the finalizer-only version, from the watch
    assert not ledger.observe(claim("a", 5, "x"))  # the echo of our write
    assert held(ledger) == {"x": ["a"]}


def test_what_a_scheduler_tells_frees_nothing() -> None:
    ledger = of("a")
    assert ledger.observe(claim("a", 5, "x"))
    assert not ledger.observe(claim("a", 9), told=True)
    assert held(ledger) == {"x": ["a"]}


def test_what_the_api_server_tells_replaces_what_a_scheduler_has_told() -> None:
    ledger = of("a")
    assert ledger.observe(claim("a", 5))
    assert ledger.observe(claim("a", 9), told=True)
    assert not ledger.observe(claim("a", 8, "y"), told=True)
    assert not ledger.observe(claim("a", 4, "y"))
    assert ledger.observe(claim("a", 9, "x"))
    assert held(ledger) == {"x": ["a"]}


def test_the_answer_of_the_api_server_replaces_what_a_scheduler_has_told() -> None:
    """A scheduler can know a later version of a history that a restore has ended."""
    ledger = of()
    assert ledger.observe(claim("a", 5))
    ledger.observe_bookmark("7")
    asked = ledger.claims["a"]
    assert ledger.observe(claim("a", 9, "x"), told=True)
    # What was read before the scheduler told of it can be older.
    ledger.doubt(asked, "a")
    assert not ledger.observe(claim("a", 5))
    assert not ledger.observe(claim("a", 5), told=True)
    assert held(ledger) == {"x": ["a"]}
    ledger.doubt(ledger.claims["a"], "a")
    assert not ledger.observe(claim("a", 5), told=True)
    assert ledger.observe(claim("a", 5))
    assert not ledger.observe(claim("a", 5)), "it is known"
    assert held(ledger) == {}
    ledger.doubt(ledger.claims["a"], "a")
    assert not ledger.observe(claim("a", 5)), "the API server has told of it"


def test_versions_are_compared_as_numbers() -> None:
    ledger = of()
    ledger.observe(claim("a", 10, "x"))
    assert not ledger.observe(claim("a", 9))
    assert held(ledger) == {"x": ["a"]}


def test_a_device_with_two_holders_stays_held_when_one_is_deleted() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x"))
    ledger.observe(claim("b", 2, "x"))
    assert held(ledger) == {"x": ["a", "b"]}
    ledger.observe_deletion("b", "3")
    assert held(ledger) == {"x": ["a"]}
    assert ledger.view().use(P).dedicated == {"x"}


def test_a_claim_with_two_shares_of_a_device_releases_both() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1=4G", "nic:2=2G"))
    ledger.observe(claim("b", 2, "nic:3=1G"))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("7G")}}
    ledger.observe(claim("a", 3))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("1G")}}


def test_a_share_without_amounts_is_held() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1"))
    assert ledger.view().use(P).holds("nic")
    assert not ledger.view().use(P).dedicated


def test_admin_access_holds_nothing() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x!"))
    assert held(ledger) == {}


def test_deletion_is_final() -> None:
    ledger = of()
    ledger.observe(claim("a", 5, "x"))
    assert ledger.observe_deletion("a", "7")
    assert not ledger.observe(claim("a", 6, "x"))
    assert not ledger.observe(claim("a", 8, "x"))
    assert not ledger.observe_deletion("a", "7")
    assert held(ledger) == {}


def test_a_late_event_of_a_deleted_unknown_claim_is_ignored() -> None:
    ledger = of()
    ledger.observe_deletion("a", "7")
    assert not ledger.observe(claim("a", 6, "x"))


def test_after_a_bookmark_late_events_of_unknown_claims_are_ignored() -> None:
    ledger = of()
    ledger.observe_deletion("a", "7")
    ledger.observe_bookmark("9")
    assert not ledger.observe(claim("a", 6, "x"))
    assert ledger.observe(claim("b", 10, "x"))


def test_after_a_bookmark_no_version_before_it_replaces_an_older_one() -> None:
    # As a kube-scheduler sends it that still has the content of etcd from before a restore.
    ledger = of()
    ledger.observe(claim("a", 3))
    ledger.observe_bookmark("9")
    assert not ledger.observe(claim("a", 7, "x"))
    assert held(ledger) == {}
    assert ledger.observe(claim("a", 10, "x"))


def test_claims_of_files_need_no_uid_and_no_version() -> None:
    ledger = of()
    plain = claim("", 0, "x")
    assert ledger.observe(plain)
    assert held(ledger) == {"x": ["default/claim-"]}


# --- marks that a write left behind ---


def marked(version: int, *devices: str, uid: str = "a") -> Claim:
    named = tuple(MarkedDevice(driver=DRIVER, pool=POOL, device=each) for each in devices)
    return claim(uid, version, mark=format_mark(Mark(ALLOCATOR, named)))


def test_a_marked_claim_holds_the_devices_in_its_mark_until_it_changes() -> None:
    ledger = of()
    ledger.observe(marked(5, "x", "y"))
    assert held(ledger) == {}
    ledger.hold_marked(marked(5, "x", "y"))
    assert held(ledger) == {"x": ["a"], "y": ["a"]}
    assert not audit(ledger)
    assert not ledger.observe(marked(5, "x", "y"))
    assert held(ledger) == {"x": ["a"], "y": ["a"]}
    ledger.observe(marked(6, "x", "y"))
    assert held(ledger) == {}


def test_a_reservation_stays_when_the_mark_of_its_claim_holds_nothing_any_more() -> None:
    ledger = of()
    ledger.observe(marked(5, "x"))
    ledger.hold_marked(marked(5, "x"))
    assert reserve(ledger, a="x") is None
    ledger.observe(marked(6, "x"))
    assert held(ledger) == {"x": ["a"]}


@pytest.mark.parametrize(
    "other",
    [
        marked(6, "x"),
        claim("a", 5, "y", mark="{}"),
        claim("a", 5, mark="{"),
        claim("unknown", 5, mark="{}"),
        marked(5, *(f"d{number}" for number in range(33))),
    ],
    ids=["another version", "no devices", "unreadable", "unknown", "more than an allocation has"],
)
def test_a_mark_that_no_write_can_have_left_holds_nothing(other: Claim) -> None:
    ledger = of()
    ledger.observe(marked(5))
    ledger.hold_marked(other)
    assert held(ledger) == {}


@pytest.mark.parametrize(("counters", "recorded"), [(200, True), (300, False)])
def test_a_mark_with_more_counters_than_devices_have_records_none(
    counters: int, *, recorded: bool
) -> None:
    use = CounterUse("set", {f"c{number}": Counter(parse("1")) for number in range(counters)})
    device = MarkedDevice(driver=DRIVER, pool=POOL, device="x", consumes_counters=(use,))
    (hold,) = read_marked_holds(Mark(ALLOCATOR, (device,)))
    assert hold.marked_draw == ((use,) if recorded else ())


def test_a_marked_claim_holds_no_device_twice() -> None:
    ledger = of()
    ledger.observe(claim("b", 4, "x"))
    ledger.observe(marked(5, "x"))
    ledger.hold_marked(marked(5, "x"))
    assert not audit(ledger)
    for uid in "ab":
        assert not [*find_conflicts(ledger, lambda _: None, uid)]
    ledger.observe_deletion("b", "6")
    assert held(ledger) == {"x": ["a"]}


# --- reservations ---


def test_an_equal_reservation_changes_nothing() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    before = ledger.view()
    again = {"a": Reservation(allocation("x"))}
    assert ledger.assume(again) is None
    assert ledger.view() is before


def test_a_claim_has_one_reservation_at_a_time() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    assert reserve(ledger, a="y") is ReservationRefusal.RESERVED
    assert held(ledger) == {"x": ["a"]}


def test_the_reservations_of_a_pod_are_made_all_or_none() -> None:
    ledger = of("a", "b", "c")
    reserve(ledger, a="x")
    assert reserve(ledger, b="y", c="x") is ReservationRefusal.HELD
    assert held(ledger) == {"x": ["a"]}


def test_one_decision_cannot_reserve_a_device_twice() -> None:
    ledger = of("a", "b")
    assert reserve(ledger, a="x", b="x") is ReservationRefusal.HELD
    assert reserve(ledger, a="x x") is ReservationRefusal.HELD
    assert reserve(ledger, a="x:1=1G", b="x:2=1G") is None


def test_a_shared_device_is_not_reserved_as_a_whole() -> None:
    ledger = of("a", "b")
    reserve(ledger, a="x:1=1G")
    assert reserve(ledger, b="x") is ReservationRefusal.HELD
    assert reserve(ledger, b="x:2=1G") is None


def test_missing_or_allocated_claims_get_no_reservation() -> None:
    ledger = of("a")
    assert reserve(ledger, z="x") is ReservationRefusal.GONE
    ledger.observe(claim("a", 2, "x"))
    assert reserve(ledger, a="y") is ReservationRefusal.ALLOCATED
    # An equal reservation succeeds after its allocation.
    assert reserve(ledger, a="x") is None
    assert not ledger.reservations
    ledger.observe_deletion("a")
    assert reserve(ledger, a="x") is ReservationRefusal.GONE


def test_a_reservation_ends_when_its_allocation_is_reported() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    ledger.observe(claim("a", 2))  # the write of the finalizer
    assert held(ledger) == {"x": ["a"]}
    assert ledger.reservations
    ledger.observe(claim("a", 3, "x"))
    assert held(ledger) == {"x": ["a"]}
    assert not ledger.reservations


def test_a_device_that_another_claim_got_is_in_conflict() -> None:
    ledger = of("a", "b")
    reserve(ledger, a="x", b="y")
    assert not ledger.has_conflict("ab")
    ledger.observe(claim("rival", 9, "x"))
    assert ledger.has_conflict("ab")
    assert not ledger.has_conflict("b")
    ledger.rollback(["a"])
    assert held(ledger) == {"x": ["rival"], "y": ["b"]}
    assert not ledger.has_conflict("ab")


def test_an_allocation_by_another_scheduler_ends_the_reservation() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    ledger.observe(claim("a", 2, "y"))
    assert held(ledger) == {"y": ["a"]}
    assert not ledger.reservations


def test_a_rollback_removes_a_reservation() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    ledger.rollback(["a"])
    ledger.rollback(["a"])
    assert held(ledger) == {}


def test_a_rollback_keeps_observed_allocations() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    ledger.observe(claim("a", 2, "x"))
    ledger.rollback(["a"])
    assert held(ledger) == {"x": ["a"]}


def test_deleting_a_claim_ends_its_reservation() -> None:
    ledger = of("a")
    reserve(ledger, a="x")
    ledger.observe_deletion("a", "5")
    assert held(ledger) == {}
    assert not ledger.reservations
