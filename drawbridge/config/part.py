"""What all objects of the configuration file have in common."""

import msgspec


def describe(description: str) -> msgspec.Meta:
    """Return the description of a field."""
    return msgspec.Meta(description=description)


class ConfigurationPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of the file. Unknown fields are rejected."""
