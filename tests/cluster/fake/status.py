"""Error responses of the fake API server: a Status with a code, a reason and details."""

from typing import Any

from tests.cluster.fake.kinds import JSON, Kind

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class RefusedError(Exception):
    """A request is rejected with a Status."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        retry_after: float | None = None,
        **details: Any,  # noqa: ANN401  # JSON
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS.get(code, "Unknown"),
            "details": details,
            "code": code,
        }


def about(kind: Kind, name: str) -> JSON:
    """Return the details that name an object."""
    return {"name": name, "group": kind.group, "kind": kind.plural}


def missing(kind: Kind, name: str) -> RefusedError:
    return RefusedError(404, f'{kind.long_name} "{name}" not found', **about(kind, name))


def exists(kind: Kind, name: str) -> RefusedError:
    message = f'{kind.long_name} "{name}" already exists'
    return RefusedError(409, message, reason="AlreadyExists", **about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> RefusedError:
    message = f'Operation cannot be fulfilled on {kind.long_name} "{name}": {why}'
    return RefusedError(409, message, **about(kind, name))


def invalid(kind: Kind, name: str, field: str, why: str) -> RefusedError:
    named = f'{kind.kind}.{kind.group} "{name}"' if kind.group else f'{kind.kind} "{name}"'
    causes = [{"reason": "FieldValueInvalid", "message": why, "field": field}]
    told = f"{named} is invalid: {field}: {why}"
    return RefusedError(422, told, name=name, group=kind.group, kind=kind.kind, causes=causes)


def expired(message: str) -> RefusedError:
    return RefusedError(410, message)
