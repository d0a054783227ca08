"""Describes the gRPC protocol of kubelet and node driver, `DRAPlugin` v1.

The messages are those of `k8s.io.kubelet.pkg.apis.dra.v1`; field numbers are Kubernetes'.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from e2e.nodes.messages import message_classes
from e2e.nodes.service import FailedError, Method, Service, call

__all__ = ["CALLS", "MESSAGES", "PREPARE", "UNPREPARE", "FailedError", "ask", "reference", "serve"]

PACKAGE = "k8s.io.kubelet.pkg.apis.dra.v1"
SERVICE = f"{PACKAGE}.DRAPlugin"
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
MESSAGES = message_classes(
    PACKAGE,
    {
        "Claim": ("namespace", "uid", "name"),
        "Device": ("*request_names", "pool_name", "device_name", "*cdi_device_ids", "?share_id"),
        "NodePrepareResourcesRequest": ("*claims:Claim",),
        "NodePrepareResourceResponse": ("*devices:Device", "error"),
        "NodePrepareResourcesResponse": ("{}claims:NodePrepareResourceResponse",),
        "NodeUnprepareResourcesRequest": ("*claims:Claim",),
        "NodeUnprepareResourceResponse": ("error",),
        "NodeUnprepareResourcesResponse": ("{}claims:NodeUnprepareResourceResponse",),
    },
)
CALLS = {
    PREPARE: (
        MESSAGES["NodePrepareResourcesRequest"],
        MESSAGES["NodePrepareResourcesResponse"],
    ),
    UNPREPARE: (
        MESSAGES["NodeUnprepareResourcesRequest"],
        MESSAGES["NodeUnprepareResourcesResponse"],
    ),
}

# Takes the node that asks and the request; gives the answer, or raises FailedError.
Handler = Callable[[str, Any], Any]
NODE = "node"


def serve(socket: Path, handlers: Mapping[str, Handler], node: str = "") -> Service:
    """Serve the two calls for one node; without `node` the metadata of a call names it."""
    methods = {
        name: Method(request, answer, partial(_answer, handlers[name], node))
        for name, (request, answer) in CALLS.items()
    }
    return Service(socket, SERVICE, methods)


def _answer(handler: Handler, node: str, request: Any, metadata: Mapping[str, str]) -> Any:  # noqa: ANN401  # protobuf
    return handler(node or metadata.get(NODE, ""), request)


def ask(socket: Path, name: str, node: str, claims: list[Any]) -> Any:  # noqa: ANN401  # protobuf
    """Call a driver for some claims; FailedError when the call fails as a whole.

    A driver of simulated nodes serves many of them, so the metadata says which one asks.
    """
    request, response = CALLS[name]
    return call(socket, f"/{SERVICE}/{name}", request(claims=claims), response, ((NODE, node),))


def reference(namespace: str, name: str, uid: str) -> Any:  # noqa: ANN401  # protobuf
    """Name a claim in a request."""
    return MESSAGES["Claim"](namespace=namespace, name=name, uid=uid)
