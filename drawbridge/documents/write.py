"""Writes values as YAML or JSON, in the style of the surrounding text."""

import json
import re
from dataclasses import dataclass

from drawbridge.documents.values import Value, resolve_scalar

# Text that needs no quotes, in block and flow style and in every YAML version.
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@%+=:~()$*&!-]*(?: [A-Za-z0-9_./@%+=~()$*&!-]+)*")
# Parsers disagree about these: numbers of other bases, base 60, dates, YAML 1.1 words.
_DISPUTED = re.compile(
    r"[-+.]?[0-9][0-9_,.:eEoObBxXa-fA-F+-]*|[0-9]{4}-[0-9].*|[-+]?\.(?:inf|nan)|~|null"
    r"|y|n|yes|no|on|off|true|false|.*:|=|<<",
    re.IGNORECASE,
)
_LITERAL_LINE = re.compile(
    r"[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]*"
)


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The detected style of a document."""

    newline: str = "\n"
    step: int = 2
    # The indentation of a list relative to its key.
    list_step: int = 0
    json: bool = False
    # The separators of a collection on one line.
    comma: str = ", "
    colon: str = ": "


def write_scalar(value: Value, style: TextStyle, quote: str = "") -> str:
    """Write a value without children on one line, with its former quotes."""
    if not isinstance(value, str) or style.json:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if quote == "'" and "'" not in value and value.isprintable():
        return f"'{value}'"
    if quote != '"':
        if not quote and is_plain(value):
            return value
        if ('"' in value or "\\" in value) and "'" not in value and value.isprintable():
            return f"'{value}'"
    return write_quoted(value)


def is_plain(text: str) -> bool:
    """Whether a text needs no quotes in any context."""
    if not _PLAIN.fullmatch(text) or _DISPUTED.fullmatch(text):
        return False
    return resolve_scalar(text) == text and ": " not in text and not text.startswith(("---", "..."))


def write_quoted(text: str) -> str:
    """Write a text in double quotes, with YAML escapes for unprintable characters."""
    escaped = json.dumps(text, ensure_ascii=False)
    if escaped.isprintable():
        return escaped
    return "".join(map(_escaped, escaped))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def write_flow(value: Value, style: TextStyle) -> str:
    """Write a value on one line."""
    if isinstance(value, dict):
        parts = (
            f"{write_key(k, style)}{style.colon}{write_flow(v, style)}" for k, v in value.items()
        )
        return f"{{{style.comma.join(parts)}}}"
    if isinstance(value, list):
        return f"[{style.comma.join(write_flow(item, style) for item in value)}]"
    return write_scalar(value, style)


def write_key(text: str, style: TextStyle) -> str:
    """Write a key."""
    return write_scalar(text, style)


def write_indented(value: Value, style: TextStyle, indent: int) -> str:
    """Write JSON on several lines; the first line is not indented."""
    if not isinstance(value, dict | list) or not value:
        return write_flow(value, style)
    inner = style.newline + " " * (indent + style.step)
    if isinstance(value, dict):
        parts = [
            f"{write_key(k, style)}{style.colon}{write_indented(v, style, indent + style.step)}"
            for k, v in value.items()
        ]
    else:
        parts = [write_indented(item, style, indent + style.step) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    end = style.newline + " " * indent
    return f"{opening}{inner}{f',{inner}'.join(parts)}{end}{closing}"


def is_block(value: Value) -> bool:
    """Whether a value is written on several lines below its key."""
    return isinstance(value, dict | list) and bool(value)


def write_block(value: Value, style: TextStyle, indent: int) -> list[str]:
    """Write a collection as lines of block style, the first without its indentation."""
    lines: list[str] = []
    if isinstance(value, dict):
        for k, v in value.items():
            lines += write_entry(k, v, style, indent)
    elif isinstance(value, list):
        for item in value:
            lines += write_item(item, style, indent)
    else:
        lines = write_below(value, style, indent)
    lines[0] = lines[0].lstrip(" ")
    return lines


def write_entry(name: str, value: Value, style: TextStyle, indent: int) -> list[str]:
    """Write a key and its value as lines."""
    head = f"{' ' * indent}{write_key(name, style)}:"
    if is_block(value):
        deeper = indent + (style.list_step if isinstance(value, list) else style.step)
        first, *others = write_block(value, style, deeper)
        return [head, " " * deeper + first, *others]
    first, *others = write_below(value, style, indent)
    return [f"{head} {first}", *others]


def write_item(value: Value, style: TextStyle, indent: int) -> list[str]:
    """Write an item of a list as lines."""
    lines = (
        write_block(value, style, indent + 2)
        if is_block(value)
        else write_below(value, style, indent)
    )
    first, *others = lines
    return [f"{' ' * indent}- {first}", *others]


def write_below(value: Value, style: TextStyle, indent: int) -> list[str]:
    """Write a value without children after its key; a text of several lines goes below the key."""
    if not isinstance(value, str) or not is_literal(value):
        return [write_flow(value, style)]
    body = value.removesuffix("\n").split("\n")
    pad = " " * (indent + style.step)
    header = "|" if value.endswith("\n") else "|-"
    return [header, *(pad + line if line else "" for line in body)]


def is_literal(text: str) -> bool:
    """Whether a text can be written as a block scalar of several lines."""
    lines = text.removesuffix("\n").split("\n")
    # With an empty or indented first or last line, the scalar would need an indentation indicator.
    return (
        len(lines) > 1
        and lines[0][:1] not in {"", " ", "\t"}
        and lines[-1] != ""
        and all(_LITERAL_LINE.fullmatch(line) and not line.endswith((" ", "\t")) for line in lines)
    )
