"""Registers a driver with a real kubelet: the service that the kubelet's plugin watcher calls.

The watcher finds a socket in its folder, asks it for name, type and endpoint of the plugin, and
reports whether the kubelet accepted it.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.nodes.messages import message_classes
from e2e.nodes.service import Method, Service

PACKAGE = "pluginregistration"
MESSAGES = message_classes(
    PACKAGE,
    {
        "PluginInfo": ("type", "name", "endpoint", "*supported_versions"),
        "RegistrationStatus": ("plugin_registered:bool", "error"),
        "RegistrationStatusResponse": (),
        "InfoRequest": (),
    },
)
DRA, DRA_SERVICE = "DRAPlugin", "v1.DRAPlugin"


class Registration:
    """One driver's socket in the folder that the kubelet watches."""

    def __init__(self, socket: Path, driver: str, endpoint: Path) -> None:
        self.accepted = threading.Event()
        # A kubelet that starts anew asks again.
        self.acceptances = 0
        self.error = ""
        self._info = MESSAGES["PluginInfo"](
            type=DRA, name=driver, endpoint=str(endpoint), supported_versions=[DRA_SERVICE]
        )
        status, response = MESSAGES["RegistrationStatus"], MESSAGES["RegistrationStatusResponse"]
        methods = {
            "GetInfo": Method(MESSAGES["InfoRequest"], MESSAGES["PluginInfo"], self._get_info),
            "NotifyRegistrationStatus": Method(status, response, self._take_status),
        }
        self._service = Service(socket, f"{PACKAGE}.Registration", methods)

    def _get_info(self, _request: Any, _metadata: Mapping[str, str]) -> Any:  # noqa: ANN401  # protobuf
        return self._info

    def _take_status(self, status: Any, _metadata: Mapping[str, str]) -> Any:  # noqa: ANN401  # protobuf
        self.error = status.error
        if status.plugin_registered:
            self.acceptances += 1
            self.accepted.set()
        return MESSAGES["RegistrationStatusResponse"]()

    def stop(self) -> None:
        """End the service."""
        self._service.stop(0)
