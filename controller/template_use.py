"""Reads when a template was last used from its timestamps."""

from datetime import datetime

from controller.watched_objects import ObjectMetadata
from drawbridge.agreement.template_objects import parse_time
from drawbridge.names import USED_ANNOTATION


def is_created_ahead(metadata: ObjectMetadata) -> bool:
    """Return whether no use is recorded: admission created it, and no pod refers to it yet."""
    return _read_use(metadata) is None


def last_used(metadata: ObjectMetadata) -> datetime | None:
    """Return when a template was created or last used; None if it has no timestamp."""
    return max(filter(None, (metadata.creation_timestamp, _read_use(metadata))), default=None)


def _read_use(metadata: ObjectMetadata) -> datetime | None:
    return parse_time((metadata.annotations or {}).get(USED_ANNOTATION))
