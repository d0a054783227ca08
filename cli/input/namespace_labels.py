"""Finds the namespaces among manifests and objects whose labels allow admin access."""

from collections.abc import Iterable

from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_objects
from drawbridge.documents.values import Value
from drawbridge.names import ADMIN_ACCESS_LABEL

_KIND = "Namespace"


def find_admin_access(sources: Iterable[Source | LocatedFinding]) -> dict[str, bool]:
    """Return whether each namespace that the manifests define allows admin access."""
    return read_admin_access(
        document.value
        for source in sources
        if isinstance(source, Source) and _KIND.encode() in source.data
        for document in read_objects(source)
    )


def read_admin_access(objects: Iterable[Value]) -> dict[str, bool]:
    """Return whether each namespace among the objects allows admin access."""
    found: dict[str, bool] = {}
    for obj in objects:
        name = get_value(obj, ("metadata", "name"))
        if _is_namespace(obj) and isinstance(name, str):
            found[name] = get_value(obj, ("metadata", "labels", ADMIN_ACCESS_LABEL)) == "true"
    return found


def _is_namespace(value: Value) -> bool:
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == ("v1", _KIND)
