"""JSON that only a driver interprets, as text.

Tenants and drivers write it, and a decoded value takes some hundred times the memory of its text.
So it is kept as text, and decoded where somebody needs it, one at a time.
"""

import json
from typing import Any

import msgspec


class OpaqueJSON:
    """A JSON value as compact text in UTF-8; immutable, compared by the text."""

    __slots__ = ("_bytes",)

    def __init__(self, text: str) -> None:
        # A str with one rare character takes four bytes for each of them.
        self._bytes = text.encode()

    @property
    def text(self) -> str:
        """The compact text."""
        return self._bytes.decode()

    @classmethod
    def of(cls, value: object) -> "OpaqueJSON":
        """Encode a value; raises ValueError if it cannot be written as JSON."""
        try:
            return cls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        except (TypeError, ValueError, RecursionError):
            raise ValueError("cannot be written as JSON") from None

    def decode(self) -> Any:  # noqa: ANN401  # any JSON value
        """Return the value, for a short time."""
        try:
            return msgspec.json.decode(self._bytes)
        except msgspec.DecodeError:
            return json.loads(self._bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueJSON) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"OpaqueJSON({self.text!r})"
