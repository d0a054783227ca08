"""Settings of all tests: their order, and what none of them leaves behind."""

import functools
import gc
import logging
import random
import signal
from collections.abc import Generator, Iterator

import pytest
from _pytest import runner
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers

from drawbridge.process.stack import call_with_stack
from tests.leftovers import LOGGERS, differences, process_state
from tests.thorough import THOROUGH, drawn

# No test asserts a duration: on a busy machine, a deadline fails at random. `make test` draws few
# examples, the same ones in each run; CI's schedule draws many, and others each night.
settings.register_profile(
    "drawbridge", deadline=None, max_examples=drawn(20, thorough=100), derandomize=not THOROUGH
)
settings.load_profile("drawbridge")
if not THOROUGH:
    # Hypothesis also draws constants of the modules that are imported: examples would depend on the
    # tests before, and all modules are parsed again.
    assert hasattr(providers, "_get_local_constants")
    providers._get_local_constants = functools.cache(providers.Constants)  # noqa: SLF001
settings.register_profile("first-failure", phases=set(Phase) - {Phase.shrink})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Accept a seed; `make test-random` gives one."""
    parser.addoption("--order", type=int, metavar="SEED", help="run the tests in random order")


def pytest_configure() -> None:
    """Handle signals as a terminal does: a job in the background of a shell starts without them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Print the seed, with which the order can be repeated."""
    seed = config.getoption("--order")
    return None if seed is None else f"random order: SEED={seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and tests, which stay to the end, out of garbage collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle single tests across files, and draw the worker that `--dist loadgroup` gives each."""
    seed = config.getoption("--order")
    if seed is None:
        return
    draw = random.Random(seed)  # an order, no secret
    draw.shuffle(items)
    if not hasattr(config, "workerinput"):  # one process, without groups
        return
    workers = config.workerinput["workercount"]
    for test in items:
        test.add_marker(pytest.mark.xdist_group(str(draw.randrange(workers))))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Give tests the stack that our processes have, whatever the depth of the runner's calls."""
    return call_with_stack(lambda: runner.pytest_runtest_protocol(item, nextitem))


@pytest.fixture
def kept_logging() -> Iterator[None]:
    """Restore the logging after a test that runs a process of ours within its own."""
    root, others = logging.getLogger(), [logging.getLogger(name) for name in LOGGERS]
    handlers, levels = root.handlers[:], [logger.level for logger in (root, *others)]
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    for logger, level in zip((root, *others), levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that changes its process for later tests.

    pytest sets up the fixtures of a longer scope before this one, so what those start may stay.
    """
    before = process_state()
    yield
    assert differences(before, process_state()) == []
