"""Many selectors at once: JSON lines in, an answer for each out, in order.

A few lines are answered right here. More are shared among processes, one for each processor,
because expressions have nothing to do with each other; what is read ahead is bounded. Knows nothing
of files.
"""

import contextlib
import gc
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from cel.dra.questions import QuestionError, read_question
from cel.dra.selectors import Selectors, Verdict

CHUNK = 64
# Chunks on their way for each process: enough that none waits for the slowest.
AHEAD = 4


class Answer(NamedTuple):
    """One line of output, and whether the expression compiled."""

    line: bytes
    compiled: bool


class Judge:
    """Answers lines as one version of Kubernetes does; remembers what it has compiled."""

    def __init__(self, version: str) -> None:
        self._selectors: Mapping[bool, Selectors] = {
            gate: Selectors(version, list_attributes=gate) for gate in (False, True)
        }
        self._encoder = msgspec.json.Encoder()

    def answers(self, lines: Iterable[bytes]) -> list[Answer]:
        """Answer these lines; one that cannot be read is answered with its error."""
        with _seldom_collected():
            return [self._answer(line) for line in lines]

    def _answer(self, line: bytes) -> Answer:
        verdict = self._verdict(line)
        return Answer(self._encoder.encode(verdict), verdict.compile == "ok")

    def _verdict(self, line: bytes) -> Verdict:
        try:
            asked = read_question(line)
        except QuestionError as error:
            return Verdict(
                compile="error",
                admitted=False,
                new_compile="error",
                error_kind="input",
                error=f"{error}",
            )
        selectors = self._selectors[asked.list_attributes]
        return selectors.answer(asked.expression, asked.driver, asked.device)


def answers(lines: Iterable[bytes], version: str) -> Iterator[Answer]:
    """Answer lines in order, with as many processes as pay off."""
    chunks = _chunks(lines)
    ahead = list(islice(chunks, 2))
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(ahead) < 2 or not workers or workers < 2:
        judge = Judge(version)
        for chunk in chain(ahead, chunks):
            yield from judge.answers(chunk)
    else:
        yield from _shared(chain(ahead, chunks), version, workers)


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    remaining = iter(lines)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def _shared(chunks: Iterable[list[bytes]], version: str, workers: int) -> Iterator[Answer]:
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(version,))
    pending: deque[Future[list[Answer]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_answered, chunk))
            if len(pending) > AHEAD * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        # A reader that went away, or Ctrl-C: what has not begun never will.
        pool.shutdown(cancel_futures=True)


# The judge of a worker process: made once, by the initializer, before the first chunk comes.
_JUDGES: list[Judge] = []


def _begin(version: str) -> None:
    _JUDGES[:] = [Judge(version)]


def _answered(chunk: list[bytes]) -> list[Answer]:
    return _JUDGES[0].answers(chunk)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage less often: trees and closures come by the thousand, few in cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
