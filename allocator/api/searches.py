"""Runs the searches of callers, one at a time and each on a copy of the process."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from allocator.api.forked import (
    DEFAULT_FORK_LIMITS,
    ForkEndedError,
    ForkFailedError,
    ForkLimits,
    ForkRefusedError,
    run_forked,
)
from allocator.api.messages import ApiFailureError, FailureCode

_LOG: Final = logging.getLogger("allocator.api")
# Each waits at most for the time of the others.
MAX_SEARCHES: Final = 8
T = TypeVar("T")


class ApiSearches:
    """The searches that run or wait; a caller has at most one."""

    def __init__(self, limits: ForkLimits = DEFAULT_FORK_LIMITS) -> None:
        self._limits = limits
        self._callers: set[str] = set()
        self._turn = asyncio.Lock()

    async def run(self, caller: str, search: Callable[[], T], kind: type[T]) -> T:
        """Return the result of a search; raises ApiFailureError."""
        if caller in self._callers:
            raise _too_many("a search of this caller is running; send the next one after it")
        if len(self._callers) >= MAX_SEARCHES:
            raise _too_many(
                f"{MAX_SEARCHES} searches run or wait already; send this one again later"
            )
        self._callers.add(caller)
        try:
            async with self._turn:
                encoded = await run_forked(lambda: msgspec.json.encode(search()), self._limits)
        except ForkEndedError as error:
            text = f"{error}; send fewer pods, or simpler claims"
            raise ApiFailureError(FailureCode.TOO_MUCH_WORK, text) from None
        except ForkRefusedError as error:
            text = f"cannot start a search: {error}"
            raise ApiFailureError(FailureCode.NOT_READY, text, retry_after=1) from None
        except ForkFailedError as error:
            _LOG.error("unhandled exception in a search: %s", error)  # of the copy
            text = "unhandled exception; the log of the allocator has more"
            raise ApiFailureError(FailureCode.BUG, text) from None
        finally:
            self._callers.discard(caller)
        return msgspec.json.decode(encoded, type=kind)


def _too_many(text: str) -> ApiFailureError:
    return ApiFailureError(FailureCode.TOO_MANY_REQUESTS, text, retry_after=1)
