"""Exceptions for failed requests to the API server."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder, JSONText, decode_foreign

T = TypeVar("T")


class UnreachableError(ApiError):
    """No complete response arrived: refused, interrupted or timed out. Its `code` is 0.

    `permanent`: a retry fails too. `is_outage`: the session has logged why no request gets one.
    """

    def __init__(
        self,
        message: str,
        *,
        unknown: bool = True,
        permanent: bool = False,
        is_outage: bool = False,
    ) -> None:
        super().__init__(0, "Unreachable", message, unknown=unknown)
        self.permanent, self.is_outage = permanent, is_outage


class AccessError(Exception):
    """No usable credentials: no kubeconfig, an unknown context, or a plug-in that fails."""


class NotLeadingError(Exception):
    """A write was not sent, because this process may no longer be the leader."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


class _Answer(msgspec.Struct):
    """The kind of a response; of a Status, `status` says whether the request succeeded."""

    kind: str
    status: msgspec.Raw = msgspec.Raw()


_DECODER: Final[ForeignDecoder[_Status]] = ForeignDecoder(_Status)
_ANSWERS: Final = msgspec.json.Decoder(_Answer)
# The first lines of a proxy's HTML page are enough.
_MAX_MESSAGE_BYTES = 500
# A server, or a proxy before it, can name any time.
_MOST_RETRY_AFTER = 60.0


def error_from_response(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Build the error of a response with code 400 or above, with or without a Status."""
    return error_from_status(code, body, _parse_seconds(headers.get("Retry-After", "")))


def error_from_status(code: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """Build the error of a Status; `code` is the default if the body has no code."""
    try:
        status = _DECODER.decode(body)
    except UNDECODABLE:
        return ApiError(
            code, "", body[:_MAX_MESSAGE_BYTES].decode(errors="replace"), retry_after=retry_after
        )
    details = status.details or {}
    if retry_after is None:
        retry_after = _parse_seconds(str(details.get("retryAfterSeconds") or ""))
    message = status.message or body[:_MAX_MESSAGE_BYTES].decode(errors="replace")
    return ApiError(
        status.code or code, status.reason, message, retry_after=retry_after, details=details
    )


def unreadable(error: Exception) -> ApiError:
    """Return the error of a response that is, for example, the page of a proxy."""
    return ApiError(0, "InvalidData", f"the response cannot be read: {error}", unknown=True)


@contextlib.contextmanager
def naming_request(request: str) -> Iterator[None]:
    """Let the error of a response that cannot be read name its request."""
    try:
        yield
    except ApiError as error:
        error.request = error.request or request
        raise


def check_answer(response: bytes) -> JSONText:
    """Return a response with a code of success as decoders read it, without what is too deep.

    Raises ApiError unless it is an object or tells of success.
    """
    try:
        text, answer = decode_foreign(_ANSWERS.decode, response)
    except UNDECODABLE as error:
        raise unreadable(error) from None
    if answer.kind == "Status" and bytes(answer.status) != b'"Success"':
        raise unreadable(ValueError("it is a Status, which tells of no success"))
    return text


def decode_response(response: bytes, kind: type[T]) -> T:
    """Decode the object of a response; raises ApiError, also if a part is too deep.

    Callers write back what they read.
    """
    check_answer(response)
    return decode_json(response, kind)


def decode_json(response: JSONText, kind: type[T]) -> T:
    """Decode the JSON of a response, which need not be an object; raises ApiError."""
    try:
        return ForeignDecoder[T](kind).decode(response)
    except UNDECODABLE as error:
        raise unreadable(error) from None


def _parse_seconds(text: str) -> float | None:
    """Parse Retry-After in seconds, as the API server sends it; dates are not supported."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(seconds, _MOST_RETRY_AFTER) if seconds >= 0 else None


def requires_list(error: ApiError) -> bool:
    """Whether a watch cannot continue after this error.

    410: the server no longer has the version. 504: the version is in the future. Invalid data and
    rejected requests have unknown causes. A server that is unreachable, overloaded or starting
    (429, 500, 503) keeps its history, and lists from thousands of clients would overload it.
    """
    if isinstance(error, UnreachableError):
        return False
    return error.gone or error.code not in (429, 500, 502, 503)
