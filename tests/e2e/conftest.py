"""The oracle is built with Go; what needs it skips where there is none, and says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.checker.expressions import Expressions
from e2e.oracle.build import NoGoError, binary


@pytest.fixture(scope="session")
def oracle() -> Path:
    try:
        return binary()
    except NoGoError as error:
        pytest.skip(f"NOT TESTED against Kubernetes' own allocator: {error}")


@pytest.fixture(scope="session")
def expressions(oracle: Path) -> Iterator[Expressions]:
    with Expressions(oracle) as running:
        yield running
