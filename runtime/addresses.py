"""Addresses to listen on, as the command line writes them. Knows nothing of sockets."""

from typing import NamedTuple


class Address(NamedTuple):
    """Where to listen; port 0 is any that is free."""

    host: str
    port: int


def address(text: str) -> Address:
    """Read `host:port`, `[::1]:port` or `:port`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text} is no address to listen on, such as 0.0.0.0:9443")
    if ":" in host and bare == host:
        raise ValueError(f"{text}: an IPv6 address stands in brackets, such as [::]:9443")
    return Address(bare or "0.0.0.0", int(port))  # noqa: S104  # what an empty host means
