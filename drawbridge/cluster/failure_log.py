"""Logs the failures of something that is retried: that it fails, that it still does, and the end.

A retry can fail every second, for days, and in turn with others that succeed. A line for each hides
all other lines, and one line in all is forgotten. Everything that is retried uses this rule, so
that the number of lines depends neither on the number of retries nor on how they take turns.
"""

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError, UnreachableError
from drawbridge.finding import REPEAT_SECONDS

# What lasts for this time does not end by itself.
LASTING_SECONDS: Final = 60.0
# Others choose codes and reasons. Beyond, all further kinds are one.
MAX_KINDS: Final = 8
_OTHER: Final = "other"


@dataclass
class _Kind:
    """When the last line and the last failure of a kind were, and how many failures had none."""

    told: float = float("-inf")
    failed: float = float("-inf")
    untold: int = 0


class FailureLog:
    """What is logged about one thing that fails and is retried.

    A failure has a line if there was none of its kind in the last hour. Once it has lasted for a
    minute, it has one that is at least a warning. A `brief` one has none before that minute. All
    others have level debug; `failures` in a line counts those of its kind since the line before.
    The end has a line, which is `end` with the seconds, if the failure had one. An hour without a
    failure is an end as well, without a line.
    """

    def __init__(
        self, log: logging.Logger, end: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._end, self._now = log, end, now
        self._since: float | None = None  # when it began to fail
        self._kinds: dict[Hashable, _Kind] = {}

    def fail(
        self,
        error: Exception,
        text: str,
        *args: object,
        level: int = logging.INFO,
        about: Hashable = "",
        **fields: object,
    ) -> None:
        """Log a failed request; the session logs an outage, once for all that fails meanwhile.

        What it is about is a part of its kind.
        """
        if isinstance(error, UnreachableError) and error.is_outage:
            self._log.debug(text, *args, extra={"fields": fields})
            return
        is_forbidden, is_brief = False, isinstance(error, NotLeadingError | TimeoutError)
        if isinstance(error, ApiError):
            # Without a permission, a retry fails until a person acts. Most others end with one.
            is_forbidden, is_refused = error.forbidden, error.refused or error.forbidden
            is_brief = error.gone or error.conflict or not is_refused
        level = max(level, logging.WARNING) if is_forbidden else level
        self.note(
            (about, _kind_of(error)), level, text, *args, is_brief=is_brief, bug=None, **fields
        )

    def note(
        self,
        kind: Hashable,
        level: int,
        text: str,
        *args: object,
        is_brief: bool = False,
        bug: Exception | None = None,
        **fields: object,
    ) -> None:
        """Log a failure of a kind; a bug with its stack."""
        now = self._now()
        goes_on = any(now - each.failed < REPEAT_SECONDS for each in self._kinds.values())
        since = self._since = self._since if self._since is not None and goes_on else now
        state = self._find(kind, now)
        state.failed, state.untold = now, state.untold + 1
        lasts, is_old = now - since >= LASTING_SECONDS, now - state.told >= REPEAT_SECONDS
        enough = since if level >= logging.WARNING else since + LASTING_SECONDS
        if (lasts and (is_old or state.told < enough)) or (is_old and not is_brief):
            fields["failures"] = state.untold
            state.told, state.untold = now, 0
            level = max(level, logging.WARNING) if lasts else level
        else:
            level = logging.DEBUG
        self._log.log(level, text, *args, exc_info=bug, extra={"fields": fields})

    def _find(self, kind: Hashable, now: float) -> _Kind:
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            recent = now - REPEAT_SECONDS
            self._kinds = {name: each for name, each in self._kinds.items() if each.failed > recent}
            kind = _OTHER if len(self._kinds) >= MAX_KINDS else kind
        return self._kinds.setdefault(kind, _Kind())

    def succeed(self) -> None:
        """Log the end of what failed."""
        if self._since is None:
            return
        since, self._since = self._since, None
        if any(each.told >= since for each in self._kinds.values()):
            self._log.info(self._end, self._now() - since)


def _kind_of(error: Exception) -> Hashable:
    """Return what a person distinguishes: no name of an object, and no version, counts."""
    if isinstance(error, ApiError):
        return error.code, error.reason, str(error.details.get("kind", ""))
    return type(error).__name__
