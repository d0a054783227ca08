"""What ends the search for the whole pod, as opposed to a device or a node that does not do."""

import enum


class Cause(enum.StrEnum):
    """What kind of error it is."""

    REFUSED = "refused"
    SELECTOR = "selector"
    CAPACITY = "capacity"
    DERIVED = "derived"
    POOL = "pool"
    NODE_SELECTOR = "node selector"


class Abort(Exception):  # noqa: N818  # no bug: the answer is an error
    """The scheduler would report an error for the pod, whatever other nodes have."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
