"""Reads a claim as a node driver does: its allocated devices and their configuration.

Needs only the claim's JSON and the driver's name. `checks` decides what is allowed.
"""

import json
from dataclasses import dataclass, field
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


def read(driver: str, node: str, claim: JSON) -> Order:
    """Read the part of an allocated claim that is this driver's."""
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
    configs = {
        result.request: chosen
        for result in results
        if (chosen := effective(driver, result.request, devices.get("config", ()))) is not None
    }
    return Order(node, metadata["namespace"], metadata["name"], metadata["uid"], results, configs)


def effective(driver: str, request: str, configs: Any) -> Any:  # noqa: ANN401  # opaque parameters
    """Choose the parameters for one request: claim over class, the later over the earlier.

    None when nobody configured it.
    """
    main = request.partition("/")[0]
    chosen = None
    for source in ("FromClass", "FromClaim"):
        for entry in configs:
            opaque = entry.get("opaque", {})
            wanted = entry.get("requests") or (main,)
            matches = request in wanted or main in wanted
            if entry["source"] == source and opaque.get("driver") == driver and matches:
                chosen = opaque["parameters"]
    return chosen
