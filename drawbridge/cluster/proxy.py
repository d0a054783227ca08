"""Selects the proxy for a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

aiohttp does not support address ranges in NO_PROXY. Pods behind a proxy often have
`NO_PROXY=10.96.0.0/12`, and the API server's address in a pod is an IP address.
"""

import contextlib
import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from drawbridge.cluster.errors import AccessError

# An entry of NO_PROXY can name the port of a URL that has none.
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_CREDENTIALS: Final = re.compile(r"^([a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for `url`; None for a direct connection. Raises as `check_proxy` does."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    lower = f"{parts.scheme.lower()}_proxy"
    variable = lower if environ.get(lower) else lower.upper()
    proxy = environ.get(variable)
    if not proxy or is_local(host):
        return None
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower())
    if any(_matches(rule.strip().lower(), host, port) for rule in excluded.split(",")):
        return None
    return check_proxy(variable, proxy if "://" in proxy else f"http://{proxy}")


def check_proxy(name: str, url: str) -> str:
    """Return the URL of a proxy; raises AccessError if aiohttp cannot use it.

    The error names where the URL is from, and leaves out the credentials in it.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable:
        return url
    shown = _CREDENTIALS.sub(r"\1", url)
    raise AccessError(
        f"{name}: cannot use the proxy {shown!r}: set the URL of an HTTP proxy, such as "
        "http://proxy.example.com:3128"
    )


def is_local(host: str) -> bool:
    """Return whether a host of a URL is this machine."""
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(rule: str, host: str, port: int | None) -> bool:
    """Return whether an entry is about a server; entries mean what they mean to Go's programs."""
    if rule in ("", "*"):
        return rule == "*"
    name, colon, rule_port = rule.rpartition(":")
    has_port = bool(colon) and rule_port.isdecimal() and _parse_address(rule) is None
    if has_port:
        if rule_port != f"{port}":
            return False
        rule = name.removeprefix("[").removesuffix("]")
    address = _parse_address(host)
    if address is not None:
        if has_port:  # of one address, and of no range
            return address == _parse_address(rule)
        with contextlib.suppress(ValueError):  # a domain
            return address in ipaddress.ip_network(rule, strict=False)
        return False
    domain = rule.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not rule.startswith((".", "*")))


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
