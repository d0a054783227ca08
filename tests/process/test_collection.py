"""Garbage collection pauses during long work and leaves its first objects out afterwards."""

import gc
from collections.abc import Iterator

import pytest

from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.process.collection import CollectionPause


@pytest.fixture(autouse=True)
def _collected_as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_collection_pauses_and_the_first_objects_are_frozen() -> None:
    pause = CollectionPause(pause_garbage_collection)
    gc.unfreeze()
    with pause():
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
    frozen = gc.get_freeze_count()
    assert frozen > 0
    assert gc.isenabled()
    with pause():
        kept = [[i] for i in range(10_000)]
    assert kept
    assert gc.get_freeze_count() <= frozen, "later garbage has to be collected"


def test_collection_continues_after_an_exception() -> None:
    pause = CollectionPause(pause_garbage_collection)
    with pytest.raises(ValueError, match="gathering"), pause():
        raise ValueError("gathering")
    assert gc.isenabled()
