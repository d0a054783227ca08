"""Reads the labels of the namespaces among objects."""

from collections.abc import Iterable, Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value

NAMESPACE_KIND: Final = "Namespace"


def labels_of_namespaces(objects: Iterable[Value]) -> dict[str, Mapping[str, str]]:
    """Return the labels of each namespace among the objects."""
    namespaces: dict[str, Mapping[str, str]] = {}
    for obj in objects:
        name = get_value(obj, ("metadata", "name"))
        if _is_namespace(obj) and isinstance(name, str):
            labels = get_value(obj, ("metadata", "labels"))
            texts = labels if isinstance(labels, dict) else {}
            namespaces[name] = {key: each for key, each in texts.items() if isinstance(each, str)}
    return namespaces


def _is_namespace(value: Value) -> bool:
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == (
        "v1",
        NAMESPACE_KIND,
    )
