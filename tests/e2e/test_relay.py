"""The relay that stands in for kube-proxy, on real sockets; and the protocol over a real one."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.processes import free_port
from e2e.controlplane.relay import Backend, Relay
from e2e.nodes import protocol


@contextlib.contextmanager
def upper() -> Iterator[int]:
    """Answer each connection with what it sent, in capitals, once it has sent all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        data = b""
                        while chunk := connection.recv(1024):
                            data += chunk
                        connection.sendall(data.upper())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def say(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := client.recv(1024):
            data += chunk
        return data


def test_a_connection_reaches_the_process_behind() -> None:
    with upper() as port, Relay("127.0.0.1", free_port()) as relay:
        relay.add(Backend(port))
        assert say(relay.port, b"hello") == b"HELLO"


def test_a_process_that_is_gone_or_not_ready_is_passed_over() -> None:
    with upper() as port, Relay("127.0.0.1", free_port()) as relay:
        relay.add(Backend(free_port()))
        relay.add(Backend(port + 1 if port < 65535 else 1, ready=lambda: False))
        relay.add(Backend(port))
        assert {say(relay.port, b"hello") for _ in range(4)} == {b"HELLO"}


def test_with_nobody_behind_the_connection_is_closed() -> None:
    with Relay("127.0.0.1", free_port()) as relay:
        assert say(relay.port, b"") == b""


def test_a_removed_process_gets_no_new_connections() -> None:
    with upper() as port, Relay("127.0.0.1", free_port()) as relay:
        backend = Backend(port)
        relay.add(backend)
        relay.remove(backend)
        assert say(relay.port, b"") == b""


def test_a_driver_is_asked_over_its_socket_and_told_for_which_node(tmp_path: Path) -> None:
    def prepare(node: str, request: Any) -> Any:  # noqa: ANN401  # protobuf
        answer = protocol.MESSAGES["NodePrepareResourcesResponse"]()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.devices.add(pool_name=node, device_name=claim.name, request_names=["gpu"])
        return answer

    def unprepare(_node: str, _request: object) -> None:
        raise protocol.FailedError("not today")

    handlers = {protocol.PREPARE: prepare, protocol.UNPREPARE: unprepare}
    path = tmp_path / "driver.sock"
    server = protocol.serve(path, handlers)
    try:
        claims = [protocol.reference("space", name, f"uid-{name}") for name in ("a", "b")]
        answer = protocol.ask(path, protocol.PREPARE, "node-1", claims)
        assert answer.claims["uid-b"].devices[0].device_name == "b"
        assert answer.claims["uid-a"].devices[0].pool_name == "node-1"
        with pytest.raises(protocol.FailedError, match="not today"):
            protocol.ask(path, protocol.UNPREPARE, "node-1", claims)
    finally:
        server.stop()
