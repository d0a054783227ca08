"""Decides whether a legacy ask may become a request with admin access.

Such a request gets devices that others use. An extended resource never gave that right, so the
configuration must allow it, and the API server requires a label on the namespace.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.finding import Code, Finding
from drawbridge.names import ADMIN_ACCESS_LABEL
from drawbridge.translate.decisions.codes import (
    ADMIN_ACCESS_NOT_ALLOWED,
    ADMIN_ACCESS_NOT_LABELLED,
    ADMIN_ACCESS_UNKNOWN,
)
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.targets.plan import Expressibility, TargetResult, make_finding


class AdminAccess(enum.StrEnum):
    """Whether the asks of a pod may have admin access."""

    ALLOWED = "allowed"  # or no ask needs it
    REFUSED = "refused"  # by the configuration
    UNLABELLED = "unlabelled"  # by the API server, in this namespace
    UNKNOWN = "unknown"  # the labels of the namespace are not known


_REASONS: Final[Mapping[AdminAccess, tuple[Code, str]]] = {
    AdminAccess.REFUSED: (ADMIN_ACCESS_NOT_ALLOWED, "decisions.adminAccess is refuse"),
    AdminAccess.UNLABELLED: (
        ADMIN_ACCESS_NOT_LABELLED,
        f"the namespace does not have the label {ADMIN_ACCESS_LABEL} with the value true",
    ),
    AdminAccess.UNKNOWN: (
        ADMIN_ACCESS_UNKNOWN,
        f"the namespace must have the label {ADMIN_ACCESS_LABEL} with the value true",
    ),
}


def check_admin_access(
    asks: Iterable[Ask], configuration: Configuration, *, labelled: bool | None
) -> AdminAccess:
    """Return whether these asks may have admin access, if one of them needs it."""
    if not any(ask.admin for ask in asks):
        return AdminAccess.ALLOWED
    if configuration.decisions.admin_access == "refuse":
        return AdminAccess.REFUSED
    if labelled is None:
        return AdminAccess.UNKNOWN
    return AdminAccess.ALLOWED if labelled else AdminAccess.UNLABELLED


def apply_admin_access(
    result: TargetResult, asks: Sequence[Ask], admin: AdminAccess
) -> TargetResult:
    """Return the result of asks that may have no admin access as not expressible."""
    asking = next((ask for ask in asks if ask.admin), None)
    if asking is None or admin is AdminAccess.ALLOWED:
        return result
    finding = _report(asking, admin)
    if admin is AdminAccess.UNKNOWN:
        return replace(result, findings=(*result.findings, finding))
    return TargetResult(result.asks, Expressibility.NOT_EXPRESSIBLE, findings=(finding,))


def _report(ask: Ask, admin: AdminAccess) -> Finding:
    code, why = _REASONS[admin]
    return make_finding(code, ask, f"the container monitors devices that other pods use, but {why}")
