"""Books: their bound, their text, and where a change goes that was seen late."""

import json
from fractions import Fraction

import pytest

from drawbridge.dra.quantity import parse
from drawbridge.usage.accounts import OTHER, Account, UsedAmount, sum_usage
from drawbridge.usage.book import (
    DAY,
    MAX_CLASSES,
    MAX_GAPS,
    MAX_OWNERS,
    Book,
    BookEntry,
    BookError,
    add_entry,
    format_book,
    open_book,
    read_book,
)
from drawbridge.usage.bookkeeping import continue_book
from drawbridge.usage.claims import HeldPart, measure_part, to_fraction
from drawbridge.usage.meter import MAX_CHANGES, HeldClaim, Meter, Observed
from drawbridge.usage.stored_books import (
    all_names,
    choose_books,
    compose_config_map,
    name_of_day,
    names_of_day,
)
from drawbridge.usage.summary import summarize
from tests.tables import every_row
from tests.usage.histories import total

START = 20_000 * DAY
ONE = UsedAmount(Fraction(1))
TRAIN = Account("research", "gpu.nvidia.com", "Job/train")
# The API server limits a ConfigMap to 1 MiB.
LIMIT = 1024 * 1024


def held(number: int = 1, allocated: int | None = None, account: Account = TRAIN) -> HeldClaim:
    return HeldClaim(((account, UsedAmount(Fraction(number))),), allocated)


def test_thousands_of_owners_of_one_namespace_become_other_and_the_sum_stays_exact() -> None:
    owners = {Account("a", "gpu", f"Job/{number}"): ONE.times(60) for number in range(3_000)}
    usage = {**owners, Account("b", "gpu", "Job/late"): ONE.times(60)}
    book = add_entry(open_book(START), BookEntry(START + 60, usage, {}))
    used = book.used()
    assert total(used).devices == 3_001 * 60
    assert used[Account("b", "gpu", "Job/late")].devices == 60
    assert used[Account("a", "gpu", OTHER)].devices == (3_000 - MAX_OWNERS) * 60
    assert len(used) == MAX_OWNERS + 2


def test_a_book_with_the_longest_names_and_numbers_fits_in_an_object() -> None:
    book = open_book(START)
    for day in range(3):
        usage = {
            Account(f"{'n' * 55}-{namespace}", "c" * 253, f"{day}{owner}/{'o' * 300}"): UsedAmount(
                Fraction(86_399 * 10**6, 1_023), Fraction(1, 7), Fraction(2**60)
            )
            for namespace in range(900)
            for owner in range(3)
        }
        before = total(book.used())
        held_now = {account: Fraction(125, 1024) for account in usage}
        book = add_entry(book, BookEntry(START + day, usage, held_now))
        assert total(book.used()) == before.plus(total(usage))
    config_map = compose_config_map(book, None)
    assert len(json.dumps(config_map)) < LIMIT
    assert Account(OTHER, OTHER, OTHER) in book.used()


def test_a_book_with_the_longest_fractions_fits_in_an_object() -> None:
    amount = UsedAmount(*(Fraction(10**60 + 1 + each, 10**18) for each in (0, 2, 4)))
    usage = {Account(f"team-{each % 20}", "gpu", f"Job/{each}"): amount for each in range(4_000)}
    book = add_entry(open_book(START), BookEntry(START + 60, usage, {}))
    assert len(json.dumps(compose_config_map(book, None))) < LIMIT
    assert total(book.used()) == total(usage)


def test_shares_of_devices_with_different_capacities_make_a_book_that_can_be_read() -> None:
    """The `MemTotal` of nodes of one model differs."""
    meter = Meter()
    meter.begin({}, START)
    for number in range(800):
        capacity = {"memory": Fraction(263_000_000 + 37 * number) * 1024}
        part = HeldPart("mem", "mem.io", "p", "d", shared=True, consumed={"memory": parse("4Gi")})
        share = measure_part(part, lambda *_, capacity=capacity: capacity)
        meter.change(f"{number}", HeldClaim(((TRAIN, share),)), START)
    observed = meter.observed()
    assert observed is not None
    book = continue_book(None, observed, START + 60)
    assert book is not None
    assert read_book(format_book(book)) == book
    assert float(book.held()[TRAIN]) == pytest.approx(800 * 4 * 2**20 / 263_014_781, abs=0.001)
    assert len(format_book(book)) < 300


