"""What a failed request says about the object that it was to change."""

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import UnreachableError
from tests.tables import every_row

# What a failure says: the object has changed, nothing was changed, or the write can have happened.
FAILURES = [
    (ApiError(409, "Conflict"), "changed"),
    (ApiError(404, "NotFound"), "changed"),
    (ApiError(409, "AlreadyExists"), "refused"),
    (ApiError(403, "Forbidden"), "refused"),
    (ApiError(422, "Invalid"), "refused"),
    (ApiError(429, "TooManyRequests"), "later"),
    (ApiError(401, "Unauthorized"), "later"),
    (ApiError(500, "InternalError"), "unknown"),
    (ApiError(503, "ServiceUnavailable"), "unknown"),
    (ApiError(504, "Timeout"), "unknown"),
    (UnreachableError("no response"), "unknown"),
    (UnreachableError("connection refused", unknown=False), "later"),
]


@every_row(("failure", "meaning"), FAILURES)
def test_a_failure_tells_whether_the_write_can_have_happened(
    failure: ApiError, meaning: str
) -> None:
    assert failure.changed == (meaning == "changed")
    assert failure.unknown == (meaning == "unknown")
    assert failure.refused == (meaning in ("changed", "refused"))
