"""Garbage collection pauses during long work and leaves out afterwards what stays."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.process.collection import CollectionPause, RebuildPause, rare_collections


@pytest.fixture(autouse=True)
def _collected_as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), [*gc.callbacks]
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
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


def test_collections_are_as_before_after_two_commands_at_a_time() -> None:
    before, (first, second) = gc.get_threshold(), (rare_collections(), rare_collections())
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() > before
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_collection_continues_after_an_exception() -> None:
    pause = CollectionPause(pause_garbage_collection)
    with pytest.raises(ValueError, match="gathering"), pause():
        raise ValueError("gathering")
    assert gc.isenabled()


class _Node:
    def __init__(self) -> None:
        self.itself = self


def test_a_full_collection_looks_only_at_what_is_new_since_the_one_before() -> None:
    with RebuildPause(pause_garbage_collection)():
        pass
    kept = [[i] for i in range(10_000)]
    gc.collect()
    assert kept
    assert len(gc.get_objects()) < len(kept), "the survivors are looked at again"


def test_garbage_that_is_new_is_collected() -> None:
    with RebuildPause(pause_garbage_collection)():
        pass
    gone = weakref.ref(_Node())
    gc.collect()
    assert gone() is None


def test_garbage_that_survived_a_collection_is_collected_once_much_is_left_out() -> None:
    pause = RebuildPause(pause_garbage_collection)
    with pause():
        pass
    node = _Node()
    gone = weakref.ref(node)
    gc.collect()
    del node
    gc.collect()
    assert gone() is not None, "it was left out"
    before, kept = gc.get_freeze_count(), []
    while gone() is not None and len(kept) < 1_000:
        kept.append([[i] for i in range(10_000)])
        gc.collect()
        pause.look_at_all()
    left_out = len(kept) * 10_000
    assert before / 8 < left_out < before / 2
    after = [[i] for i in range(1_000)]
    gc.collect()
    assert len(gc.get_objects()) < len(after), "it goes on to leave out"


def test_what_was_left_out_and_is_gone_is_no_reason_to_look_at_all() -> None:
    pause = RebuildPause(pause_garbage_collection)
    with pause():
        pass
    node = _Node()
    gone = weakref.ref(node)
    kept = [[i] for i in range(gc.get_freeze_count())]
    gc.collect()
    del node, kept
    pause.look_at_all()
    assert gone() is not None


def test_a_look_at_all_lets_the_next_collections_be_short() -> None:
    pause = RebuildPause(pause_garbage_collection)
    with pause():
        pass
    kept = [[i] for i in range(gc.get_freeze_count())]
    gc.collect()
    pause.look_at_all()
    generations: list[int] = []
    gc.callbacks.append(
        lambda phase, of: generations.append(of["generation"]) if phase == "stop" else None
    )
    more = [[i] for i in range(700 * 11 * 8)]
    assert generations.count(2) > 0, "Python waits for a quarter of all objects"
    assert kept
    assert more


def test_what_a_build_replaces_is_collected() -> None:
    pause, node = RebuildPause(pause_garbage_collection), _Node()
    with pause():
        before = weakref.ref(node)
    gc.collect()
    with pause():
        node = _Node()
    assert before() is None
    assert gc.get_freeze_count() > 0
    assert node.itself is node


def test_collection_continues_after_a_build_that_failed() -> None:
    with pytest.raises(ValueError, match="building"), RebuildPause(pause_garbage_collection)():
        raise ValueError("building")
    assert gc.isenabled()
