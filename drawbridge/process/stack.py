"""Gives the functions of a process one piece of memory for their frames.

Python keeps frames in chunks of 16 KiB, and returns a chunk as soon as the first frame in it ends.
A loop whose calls just do not fit into the current chunk gets a chunk from the system and returns
it in each round, which makes it up to a hundred times slower. A chunk is never smaller than twice
the frame that needs it.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
# Words of 8 bytes. No page that is not used takes memory.
_FRAME_WORDS: Final = 1 << 17


def call_with_stack(function: Callable[[], T]) -> T:
    """Call a function; all that it calls has room for some thousand frames in one chunk."""
    return cast("T", _call_from_large_frame(function))


def _call(function: Callable[[], Any]) -> Any:  # noqa: ANN401  # a code object has no type
    return function()


_call_from_large_frame: Final = FunctionType(
    _call.__code__.replace(co_stacksize=_FRAME_WORDS), globals()
)
