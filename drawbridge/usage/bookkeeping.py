"""Continues a book with what a meter observed, and with what can be reconstructed before that."""

from collections.abc import Mapping
from fractions import Fraction

from drawbridge.usage.accounts import Account, UsedAmount, sum_usage
from drawbridge.usage.book import DAY, Book, BookEntry, add_entry, open_book
from drawbridge.usage.gap import reconstruct
from drawbridge.usage.meter import Observed
from drawbridge.usage.stored_books import MAX_DAYS


def continue_book(book: Book | None, observed: Observed, until: int) -> Book | None:
    """Return the next book to write, at most to the end of its day; None if there is nothing new.

    Without a book, or with one that is too old to continue, the first book starts where the meter
    does. What the book already has must be forgotten by the meter.
    """
    before: Mapping[Account, Fraction] = {}
    if book is None or until // DAY - book.day > MAX_DAYS:
        book = open_book(observed.start)
    else:
        before = book.held()  # what its last second had, also if that was the last of its day
        book = open_book(book.through) if book.through >= book.end else book
    end = min(until, book.end)
    if end <= book.through:
        return None
    entry = _observe(before, book.through, end, observed)
    return add_entry(book, entry)


def _observe(
    before: Mapping[Account, Fraction], start: int, end: int, observed: Observed
) -> BookEntry:
    """Return the usage between two times: after the start of the meter exact, before that not."""
    usage: list[tuple[Account, UsedAmount]] = [*observed.measure(end).items()]
    held = _devices(observed.held_at(end))
    gaps = [(max(start, since), min(end, until)) for since, until in observed.gaps]
    gaps = [(since, until) for since, until in gaps if since < until]
    if start < observed.start:
        gap = start, min(end, observed.start)
        gaps.append(gap)
        past = reconstruct(before, observed.first or (), *gap)
        usage += past.usage.items()
        if end < observed.start:
            held = dict(past.held)
    return BookEntry(end, sum_usage(usage), held, tuple(gaps))


def _devices(held: Mapping[Account, UsedAmount]) -> dict[Account, Fraction]:
    return {account: amount.devices for account, amount in held.items() if amount.devices}
