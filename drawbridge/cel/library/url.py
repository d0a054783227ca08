"""Kubernetes' URL functions."""

from typing import Final

from drawbridge.cel import url
from drawbridge.cel.declare import Function, Library, Overload, members
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, STRING, URL, list_of, map_of
from drawbridge.cel.values import Url


def _host_name(given: Url) -> str:
    return url.split_host(given.host)[0]


def _port(given: Url) -> str:
    return url.split_host(given.host)[1]


def _query(given: Url) -> dict[str, list[str]]:
    return url.parse_query(given.query)


_URL: Final = (URL,)
URLS: Final = Library(
    "kubernetes.urls",
    (
        Function(
            "url",
            (Overload("string_to_url", (STRING,), URL, url.parse_url),),
            cost=costs.of_argument(0),
            estimate=costs.estimate_argument(0, size=costs.same_size),
        ),
        members("getScheme", ("url_get_scheme", _URL, STRING, lambda given: given.scheme)),
        members("getHost", ("url_get_host", _URL, STRING, lambda given: given.host)),
        members("getHostname", ("url_get_hostname", _URL, STRING, _host_name)),
        members("getPort", ("url_get_port", _URL, STRING, _port)),
        members("getEscapedPath", ("url_get_escaped_path", _URL, STRING, lambda given: given.path)),
        members("getQuery", ("url_get_query", _URL, map_of(STRING, list_of(STRING)), _query)),
        # Counted as one step, unlike the parsing of a URL.
        Function("isURL", (Overload("is_url_string", (STRING,), BOOL, url.is_request_uri),)),
    ),
)
