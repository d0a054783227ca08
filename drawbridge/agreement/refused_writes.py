"""Report that the API server does not let the leader write an object of Drawbridge."""

from typing import Final

from drawbridge.agreement.operation_codes import (
    CONFIG_MAP_REFUSED,
    QUOTA_REFUSED,
    SECRET_REFUSED,
)
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding

_CODES: Final = {
    "ConfigMap": CONFIG_MAP_REFUSED,
    "ResourceQuota": QUOTA_REFUSED,
    "Secret": SECRET_REFUSED,
}


def describe_refused_write(kind: str, error: ApiError, about: str = "") -> tuple[Finding, ...]:
    """Report that an object of this kind cannot be written, unless a retry can succeed."""
    if not error.refused or error.changed or error.exists:
        return ()
    return (_CODES[kind].at("", f"the {kind} cannot be written: {error}", object=about),)
