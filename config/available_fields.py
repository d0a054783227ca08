"""Which fields of the Configuration this version honours.

A field that does nothing must not be accepted: somebody would rely on it. So everything the model
declares is refused unless it stands here. What builds a feature adds its field, one line: the
dotted name (`legacy.renames`; `targets[].sharing` inside a list) opens it with all below, and the
values limit what may be said; none means any.
"""

from collections.abc import Mapping
from typing import Final

AvailableFields = Mapping[str, tuple[str, ...]]

AVAILABLE_FIELDS: Final[AvailableFields] = {
    "apiVersion": (),
    "kind": (),
    "placement": (),
    "scope": (),
    "legacy": (),
    "targets": (),
    "decisions": (),
    "findings": (),
    "compatibility": (),
    "unsetGroups": (),
}


def is_available(place: str, built: AvailableFields) -> bool:
    """Whether the field at `place` is honoured, by its own line or that of an object around it."""
    return any(
        place == line or place.startswith((f"{line}.", f"{line}[]", f"{line}{{}}"))
        for line in built
    )


def is_partly_available(place: str, built: AvailableFields) -> bool:
    """Whether something inside the field at `place` is honoured."""
    return any(line.startswith((f"{place}.", f"{place}[]", f"{place}{{}}")) for line in built)
