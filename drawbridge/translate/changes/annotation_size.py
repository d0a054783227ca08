"""Checks the annotations of a translated pod against the limit of the API server.

The limit is for all keys and values together, so it includes the annotations of others.
"""

from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.codes import ANNOTATIONS_TOO_LARGE
from drawbridge.translate.legacy.pod_view import as_mapping

MAX_ANNOTATION_BYTES: Final = 256 * 1024


def check_annotation_size(pod: Value) -> tuple[Finding, ...]:
    """Report annotations that the API server refuses for their size."""
    annotations = as_mapping(get_value(pod, ("metadata", "annotations")))
    total = sum(_count_bytes(key) + _count_bytes(text) for key, text in annotations.items())
    if total <= MAX_ANNOTATION_BYTES:
        return ()
    own = _count_bytes(annotations.get(ORIGINAL_ANNOTATION))
    message = (
        f"the annotations would have {total} bytes, of which {ORIGINAL_ANNOTATION} has {own}, but "
        f"the limit is {MAX_ANNOTATION_BYTES}"
    )
    return (ANNOTATIONS_TOO_LARGE.at("metadata.annotations", message),)


def _count_bytes(text: Value) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
