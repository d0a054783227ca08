"""Paths into a value: `spec.containers[0].resources.limits[nvidia.com/gpu]`, and pointers.

A path is a tuple of keys and indices. Knows nothing of documents.
"""

import re

from documents.values import Value

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_TOKEN = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]|(.)", re.DOTALL)


def format_path(path: Path) -> str:
    """Write a path as findings show it: keys that are no plain words stand in brackets."""
    text = ""
    for token in path:
        if isinstance(token, str) and _PLAIN_KEY.fullmatch(token):
            text += f".{token}" if text else token
        else:
            text += f"[{token}]"
    return text


def parse_path(text: str) -> tuple[str, ...]:
    """Take a shown path apart; whether `[0]` is a key or an index is known where it is followed."""
    found = (match.groups() for match in _TOKEN.finditer(text))
    return tuple(next(part for part in groups if part is not None) for groups in found)


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Take a JSON pointer (RFC 6901) apart."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def parse_index(token: str | int, length: int) -> int | None:
    """Read a token as an index into a list of `length` items; None when it is none."""
    if isinstance(token, str):
        if not (token.isascii() and token.isdigit()) or len(token) > 9:
            return None
        token = int(token)
    return token if 0 <= token < length else None


def get_value(value: Value, path: Path) -> Value:
    """Return what stands at `path`, or None."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(f"{token}")
        elif isinstance(value, list) and (at := parse_index(token, len(value))) is not None:
            value = value[at]
        else:
            return None
    return value
