"""The memory of frames: no depth of calls makes a loop ask the system for memory."""

import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from drawbridge.process.stack import call_with_stack

ROUNDS = 2000
# More than one chunk of frames.
DEPTHS = 400


def page_faults_of_loop() -> int:
    def called() -> None:
        pass

    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(ROUNDS):
        called()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def at_depth(depth: int, function: Callable[[], int]) -> int:
    return function() if depth == 0 else at_depth(depth - 1, function)


def most_page_faults() -> int:
    return max(at_depth(depth, page_faults_of_loop) for depth in range(DEPTHS))


def test_a_loop_at_any_depth_keeps_the_memory_of_its_frames() -> None:
    # A new thread, because the tests themselves have such a frame.
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(call_with_stack, most_page_faults).result() < ROUNDS / 10


def test_an_exception_of_the_function_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        call_with_stack(lambda: 1 // 0)
