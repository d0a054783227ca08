"""Reads a claim as a node driver does: its allocated devices and their configuration.

Needs only the claim's JSON and the driver's name. `checks` decides what is allowed.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

JSON = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One allocated device."""

    request: str
    pool: str
    device: str
    share: str = ""
    admin: bool = False
    consumed: JSON = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What one driver is asked to prepare on one node for one claim.

    `configs` has the configuration that counts for each request, where there is any.
    """

    node: str
    namespace: str
    name: str
    uid: str
    results: tuple[Result, ...]
    configs: JSON = field(default_factory=dict)

    @property
    def claim(self) -> str:
        """Return the name of the claim."""
        return f"{self.namespace}/{self.name}"

    def config(self, result: Result) -> str:
        """Return the configuration of a result in a form that can be compared."""
        return json.dumps(self.configs.get(result.request), sort_keys=True)


def read(
    driver: str,
    node: str,
    claim: JSON,
    applies: Callable[[str, JSON], bool] = lambda _device, _parameters: True,
) -> Order:
    """Read the part of an allocated claim that is this driver's.

    `applies` tells whether a configuration for all requests is one for a device.
    """
    metadata = claim["metadata"]
    devices = claim["status"]["allocation"]["devices"]
    results = tuple(
        Result(
            result["request"],
            result["pool"],
            result["device"],
            result.get("shareID", ""),
            bool(result.get("adminAccess")),
            result.get("consumedCapacity", {}),
        )
        for result in devices.get("results", ())
        if result["driver"] == driver
    )
    entries = devices.get("config", ())
    configs = {
        result.request: chosen
        for result in results
        if (chosen := effective(driver, result.request, entries, partial(applies, result.device)))
        is not None
    }
    return Order(node, metadata["namespace"], metadata["name"], metadata["uid"], results, configs)


def effective(
    driver: str,
    request: str,
    configs: Any,  # noqa: ANN401  # opaque parameters
    applies: Callable[[JSON], bool] = lambda _: True,
) -> Any:  # noqa: ANN401  # opaque parameters
    """Choose the parameters for one request: claim over class, the later over the earlier.

    None when nobody configured it. As in the real drivers, a configuration applies to the whole
    name of what was allocated, so that of the main request of a prioritized list applies to
    nothing. One for all requests counts only if it `applies`.
    """
    chosen = None
    for source in ("FromClass", "FromClaim"):
        for entry in configs:
            opaque = entry.get("opaque", {})
            if entry["source"] != source or opaque.get("driver") != driver:
                continue
            named = entry.get("requests", ())
            if request in named or (not named and applies(opaque["parameters"])):
                chosen = opaque["parameters"]
    return chosen