def test_a_device_with_more_memory_than_any_leaves_the_book_readable() -> None:
    capacity = {"memory": to_fraction(parse("1e900"))}
    amount = measure_part(HeldPart("mem", "mem.io", "p", "d"), lambda *_: capacity)
    book = add_entry(open_book(START), BookEntry(START + 1, {TRAIN: amount}, {}))
    assert read_book(format_book(book)) == book


HOSTILE = ["Job/" + "x" * 10_000, "Job/a\nb", 'Job/"' + "\\" * 300, "Job/\u202e", "Job/\x00" * 99]


@pytest.mark.parametrize("owner", HOSTILE)
def test_names_that_a_tenant_made_up_take_little_room(owner: str) -> None:
    usage = {Account("a", "gpu", owner): ONE}
    book = add_entry(open_book(START), BookEntry(START + 1, usage, {}))
    (account,) = book.used()
    assert len(account.owner) <= 253
    assert account.owner.isascii()
    assert account.owner.isprintable()
    assert read_book(format_book(book)) == book


def test_a_book_is_the_same_after_it_was_written() -> None:
    amount = UsedAmount(Fraction(3_600, 7), Fraction(5), Fraction(2**40))
    entry = BookEntry(START + 9, {TRAIN: amount}, {TRAIN: Fraction(1, 7)}, ((START, START + 4),))
    book = add_entry(open_book(START), entry)
    assert read_book(format_book(book)) == book
    assert json.loads(format_book(book)) == {
        "date": "2024-10-04",
        "start": "2024-10-04T00:00:00Z",
        "through": "2024-10-04T00:00:09Z",
        "unobserved": [["2024-10-04T00:00:00Z", "2024-10-04T00:00:04Z"]],
        "rows": [
            ["research", "gpu.nvidia.com", "Job/train", "3600/7", "5", "1099511627776", "1/7"],
        ],
    }


DAY_OF_BOOK = '"date": "2024-10-04", "start": "2024-10-04T00:00:00Z"'
TIMES = f'{DAY_OF_BOOK}, "through": "2024-10-04T00:00:00Z"'
UNREADABLE = [
    "",
    "[]",
    "{}",
    '{"date": "x", "start": "", "through": ""}',
    f'{{{TIMES}, "rows": [["a", "b", "c", "1e3", "0", "0", "0"]]}}',
    f'{{{TIMES}, "rows": [["a", "b", "c", "1e999999999", "0", "0", "0"]]}}',
    f'{{{TIMES}, "rows": [["a", "b", "c", "1/0", "0", "0", "0"]]}}',
]


@every_row("text", UNREADABLE)
def test_a_text_that_is_not_a_book_is_refused(text: str) -> None:
    with pytest.raises(BookError):
        read_book(text)


def test_the_gaps_of_a_book_are_bounded() -> None:
    book = open_book(START)
    for number in range(300):
        gap = START + 10 * number, START + 10 * number + 5
        book = add_entry(book, BookEntry(gap[1], {}, {}, (gap,)))
    assert len(book.gaps) == MAX_GAPS
    assert book.gaps[-1][1] == START + 2_995


def test_gaps_that_touch_are_one_gap() -> None:
    book = open_book(START)
    for gap in ((START, START + 5), (START + 5, START + 9), (START + 10, START + 12)):
        book = add_entry(book, BookEntry(gap[1], {}, {}, (gap,)))
    assert book.gaps == ((START, START + 9), (START + 10, START + 12))


def test_a_book_ends_with_its_day_and_the_next_one_continues_it() -> None:
    meter = Meter()
    meter.begin({"a": held()}, START + DAY - 10)
    observed = meter.observed()
    assert observed is not None
    first = continue_book(None, observed, START + DAY + 30)
    assert first is not None
    meter.forget(first.through)
    rest = meter.observed()
    assert rest is not None
    second = continue_book(first, rest, START + DAY + 30)
    assert second is not None
    assert [(book.day, book.start, book.through) for book in (first, second)] == [
        (20_000, START + DAY - 10, START + DAY),
        (20_001, START + DAY, START + DAY + 30),
    ]
    assert [book.used()[TRAIN] for book in (first, second)] == [ONE.times(10), ONE.times(30)]


