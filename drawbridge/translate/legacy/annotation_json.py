"""Strict parsing of JSON in annotations. Errors become findings with the position in the text."""

import json

from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.translate.legacy.codes import ANNOTATION_UNREADABLE
from drawbridge.translate.legacy.pod_view import annotation_path


def parse_annotation(key: str, text: str) -> tuple[Value, Finding | None]:
    """Parse the JSON of an annotation. Returns None and a finding if it is invalid."""
    try:
        value: Value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return None, unreadable_annotation(key, f"invalid JSON at {where}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return None, unreadable_annotation(key, f"invalid JSON: {str(error)[:80]}")
    return value, None


def unreadable_annotation(key: str, why: str) -> Finding:
    """Return the finding that an annotation cannot be parsed."""
    return ANNOTATION_UNREADABLE.at(annotation_path(key), why)


def _reject_constant(word: str) -> Value:
    raise ValueError(f"{word} is not a JSON number")


_STRICT = json.JSONDecoder(parse_constant=_reject_constant)
