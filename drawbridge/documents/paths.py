"""Paths into a value: `spec.containers[0].resources.limits[nvidia.com/gpu]`, and JSON pointers.

A path is a tuple of keys and indices.
"""

import re

from drawbridge.documents.values import Value

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_TOKEN = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]|(.)", re.DOTALL)


def format_path(path: Path) -> str:
    """Write a path as findings show it, with brackets around keys that are not plain words."""
    text = ""
    for token in path:
        if isinstance(token, str) and _PLAIN_KEY.fullmatch(token):
            text += f".{token}" if text else token
        else:
            text += f"[{token}]"
    return text


def parse_path(text: str) -> tuple[str, ...]:
    """Parse a written path; the value decides whether `[0]` is a key or an index."""
    parts = (match.groups() for match in _TOKEN.finditer(text))
    return tuple(next(part for part in groups if part is not None) for groups in parts)


def resolve_path(value: Value, text: str) -> Path:
    """Parse a written path into a value, which decides what is a key or an index."""
    path: Path = ()
    for token in parse_path(text):
        index = parse_index(token, len(value)) if isinstance(value, list) else None
        path = (*path, token if index is None else index)
        value = get_value(value, path[-1:])
    return path


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Parse a JSON pointer (RFC 6901)."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def parse_index(token: str | int, length: int) -> int | None:
    """Parse a token as an index into a list of `length` items; None if it is not a valid index."""
    if isinstance(token, str):
        if not (token.isascii() and token.isdigit()) or len(token) > 9:
            return None
        token = int(token)
    return token if 0 <= token < length else None


def get_value(value: Value, path: Path) -> Value:
    """Return the value at `path`, or None."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(f"{token}")
        elif isinstance(value, list) and (at := parse_index(token, len(value))) is not None:
            value = value[at]
        else:
            return None
    return value
