"""Sums up books of several days by any of their columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec

from drawbridge.usage.accounts import NOTHING, Account, UsedAmount
from drawbridge.usage.book import DAY, Book, format_day

COLUMNS: Final = ("day", "namespace", "class", "owner")


class UsageLine(msgspec.Struct, frozen=True):
    """What accounts with these names used, in devices and bytes times seconds."""

    names: Mapping[str, str]
    used: UsedAmount


class UsageSummary(msgspec.Struct, frozen=True):
    """Lines with the largest first, their sum, and the time that the books cover."""

    start: int
    through: int
    lines: tuple[UsageLine, ...]
    total: UsedAmount
    gaps: tuple[tuple[int, int], ...]


def summarize(books: Sequence[Book], columns: Sequence[str], *, namespace: str) -> UsageSummary:
    """Sum up books, of one namespace or of all."""
    sums: dict[tuple[str, ...], UsedAmount] = {}
    for book in books:
        for account, used in book.used().items():
            if namespace in ("", account.namespace):
                key = _key(book, account, columns)
                sums[key] = sums[key].plus(used) if key in sums else used
    whole = NOTHING
    for used in sums.values():
        whole = whole.plus(used)
    # By day, the order of time; else who used most comes first.
    ordered = sorted(
        sums.items(),
        key=lambda each: (each[0][0] if columns[0] == "day" else "", -each[1].devices, each[0]),
    )
    return UsageSummary(
        min((book.start for book in books), default=0),
        max((book.through for book in books), default=0),
        tuple(UsageLine(dict(zip(columns, key, strict=True)), used) for key, used in ordered),
        whole,
        _join(gap for book in books for gap in book.gaps),
    )


def find_missing(books: Iterable[Book], since: date | None) -> Iterator[tuple[int, int]]:
    """Yield the times that no book covers: from a day on, or from the first book on."""
    reached = None if since is None else (since - date(1970, 1, 1)).days * DAY
    for book in books:
        if reached is not None and reached < book.start:
            yield reached, book.start
        reached = book.through


def _key(book: Book, account: Account, columns: Sequence[str]) -> tuple[str, ...]:
    names = (f"{format_day(book.day)}", *account)
    return tuple(name for column, name in zip(COLUMNS, names, strict=True) if column in columns)


def _join(gaps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join the parts of a gap that lasted over midnight."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(gaps):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)
