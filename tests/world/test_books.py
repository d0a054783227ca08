"""What breaks the books of usage in the world, and what does not."""

import datetime as dt
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from drawbridge.cluster.store import CachedObject
from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.book import Book, BookRow
from drawbridge.usage.stored_books import compose_config_map
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Change
from tests.virtual_time import run_virtually
from tests.world import clock
from tests.world.books import Books, the_books_have_what_claims_had
from tests.world.control import Controllers
from tests.world.network import Network
from tests.world.world import World

CONTROLLERS = cast("Controllers", SimpleNamespace(terms=2, replicas=("a",), followed={}))
DAY = int(clock.START) // 86_400
ACCOUNT = Account("default", "gpu", "ResourceClaim/c")


def make_book(start: int, through: int, used: int, day: int = DAY, unknown: int = 0) -> JSON:
    began, row = day * 86_400, BookRow(UsedAmount(Fraction(used), Fraction(unknown)))
    book = Book(day, began + start, began + through, (), {ACCOUNT: row})
    config_map = compose_config_map(book, None)
    return {**config_map, "metadata": {**config_map["metadata"], "namespace": "drawbridge-system"}}


@pytest.mark.parametrize(
    ("before", "after", "faults", "broken"),
    [
        (None, make_book(0, 60, 60), (), ""),
        (make_book(0, 60, 60), make_book(0, 120, 120), (), ""),
        (make_book(0, 60, 60), make_book(0, 120, 59), (), "has used less"),
        (make_book(0, 60, 60), make_book(0, 120, 59), ("skew",), ""),
        (make_book(0, 60, 60, unknown=9), make_book(0, 120, 63), (), ""),
        (make_book(0, 60, 60, unknown=9), make_book(0, 120, 60), (), "has used less"),
        (make_book(0, 60, 60), make_book(10, 120, 120), ("skew",), "is lost"),
        (make_book(0, 60, 60), make_book(0, 30, 60), (), "is lost"),
        (make_book(0, 60, 60), make_book(0, 120, -1), ("skew",), "is gone"),
        (make_book(0, 60, 60), None, (), "is gone"),
        (None, make_book(-20, 60, 60, DAY + 1), (), "have the same seconds"),
    ],
)
def test_a_book_continues_the_one_before(
    before: JSON | None, after: JSON | None, faults: tuple[str, ...], broken: str
) -> None:
    stored = [make_book(0, 86_400, 60)] if "seconds" in broken else []
    books = Books(make_network(stored, *faults), CONTROLLERS)
    books.follow(named("configmaps"), Change(1, before, after))
    assert broken in next(iter(books.broken), "") if broken else not books.broken


def make_network(stored: list[JSON], *faults: str) -> Network:
    counted = dict.fromkeys(faults, 1)
    store = SimpleNamespace(among=lambda *_: iter(stored))
    return cast("Network", SimpleNamespace(store=store, counted=counted, count=lambda *_: None))


def make_claim(version: str, *devices: str) -> JSON:
    results = [{"driver": "d.io", "pool": "n2", "device": name} for name in devices]
    metadata = {"name": "c", "namespace": "default", "uid": "c", "resourceVersion": version}
    allocation: JSON = {"devices": {"results": results}}
    return {"metadata": metadata, "status": {"allocation": allocation}}


