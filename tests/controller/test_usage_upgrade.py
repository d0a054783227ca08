"""Books of usage that an earlier version wrote, and those of both versions after going back."""

import pytest

from drawbridge.usage.book import DAY
from drawbridge.usage.stored_books import names_of_day, read_config_map
from tests.controller.test_usage import NOW, OWN, Cluster, Controller

HOUR = 3600


def write_hours(controller: Controller, cluster: Cluster, hours: int) -> None:
    """Write a book each hour."""
    for _ in range(hours):
        cluster.time += HOUR
        controller.write()


def rename(cluster: Cluster) -> None:
    """Give the books of the new version the names of the earlier one."""
    stored = cluster.config_maps.objects
    for config_map in [*stored.values()]:
        day = read_config_map(config_map).day
        del stored[OWN, config_map["metadata"]["name"]]
        config_map["metadata"]["name"] = names_of_day(day)[1]
        stored[OWN, config_map["metadata"]["name"]] = config_map


@pytest.mark.parametrize("days", [0, 1, 15, 30])
def test_the_books_of_an_earlier_version_are_continued_and_none_is_replaced(days: int) -> None:
    cluster = Cluster()
    earlier = Controller(cluster)
    cluster.claim("a", "gpu-0")
    earlier.write()
    write_hours(earlier, cluster, days * 24 + 1)
    rename(cluster)
    former = dict(cluster.config_maps.objects)
    cluster.time += 30
    controller = Controller(cluster)
    controller.check()
    write_hours(controller, cluster, 31 * 24)
    assert former.items() <= cluster.config_maps.objects.items()
    following = [book for book in cluster.books() if book.day >= NOW // DAY + days][1:]
    assert len(cluster.books()) == (days + 1) + 32
    assert [book.gaps for book in following[1:]] == [()] * 31
    through = max(read_config_map(each).through for each in former.values())
    # Until the new leader began to observe.
    assert following[0].gaps == ((through, cluster.time - 31 * 24 * HOUR),)
    books = {book.day: book for book in cluster.books()}  # of two, the one of the new version
    used = [amount for book in books.values() for amount in book.used().values()]
    assert sum(amount.devices + amount.unknown for amount in used) == cluster.time - 3 - NOW
    assert controller.reporter.codes == []


def test_the_more_complete_book_of_a_day_is_continued_after_going_back() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    write_hours(controller, cluster, 1)
    ((key, value),) = cluster.config_maps.objects.items()
    cluster.time += HOUR
    controller.write()
    later = cluster.config_maps.objects[key]
    former = {**later, "metadata": {**later["metadata"], "name": names_of_day(NOW // DAY)[1]}}
    cluster.config_maps.put(former)
    cluster.config_maps.put(value)
    following = Controller(cluster)
    following.check()
    cluster.time += HOUR
    following.write()
    book = read_config_map(cluster.config_maps.objects[key])
    assert book.gaps == ((cluster.time - HOUR - 3, cluster.time - HOUR),)
