"""A namespace that fills a cache loses its own values."""

import pytest

from drawbridge.fair_cache import FairCache


def put_all(limit: int, *keys: str, cost: int = 1) -> FairCache[str]:
    cache: FairCache[str] = FairCache(limit)
    for key in keys:
        cache.put(key, f"value of {key}", cost=cost)
    return cache


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (["a/1", "b/1"], ["a/1", "b/1"]),
        # The namespace with most loses its oldest, whoever comes last.
        (["b/1", "a/1", "a/2", "a/3", "a/4"], ["a/2", "a/3", "a/4", "b/1"]),
        (["a/1", "a/2", "a/3", "a/4", "b/1"], ["a/2", "a/3", "a/4", "b/1"]),
        (["a/1", "a/2", "a/3", "a/4", "b/1", "c/1"], ["a/3", "a/4", "b/1", "c/1"]),
        (["a/1", "a/1", "a/1"], ["a/1"]),
    ],
)
def test_the_namespace_with_most_loses_its_oldest(keys: list[str], left: list[str]) -> None:
    cache = put_all(4, *keys)
    assert sorted(cache) == left
    assert len(cache) == len(left)
    assert all(cache.get(key) == f"value of {key}" for key in left)


def test_who_puts_a_value_is_told_what_it_displaces() -> None:
    cache = put_all(3, "a/1", "a/2", "b/1")
    assert list(cache.put("a/2", "")) == []
    assert list(cache.put("b/2", "", cost=2)) == ["b/1", "a/1"]
    assert list(cache.put("c/1", "", cost=4)) == ["c/1"]


def test_a_value_that_was_used_is_not_the_oldest() -> None:
    cache = put_all(2, "a/1", "a/2")
    cache.get("a/1")
    cache.put("a/3", "")
    assert sorted(cache) == ["a/1", "a/3"]


def test_costs_are_limited_and_not_numbers() -> None:
    assert sorted(put_all(10, "a/1", "a/2", "b/1", cost=4)) == ["a/2", "b/1"]
    assert sorted(put_all(3, "a/1", cost=4)) == []


def test_what_is_removed_makes_room() -> None:
    cache = put_all(2, "a/1", "a/2")
    assert cache.pop("a/1") == "value of a/1"
    assert cache.pop("a/1") is None
    cache.put("b/1", "")
    assert sorted(cache) == ["a/2", "b/1"]
    for key in ("a/2", "b/1"):
        cache.pop(key)
    assert (len(cache), cache.get("b/1"), "b/1" in cache) == (0, None, False)
    cache.put("b/1", "")
    assert "b/1" in cache
