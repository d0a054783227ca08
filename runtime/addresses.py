"""Parse listen addresses from the command line."""

from typing import NamedTuple


class Address(NamedTuple):
    """An address to listen on. Port 0 selects any free port."""

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[::1]:port` or `:port`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text} is not a valid address, such as 0.0.0.0:9443")
    if ":" in host and bare == host:
        raise ValueError(f"{text}: an IPv6 address needs brackets, such as [::]:9443")
    return Address(bare or "0.0.0.0", int(port))  # noqa: S104  # an empty host means all interfaces
