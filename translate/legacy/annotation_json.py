"""JSON in annotations: read strictly, and refused with the place where it goes wrong.

Whoever wrote it meant something by it, so nothing is guessed.
"""

import json

from documents.values import Value
from dra.finding import Finding
from translate.legacy.codes import ANNOTATION_UNREADABLE
from translate.legacy.pod_view import annotation_path


def read(key: str, text: str) -> tuple[Value, Finding | None]:
    """Read an annotation's JSON; None and a finding where it is none."""
    try:
        value: Value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        return None, unreadable(key, f"no JSON at {error.lineno}:{error.colno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return None, unreadable(key, f"no JSON: {str(error)[:80]}")
    return value, None


def unreadable(key: str, why: str) -> Finding:
    """Say that an annotation cannot be read."""
    return ANNOTATION_UNREADABLE.at(annotation_path(key), why)


def _no_constant(word: str) -> Value:
    raise ValueError(f"{word} is no number of JSON")


_STRICT = json.JSONDecoder(parse_constant=_no_constant)
