"""Undoes unfinished writes: each on its own, with its own back-off, in turns by namespace."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from allocator.state.pauses import PauseLimits
from allocator.writes.claims import BindRefusedError
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError

_LOG: Final = logging.getLogger("allocator.writes.undoing")
# Tenants can write marks, so that the work of one turn is limited.
MAX_PER_TURN: Final = 256
# A turn ends after this time. What it has started continues.
TURN_SECONDS: Final = 1.0
CONCURRENT_WRITES: Final = 32
# Writes of one namespace that the API server does not answer leave room for others.
CONCURRENT_OF_NAMESPACE: Final = 16
PAUSES: Final = PauseLimits(5.0, 300.0)
REPORTED_FAILURES: Final = 3
# With the longest pause, this is a little more than an hour, so that events do not vanish for long.
FAILURES_OF_AN_HOUR: Final = 13


class Unfinished(NamedTuple):
    """What a write left behind of a subject.

    `undo` undoes it or raises; `report` is told what fails again and again, and why.
    """

    namespace: str
    subject: Any
    undo: Callable[[Any], Awaitable[None]]
    report: Callable[[Any, str], None]


class _Attempt(NamedTuple):
    """When something is undone, and how often that has failed."""

    unfinished: Unfinished
    due: float
    failures: int = 0


class Undoing:
    """What is to be undone, by key."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    @property
    def failing(self) -> int:
        """How many could not be undone so far."""
        return sum(each.failures > 0 for each in self._attempts.values())

    def add(self, key: str, unfinished: Unfinished, *, after: float = 0.0) -> None:
        """Undo something after some seconds; what is known already keeps its time."""
        if key not in self._attempts:
            self._attempts[key] = _Attempt(unfinished, _loop_time() + after)

    def discard(self, key: str) -> None:
        """Do not undo something any more."""
        self._attempts.pop(key, None)

    def clear(self) -> None:
        """Undo nothing any more."""
        self._attempts.clear()

    async def run_turn(self) -> None:
        """Undo what is due, for a limited time."""
        end = _loop_time() + TURN_SECONDS
        if not (waiting := self._find_due()[:MAX_PER_TURN]):
            return
        while waiting or self._running:
            waiting = [key for key in waiting if not self._start(key)]
            remaining = end - _loop_time()
            if remaining <= 0 or not self._running:
                break
            tasks = [task for _, task in self._running.values()]
            await asyncio.wait(tasks, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)

    def _find_due(self) -> list[str]:
        """Return what is due: what has failed least first, and the namespaces in turns."""
        now, turns = _loop_time(), Counter[tuple[str, int]]()
        due = []
        for key, (unfinished, at, failures) in self._attempts.items():
            if at <= now and key not in self._running:
                turns[unfinished.namespace, failures] += 1
                due.append((failures, turns[unfinished.namespace, failures], key))
        return [key for _, _, key in sorted(due)]

    def _start(self, key: str) -> bool:
        """Begin to undo something; return False while too much is in progress."""
        attempt = self._attempts.get(key)
        if attempt is None:
            return True
        namespace = attempt.unfinished.namespace
        running = [each for each, _ in self._running.values()]
        if len(running) >= CONCURRENT_WRITES or running.count(namespace) >= CONCURRENT_OF_NAMESPACE:
            return False
        self._running[key] = (namespace, asyncio.create_task(self._try(key, attempt)))
        return True

    async def _try(self, key: str, attempt: _Attempt) -> None:
        try:
            await attempt.unfinished.undo(attempt.unfinished.subject)
        except NotLeadingError:
            return  # the next leader undoes it, or this one in another turn
        except (ApiError, BindRefusedError) as error:
            self._note_failure(key, attempt, f"{error}")
        except Exception as error:  # noqa: BLE001  # a bug for one must not stop the others
            _LOG.exception("unhandled exception while a write is undone")
            self._note_failure(key, attempt, f"unhandled exception: {error}")
        else:
            if self._attempts.get(key) is attempt:
                del self._attempts[key]
        finally:
            del self._running[key]

    def _note_failure(self, key: str, attempt: _Attempt, message: str) -> None:
        if self._attempts.get(key) is not attempt:
            return
        failures = attempt.failures + 1
        due = _loop_time() + PAUSES.seconds(failures)
        self._attempts[key] = attempt._replace(due=due, failures=failures)
        # Whoever is told decides what is new.
        if (failures - REPORTED_FAILURES) % FAILURES_OF_AN_HOUR == 0:
            attempt.unfinished.report(attempt.unfinished.subject, message)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
