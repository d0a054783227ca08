"""A part of a cluster that `drawbridge doctor` cannot read, and why."""

from collections.abc import Awaitable
from typing import Final, NamedTuple, TypeVar

from drawbridge.api_error import ApiError
from drawbridge.cluster.resources import Resource

T = TypeVar("T")
# The status of a request without the permission, or for a kind that the server does not have.
_NOT_READABLE: Final = (401, 403, 404)


class Unread(NamedTuple):
    """The reason why a part could not be read."""

    reason: str  # continues a sentence: `you may not list nodes`
    is_forbidden: bool = False


class NotReadError(Exception):
    """A check ends, because `parts` could not be read."""

    def __init__(self, *parts: Unread) -> None:
        super().__init__()
        self.parts = parts


def need(part: T | Unread) -> T:
    """Return a part of the cluster; raises NotReadError if it could not be read."""
    if isinstance(part, Unread):
        raise NotReadError(part)
    return part


async def if_readable(reading: Awaitable[T], verb: str, resource: Resource) -> T | Unread:
    """Return what is read, or why it is not."""
    try:
        return await reading
    except ApiError as error:
        if error.code not in _NOT_READABLE:
            raise
        if error.not_found:
            return Unread(f"the API server has no {resource.plural}")
        return Unread(f"you may not {verb} {resource.plural}", is_forbidden=True)
