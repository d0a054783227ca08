"""Reads the labels of the namespaces among objects."""

from collections.abc import Iterable, Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping

NAMESPACE_KIND: Final = "Namespace"


def labels_of_namespaces(objects: Iterable[Value]) -> dict[str, Mapping[str, str]]:
    """Return the labels of each namespace among the objects."""
    namespaces: dict[str, Mapping[str, str]] = {}
    for obj in objects:
        kind = tuple(get_value(obj, (key,)) for key in ("apiVersion", "kind"))
        name = get_value(obj, ("metadata", "name"))
        if kind == ("v1", NAMESPACE_KIND) and isinstance(name, str):
            labels = as_mapping(get_value(obj, ("metadata", "labels")))
            namespaces[name] = {key: each for key, each in labels.items() if isinstance(each, str)}
    return namespaces
