"""The programs of Kubernetes that answers are compared with; skips where there is no Go."""

from collections.abc import Iterator

import pytest

from e2e.checker.expressions import Expressions
from e2e.differential.theirs import Oracle
from e2e.oracle.build import NoGoError, binary


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    try:
        running = Oracle(binary())
    except NoGoError as error:
        pytest.skip(f"NOT COMPARED with Kubernetes' own allocator: {error}")
    yield running
    running.close()


@pytest.fixture(scope="session")
def expressions(oracle: Oracle) -> Iterator[Expressions]:  # noqa: ARG001  # skips with it
    with Expressions(binary()) as running:
        yield running
