"""Describes the gRPC protocol of kubelet and node driver, `DRAPlugin` v1.

The messages of `k8s.io.kubelet.pkg.apis.dra.v1` are described field by field instead of generated:
the protocol has two calls, and a generator would be one more tool. Field numbers are Kubernetes'.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Neither ships type information, and no other module of the project imports them.
import grpc
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

PACKAGE = "k8s.io.kubelet.pkg.apis.dra.v1"
SERVICE = f"{PACKAGE}.DRAPlugin"
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"

# message -> fields in the order of their numbers; `*` repeated, `?` optional, `{}` map from text
_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "Claim": ("namespace", "uid", "name"),
    "Device": ("*request_names", "pool_name", "device_name", "*cdi_device_ids", "?share_id"),
    "NodePrepareResourcesRequest": ("*claims:Claim",),
    "NodePrepareResourceResponse": ("*devices:Device", "error"),
    "NodePrepareResourcesResponse": ("{}claims:NodePrepareResourceResponse",),
    "NodeUnprepareResourcesRequest": ("*claims:Claim",),
    "NodeUnprepareResourceResponse": ("error",),
    "NodeUnprepareResourcesResponse": ("{}claims:NodeUnprepareResourceResponse",),
}
_Field = descriptor_pb2.FieldDescriptorProto


def _field(message: descriptor_pb2.DescriptorProto, number: int, text: str) -> None:
    """Add the field that `text` describes."""
    name, _, other = text.lstrip("*?{}").partition(":")
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    field.type = _Field.TYPE_MESSAGE if other else _Field.TYPE_STRING
    if other:
        field.type_name = f".{PACKAGE}.{other}"
    if text.startswith(("*", "{}")):
        field.label = _Field.LABEL_REPEATED
    if text.startswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if text.startswith("{}"):
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _field(entry, 1, "key")
        _field(entry, 2, f"value:{other}")
        field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="dra.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text in enumerate(fields, 1):
            _field(message, number, text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


MESSAGES = _classes()
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
THREADS = 16
NODE = "node"
STOP_SECONDS = 15


class FailedError(Exception):
    """A call failed as a whole."""


class Server:
    """The service on a unix socket; a restart is a new one."""

    def __init__(self, socket: Path, handlers: Mapping[str, Handler]) -> None:
        self._server = grpc.server(ThreadPoolExecutor(THREADS))
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                _guarded(handlers[name]),
                request_deserializer=request.FromString,
                response_serializer=answer.SerializeToString,
            )
            for name, (request, answer) in CALLS.items()
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, methods)
        self._server.add_generic_rpc_handlers((handler,))
        socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()

    def stop(self) -> None:
        """End it, calls under way first: a thread cannot be killed as a process can."""
        self._server.stop(STOP_SECONDS).wait()


def _guarded(handler: Handler) -> Callable[[Any, Any], Any]:
    def answer(request: Any, context: Any) -> Any:  # noqa: ANN401  # protobuf, grpc
        node = dict(context.invocation_metadata()).get(NODE, "")
        try:
            return handler(str(node), request)
        except FailedError as problem:
            return context.abort(grpc.StatusCode.INTERNAL, str(problem))

    return answer


def ask(socket: Path, name: str, node: str, claims: list[Any], seconds: float = 10) -> Any:  # noqa: ANN401  # protobuf
    """Call a driver for some claims; FailedError when the call fails as a whole.

    A driver of the rig serves many nodes, so the metadata says which one asks.
    """
    request, response = CALLS[name]
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        stub = channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return stub(request(claims=claims), timeout=seconds, metadata=((NODE, node),))
        except grpc.RpcError as problem:
            raise FailedError(problem.details()) from problem


def reference(namespace: str, name: str, uid: str) -> Any:  # noqa: ANN401  # protobuf
    """Name a claim in a request."""
    return MESSAGES["Claim"](namespace=namespace, name=name, uid=uid)
