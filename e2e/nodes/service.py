"""Serves and calls gRPC services on unix sockets."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# It ships no type information.
import grpc

THREADS = 16
STOP_SECONDS = 15
CALL_SECONDS = 10
# A kubelet answers a hundred calls in a second, and refuses the others.
RETRIES = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
            },
        }
    ]
}


class FailedError(Exception):
    """A call failed as a whole."""


@dataclass(frozen=True)
class Method:
    """One method: the classes of its messages, and what answers.

    The handler gets the request and the metadata of the call, and returns the response or raises
    FailedError. With `stream` it returns an iterator of responses.
    """

    request: Any
    response: Any
    handler: Callable[[Any, Mapping[str, str]], Any]
    stream: bool = False


class Service:
    """One gRPC service on a unix socket; a restart is a new one."""

    def __init__(self, socket: Path, name: str, methods: Mapping[str, Method]) -> None:
        self._server = grpc.server(ThreadPoolExecutor(THREADS))
        handlers = {method: _handler(methods[method]) for method in methods}
        generic = grpc.method_handlers_generic_handler(name, handlers)
        self._server.add_generic_rpc_handlers((generic,))
        socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End it, calls under way first: a thread cannot be killed as a process can."""
        self._server.stop(seconds).wait()


def _handler(method: Method) -> Any:  # noqa: ANN401  # grpc
    def answer(request: Any, context: Any) -> Any:  # noqa: ANN401  # protobuf, grpc
        try:
            return method.handler(request, dict(context.invocation_metadata()))
        except FailedError as problem:
            return context.abort(grpc.StatusCode.INTERNAL, str(problem))

    def answers(request: Any, context: Any) -> Iterator[Any]:  # noqa: ANN401  # protobuf, grpc
        yield from method.handler(request, dict(context.invocation_metadata()))

    make = (
        grpc.unary_stream_rpc_method_handler
        if method.stream
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        answers if method.stream else answer,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )


def call(
    socket: Path,
    method: str,
    request: Any,  # noqa: ANN401  # protobuf
    response: Any,  # noqa: ANN401  # protobuf
    metadata: tuple[tuple[str, str], ...] = (),
) -> Any:  # noqa: ANN401  # protobuf
    """Call `/service/method`; FailedError when the call fails as a whole."""
    options = [("grpc.service_config", json.dumps(RETRIES))]
    with grpc.insecure_channel(f"unix://{socket}", options) as channel:
        stub = channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return stub(request, timeout=CALL_SECONDS, metadata=metadata)
        except grpc.RpcError as problem:
            raise FailedError(problem.details()) from problem