# A claim has a device from 10 s on to 110 s, and the book ends at 150 s.
@pytest.mark.parametrize(
    ("used", "late", "faults", "broken"),
    [
        (100, 0.0, (), ""),
        (98, 0.0, (), ""),
        (90, 0.0, (), "with what is unknown"),
        (110, 0.0, (), "the books have"),
        (110, 9.0, (), ""),
        (109, 0.0, ("slow write",), ""),
        (200, 0.0, ("restore",), ""),
    ],
)
def test_the_books_have_the_time_of_a_claim_once(
    used: int, late: float, faults: tuple[str, ...], broken: str
) -> None:
    async def main() -> None:
        network = make_network([make_book(0, 150, used)], *faults)
        books, claims = Books(network, CONTROLLERS), named("resourceclaims")
        states = [make_claim("1"), make_claim("2", "gpu-0"), make_claim("3")]
        if "slow write" in faults:  # the claim has an earlier time than that of its write
            states[1]["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:01Z"
        now = clock.START
        for (before, after), seconds in zip(
            zip([None, *states], states, strict=False), (0, 10, 100), strict=True
        ):
            now += seconds
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(clock, "wall", lambda at=now: at)
                books.follow(claims, Change(1, before, after))
                if after is not states[-1]:
                    hear(books, after, before)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(clock, "wall", lambda: now + late)
            hear(books, states[-1], states[1])
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(clock, "wall", lambda: now + 60)
            told = next(judge(books, network), "")
        assert broken in told if broken else not told

    run_virtually(main)


# One controller hears of each version at once. The other one, which follows claims for a time,
# hears of none, and can be the one that writes the book.
@pytest.mark.parametrize(
    ("since", "until", "broken"),
    [
        (0, math.inf, ""),
        (0, 60, ""),
        (0, 5, "with what is unknown"),
        (120, math.inf, "with what is unknown"),
    ],
)
def test_a_controller_that_hears_of_nothing_can_be_the_one_that_counts(
    monkeypatch: pytest.MonkeyPatch, since: int, until: float, broken: str
) -> None:
    async def main() -> None:
        network = make_network([make_book(0, 150, 0)])
        followed = {("b", clock.START + since): clock.START + until}
        controllers = SimpleNamespace(terms=2, replicas=("a", "b"), followed=followed)
        books = Books(network, cast("Controllers", controllers))
        states = [None, make_claim("1"), make_claim("2", "gpu-0"), make_claim("3")]
        for (old, new), at in zip(pairwise(states), (0, 10, 110), strict=True):
            monkeypatch.setattr(clock, "wall", lambda at=at: clock.START + at)
            books.follow(named("resourceclaims"), Change(1, old, new))
            hear(books, new, old)
        monkeypatch.setattr(clock, "wall", lambda: clock.START + 170)
        told = next(judge(books, network), "")
        assert broken in told if broken else not told

    run_virtually(main)


# One controller hears of each version at once. The other one skips that which gives the device
# back, and hears 25 s later that the claim is gone: it can be the one that counts.
def test_a_controller_that_skips_a_version_hears_of_it_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        network = make_network([make_book(0, 150, 124)])
        books, claims = Books(network, CONTROLLERS), named("resourceclaims")
        states = [None, make_claim("1"), make_claim("2", "gpu-0"), make_claim("3"), None]
        before = cast("JSON", states[2])
        for (old, new), at in zip(pairwise(states), (0, 10, 110, 120), strict=True):
            monkeypatch.setattr(clock, "wall", lambda at=at: clock.START + at)
            books.follow(claims, Change(1, old, new))
            hear(books, new, old)
        monkeypatch.setattr(clock, "wall", lambda: clock.START + 135)
        hear(books, None, before)
        assert [*judge(books, network)] == []

    run_virtually(main)


# A claim has a device from 10 s on to 110 s, its time, and is heard of 30 s late: who leads all the
# time counts it from the time that it has.
@pytest.mark.parametrize(
    ("used", "terms", "broken"),
    [
        (100, 1, ""),
        (75, 1, "with what is unknown"),
        (75, 2, ""),
        (170, 1, "owner='ResourceClaim/c'"),
    ],
)
def test_the_time_of_one_owner_is_judged(
    monkeypatch: pytest.MonkeyPatch, used: int, terms: int, broken: str
) -> None:
    async def main() -> None:
        network = make_network([make_book(0, 150, used)])
        controllers = SimpleNamespace(terms=terms, replicas=("a",), followed={})
        books, claims = Books(network, cast("Controllers", controllers)), named("resourceclaims")
        states = [None, make_claim("1"), make_claim("2", "gpu-0"), make_claim("3"), None]
        allocated = cast("JSON", states[2])["status"]["allocation"]
        began = dt.datetime.fromtimestamp(clock.START + 10, dt.UTC)
        allocated["allocationTimestamp"] = began.isoformat()
        for (old, new), at, late in zip(
            pairwise(states), (0, 10, 110, 120), (0, 30, 0, 0), strict=True
        ):
            monkeypatch.setattr(clock, "wall", lambda at=at: clock.START + at)
            books.follow(claims, Change(1, old, new))
            monkeypatch.setattr(clock, "wall", lambda at=at + late: clock.START + at)
            hear(books, new, old)
        told = [*judge(books, network)]
        assert any(broken in each for each in told) if broken else not told

    run_virtually(main)


def hear(books: Books, claim: JSON | None, before: JSON | None = None) -> None:
    old, new = (
        each and SimpleNamespace(uid="c", version=each["metadata"]["resourceVersion"])
        for each in (before, claim)
    )
    books.hear(0.0, cast("CachedObject[object]", old), cast("CachedObject[object]", new))


def judge(books: Books, network: Network) -> Iterator[str]:
    world = SimpleNamespace(books=books, network=network)
    return the_books_have_what_claims_had(cast("World", world))
