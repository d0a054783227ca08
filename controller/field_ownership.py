"""Give up the ownership of fields of a webhook configuration, on the API server.

`drawbridge.agreement.field_ownership` says why.
"""

from collections.abc import Mapping
from typing import Any

from controller.protocols import ObjectStore
from drawbridge.agreement.field_ownership import compose_release
from drawbridge.api_error import ApiError


async def release_fields(store: ObjectStore, live: Mapping[str, Any] | None, manager: str) -> None:
    """Let a field manager own nothing of an object, unless it has changed since it was read."""
    patch = compose_release(live, manager)
    if patch is None or live is None:
        return
    try:
        await store.merge(live["metadata"]["name"], patch)
    except ApiError as error:
        # The watch shows the change, and the next run composes another patch.
        if error.code not in (404, 409):
            raise
