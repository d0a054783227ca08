"""The fields of a pod's metadata that determine its translation.

The view that dialects read, the essence of a pod and the keys of the answer cache are derived from
this table. A dialect therefore cannot read a field that a cache key leaves out.
"""

from collections.abc import Mapping
from typing import Final

from drawbridge.documents.values import Value

METADATA_FIELDS: Final = ("annotations", "finalizers", "labels", "namespace")


def select_metadata(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """Return the fields of `metadata` that determine a translation."""
    return {name: metadata[name] for name in METADATA_FIELDS if name in metadata}
