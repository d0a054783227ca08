"""The ledger, one behaviour after the other; interleavings are in test_interleavings.py."""

import pytest

from dra.quantity import parse
from ledger.ledger import Ledger, Refusal, Reservation
from solver.world import View
from tests.ledger.claims import allocation, claim
from tests.ledger.ledgers import LATER, P, held, of, promised

# --- what the API server says ---


def test_an_allocation_holds_its_devices_until_it_is_gone() -> None:
    ledger = of("a")
    ledger.observe(claim("a", 2, "x", "y"))
    assert held(ledger) == {"x": ["a"], "y": ["a"]}
    ledger.observe(claim("a", 3, "y"))
    assert held(ledger) == {"y": ["a"]}
    ledger.observe(claim("a", 4))
    assert held(ledger) == {}


def test_our_own_write_is_not_undone_by_an_older_event() -> None:
    ledger = of("a")
    assert ledger.observe(claim("a", 5, "x"))  # the answer to our write
    assert not ledger.observe(claim("a", 4))  # the finalizer-only version, from the watch
    assert not ledger.observe(claim("a", 5, "x"))  # the echo of our write
    assert held(ledger) == {"x": ["a"]}


def test_versions_are_compared_as_numbers() -> None:
    ledger = of()
    ledger.observe(claim("a", 10, "x"))
    assert not ledger.observe(claim("a", 9))
    assert held(ledger) == {"x": ["a"]}


def test_a_device_held_twice_stays_held_when_one_of_the_holders_leaves() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x"))
    ledger.observe(claim("b", 2, "x"))
    assert held(ledger) == {"x": ["a", "b"]}
    ledger.vanish("b", "3")
    assert held(ledger) == {"x": ["a"]}
    assert ledger.view().use(P).dedicated == {"x"}


def test_a_claim_that_holds_two_shares_of_a_device_gives_back_both() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1=4G", "nic:2=2G"))
    ledger.observe(claim("b", 2, "nic:3=1G"))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("7G")}}
    ledger.observe(claim("a", 3))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("1G")}}


def test_a_share_without_amounts_is_held_all_the_same() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1"))
    assert ledger.view().use(P).holds("nic")
    assert not ledger.view().use(P).dedicated


def test_shares_are_whole_devices_where_the_scheduler_does_not_know_them() -> None:
    ledger = Ledger(sharing=False)
    ledger.observe(claim("a", 1, "nic:1=4G"))
    assert ledger.view().use(P).dedicated == {"nic"}
    assert not ledger.view().use(P).shares


def test_admin_access_holds_nothing() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x!"))
    assert held(ledger) == {}


def test_deletion_is_final() -> None:
    ledger = of()
    ledger.observe(claim("a", 5, "x"))
    assert ledger.vanish("a", "7")
    assert not ledger.observe(claim("a", 6, "x"))
    assert not ledger.observe(claim("a", 8, "x"))
    assert not ledger.vanish("a", "7")
    assert held(ledger) == {}


def test_a_late_event_of_a_claim_deleted_before_it_was_known_is_old_news() -> None:
    ledger = of()
    ledger.vanish("a", "7")
    assert not ledger.observe(claim("a", 6, "x"))


def test_after_a_bookmark_late_news_of_unknown_claims_is_old_news() -> None:
    ledger = of()
    ledger.vanish("a", "7")
    ledger.settle("9")
    assert not ledger.observe(claim("a", 6, "x"))
    assert ledger.observe(claim("b", 10, "x"))


def test_a_list_deletes_what_is_older_and_not_in_it() -> None:
    ledger = of()
    ledger.observe(claim("a", 5, "x"))
    ledger.observe(claim("b", 6, "y"))
    ledger.observe(claim("c", 12, "z"))  # the answer to a write after the list was made
    ledger.relist([claim("b", 8)], "10")
    assert held(ledger) == {"z": ["c"]}


def test_a_list_from_a_stale_cache_takes_nothing_back() -> None:
    ledger = of()
    ledger.observe(claim("a", 12, "x"))
    ledger.vanish("b", "11")
    ledger.relist([claim("a", 5), claim("b", 4, "y")], "8")
    assert held(ledger) == {"x": ["a"]}


def test_claims_of_files_need_neither_uid_nor_version() -> None:
    ledger = of()
    plain = claim("", 0, "x")
    assert ledger.observe(plain)
    assert held(ledger) == {"x": ["default/claim-"]}


# --- what is promised ---


def test_a_promise_holds_and_runs_out() -> None:
    ledger = of("a")
    assert promised(ledger, a="x") is None
    assert held(ledger) == {"x": ["a"]}
    assert ledger.expire(LATER - 1) == ()
    assert ledger.expire(LATER) == ("a",)
    assert held(ledger) == {}
    assert ledger.commit(["a"]) is Refusal.LOST


