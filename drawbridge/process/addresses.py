"""Parse listen addresses from the command line, and open sockets for them."""

import errno
import logging
import socket
from typing import Final, NamedTuple

from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process")
# What a kernel without IPv6, and an interface without an IPv6 address, report.
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)


class Address(NamedTuple):
    """An address to listen on. Port 0 selects any free port.

    An empty host stands for all interfaces: IPv6 and IPv4, or IPv4 alone without IPv6.
    """

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[::1]:port` or `:port`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text} is not a valid address, such as :9443 or 127.0.0.1:9443")
    if ":" in host and bare == host:
        raise ValueError(f"{text}: an IPv6 address needs brackets, such as [::]:9443")
    return Address(bare, int(port))


def open_listening_socket(at: Address, name: str) -> socket.socket:
    """Open a listening socket, and log its address."""
    try:
        opened = _bind_to_all_families(at.port) if not at.host else _bind(at.host, at.port)
    except OSError as error:
        message = f"{name} cannot listen on {at.host}:{at.port}: {error.strerror or error}"
        raise OSError(error.errno, message) from None
    opened.setblocking(False)  # noqa: FBT003  # the signature of the socket module
    log_event(_LOG, logging.INFO, "listening", name=name, address=_format_address(opened))
    return opened


def _bind_to_all_families(port: int) -> socket.socket:
    """Listen for IPv6 and IPv4; for IPv4 alone on a node without IPv6."""
    try:
        return _bind("::", port, dual_stack=True)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _bind("0.0.0.0", port)  # noqa: S104  # probes and the API server come from outside


def _bind(host: str, port: int, *, dual_stack: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if dual_stack:
            # The default depends on a sysctl of the node.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind((host, port))
        opened.listen(512)
    except OSError:
        opened.close()
        raise
    return opened


def _format_address(opened: socket.socket) -> str:
    """Return the address of a socket as a client writes it."""
    host, port = opened.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
