"""Evaluates many selectors: reads JSON lines and writes one result line for each, in order.

Evaluates a small input in this process. Distributes a larger one over worker processes, one per
CPU, and bounds the number of lines that it reads ahead.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from drawbridge.cel.dra.questions import QuestionError, read_question
from drawbridge.cel.dra.selectors import SelectorResult, Selectors
from drawbridge.process.collection import rare_collections

CHUNK = 64
# Chunks in flight per process: enough that no process waits for the slowest one.
AHEAD = 4


class EncodedResult(NamedTuple):
    """One line of output, whether the expression compiled, and whether it failed on the device."""

    line: bytes
    compiled: bool
    failed: bool


class LineEvaluator:
    """Evaluates lines as one version of Kubernetes does; caches compiled expressions."""

    def __init__(self, version: str) -> None:
        self._selectors: Mapping[bool, Selectors] = {
            gate: Selectors(version, list_attributes=gate) for gate in (False, True)
        }
        self._encoder = msgspec.json.Encoder()

    def evaluate(self, lines: Iterable[bytes]) -> list[EncodedResult]:
        """Evaluate these lines; the result of a malformed line is its error."""
        return [self._evaluate_line(line) for line in lines]

    def _evaluate_line(self, line: bytes) -> EncodedResult:
        result = self._evaluate(line)
        compiled = result.compile == "ok"
        return EncodedResult(self._encoder.encode(result), compiled, result.error is not None)

    def _evaluate(self, line: bytes) -> SelectorResult:
        try:
            question = read_question(line)
        except QuestionError as error:
            return SelectorResult(
                compile="error",
                admitted=False,
                new_compile="error",
                error_kind="input",
                error=f"{error}",
            )
        selectors = self._selectors[question.list_attributes]
        return selectors.evaluate(question.expression, question.driver, question.device)


def evaluate_lines(lines: Iterable[bytes], version: str) -> Iterator[EncodedResult]:
    """Evaluate lines in order; use worker processes if there is more than one chunk."""
    chunks = _chunks(lines)
    ahead = list(islice(chunks, 2))
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(ahead) < 2 or not workers or workers < 2:
        evaluator = LineEvaluator(version)
        for chunk in chain(ahead, chunks):
            yield from evaluator.evaluate(chunk)
    else:
        yield from _evaluate_in_workers(chain(ahead, chunks), version, workers)


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    remaining = iter(lines)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def _evaluate_in_workers(
    chunks: Iterable[list[bytes]], version: str, workers: int
) -> Iterator[EncodedResult]:
    pool = ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(version,))
    pending: deque[Future[list[EncodedResult]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_evaluate_chunk, chunk))
            if len(pending) > AHEAD * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        # After a closed pipe or Ctrl-C, chunks that no worker has started are dropped.
        pool.shutdown(cancel_futures=True)


# The evaluator of a worker process. The initializer creates it before the first chunk.
_EVALUATORS: list[LineEvaluator] = []


def _start_worker(version: str) -> None:
    _EVALUATORS[:] = [LineEvaluator(version)]


def _evaluate_chunk(chunk: list[bytes]) -> list[EncodedResult]:
    with rare_collections():
        return _EVALUATORS[0].evaluate(chunk)