def test_the_same_promise_again_only_renews_its_time() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    before = ledger.view()
    again = {"a": Reservation(allocation("x"))}
    assert ledger.assume(again, until=LATER + 5, view=View()) is None
    assert ledger.expire(LATER) == ()
    assert ledger.view() is before
    # A late repetition of the first call does not shorten it.
    assert ledger.assume(again, until=LATER, view=View()) is None
    assert ledger.expire(LATER) == ()


def test_a_claim_is_promised_one_thing_at_a_time() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    assert promised(ledger, a="y") is Refusal.PROMISED
    assert held(ledger) == {"x": ["a"]}


def test_the_promises_of_a_pod_are_made_all_or_none() -> None:
    ledger = of("a", "b", "c")
    promised(ledger, a="x")
    assert promised(ledger, b="y", c="x") is Refusal.HELD
    assert held(ledger) == {"x": ["a"]}


def test_one_decision_cannot_promise_one_device_twice() -> None:
    ledger = of("a", "b")
    assert promised(ledger, a="x", b="x") is Refusal.HELD
    assert promised(ledger, a="x x") is Refusal.HELD
    assert promised(ledger, a="x:1=1G", b="x:2=1G") is None


def test_a_shared_device_is_not_promised_whole() -> None:
    ledger = of("a", "b")
    promised(ledger, a="x:1=1G")
    assert promised(ledger, b="x") is Refusal.HELD
    assert promised(ledger, b="x:2=1G") is None


def test_a_decision_on_an_old_view_is_refused_where_its_pools_have_changed() -> None:
    ledger = of("a", "b")
    old = ledger.view()
    promised(ledger, a="x")
    wanted = {"b": Reservation(allocation("y"))}
    assert ledger.assume(wanted, until=LATER, view=old) is Refusal.STALE
    elsewhere = {"b": Reservation(allocation("q/y"))}
    assert ledger.assume(elsewhere, until=LATER, view=old, pools=[P]) is Refusal.STALE
    assert ledger.assume(elsewhere, until=LATER, view=old) is None


def test_claims_that_are_not_there_or_allocated_are_promised_nothing() -> None:
    ledger = of("a")
    assert promised(ledger, z="x") is Refusal.GONE
    ledger.observe(claim("a", 2, "x"))
    assert promised(ledger, a="y") is Refusal.ALLOCATED
    # That it was fulfilled meanwhile is no reason to refuse the same promise.
    assert promised(ledger, a="x") is None
    assert not ledger.promises
    ledger.vanish("a")
    assert promised(ledger, a="x") is Refusal.GONE


def test_a_committed_promise_runs_out_no_more() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    assert ledger.commit(["a"]) is None
    assert ledger.commit(["a"]) is None
    assert ledger.expire(LATER) == ()
    ledger.forget(["a"])
    assert held(ledger) == {"x": ["a"]}
    ledger.observe(claim("a", 2))  # the write of the finalizer
    assert held(ledger) == {"x": ["a"]}
    ledger.observe(claim("a", 3, "x"))
    assert held(ledger) == {"x": ["a"]}
    assert not ledger.promises
    assert ledger.commit(["a"]) is None


def test_a_commit_is_all_or_none() -> None:
    ledger = of("a", "b")
    promised(ledger, a="x")
    assert ledger.commit(["a", "b"]) is Refusal.LOST
    assert ledger.expire(LATER) == ("a",)


def test_a_promise_is_not_kept_on_a_device_that_somebody_else_was_allocated() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    ledger.observe(claim("rival", 9, "x"))
    assert ledger.commit(["a"]) is Refusal.HELD
    ledger.forget(["a"])
    assert held(ledger) == {"x": ["rival"]}


def test_an_allocation_by_somebody_else_ends_the_promise() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    ledger.observe(claim("a", 2, "y"))
    assert held(ledger) == {"y": ["a"]}
    assert not ledger.promises


@pytest.mark.parametrize("commit", [True, False])
def test_a_rollback_gives_back_written_or_not(commit: bool) -> None:  # noqa: FBT001  # a parameter
    ledger = of("a")
    promised(ledger, a="x")
    if commit:
        ledger.commit(["a"])
    ledger.rollback(["a"])
    ledger.rollback(["a"])
    assert held(ledger) == {}


def test_a_rollback_takes_back_nothing_that_the_api_server_has() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    ledger.commit(["a"])
    ledger.observe(claim("a", 2, "x"))
    ledger.rollback(["a"])
    assert held(ledger) == {"x": ["a"]}


def test_deleting_a_claim_ends_its_promise_even_when_it_is_being_written() -> None:
    ledger = of("a")
    promised(ledger, a="x")
    ledger.commit(["a"])
    ledger.vanish("a", "5")
    assert held(ledger) == {}
    assert ledger.commit(["a"]) is Refusal.GONE
