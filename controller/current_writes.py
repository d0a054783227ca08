"""Writes to an object as it was read: a precondition names its version, or its uid."""

from collections.abc import Awaitable

from drawbridge.api_error import ApiError


async def write_unless_changed(write: Awaitable[object]) -> bool:
    """Wait for a write; return whether the object is still the one that was read.

    The watch shows a change, so that the next run decides anew. Other errors are raised.
    """
    try:
        await write
    except ApiError as error:
        if not error.changed:
            raise
        return False
    return True
