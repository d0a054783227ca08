"""Kubernetes' URL functions."""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import url
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, STRING, URL, Type, list_of, map_of
from drawbridge.cel.values import CelValue, Url


def _host_name(given: Url) -> str:
    return url.split_host(given.host)[0]


def _port(given: Url) -> str:
    return url.split_host(given.host)[1]


def _query(given: Url) -> dict[str, list[str]]:
    return url.parse_query(given.query)


def _part(name: str, id_: str, result: Type, implementation: Callable[..., CelValue]) -> Function:
    return Function(name, (Overload(id_, (URL,), result, implementation, member=True),))


URLS: Final = Library(
    "kubernetes.urls",
    (
        Function(
            "url",
            (Overload("string_to_url", (STRING,), URL, url.parse_url),),
            cost=costs.of_argument(0),
            estimate=costs.estimate_argument(0, size=costs.same_size),
        ),
        _part("getScheme", "url_get_scheme", STRING, lambda given: given.scheme),
        _part("getHost", "url_get_host", STRING, lambda given: given.host),
        _part("getHostname", "url_get_hostname", STRING, _host_name),
        _part("getPort", "url_get_port", STRING, _port),
        _part("getEscapedPath", "url_get_escaped_path", STRING, lambda given: given.path),
        _part("getQuery", "url_get_query", map_of(STRING, list_of(STRING)), _query),
        # Counted as one step, unlike the parsing of a URL.
        Function("isURL", (Overload("is_url_string", (STRING,), BOOL, url.is_request_uri),)),
    ),
)
