"""A cache that follows a fake API server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.cluster.cached import Rig, rigged


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path) as made:
        yield made
