"""What a failed request says about the object that it was to change."""

import pytest

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import UnreachableError, decode_response
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


def test_a_status_is_an_answer_only_if_it_tells_of_success() -> None:
    done = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
    assert decode_response(done, dict[str, str])["status"] == "Success"
    with pytest.raises(ApiError, match="it is a Status") as caught:
        decode_response(done.replace(b"Success", b"Failure"), dict[str, str])
    assert caught.value.unknown
