"""Which proxy leads to a server, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say.

aiohttp's own reading of them knows no address ranges, and `NO_PROXY=10.96.0.0/12` is what pods
behind a proxy are given; the API server's address in a pod is an IP.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Give the proxy for `url`, or None for the straight way."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    name = f"{parts.scheme.lower()}_proxy"
    proxy = environ.get(name) or environ.get(name.upper())
    if not proxy or _local(host):
        return None
    excepted = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if any(_covers(rule.strip().lower(), host, parts.port) for rule in excepted.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _covers(rule: str, host: str, port: int | None) -> bool:
    if rule in ("", "*"):
        return rule == "*"
    address = _address(host)
    if address is not None:
        try:
            return address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            pass
    name, colon, wanted = rule.rpartition(":")
    if colon and wanted.isdecimal():
        if wanted != f"{port}":
            return False
        rule = name
    domain = rule.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not rule.startswith((".", "*")))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
