"""URLs as Go's net/url parses them, which is more lenient than the RFC in some places.

Percent-decoded parts are bytes, because they need not be valid UTF-8.
"""

import re
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.net import is_ipv6

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_ESCAPE: Final = re.compile(rb"%(?:([0-9A-Fa-f]{2})|)")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)

_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_HOST: Final = _UNRESERVED | frozenset(b"!\"$&'()*+,:;<=>[]")
_USERINFO: Final = _UNRESERVED | frozenset(b"$&+,;=")
_FRAGMENT: Final = _UNRESERVED | frozenset(b"!$&()*+,/:;=?@")
# Further characters that a path or fragment may contain unescaped.
_KEPT: Final = frozenset(b"!$&'()*+,;=:@[]%")


class Url:
    """A URL; two are equal if their normalized texts are equal."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, scheme: str, host: str, path: str, query: str, text: str) -> None:
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def is_request_uri(text: str) -> bool:
    """Tell whether it is an absolute URL or an absolute path."""
    return uri_problem(text) == ""


def uri_problem(text: str) -> str:
    """Return the error of a text that is neither an absolute URL nor a path, else None."""
    try:
        _parse(text, via_request=True)
    except _MalformedError as problem:
        return f'parse "{text}": {problem}'
    return ""


def parse_url(text: str) -> Url:
    """Parse an absolute URL or path, or raise an error of kind `net`."""
    try:
        _parse(text, via_request=True)
        before, _, fragment = text.partition("#")
        return _parse(before, via_request=False, fragment=fragment)
    except _MalformedError as problem:
        raise EvaluationError("net", f'URL parse error: parse "{text}": {problem}') from None


def split_host(host: str) -> tuple[str, str]:
    """Return host name and port; the brackets of an IPv6 address are removed."""
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(":" + port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def parse_query(query: str) -> dict[str, list[str]]:
    """Return the values of each parameter; invalid parameters are ignored."""
    parameters: dict[str, list[str]] = {}
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            decoded = [_text(_unescape(part.replace("+", " "))) for part in (key, value)]
        except _MalformedError:
            continue
        parameters.setdefault(decoded[0], []).append(decoded[1])
    return parameters


class _MalformedError(Exception):
    """The text is not a URL."""


def _parse(text: str, *, via_request: bool, fragment: str = "") -> Url:
    """Parse a text without its fragment, as Go's url.Parse or, `via_request`, ParseRequestURI."""
    if any(char < " " or char == "\x7f" for char in text):
        raise _MalformedError("invalid control character in URL")
    if not text and via_request:
        raise _MalformedError("empty url")
    scheme, rest = _split_scheme(text)
    rest, mark, query = rest.partition("?")
    prefix, suffix = scheme and scheme + ":", mark + query + _escaped_fragment(fragment)
    if text == "*":
        return Url("", "", "*", query, f"*{suffix}")
    if scheme and not rest.startswith("/"):
        # Opaque, as in mailto:a@b: there is neither a host nor a path.
        return Url(scheme, "", "", query, f"{prefix}{rest}{suffix}")
    _check_relative(rest, via_request=via_request)
    authority, rest = _split_authority(scheme, rest, via_request=via_request)
    host, head = "", ""
    if authority is not None:
        host, shown = _authority(scheme, authority)
        head = f"//{shown}" if shown or rest else ""
    path = _written(rest, _PATH)
    return Url(scheme, host, path, query, f"{prefix}{head}{path}{suffix}")


def _split_scheme(text: str) -> tuple[str, str]:
    """Return the scheme, which may be empty, and what follows its colon."""
    if text.startswith(":"):
        raise _MalformedError("missing protocol scheme")
    match = _SCHEME.match(text)
    return (match[1].lower(), text[match.end() :]) if match else ("", text)


