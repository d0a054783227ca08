"""The Configuration: schema, defaults and strict loading. Does no I/O."""
