"""Errors that end the search for the whole pod."""

import enum


class Cause(enum.StrEnum):
    """The kinds of errors."""

    REFUSED = "refused"
    SELECTOR = "selector"
    CAPACITY = "capacity"
    DERIVED = "derived"
    POOL = "pool"
    NODE_SELECTOR = "node selector"
    WORK = "work"


class Abort(Exception):  # noqa: N818  # not a bug: the result is an error
    """The scheduler reports an error for the pod, on every node."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
