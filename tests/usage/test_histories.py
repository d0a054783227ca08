"""The books of a day sum up to what claims really held, whatever happens meanwhile."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

import hypothesis.strategies as st
from hypothesis import given, settings

from drawbridge.usage.accounts import Account, UsedAmount, sum_usage
from drawbridge.usage.book import Book
from tests.thorough import drawn
from tests.usage.histories import ACCOUNTS, START, Action, World, act, actions, total

# Each example is a history of many seconds, accounts and books.
FEW = settings(max_examples=drawn(13, thorough=40))
CLAIMS = ("create", "create", "allocate", "allocate", "allocate", "release", "delete", "share")
GROUPS = {account[:2] for account in ACCOUNTS}


def used(books: Iterable[Book]) -> dict[Account, UsedAmount]:
    return sum_usage(pair for book in books for pair in book.used().items())


def devices(usage: Mapping[Account, UsedAmount]) -> dict[Account, Fraction]:
    return {account: amount.devices for account, amount in usage.items() if amount.devices}


def by_group(usage: Mapping[Account, Fraction]) -> dict[tuple[str, ...], Fraction]:
    sums: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for account, number in usage.items():
        sums[account[:2]] += number
    return sums


@FEW
@given(history=actions(*CLAIMS, "write"), timestamps=st.booleans())
def test_what_is_observed_is_exact_to_the_second(
    history: list[Action], *, timestamps: bool
) -> None:
    world = World(timestamps=timestamps)
    world.start(0)
    for name, first, second, seconds in history:
        act(world, (name, 0 if name == "write" else first, second, seconds))
    world.now += 10
    world.write(0)
    for book in world.all_books():
        assert devices(book.used()) == world.truth(book.start, book.through)
        assert not book.gaps
        assert total(book.used()).unknown == 0


@FEW
@given(history=actions(*CLAIMS, "write"), timestamps=st.booleans())
def test_a_new_leader_continues_exactly(history: list[Action], *, timestamps: bool) -> None:
    world = World(timestamps=timestamps)
    world.start(0)
    world.start(1)
    for action in history:  # both write in turns, and each may have a change that the other has not
        act(world, action)
    world.now += 10
    world.write(1)
    assert devices(used(world.all_books())) == world.truth(START, world.now - 3)
    assert total(used(world.all_books())).unknown == 0


@FEW
@given(actions(*CLAIMS, "write", "write"))
def test_what_is_seen_late_is_counted_once(history: list[Action]) -> None:
    world = World(late=10)
    world.start(0)
    world.write(0)
    for name, first, second, seconds in history:
        act(world, (name, 0 if name == "write" else first, second, seconds))
    world.now += 30
    world.write(0)
    assert devices(used(world.all_books())) == world.truth(START, world.now - 3)


@FEW
@given(actions(*CLAIMS, "write", "start", "start", "kill"))
def test_what_happened_while_all_were_down_is_reconstructed_or_unknown(
    history: list[Action],
) -> None:
    world = World()
    world.start(0)
    world.write(0)
    world.now += 10
    world.write(0)
    for action in history:
        act(world, action)
    world.now += 10
    world.start(1)
    world.now += 10
    world.write(1)
    books = world.all_books()
    counted, gaps = used(books), [gap for book in books for gap in book.gaps]
    through = books[-1].through
    visible = defaultdict[tuple[str, str], Fraction](Fraction)
    for account, number, since, until in world.intervals():
        if not any(start <= since and until <= end for start, end in join(gaps)):
            seconds = max(0, min(until, through) - max(since, START))
            visible[account[:2]] += number * seconds
    certain = by_group(devices(counted))
    unknown = by_group({account: amount.unknown for account, amount in counted.items()})
    truth = by_group(world.truth(START, through))
    for group in GROUPS:
        assert visible[group] <= certain[group] + unknown[group]
        assert certain[group] <= truth[group]
    if not gaps:
        assert devices(counted) == world.truth(START, through)


def join(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the gaps of two days."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(gaps):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def play(world: World, history: list[Action]) -> list[Book]:
    """Let one leader begin and another one end what happens, and return the books."""
    world.start(0)
    world.now += 10
    world.write(0)
    for action in history:
        act(world, action)
    world.start(1)
    world.now += 10
    world.write(1)
    return world.all_books()


@FEW
@given(actions("create", "allocate", "share", "write", "start", "start", "kill"))
def test_claims_that_keep_their_devices_are_exact_through_every_gap(history: list[Action]) -> None:
    world = World()
    books = play(world, history)
    assert devices(used(books)) == world.truth(START, books[-1].through)
    assert total(used(books)).unknown == 0


@FEW
@given(actions("create", "allocate", "write", "start", "kill", "clock back"))
def test_a_clock_that_goes_back_counts_no_second_twice(history: list[Action]) -> None:
    world = World()
    world.create()
    world.allocate(0, 0, 0)
    world.start(0)
    world.now += 10
    world.write(0)
    for action in history:
        if action[0] not in ("create", "allocate"):
            act(world, action)
    world.now = max(world.now, START) + 10_000
    world.start(1)
    world.now += 10
    world.write(1)
    books = world.all_books()
    assert devices(used(books)) == {ACCOUNTS[0]: Fraction(books[-1].through - START)}


@FEW
@given(actions(*CLAIMS, "write", "start", "kill"))
def test_without_times_of_allocation_nothing_is_guessed(history: list[Action]) -> None:
    world = World(timestamps=False)
    books = play(world, history)
    truth = by_group(world.truth(START, books[-1].through))
    for group, number in by_group(devices(used(books))).items():
        assert number <= truth[group]


@FEW
@given(actions(*CLAIMS, "write", "start", "kill"))
def test_the_books_cover_all_seconds_once(history: list[Action]) -> None:
    world = World()
    world.start(0)
    world.now += 10
    world.write(0)
    for action in history:
        act(world, action)
    world.start(0)
    world.write(0)
    books = world.all_books()
    assert books[0].start == START
    assert all(before.through == after.start for before, after in itertools.pairwise(books))
    assert all(book.through == book.end for book in books[:-1])
