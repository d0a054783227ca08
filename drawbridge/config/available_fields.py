"""The fields of the Configuration that this version supports.

Every other field is rejected, so that no field is accepted without effect. A change that implements
a feature adds its field here. An entry (`legacy.renames`, or `targets[].sharing` inside a list)
makes the field and all fields below it available, and lists the allowed values; an empty tuple
allows all values.
"""

from collections.abc import Mapping
from typing import Final

AvailableFields = Mapping[str, tuple[str, ...]]

AVAILABLE_FIELDS: Final[AvailableFields] = {
    "apiVersion": (),
    "kind": (),
    "placement": (),
    "bridge": (),
    "scope": (),
    "legacy": (),
    "targets": (),
    "fleet": (),
    "decisions": (),
    "admission": (),
    "findings": (),
    "compatibility": (),
    "unsetGroups": (),
    "partitions": (),
    "strategy.default": (),
    "preemption": (),
    "strategy.classes": (),
    "strategy.weights": (),
    "strategy.classWeights": (),
    "ownedPools": (),
    "quotas": (),
}


def is_available(place: str, built: AvailableFields) -> bool:
    """Tell whether the field at `place`, or an object that contains it, is available."""
    return any(
        place == line or place.startswith((f"{line}.", f"{line}[]", f"{line}{{}}"))
        for line in built
    )


def is_partly_available(place: str, built: AvailableFields) -> bool:
    """Tell whether any field inside the field at `place` is available."""
    return any(line.startswith((f"{place}.", f"{place}[]", f"{place}{{}}")) for line in built)
