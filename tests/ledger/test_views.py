"""Tests of ledger views: they are immutable and apply marks."""

import msgspec
import pytest

from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import parse
from drawbridge.ledger.allocation_mark import Mark, MarkedDevice, format_mark
from drawbridge.ledger.ledger import Ledger, Reservation
from drawbridge.solver.world import View, view_of_claims
from tests.ledger.claims import DRIVER, POOL, allocation, claim
from tests.ledger.ledgers import P, held, of, reserve
from tests.tables import every_row

# --- views ---


def test_a_view_does_not_change() -> None:
    ledger = of("a")
    before = ledger.view()
    reserve(ledger, a="x")
    after = ledger.view()
    assert (before.use(P).holds("x"), after.use(P).holds("x")) == (False, True)


def test_only_changed_pools_get_a_new_use() -> None:
    ledger = of("a", "b")
    ledger.observe(claim("a", 2, "x", "q/x"))
    before = ledger.view()
    reserve(ledger, b="q/y")
    after = ledger.view()
    assert after.use(P) is before.use(P)
    assert after.use(PoolID(DRIVER, "q")) is not before.use(PoolID(DRIVER, "q"))
    ledger.rollback(["b"])
    assert ledger.view().use(P) is before.use(P)


def test_a_reverted_change_between_two_views_has_no_effect() -> None:
    ledger = of("a", "b")
    ledger.observe(claim("a", 2, "x"))
    before = ledger.view()
    reserve(ledger, b="y")
    ledger.rollback(["b"])
    assert ledger.view() is before


def test_views_of_thousands_of_pools_copy_only_a_few_entries_for_a_change() -> None:
    ledger = Ledger()
    for number in range(5000):
        ledger.observe(claim(f"{number}", 1, f"pool-{number}/x"))
    ledger.view()
    most = 0
    for number in range(200):
        ledger.observe(claim(f"{number}", 2))
        most = max(most, len(ledger.view().pools._recent))  # type: ignore[attr-defined]  # noqa: SLF001  # the cost itself
    assert most <= 71  # the root of 5000
    assert len(ledger.view().pools) == 4800


def test_a_view_equals_the_view_of_the_claims() -> None:
    claims = [claim("a", 1, "x", "nic:1=4G"), claim("b", 1, "nic:2=2G", "q/x", "x!")]
    ledger = of()
    for observed in claims:
        ledger.observe(observed)
    assert plain(ledger.view()) == plain(view_of_claims(claims))


def plain(view: View) -> dict[PoolID, object]:
    return {
        pool: (use.dedicated, dict(use.shares), dict(use.snapshots))
        for pool, use in view.pools.items()
    }


# --- marks ---


def drew(amount: str, *groups: str) -> tuple[CounterUse, ...]:
    return (CounterUse("set", {"memory": Counter(parse(amount))}, groups),)


def mark(
    device: str, uses: tuple[CounterUse, ...] = (), consumed: str = "", share: str = ""
) -> str:
    marked = MarkedDevice(
        driver=DRIVER,
        pool=POOL,
        device=device,
        share_id=share or None,
        consumes_counters=uses,
        consumed_capacity={"bandwidth": parse(consumed)} if consumed else {},
    )
    return format_mark(Mark("drawbridge", (marked,)))


def test_a_mark_provides_the_counters_at_allocation() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x", mark=mark("x", drew("5Gi", "mig"))))
    assert ledger.view().use(P).snapshots == {"x": drew("5Gi", "mig")}


def test_a_mark_applies_only_to_devices_of_the_claim() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x", mark=mark("y", drew("5Gi"))))
    assert not ledger.view().use(P).snapshots


def test_a_mark_cannot_make_a_draw_negative() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x", mark=mark("x", drew("-5Gi", "mig"))))
    assert ledger.view().use(P).snapshots == {"x": (CounterUse("set", {}, ("mig",)),)}


@pytest.mark.parametrize("said", ["6G", "2G", "-9G", ""])
def test_the_amount_of_a_share_is_that_of_the_status_whatever_the_mark_says(said: str) -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1=4G", mark=mark("nic", consumed=said, share="1")))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("4G")}}


def test_several_marks_of_a_device_merge_to_the_maximum_and_all_groups() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "nic:1", mark=mark("nic", drew("5Gi", "one"), share="1")))
    ledger.observe(claim("b", 2, "nic:2", mark=mark("nic", drew("8Gi", "two"), share="2")))
    ledger.observe(claim("c", 3, "nic:3", mark=mark("nic", drew("8Gi", "two"), share="3")))
    snapshot = ledger.view().use(P).snapshots["nic"]
    drawn = [use.counters["memory"].value for use in snapshot]
    assert sum(each.nanos() for each in drawn) == parse("8Gi").nanos()
    assert [use.compatibility_groups for use in snapshot] == [("one",), ("two",)]


@every_row(
    "text", ["", "{", "[]", '{"devices": 1}', '{"devices": [{"driver": "d"}]}', "[" * 100_000]
)
def test_an_invalid_mark_is_ignored_and_reported(text: str) -> None:
    ledger = of()
    ledger.observe(claim("a", 1, "x", mark=text))
    assert held(ledger) == {"x": ["a"]}
    unreadable = ledger.claims["a"].unreadable
    assert unreadable is not None
    assert unreadable.object == "ResourceClaim/default/claim-a"


def test_the_mark_of_a_claim_without_an_allocation_is_not_read() -> None:
    ledger = of()
    ledger.observe(claim("a", 1, mark="{"))
    assert ledger.claims["a"].unreadable is None


def test_a_reservation_counts_its_mark() -> None:
    ledger = of("a")
    note = msgspec.convert(msgspec.json.decode(mark("x")), Mark)
    note = Mark(
        "drawbridge",
        (
            msgspec.structs.replace(
                note.devices[0],
                consumes_counters=drew("1"),
            ),
        ),
    )
    reservation = {"a": Reservation(allocation("x"), note)}
    assert ledger.assume(reservation) is None
    assert ledger.view().use(P).snapshots == {"x": drew("1")}
