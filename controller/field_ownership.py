"""Give up the ownership of fields of a webhook configuration, on the API server.

`drawbridge.agreement.field_ownership` says why.
"""

from collections.abc import Mapping
from typing import Any

from controller.current_writes import write_unless_changed
from controller.protocols import ObjectStore
from drawbridge.agreement.field_ownership import compose_release


async def release_fields(store: ObjectStore, live: Mapping[str, Any] | None, manager: str) -> None:
    """Let a field manager own nothing of an object, unless it has changed since it was read."""
    patch = compose_release(live, manager)
    if patch is None or live is None:
        return
    await write_unless_changed(store.merge(live["metadata"]["name"], patch))
