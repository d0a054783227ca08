"""Decodes JSON that is nested deeper than the decoder allows: the deep parts become null.

The API server accepts objects with thousands of levels, for example in the opaque parameters of a
claim or in managedFields, so every tenant can write them. The decoder refuses more than a thousand
levels, also in parts that it skips. One such object must not stop the list or the watch that it is
part of.
"""

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
# No field that is read is nested this deep.
MAX_LEVELS: Final = 200
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


class DeepDecoder(Generic[T]):
    """A JSON decoder for a type, which replaces parts that are nested too deep."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Decode JSON; raises an error of msgspec if it is not valid."""
        try:
            decoded: T = self._decoder.decode(raw)
        except RecursionError:
            decoded = self._decoder.decode(without_deep_parts(bytes(raw)))
        return decoded


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
