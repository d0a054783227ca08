"""The ConfigMaps with a configuration: as an administrator offers it, and as it is in use."""

from typing import Any, Final

from drawbridge.agreement.configuration_in_use import (
    ConfigurationConfigMap,
    compose_in_use,
)
from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.names import CONFIGURATION_CONFIG_MAP, CONFIGURATION_KEY, NAMESPACE

HEAD: Final = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"


def offer(text: str) -> dict[str, Any]:
    """Build ConfigMap drawbridge-config."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIGURATION_CONFIG_MAP, "namespace": NAMESPACE},
        "data": {CONFIGURATION_KEY: text},
    }


def accept(text: str, *, offered: str | None = None) -> dict[str, Any]:
    """Build ConfigMap drawbridge-config-in-use; `offered` is a later text, if there is one."""
    data = {CONFIGURATION_KEY: text if offered is None else offered}
    composed = compose_in_use(text, read_offered(ConfigurationConfigMap(data)), None, "now")
    assert composed is not None
    composed["metadata"]["namespace"] = NAMESPACE
    return composed
