"""What the processes in a world change of the interpreter ends with the test."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def collection_as_before() -> Iterator[None]:
    """An allocator leaves what lasts out of later collections, for as long as its process lives."""
    threshold, callbacks = gc.get_threshold(), [*gc.callbacks]
    yield
    gc.set_threshold(*threshold)
    gc.callbacks[:] = callbacks
    gc.unfreeze()
