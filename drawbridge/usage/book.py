"""The book of one day: what each account used, and what it held at the end of the book.

A book has a bound, because tenants decide how many owners there are, and the API server limits an
object to 1 MiB. The owners of a namespace after the first ones, and owners for which there is no
room, are summed up as other. The sums of the namespaces stay exact until namespaces have no room.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Final

import msgspec

from drawbridge.usage.accounts import NOTHING, OTHER, ZERO, Account, UsedAmount, sum_usage

DAY: Final = 86_400
# Of one namespace and day.
MAX_OWNERS: Final = 250
# Rows without an owner, one for each class.
MAX_CLASSES: Final = 50
# Bytes of names and numbers: for rows with owners, and with the rows without.
ROOM: Final = 600_000
ROOM_FOR_NAMESPACES: Final = 800_000
MAX_GAPS: Final = 100
_ROW_BYTES: Final = 120  # of the numbers of most rows, with what is between them
_ROW_BYTES_BETWEEN: Final = 40
_MAX_NAME: Final = 253
_NUMBER: Final = re.compile(r"\d{1,400}(/\d{1,400})?", re.ASCII)


class BookError(Exception):
    """The text is not a book. The message describes the problem."""


class BookRow(msgspec.Struct, frozen=True):
    """What an account used so far, in devices and bytes times seconds, and how much it holds."""

    used: UsedAmount = NOTHING
    held: Fraction = ZERO


class Book(msgspec.Struct, frozen=True):
    """The usage of the day `day` since 1970, from `start` to `through` in Unix seconds.

    `gaps` are the times when nobody observed.
    """

    day: int
    start: int
    through: int
    gaps: tuple[tuple[int, int], ...] = ()
    rows: Mapping[Account, BookRow] = {}

    @property
    def end(self) -> int:
        """The end of the day."""
        return (self.day + 1) * DAY

    def held(self) -> dict[Account, Fraction]:
        """Return what accounts hold at the end of the book."""
        return {account: row.held for account, row in self.rows.items() if row.held}

    def used(self) -> dict[Account, UsedAmount]:
        """Return what accounts used."""
        return {account: row.used for account, row in self.rows.items()}


def open_book(time: int) -> Book:
    """Return the empty book of the day of a time, from that time on."""
    return Book(time // DAY, time, time)


class BookEntry(msgspec.Struct, frozen=True):
    """What is added to a book: the usage up to `through`, and what accounts hold then.

    `gaps` are the parts of that time when nobody observed.
    """

    through: int
    usage: Mapping[Account, UsedAmount]
    held: Mapping[Account, Fraction]
    gaps: tuple[tuple[int, int], ...] = ()


def add_entry(book: Book, entry: BookEntry) -> Book:
    """Return the book with an entry; only the first accounts for which there is room have a row.

    An entry can take back what an earlier one counted too much: a clock was ahead, or a claim was
    charged to another account. If the book of the day before has it, it stays there.
    """
    room = _Room({key: row for key, row in book.rows.items() if row.used != NOTHING or row.held})
    used = [(account, row.used) for account, row in book.rows.items()]
    used += [(room.place(key, BookRow(amount)), amount) for key, amount in entry.usage.items()]
    held = [
        (room.place(account, BookRow(held=number)), UsedAmount(number))
        for account, number in entry.held.items()
    ]
    sums, held_sums = sum_usage(used), sum_usage(held)
    rows = {
        account: BookRow(
            sums.get(account, NOTHING).at_least_nothing(),
            held_sums.get(account, NOTHING).devices,
        )
        for account in sorted({*sums, *held_sums})
    }
    gaps = _join_gaps((*book.gaps, *entry.gaps))
    return Book(book.day, book.start, entry.through, gaps, rows)


class _Room:
    """The accounts that have a row in a book, and the room for others."""

    def __init__(self, rows: Mapping[Account, BookRow]) -> None:
        self._accounts = set(rows)
        self._bytes = sum(_row_bytes(account, row) for account, row in rows.items())
        self._owners = Counter(account.namespace for account in self._accounts)

    def place(self, account: Account, row: BookRow) -> Account:
        """Return the account whose row the amounts of a row go to."""
        account = Account(*map(clean_name, account))
        if account in self._accounts:
            return account
        if self._owners[account.namespace] < MAX_OWNERS and self._fits(account, row, ROOM):
            return self._take(account, row)
        without_owner = account._replace(owner=OTHER)
        is_new = without_owner not in self._accounts
        if is_new and self._owners[account.namespace] >= MAX_OWNERS + MAX_CLASSES:
            without_owner = without_owner._replace(class_name=OTHER)
        if without_owner in self._accounts or self._fits(without_owner, row, ROOM_FOR_NAMESPACES):
            return self._take(without_owner, row)
        return self._take(Account(OTHER, OTHER, OTHER), row)

    def _fits(self, account: Account, row: BookRow, room: int) -> bool:
        return self._bytes + _row_bytes(account, row) <= room

    def _take(self, account: Account, row: BookRow) -> Account:
        if account not in self._accounts:
            self._accounts.add(account)
            self._bytes += _row_bytes(account, row)
            self._owners[account.namespace] += 1
        return account


def _row_bytes(account: Account, row: BookRow) -> int:
    digits = sum(map(len, _format_numbers(row)))
    # JSON escapes a character in up to six bytes. Names of Kubernetes objects need no escape.
    names = sum(len(name) if name.isascii() else 6 * len(name) for name in account)
    return max(_ROW_BYTES, _ROW_BYTES_BETWEEN + digits) + names


def clean_name(name: str, most: int = _MAX_NAME) -> str:
    """Cut a name, and replace characters that no name of Kubernetes has.

    The result has as many bytes as JSON.
    """
    text = name[:most]
    text = text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
    return text.replace('"', "'").replace("\\", "/")[:most]


def _join_gaps(gaps: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Join gaps that touch, and the last ones beyond the limit."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(gaps):
        if joined and (start <= joined[-1][1] or len(joined) == MAX_GAPS):
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


# --- text ----------------------------------------------------------------------------------------


class _Row(msgspec.Struct, array_like=True):
    namespace: str
    class_name: str
    owner: str
    devices: str
    unknown: str
    memory: str
    held: str


class _Book(msgspec.Struct, omit_defaults=True):
    date: str
    start: str
    through: str
    unobserved: list[tuple[str, str]] = []
    rows: list[_Row] = []


_DECODER: Final = msgspec.json.Decoder(_Book)


def format_book(book: Book) -> str:
    """Return a book as JSON, in which every number is a fraction of whole numbers."""
    rows = (_format_row(account, row) for account, row in book.rows.items())
    return msgspec.json.encode(
        _Book(
            f"{format_day(book.day)}",
            format_time(book.start),
            format_time(book.through),
            [(format_time(start), format_time(end)) for start, end in book.gaps],
            list(rows),
        )
    ).decode()


def _format_row(account: Account, row: BookRow) -> _Row:
    return _Row(*account, *_format_numbers(row))


def _format_numbers(row: BookRow) -> tuple[str, str, str, str]:
    used = row.used
    return f"{used.devices}", f"{used.unknown}", f"{used.memory}", f"{row.held}"


def read_book(text: str) -> Book:
    """Read a book; raises BookError."""
    try:
        wire = _DECODER.decode(text)
        return Book(
            _read_day(wire.date),
            _read_time(wire.start),
            _read_time(wire.through),
            tuple((_read_time(start), _read_time(end)) for start, end in wire.unobserved),
            dict(map(_read_row, wire.rows)),
        )
    except (msgspec.DecodeError, RecursionError, ValueError, ZeroDivisionError) as error:
        raise BookError(f"not a book of usage: {error}") from None


def _read_row(row: _Row) -> tuple[Account, BookRow]:
    numbers = (row.devices, row.unknown, row.memory, row.held)
    devices, unknown, memory, held = map(_read_number, numbers)
    account = Account(row.namespace, row.class_name, row.owner)
    return account, BookRow(UsedAmount(devices, unknown, memory), held)


def _read_number(text: str) -> Fraction:
    # Python also reads exponents, with which a short text is a number of any size.
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:80]} is not a fraction of whole numbers")
    return Fraction(text)


def format_time(time: int) -> str:
    """Return a Unix time as the API server writes times."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _read_time(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def format_day(day: int) -> date:
    """Return the date of a day since 1970."""
    return datetime.fromtimestamp(day * DAY, UTC).date()


def _read_day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days
