"""Undoes unfinished writes: each on its own, with its own back-off, in turns by namespace."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

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
FIRST_PAUSE_SECONDS: Final = 5.0
MAX_PAUSE_SECONDS: Final = 300.0
REPORTED_FAILURES: Final = 3
T = TypeVar("T")


class _Unfinished(NamedTuple, Generic[T]):
    """Something to undo at a time, and how often that has failed."""

    namespace: str
    subject: T
    due: float
    failures: int = 0


class Undoing(Generic[T]):
    """What is to be undone, by key.

    `undo` undoes one of them or raises; `report` is told what fails again and again, and why.
    """

    def __init__(
        self,
        undo: Callable[[T], Awaitable[None]],
        report: Callable[[T, str], None],
        now: Callable[[], float],
    ) -> None:
        self._undo = undo
        self._report = report
        self._now = now
        self._unfinished: dict[str, _Unfinished[T]] = {}
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    @property
    def failing(self) -> int:
        """How many could not be undone so far."""
        return sum(each.failures > 0 for each in self._unfinished.values())

    def find(self, key: str) -> T | None:
        """Return what is to be undone."""
        unfinished = self._unfinished.get(key)
        return None if unfinished is None else unfinished.subject

    def add(self, key: str, namespace: str, subject: T, *, after: float = 0.0) -> None:
        """Undo something after some seconds; what is known already keeps its time."""
        if key not in self._unfinished:
            self._unfinished[key] = _Unfinished(namespace, subject, self._now() + after)

    def discard(self, key: str) -> None:
        """Do not undo something any more."""
        self._unfinished.pop(key, None)

    def clear(self) -> None:
        """Undo nothing any more."""
        self._unfinished.clear()

    async def run_turn(self) -> bool:
        """Undo what is due, for a limited time; return whether more is due."""
        clock = asyncio.get_running_loop().time
        end = clock() + TURN_SECONDS
        due = self._find_due()
        waiting = due[:MAX_PER_TURN]
        while waiting or self._running:
            waiting = [key for key in waiting if not self._start(key)]
            remaining = end - clock()
            if remaining <= 0:
                break
            tasks = [task for _, task in self._running.values()]
            await asyncio.wait(tasks, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
        return bool(waiting) or len(due) > MAX_PER_TURN

    def _find_due(self) -> list[str]:
        """Return what is due: what has failed least first, and the namespaces in turns."""
        now, turns = self._now(), Counter[tuple[str, int]]()
        due = []
        for key, unfinished in self._unfinished.items():
            if unfinished.due <= now and key not in self._running:
                turns[unfinished.namespace, unfinished.failures] += 1
                due.append(
                    (unfinished.failures, turns[unfinished.namespace, unfinished.failures], key)
                )
        return [key for _, _, key in sorted(due)]

    def _start(self, key: str) -> bool:
        """Begin to undo something; return False while too much is in progress."""
        unfinished = self._unfinished.get(key)
        if unfinished is None:
            return True
        namespaces = [namespace for namespace, _ in self._running.values()]
        if (
            len(namespaces) >= CONCURRENT_WRITES
            or namespaces.count(unfinished.namespace) >= CONCURRENT_OF_NAMESPACE
        ):
            return False
        task = asyncio.create_task(self._try(key, unfinished))
        self._running[key] = (unfinished.namespace, task)
        return True

    async def _try(self, key: str, unfinished: _Unfinished[T]) -> None:
        try:
            await self._undo(unfinished.subject)
        except NotLeadingError:
            return  # the next leader undoes it, or this one in another turn
        except (ApiError, BindRefusedError) as error:
            self._note_failure(key, unfinished, f"{error}")
        except Exception as error:  # noqa: BLE001  # a bug for one must not stop the others
            _LOG.exception("unhandled exception while a write is undone")
            self._note_failure(key, unfinished, f"unhandled exception: {error}")
        else:
            if self._unfinished.get(key) is unfinished:
                del self._unfinished[key]
        finally:
            del self._running[key]

    def _note_failure(self, key: str, unfinished: _Unfinished[T], message: str) -> None:
        if self._unfinished.get(key) is not unfinished:
            return
        failures = unfinished.failures + 1
        # A bounded exponent, because the number of failures is not.
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), MAX_PAUSE_SECONDS)
        self._unfinished[key] = unfinished._replace(due=self._now() + pause, failures=failures)
        if failures == REPORTED_FAILURES:
            self._report(unfinished.subject, message)
