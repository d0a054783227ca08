"""The book of changes counts pods, keeps to its bounds, and reads what it wrote."""

import msgspec

from drawbridge.usage.changes import (
    KEY,
    MAX_OF_NAMESPACE,
    MAX_ROWS,
    OTHER,
    ChangeBook,
    ChangedPods,
    read_changes,
    sum_changes,
)

TRAIN = ChangedPods("research", "Job/train", "1 device of class gpu.nvidia.com")


def stored(book: ChangeBook) -> dict[str, dict[str, str]]:
    return {"data": {KEY: book.write()}}


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
    for number in range(MAX_ROWS):
        book.count(ChangedPods(f"team-{number}", "Job/a", "x"), 1)
    read = read_changes(stored(book))
    assert read is not None
    assert len(read.rows) <= MAX_ROWS + 2
    assert sum(row[3] for row in read.rows) == MAX_OF_NAMESPACE + 50 + MAX_ROWS
    of_research = [row for row in read.rows if row[0] == "research"]
    assert ("research", OTHER, OTHER, 50) in of_research
    assert len(book.write()) < 200_000


def test_long_names_are_cut() -> None:
    book = ChangeBook()
    book.count(TRAIN._replace(owner="x" * 10_000, claims="y" * 10_000), 1)
    assert len(book.write()) < 1_000


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
    assert msgspec.json.decode(first.write())["through"] == 1