def test_two_months_have_a_fixed_set_of_names() -> None:
    for day in range(20_000, 20_400):
        assert sorted(map(name_of_day, range(day, day + 62))) == [*all_names()[31:]]
        former = {names_of_day(each)[1] for each in range(day, day + 62)}
        assert sorted(former) == [*all_names()[:31]]
    assert (all_names()[0], all_names()[-1]) == ("drawbridge-usage-01", "drawbridge-usage-93")
    assert names_of_day(20_000) == ("drawbridge-usage-68", "drawbridge-usage-04")


def test_of_books_that_overlap_the_later_one_or_that_which_observed_more_is_chosen() -> None:
    gap = (START, START + 10)
    reconstructed = Book(20_000, START, START + 60, gaps=(gap,))
    observed = Book(20_000, START, START + 60)
    later = Book(20_000, START + 50, START + 61, gaps=((START + 50, START + 61),))
    following = Book(20_000, START + 61, START + 70)
    for books, chosen in (
        ((reconstructed, observed, following), (observed, following)),
        ((observed, following, later), (later, following)),
    ):
        for order in (books, books[::-1]):
            assert [book for book, _ in choose_books((e, None) for e in order)] == [*chosen]


@every_row("is_written_late", [False, True])
def test_an_allocation_that_is_seen_late_is_in_the_next_entry(*, is_written_late: bool) -> None:
    meter = Meter()
    meter.begin({}, START)
    early = meter.observed()
    # Allocated 7 s before the end of the book, and seen 5 s after it.
    meter.change("a", held(allocated=START + 50), START + 62)
    first = meter.observed() if is_written_late else early
    assert first is not None
    book = continue_book(None, first, START + 57)
    assert book is not None
    assert book.used() == {}
    meter.forget(book.through)
    second = meter.observed()
    assert second is not None
    following = continue_book(book, second, START + 100)
    assert following is not None
    assert following.used() == {TRAIN: ONE.times(50)}


@every_row(("taken", "left"), [(10, 50), (60, 0), (70, 0)])
def test_no_more_is_taken_back_than_a_book_has(taken: int, left: int) -> None:
    book = add_entry(open_book(START), BookEntry(START + 60, {TRAIN: ONE.times(60)}, {}))
    chat = TRAIN._replace(owner="Deployment/chat")
    unknown = UsedAmount(Fraction(5), Fraction(-5), Fraction(-5))  # a share that was not described
    usage = {TRAIN: ONE.times(-taken), chat: unknown}
    book = read_book(format_book(add_entry(book, BookEntry(START + 120, usage, {}))))
    assert book.used().get(TRAIN, ONE.times(0)) == ONE.times(left)
    assert book.used()[chat] == ONE.times(5)


@pytest.mark.parametrize(("allocated", "seconds"), [(5_000, 90), (-5_000, 90), (-30, 120)])
def test_a_time_of_allocation_that_cannot_be_is_not_used(allocated: int, seconds: int) -> None:
    meter = Meter()
    meter.begin({}, START - 600)
    meter.change("a", held(allocated=START + allocated), START)
    observed = meter.observed()
    assert observed is not None
    assert observed.measure(START + 90) == {TRAIN: ONE.times(seconds)}


