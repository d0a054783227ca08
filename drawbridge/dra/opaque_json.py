"""JSON that only a driver interprets, as it was received.

Tenants and drivers write it, and a decoded value takes some hundred times the memory of its text.
So nothing decodes it before somebody needs it, and then for a short time, one at a time.
"""

import json
from typing import Any

import msgspec


class Fields(tuple[tuple[str, Any], ...]):
    """The fields of an object as they were written, also those with one name."""

    __slots__ = ()


class OpaqueJSON:
    """A JSON value as compact text in UTF-8; immutable, compared by the text."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @property
    def text(self) -> str:
        """The text, with any of the escapes that JSON has."""
        return self.raw.decode()

    @classmethod
    def of(cls, value: object) -> "OpaqueJSON":
        """Encode a value; raises ValueError if it cannot be written as JSON."""
        try:
            return cls(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
        except (TypeError, ValueError, RecursionError):
            raise ValueError("cannot be written as JSON") from None

    def may_contain(self, word: str) -> bool:
        """Tell whether a key or text can be a word in some case, without decoding the value."""
        return "\\" in self.text or word.casefold() in self.text.casefold()

    def decode(self) -> Any:  # noqa: ANN401  # any JSON value
        """Return the value, for a short time; None if it is nested deeper than any driver reads."""
        try:
            return msgspec.json.decode(self.raw)
        except RecursionError:
            return None
        except msgspec.DecodeError:
            return json.loads(self.raw, parse_int=_read_integer)

    def decode_fields(self) -> Any:  # noqa: ANN401  # any JSON value
        """Return the value with `Fields` for each object, and every number as a float.

        Go reads a field that repeats into the value that it has, where other decoders replace it.
        Returns None if the value is nested too deep for this process.
        """
        try:
            return json.loads(self.raw, object_pairs_hook=Fields, parse_int=float)
        except RecursionError:
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueJSON) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"OpaqueJSON({self.raw!r})"


def _read_integer(digits: str) -> int | float:
    """Read an integer, or a float where Python converts no more digits."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def keep_raw(received: msgspec.Raw) -> msgspec.Raw:
    """Return compact JSON without the message that it is a part of; nothing for null."""
    # The API server checks neither the encoding of parameters nor that a driver can decode them.
    text = bytes(received).decode(errors="replace")
    compact = msgspec.json.format(text.encode(), indent=-1) if text else b""
    # A copy takes what the text takes, and the formatter half as much again.
    return msgspec.Raw(b"" if compact == b"null" else bytes(memoryview(compact)))
