"""Runs the searches of callers, one at a time and each on a copy of the process.

The shares take turns, and in a share the tenants.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from allocator.api.messages import ApiFailureError, FailureCode
from allocator.api.reviews import Caller
from allocator.api.tenants import Share, too_many
from drawbridge.process.fair_turns import FairTurns, NoTurnError, TurnKey
from drawbridge.process.forked import (
    DEFAULT_FORK_LIMITS,
    ForkEndedError,
    ForkFailedError,
    ForkLimits,
    ForkRefusedError,
    run_forked,
)

_LOG: Final = logging.getLogger("allocator.api")
# Of a share. If it is full, the tenant with most of them loses one to a tenant with fewer.
MAX_WAITING: Final = 16
T = TypeVar("T")


class ApiSearches:
    """The searches that run or wait; a caller has at most one."""

    def __init__(self, limits: ForkLimits = DEFAULT_FORK_LIMITS) -> None:
        self._limits = limits
        self._callers: set[str] = set()
        self._turns = {share: FairTurns(MAX_WAITING) for share in Share}
        # Only the next search of each share waits for it.
        self._copy = asyncio.Lock()

    async def run(
        self,
        caller: Caller,
        search: Callable[[], T],
        kind: type[T],
        limits: ForkLimits | None = None,
    ) -> T:
        """Return the result of a search, with limits of its own; raises ApiFailureError."""
        if caller.name in self._callers:
            raise too_many("a search of this caller is running; send the next one after it", 1)
        self._callers.add(caller.name)
        tenant = caller.tenant
        try:
            async with self._turns[tenant.share].take(TurnKey(tenant.name)), self._copy:
                encoded = await run_forked(
                    lambda: msgspec.json.encode(search()), limits or self._limits
                )
        except NoTurnError:
            raise too_many("too many searches wait; send this one again later", 1) from None
        except ForkEndedError as error:
            text = f"{error}; send fewer pods, or simpler claims"
            raise ApiFailureError(FailureCode.TOO_MUCH_WORK, text) from None
        except ForkRefusedError as error:
            text = f"cannot run the search: {error}"
            raise ApiFailureError(FailureCode.NOT_READY, text, retry_after=1) from None
        except ForkFailedError as error:
            _LOG.error("unhandled exception in a search: %s", error)  # of the copy
            text = "unhandled exception; the log of the allocator has more"
            raise ApiFailureError(FailureCode.BUG, text) from None
        finally:
            self._callers.discard(caller.name)
        return msgspec.json.decode(encoded, type=kind)