@pytest.mark.parametrize("busy_namespaces", [1, 4, 40])
def test_many_changes_of_some_namespaces_touch_no_other(busy_namespaces: int) -> None:
    meter = Meter()
    meter.begin({}, START)
    meter.change("a", held(8), START + 10)
    busy = [Account(f"busy-{each}", "gpu", "Job/x") for each in range(busy_namespaces)]
    for number in range(MAX_CHANGES):
        meter.change(f"{number}", held(account=busy[number % busy_namespaces]), START + 20)
        meter.change(f"{number}", None, START + 21)
    meter.change("b", held(account=busy[0]), START + 30)
    observed = meter.observed()
    assert observed is not None
    assert observed.start == START
    assert len(observed.changes) <= MAX_CHANGES
    assert observed.measure(START + 60)[TRAIN] == ONE.times(8 * 50)
    assert observed.held_at(START + 60) == {TRAIN: ONE.times(8), busy[0]: ONE}
    meter.forget(START + 60)
    following = meter.observed()
    assert following is not None
    assert following.measure(START + 70) == {TRAIN: ONE.times(80), busy[0]: ONE.times(10)}


def test_a_namespace_with_many_classes_displaces_nobody() -> None:
    usage = {Account("a", f"class-{number}", "Job/x"): ONE for number in range(20_000)}
    book = add_entry(open_book(START), BookEntry(START + 60, usage, {}))
    assert len(book.rows) == MAX_OWNERS + MAX_CLASSES + 1
    assert book.used()[Account("a", OTHER, OTHER)].devices == 20_000 - MAX_OWNERS - MAX_CLASSES
    book = add_entry(book, BookEntry(START + 120, {TRAIN: ONE, **usage}, {TRAIN: Fraction(8)}))
    assert book.used()[TRAIN] == ONE
    assert book.held() == {TRAIN: 8}
    assert len(book.rows) == MAX_OWNERS + MAX_CLASSES + 2


def test_a_renamed_account_keeps_what_is_not_in_a_book_yet() -> None:
    unknown = TRAIN._replace(owner="Pod/uid")
    meter = Meter()
    meter.begin({"a": held(account=unknown)}, START)
    meter.change("b", held(account=unknown), START + 10)
    meter.change("a", None, START + 20)
    observed = meter.observed()
    assert observed is not None
    renamed = observed.renamed({unknown: TRAIN})
    assert renamed.measure(START + 30) == {TRAIN: ONE.times(40)}


def test_what_is_released_in_a_gap_over_midnight_is_unknown_until_the_gap_ends() -> None:
    midnight = START - START % DAY + DAY
    meter = Meter()
    meter.begin({}, midnight + 7_200)
    observed = meter.observed()
    assert observed is not None
    book: Book | None = add_entry(
        open_book(midnight - 3_600), BookEntry(midnight - 3_600, {}, {TRAIN: Fraction(1)})
    )
    unknown = []
    for _ in range(2):
        book = continue_book(book, observed, midnight + 9_000)
        assert book is not None
        unknown.append(book.used()[TRAIN].unknown)
    assert unknown == [3_600, 7_200]
    assert book is not None
    assert book.held() == {}


def test_a_gap_longer_than_the_ring_of_books_begins_a_new_one() -> None:
    meter = Meter()
    meter.begin({"a": held()}, START + 70 * DAY)
    observed = meter.observed()
    assert observed is not None
    old = add_entry(open_book(START), BookEntry(START + 9, {}, {}))
    book = continue_book(old, observed, START + 70 * DAY + 5)
    assert book is not None
    assert (book.start, book.used()) == (START + 70 * DAY, {TRAIN: ONE.times(5)})


def test_a_gap_that_begins_at_midnight_is_in_the_later_book_only() -> None:
    observed = Observed(0, (), (), None, ((DAY, DAY + 50),))
    book = continue_book(Book(0, 0, 0), observed, DAY + 100)
    assert book is not None
    assert (book.through, book.gaps) == (DAY, ())


def test_gaps_are_joined_over_midnight_and_not_over_more() -> None:
    first = Book(0, 0, DAY, ((5, 9), (DAY - 50, DAY)))
    second = Book(1, DAY, 2 * DAY, ((DAY, DAY + 50),))
    summary = summarize([first, second], ("namespace",), namespace="")
    assert summary.gaps == ((5, 9), (DAY - 50, DAY + 50))


def test_sums_do_not_depend_on_the_order() -> None:
    parts = [(TRAIN, UsedAmount(Fraction(number, 7 + number % 5))) for number in range(60)]
    assert sum_usage(parts) == sum_usage(reversed(parts))
