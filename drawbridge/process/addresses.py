"""Parse listen addresses from the command line."""

from typing import NamedTuple


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
