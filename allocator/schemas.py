"""JSON Schemas of the messages of the allocator, from their types."""

from collections.abc import Iterable
from typing import Any

import msgspec


def describe_types(types: Iterable[type], ref_template: str) -> dict[str, Any]:
    """Return the schemas of types and of all that they contain, by name.

    `ref_template` tells where a document has the schema `{name}`.
    """
    _, schemas = msgspec.json.schema_components(
        [*dict.fromkeys(types)], schema_hook=_describe_other_type, ref_template=ref_template
    )
    return schemas


def _describe_other_type(other: type) -> dict[str, Any]:
    if other is msgspec.Raw:
        return {"type": "object"}
    raise NotImplementedError(other)
