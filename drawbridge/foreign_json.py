"""Decodes JSON that others wrote: what the API server accepts and serves, the decoder must read.

The API server keeps opaque parameters, the data of devices and managedFields as bytes, and its own
decoder is more lenient than this one, which refuses some of it also in parts that it skips:

- the escape of half a surrogate pair (U+D800), and bytes that are not UTF-8, for which Go reads
  U+FFFD
- more than a thousand levels; those below the first 200 become null

Every tenant can write such a text. It must not stop the list, the watch or the request that it is
part of. What a decoder has left undecoded of a text in UTF-8 without such escapes needs no more of
this than for its levels.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
JSONText = bytes | bytearray | memoryview | msgspec.Raw
# What msgspec and decoding hooks raise for what they refuse.
UNDECODABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError, TypeError)
# No field that is read is nested this deep.
MAX_LEVELS: Final = 200
# A string without an end takes the rest, so that no text takes longer than its length.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
# A text with escaped backslashes replaced by what no JSON has: then every other one is an escape.
_HIDDEN: Final = b"\0\1"
_HALF_PAIR: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_CHUNK: Final = 1 << 16  # bytes at once: a text takes up to four times its bytes


class ForeignDecoder(Generic[T]):
    """A JSON decoder for a type.

    With `any_depth`, deep parts become null, which takes a hundred times as long as decoding. A
    request is refused instead: what is too deep there stops only its sender.
    """

    def __init__(self, kind: Any = Any, *, any_depth: bool = False) -> None:  # noqa: ANN401  # a type
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._any_depth = any_depth

    def decode(self, raw: JSONText) -> T:
        """Decode JSON; raises one of UNDECODABLE if it is not valid.

        The undecoded parts of what is decoded from bytes are in UTF-8.
        """
        if isinstance(raw, bytes) and not raw.isascii():
            raw = to_utf8(raw)
        decoded: T = decode_foreign(self._decoder.decode, raw, any_depth=self._any_depth)[1]
        return decoded


def decode_foreign(
    decode: Callable[[Any], T], raw: JSONText, *, any_depth: bool = True
) -> tuple[JSONText, T]:
    """Decode JSON; returns the text that was decoded, too. Raises what `decode` raises.

    Only a text that `decode` refuses is decoded again, if it is not as plain as a decoder needs.
    """
    try:
        return raw, decode(raw)
    except msgspec.ValidationError:  # JSON, but of another type
        raise
    except UNDECODABLE as error:
        refused = error
    text = replace_half_pairs(to_utf8(bytes(raw)))
    if not isinstance(refused, RecursionError):
        if text == bytes(raw):
            raise refused
        try:
            return text, decode(text)
        except RecursionError as error:
            refused = error
    shallow = without_deep_parts(text) if any_depth else text
    if shallow == text:
        raise refused
    return shallow, decode(shallow)


def to_utf8(raw: bytes) -> bytes:
    """Return a text with U+FFFD in place of what is not UTF-8."""
    return raw if _is_utf8(raw) else b"".join(each.encode() for each in _decode(raw, "replace"))


def _is_utf8(raw: bytes) -> bool:
    try:
        return raw.isascii() or all(True for _ in _decode(raw, "strict"))
    except UnicodeDecodeError:
        return False


def _decode(raw: bytes, errors: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    for start in range(0, len(raw), _CHUNK):
        yield decoder.decode(raw[start : start + _CHUNK], start + _CHUNK >= len(raw))


def replace_half_pairs(raw: bytes) -> bytes:
    """Return JSON, of the same length, with U+FFFD for each escaped half of a surrogate pair."""
    if (b"\\ud" not in raw and b"\\uD" not in raw) or b"\0" in raw:
        return raw
    hidden = raw.replace(rb"\\", _HIDDEN)
    return _HALF_PAIR.sub(rb"\\ufffd", hidden).replace(_HIDDEN, rb"\\")


def without_deep_parts(raw: bytes, levels: int = MAX_LEVELS) -> bytes:
    """Return JSON in which null replaces every array and object below a number of levels."""
    kept: list[bytes] = []
    level = start = 0
    for match in _TOKEN.finditer(raw):
        first = raw[match.start()]
        if first in b"[{":
            level += 1
            if level == levels + 1:
                kept += (raw[start : match.start()], b"null")
        elif first in b"]}":
            if level == levels + 1:
                start = match.end()
            level -= 1
    return b"".join(kept) + raw[start:] if level == 0 else raw
