"""The requests of the write path: what their failures mean, and what cannot be read."""

from typing import Any

import pytest

from allocator.writes.api_server import ApiServerWrites
from allocator.writes.cluster_writes import PodName, WriteFailedError
from drawbridge.cluster.errors import ApiError, UnreachableError
from drawbridge.dra.claim import Claim
from tests.allocator.clusters import as_claim, claim

pytestmark = pytest.mark.asyncio


class FakeWriter:
    """A writer whose next response or failure the test sets."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.listed: list[dict[str, Any]] = []

    async def list(self, _: object) -> list[dict[str, Any]]:
        """Return what the test has set."""
        self._fail()
        return self.listed

    async def patch(self, *_: object, **__: object) -> dict[str, Any]:
        """Fail, or return a claim."""
        self._fail()
        return claim("c")

    async def create_subresource(self, *_: object) -> dict[str, Any]:
        """Fail, or return anything."""
        self._fail()
        return {}

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


# What a failure says about the object: it has changed, or the write may have happened.
FAILURES: list[tuple[Exception, str]] = [
    (ApiError(409, "Conflict"), "changed"),
    (ApiError(404, "NotFound"), "changed"),
    (ApiError(403, "Forbidden"), "refused"),
    (ApiError(422, "Invalid"), "refused"),
    (ApiError(429, "TooManyRequests"), "refused"),
    (ApiError(500, "InternalError"), "unknown"),
    (ApiError(503, "ServiceUnavailable"), "unknown"),
    (ApiError(504, "Timeout"), "unknown"),
    (UnreachableError("no response"), "unknown"),
    (UnreachableError("refused", may_have_arrived=False), "refused"),
    (ValueError("not JSON"), "unknown"),
]


@pytest.mark.parametrize(("failure", "meaning"), FAILURES)
async def test_a_failure_tells_whether_the_write_can_have_happened(
    failure: Exception, meaning: str
) -> None:
    writer = FakeWriter()
    writes = ApiServerWrites(writer)  # type: ignore[arg-type]  # has the methods that are used
    writer.failure = failure
    for call in (
        lambda: writes.allocate(as_claim(claim("c")), {"devices": {}}, ()),
        lambda: writes.bind(PodName("n", "p", "u"), "node-1"),
    ):
        with pytest.raises(WriteFailedError) as raised:
            await call()
        assert (raised.value.changed, raised.value.unknown) == (
            meaning == "changed",
            meaning == "unknown",
        )


async def test_a_claim_that_cannot_be_read_does_not_stop_the_recovery_of_the_others() -> None:
    writer = FakeWriter()
    unreadable = {**claim("bad"), "spec": {"devices": {"requests": 7}}}
    writer.listed = [claim("a"), unreadable, claim("b")]
    found: list[Claim] = await ApiServerWrites(writer).list_claims()  # type: ignore[arg-type]  # as above
    assert [each.metadata.name for each in found] == ["a", "b"]
