"""Tests of ledger views: they are immutable and apply marks."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbridge.dra.capacity import Amounts
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import Quantity, parse
from drawbridge.ledger.allocation_mark import Mark, MarkedDevice, format_mark
from drawbridge.ledger.ledger import Ledger, Reservation
from drawbridge.solver.world import View, add_amounts, view_of_claims
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


amounts = st.sampled_from(["", "0", "1n", "100m", "1.5Gi", "4G", "1e25"])
draws = st.sampled_from([(), drew("5Gi", "one"), drew("8Gi", "two"), drew("8Gi"), drew("6Gi")])
# The amounts of the shares of a claim, what its mark records, and whether a view is read then.
changes = st.tuples(
    st.sampled_from(["a", "b", "c", "d"]), st.lists(amounts, max_size=3), draws, st.booleans()
)


@example([("a", ["4G"], (), False), ("b", [""], (), False), ("a", [], (), False)], set())
@given(st.lists(changes, max_size=12), st.sets(st.sampled_from(["a", "b", "c", "d"])))
def test_sums_that_follow_changes_equal_those_of_the_claims_that_are_left(
    changed: Sequence[tuple[str, list[str], tuple[CounterUse, ...], bool]], without: set[str]
) -> None:
    ledger, latest = of(), {}
    for version, (uid, consumed, draw, is_read) in enumerate(changed, 1):
        shares = [f"nic:{uid}{at}={amount}" for at, amount in enumerate(consumed)]
        text = mark("nic", draw, share=f"{uid}0")
        latest[uid] = claim(uid, version, *shares, mark=text if shares else None)
        ledger.observe(latest[uid])
        if is_read:
            ledger.view_without([uid])
    everyone, others = of(), of()
    for uid, observed in latest.items():
        everyone.observe(observed)
        if uid not in without:
            others.observe(observed)
    assert ledger.view_without(without).use(P) == others.view().use(P)
    assert ledger.view().use(P) == everyone.view().use(P)
    held = [hold for uid in without for hold in ledger.holds_of(uid)]
    assert ledger.view_without(without, held).use(P) == everyone.view().use(P)
    assert ledger.view_without(latest, held).use(P) == ledger.view_without(
        latest.keys() - without
    ).use(P)


def test_a_change_of_a_device_costs_what_changes_however_many_claims_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = of()
    for number in range(300):
        ledger.observe(claim(f"{number}", 1, f"nic:{number}=1G"))
    ledger.view()
    summed = list[Quantity]()

    def note(held: dict[str, Quantity], consumed: Amounts) -> None:
        summed.extend(consumed.values())
        add_amounts(held, consumed)

    monkeypatch.setattr("drawbridge.ledger.pool_use.add_amounts", note)
    ledger.observe(claim("more", 2, "nic:more=1G"))
    assert ledger.view().use(P).shares == {"nic": {"bandwidth": parse("301G")}}
    assert ledger.view_without(["7"]).use(P).shares == {"nic": {"bandwidth": parse("300G")}}
    assert summed == [parse("1G")]


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
