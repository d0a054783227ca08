"""The book of changes counts pods, keeps to its bounds, and reads what it wrote."""

import msgspec

from drawbridge.usage.accounts import OTHER
from drawbridge.usage.changes import (
    KEY,
    MAX_OF_NAMESPACE,
    MAX_ROWS,
    ChangeBook,
    ChangedPods,
    read_changes,
    sum_changes,
)

TRAIN = ChangedPods("research", "Job/train", "1 device of class gpu.nvidia.com")


MOST = 1_000_000


def written(book: ChangeBook, most: int = MOST) -> str:
    text = book.write(most)
    assert text is not None
    return text


def stored(book: ChangeBook) -> dict[str, dict[str, str]]:
    return {"data": {KEY: written(book)}}


def rows_of(book: ChangeBook, most: int = MOST) -> list[tuple[str, str, str, int]]:
    read = read_changes({"data": {KEY: written(book, most)}})
    assert read is not None
    return [*read.rows]


def full_book() -> ChangeBook:
    """A book whose rows are all of four namespaces."""
    book = ChangeBook()
    for number in range(4 * MAX_OF_NAMESPACE):
        owner = f"Job/{number}" + "\x01" * 200
        book.count(ChangedPods(f"evil-{number % 4}", owner, "\x02\u202e" * 100 + owner), 1)
    return book


def test_alike_pods_are_one_row_also_after_the_book_was_read_again() -> None:
    book = ChangeBook()
    book.count(TRAIN, 10)
    book.count(TRAIN, 12)
    again = ChangeBook(read_changes(stored(book)))
    assert again.through == 12
    again.count(TRAIN, 15)
    read = read_changes(stored(again))
    assert read is not None
    assert (read.through, read.rows) == (15, ((*TRAIN, 3),))


def test_one_namespace_and_one_day_have_a_bounded_number_of_rows() -> None:
    book = ChangeBook()
    for number in range(MAX_OF_NAMESPACE + 50):
        book.count(TRAIN._replace(owner=f"Job/{number}"), 1)
    assert ("research", OTHER, OTHER, 50) in rows_of(book)
    for number in range(MAX_ROWS):
        book.count(ChangedPods(f"team-{number}", "Job/a", "x"), 1)
    read = read_changes(stored(book))
    assert read is not None
    assert len(read.rows) <= MAX_ROWS
    assert sum(row[3] for row in read.rows) == MAX_OF_NAMESPACE + 50 + MAX_ROWS
    assert len(written(book)) < 200_000


def test_namespaces_that_fill_the_book_displace_nobody() -> None:
    book = full_book()
    for number in range(50):
        book.count(ChangedPods(f"team-{number}", "Job/a", "1 device"), 1)
        book.count(ChangedPods(f"evil-{number % 4}", f"Job/new-{number}", "x"), 1)
    rows = rows_of(book)
    assert len(rows) <= MAX_ROWS
    own = [row for row in rows if row[0].startswith("team-")]
    assert sorted(own) == sorted((f"team-{number}", "Job/a", "1 device", 1) for number in range(50))
    assert sum(row[3] for row in rows) == 4 * MAX_OF_NAMESPACE + 100


def test_more_namespaces_than_rows_are_summed_up() -> None:
    book = ChangeBook()
    for number in range(MAX_ROWS + 10):
        book.count(ChangedPods(f"team-{number}", "Job/a", "x"), 1)
    rows = rows_of(book)
    assert len(rows) == MAX_ROWS
    assert (OTHER, OTHER, OTHER, 11) in rows


def test_control_characters_take_no_more_bytes_than_others() -> None:
    text = written(full_book())
    assert len(text.encode()) < 200_000
    assert "\\u" not in text
    assert text.isascii()
    assert text.isprintable()


def test_a_book_takes_the_bytes_that_are_left() -> None:
    for most in (100_000, 20_000, 1_000):
        book = full_book()
        book.count(TRAIN, 1)
        assert len(written(book, most).encode()) <= most
        rows = rows_of(book, most)
        assert sum(row[3] for row in rows) == 4 * MAX_OF_NAMESPACE + 1
        assert (*TRAIN, 1) in rows
    assert full_book().write(10) is None
    assert full_book().write(-500_000) is None


def test_long_names_are_cut() -> None:
    book = ChangeBook()
    book.count(TRAIN._replace(owner="x" * 10_000, claims="y" * 10_000), 1)
    assert len(written(book)) < 1_000


def test_what_is_no_book_is_none() -> None:
    for data in (None, {}, {KEY: "{"}, {KEY: 7}, {KEY: '{"rows": [[1]]}'}):
        assert read_changes({"data": data}) is None


def test_days_are_summed_with_most_pods_first() -> None:
    first, second = ChangeBook(), ChangeBook()
    other = TRAIN._replace(namespace="b")
    first.count(TRAIN, 1)
    second.count(TRAIN, 2)
    second.count(other, 3)
    days = (read_changes(stored(each)) for each in (first, second))
    assert sum_changes(each for each in days if each) == [(TRAIN, 2), (other, 1)]
    assert msgspec.json.decode(written(first))["through"] == 1
