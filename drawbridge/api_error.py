"""The error of a failed request to the API server, for those who send it and those who decide."""

from collections.abc import Mapping
from typing import Any, Final

# Unauthorized, request timeout and too many requests: the same request can succeed later.
_TRANSIENT_CODES: Final = (401, 408, 429)


class ApiError(Exception):
    """A request failed. `code` and `reason` come from the Status; without a response, `code` is 0.

    `unknown`: the API server may have carried the request out. In all other cases it has changed
    nothing. `request` is its method and path, if it is known; not all messages name it.
    """

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
        unknown: bool | None = None,
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if code else message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}
        self.unknown = code >= 500 if unknown is None else unknown
        self.request = ""

    def describe(self) -> str:
        """Return the message, with the request: a proxy, or a server under load, names none."""
        is_named = self.message.startswith(self.request) or self.reason == "Forbidden"
        if is_named:
            return self.message
        return f"{self.request}: {self.message}"

    @property
    def gone(self) -> bool:
        """Whether a resourceVersion, or a page of a list, has expired."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def exists(self) -> bool:
        """Whether an object that was to be created already exists."""
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Whether the object changed meanwhile; false if a created object already exists."""
        return self.code == 409 and not self.exists

    @property
    def forbidden(self) -> bool:
        """Whether permissions or credentials are missing."""
        return self.code in (401, 403)

    @property
    def not_found(self) -> bool:
        """Whether the object or its kind does not exist."""
        return self.code == 404

    @property
    def changed(self) -> bool:
        """Whether the object exists no more or has changed, so that it must be read again."""
        return self.conflict or self.not_found

    @property
    def refused(self) -> bool:
        """Whether the API server rejected the request and would reject it again."""
        return 400 <= self.code < 500 and not self.transient

    @property
    def transient(self) -> bool:
        """Whether the API server answered that the same request can succeed later."""
        return self.code in _TRANSIENT_CODES

    @property
    def internal(self) -> bool:
        """Whether the API server failed with this request, also because a webhook failed."""
        return self.code == 500