def _check_relative(rest: str, *, via_request: bool) -> None:
    """Refuse a path that does not begin with a slash where Go refuses it."""
    if rest.startswith("/"):
        return
    if via_request:
        raise _MalformedError("invalid URI for request")
    if ":" in rest.partition("/")[0]:
        raise _MalformedError("first path segment in URL cannot contain colon")


def _split_authority(scheme: str, rest: str, *, via_request: bool) -> tuple[str | None, str]:
    """Return user and host, or None if there are none, and the path.

    Without a scheme, two slashes begin a host only in a URL that is not a request, three never.
    """
    if not rest.startswith("//"):
        return None, rest
    if not scheme and (via_request or rest.startswith("///")):
        return None, rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


def _escaped_fragment(fragment: str) -> str:
    return "#" + _written(fragment, _FRAGMENT) if fragment else ""


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    """Return the host, and the normalized text of user and host."""
    userinfo, at, host = authority.rpartition("@")
    decoded = _host(scheme, host)
    shown = _text(_escape(decoded, _HOST))
    if at:
        if not _USER.fullmatch(userinfo):
            raise _MalformedError("invalid userinfo")
        parts = [_text(_escape(_unescape(part), _USERINFO)) for part in userinfo.split(":", 1)]
        shown = f"{':'.join(parts)}@{shown}"
    return _text(decoded), shown


def _host(scheme: str, host: str) -> bytes:
    if "[" in host:
        return _bracketed(host)
    if ":" in host:
        # Only web addresses require a single colon: other schemes list several hosts.
        at = host.index(":") if scheme in {"http", "https"} else host.rindex(":")
        if not _PORT.fullmatch(host, at):
            raise _MalformedError(f'invalid port "{host[at:]}" after host')
    return _unescape_host(host)


def _bracketed(host: str) -> bytes:
    if host.rindex("[") > 0:
        raise _MalformedError("invalid IP-literal")
    name, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise _MalformedError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise _MalformedError(f'invalid port "{port}" after host')
    address, percent, zone = name.partition("%25")
    plain = _unescape_host(address)
    if not is_ipv6(_text(plain)):
        raise _MalformedError("invalid host")
    decoded = plain + (b"%" + _unescape_zone(zone) if percent else b"")
    return b"[" + decoded + b"]" + port.encode()


def _unescape_host(host: str) -> bytes:
    for match in re.finditer(r"%(?!25)[0-7]", host):
        raise _MalformedError(f'invalid URL escape "{host[match.start() : match.start() + 3]}"')
    _check_host(host)
    return _unescape(host)


def _unescape_zone(zone: str) -> bytes:
    if not zone:
        raise _MalformedError("invalid host: the zone is empty")
    for match in re.finditer(r"%([0-9A-Fa-f]{2})", zone):
        if match[1] not in {"25", "20"} and int(match[1], 16) not in _HOST:
            raise _MalformedError(f'invalid URL escape "{match[0]}"')
    _check_host(zone)
    return _unescape(zone)


def _check_host(host: str) -> None:
    for byte in host.encode(errors="replace"):
        if byte < 0x80 and byte not in _HOST and byte != ord("%"):
            raise _MalformedError(f'invalid character "{chr(byte)}" in host name')


def _written(text: str, safe: frozenset[int]) -> str:
    """Return the normalized text of a path or fragment: unchanged if it is valid."""
    decoded = _unescape(text)
    if all(byte in safe or byte in _KEPT for byte in text.encode(errors="replace")):
        return text
    return _text(_escape(decoded, safe))


def _unescape(text: str) -> bytes:
    def decode(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            rest = _text(match.string[match.start() : match.start() + 3])
            raise _MalformedError(f'invalid URL escape "{rest}"')
        return bytes.fromhex(match[1].decode())

    return _ESCAPE.sub(decode, text.encode(errors="replace"))


def _escape(raw: bytes, safe: frozenset[int]) -> bytes:
    return b"".join(bytes((b,)) if b in safe else b"%%%02X" % b for b in raw)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
