"""Books of usage whose ConfigMap the API server refuses to change."""

import pytest

from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from drawbridge.usage.book import DAY
from drawbridge.usage.stored_books import name_of_day
from tests.controller.test_usage import NOW, Cluster, Controller

TODAY = NOW // DAY


@pytest.mark.parametrize("timeout", [37, 50])  # of the first write behind it, or a later one
def test_a_day_whose_book_is_refused_is_reported_and_stops_no_later_book(timeout: int) -> None:
    """Somebody made the ConfigMap immutable 62 days ago, to keep its book."""
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.claim("a", "gpu-0")
    others: list[str] = []  # a failure of another kind, in one run

    def refuse(_verb: str, value: Unstructured) -> None:
        if value["metadata"]["name"] == name_of_day(TODAY + 1):
            raise ApiError(422, "Invalid", "data: Forbidden: field is immutable")
        if others:
            raise ApiError(504, others.pop())

    cluster.config_maps.before_write = refuse
    failed = 0
    for hour in range(72):
        cluster.time += 3600
        if hour == timeout:
            others.append("Timeout")
        try:
            controller.write()
        except ApiError:
            failed += 1
    assert failed == 25 + 1  # until an hour after the end of the day
    assert [each.day for each in cluster.books()] == [TODAY, TODAY + 2, TODAY + 3]
    assert [(each.start, each.gaps) for each in cluster.books()[1:]] == [
        (day * DAY, ()) for day in (TODAY + 2, TODAY + 3)
    ]
    last = cluster.books()[-1]
    assert last.through == cluster.time - 3
    assert controller.reporter.codes == ["ConfigMapRefused"]
    assert controller.reporter.reported[0][1].name == name_of_day(TODAY + 1)
    (total,) = controller.books.totals.values()
    assert total.devices == sum(
        amount.devices for book in cluster.books() for amount in book.used().values()
    )


@pytest.mark.parametrize("minutes", [1, 59])
def test_a_book_that_is_refused_for_a_while_has_the_whole_day(minutes: int) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    cluster.time = (TODAY + 1) * DAY - 600
    controller.write()

    def refuse(_verb: str, _value: Unstructured) -> None:
        raise ApiError(403, "Forbidden", "a policy")

    cluster.config_maps.before_write = refuse
    cluster.time = (TODAY + 1) * DAY + minutes * 60
    with pytest.raises(ApiError):
        controller.write()
    cluster.config_maps.before_write = lambda _verb, _value: None
    controller.write()
    assert [each.through for each in cluster.books()] == [(TODAY + 1) * DAY, cluster.time - 3]
    assert not any(each.gaps for each in cluster.books())
