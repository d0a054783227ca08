"""Cuts computations at a given function call, or line."""

import gc
import sys
from collections.abc import Callable
from functools import cached_property
from types import FrameType
from typing import Any, Final, TypeAlias, TypeVar

from drawbridge.brief import Brief, CutShort
from drawbridge.process.alarm import interruptible, is_interruptible

T = TypeVar("T")
# The line that leaves a `with` is traced before the lock is released. A signal never comes there.
_LOCKS: Final = cached_property.__get__.__code__
TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


class CutAlways(Brief):
    """Cuts everything at once."""

    def run(self, compute: Callable[[], T]) -> T:
        """Raise CutShort."""
        del compute
        raise CutShort


class CutAt(Brief):
    """Cuts each computation at the same call of a function; what is not cut shorter is not cut.

    With `lines`, each line and each return counts as well. With a package, only its code counts.
    """

    def __init__(self, calls: int, *, lines: bool = False, package: str = "") -> None:
        super().__init__()
        self.calls = calls
        self._lines = lines
        self._package = package
        self.cuts = 0
        # The calls and lines of the last computation.
        self.seen = 0
        # The cuts that computations did not end with: an exception at the end of a generator is
        # lost.
        self.lost = 0

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        self.seen = 0

        def trace(frame: FrameType, _event: str, _argument: object) -> TraceFunction | None:
            if not frame.f_globals.get("__name__", "").startswith(self._package):
                return None
            self.seen += 1
            if self.seen > self.calls and frame.f_code is not _LOCKS and is_interruptible(frame):
                raise CutShort
            return trace if self._lines else None

        before = sys.gettrace()
        # An exception in a callback of the collector is lost: the test frameworks have such ones.
        gc.disable()
        sys.settrace(trace)
        try:
            result = interruptible(compute)
            self.lost += sys.gettrace() is not trace
        except CutShort:
            self.cuts += 1
            raise
        finally:
            sys.settrace(before)
            gc.enable()
        return result
