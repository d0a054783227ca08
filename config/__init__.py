"""The Configuration: schema, defaults, strict loading. Pure."""
