"""What goes wrong on the way to the API server, as exceptions.

They say what the server or the network said; what to do about it is the caller's decision.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class ApiError(Exception):
    """The API server said no; `code` and `reason` are those of its Status."""

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if code else message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}

    @property
    def gone(self) -> bool:
        """Whether a version, or a page of a list, is no longer to be had."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def conflict(self) -> bool:
        """Whether the object changed in between; one that exists already is something else."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def forbidden(self) -> bool:
        """Whether somebody has to give a right, or credentials, before it can succeed."""
        return self.code in (401, 403)

    @property
    def missing(self) -> bool:
        """Whether there is no such object, or no such kind."""
        return self.code == 404


class UnreachableError(ApiError):
    """No whole answer came: refused, cut off, too late. Code 0, so that one `except` is enough.

    `began`: the server may have got the request. `hopeless`: the next attempt fails as well.
    """

    def __init__(self, message: str, *, began: bool = True, hopeless: bool = False) -> None:
        super().__init__(0, "Unreachable", message)
        self.began = began
        self.hopeless = hopeless


class AccessError(Exception):
    """There is no way to an API server: no kubeconfig, no such context, a plug-in that fails."""


class NotLeadingError(Exception):
    """A write was held back, because it is not certain that this process still leads."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_DECODER = msgspec.json.Decoder(_Status)
# A proxy's page of HTML says enough in its first lines.
_MOST = 500


def from_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Read the error of an answer of 400 and above; not every proxy answers with a Status."""
    return from_status(code, body, _seconds(headers.get("Retry-After", "")))


def from_status(code: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """Read a Status; `code` counts where it has none, or is not one."""
    try:
        status = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ApiError(code, "", body[:_MOST].decode(errors="replace"), retry_after=retry_after)
    details = status.details or {}
    if retry_after is None:
        retry_after = _seconds(str(details.get("retryAfterSeconds") or ""))
    message = status.message or body[:_MOST].decode(errors="replace")
    return ApiError(
        status.code or code, status.reason, message, retry_after=retry_after, details=details
    )


def _seconds(text: str) -> float | None:
    """Read Retry-After; the API server says seconds, and a date is not worth a parser."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None
