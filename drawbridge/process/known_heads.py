"""The heads of HTTP requests that were parsed before, and what responds to such requests.

A client sends the same head with each request to a path, but for the length of the body. A head
that differs from a parsed one in the digits of this length only needs no parser.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from aiohttp import HttpVersion11, web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING
from aiohttp.http import RawRequestMessage

from drawbridge.bounded_cache import BoundedCache

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\nContent-Length: "
_MAX_HEAD: Final = 2048
_MAX_HEADS: Final = 256
# A longer body is left to the parser, which reads it in parts.
_MAX_DIGITS: Final = 5
# Headers with which a request is more than its body.
_NOT_WHOLE: Final = (CONTENT_ENCODING, EXPECT, TRANSFER_ENCODING)


class WholeResponse(NamedTuple):
    """A response with a JSON body."""

    status: int
    body: bytes


# Called with a body and the network peer. The task of the connection handles a request if this
# returns None, and awaits what has to be awaited.
Responder = Callable[[bytes, str], WholeResponse | Awaitable[web.StreamResponse] | None]
# Called with the method, the path with its query, and the headers.
FindResponder = Callable[[str, str, Mapping[str, str]], Responder | None]


class HeadLayout(NamedTuple):
    """Where the parts of a request are."""

    head: bytes  # without the digits of the length
    digits: bytes
    body_at: int

    @property
    def end(self) -> int:
        """Where the request ends."""
        return self.body_at + int(self.digits)


def read_layout(data: bytes) -> HeadLayout | None:
    """Find the parts of a request that begins with these bytes."""
    end = data.find(_END, 0, _MAX_HEAD)
    at = data.find(_LENGTH, 0, max(end, 0))
    if at < 0:
        return None
    at += len(_LENGTH)
    after = data.index(b"\r\n", at)
    digits = data[at:after]
    if not digits.isdigit() or digits.startswith(b"0") or len(digits) > _MAX_DIGITS:
        return None
    return HeadLayout(data[:at] + data[after:end], digits, end + len(_END))


class KnownHeads:
    """What responds to requests with heads that the parser has read, by their bytes."""

    def __init__(self, find_responder: FindResponder) -> None:
        self._find_responder = find_responder
        self._known: BoundedCache[bytes, Responder] = BoundedCache(_MAX_HEADS)

    def find(self, head: bytes) -> Responder | None:
        """Return what responds to requests with a head, if it is known."""
        return self._known.get(head)

    def learn(self, layout: HeadLayout, message: object) -> bool:
        """Keep a head that the parser has read, if its requests end where the layout says.

        Return whether it is known now.
        """
        if not isinstance(message, RawRequestMessage):  # it is malformed
            return False
        headers = message.headers
        if (
            message.version != HttpVersion11
            or message.should_close
            or message.upgrade  # as for a tunnel: what follows is no body
            or headers.get(CONTENT_LENGTH) != layout.digits.decode()
            or any(name in headers for name in _NOT_WHOLE)
        ):
            return False
        responder = self._find_responder(message.method, message.path, headers)
        self._known.put(layout.head, responder or _leave)
        return True


def _leave(body: bytes, peer: str) -> None:
    """Leave a request to the task of its connection."""
    del body, peer
