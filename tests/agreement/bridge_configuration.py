"""The Configuration of bridge placement."""

from typing import Any

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration


def configured(*entries: dict[str, Any]) -> Configuration:
    """Return a configuration with these entries of `ownedPools`."""
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    loaded = accept_configuration({**head, "placement": "bridge", "ownedPools": list(entries)}, {})
    assert isinstance(loaded, Configuration), loaded
    return loaded
