"""The configuration that administrators edit, and whether Drawbridge accepts it.

This loads the finding codes of all packages and, for expressions, CEL. The controller accepts for
all processes, and the review of the ConfigMap tells the person at the terminal.
"""

from drawbridge.agreement.configuration import read_configuration
from drawbridge.agreement.configuration_in_use import (
    ConfigurationConfigMap,
    ConfigurationReading,
    read_config_map,
    read_in_use,
)
from drawbridge.api_error import ApiError
from drawbridge.config.codes import CONFIGURATION_NOT_ONE
from drawbridge.names import CONFIGURATION_CONFIG_MAP


def read_offered(config_map: ConfigurationConfigMap | None) -> ConfigurationReading:
    """Read the configuration that administrators edit."""
    return read_config_map(config_map, CONFIGURATION_CONFIG_MAP, read_configuration)


def describe_unread(error: ApiError) -> ConfigurationReading:
    """Return why the controller may not read what administrators edit."""
    message = f"ConfigMap {CONFIGURATION_CONFIG_MAP} cannot be read: {error}"
    remedy = "Apply the manifests of this version, which have its roles."
    return ConfigurationReading(findings=(CONFIGURATION_NOT_ONE.at("", message, remedy=remedy),))


def read_accepted(config_map: ConfigurationConfigMap | None) -> ConfigurationReading:
    """Read the configuration in use, and judge it again: another version may have accepted it."""
    return read_in_use(config_map, read_configuration)
